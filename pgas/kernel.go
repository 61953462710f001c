package pgas

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/wire"
)

// A Module is a compiled .cu file, loaded on this PE's GPU.
type Module struct {
	w    *World
	file string
	m    cuda.Module
	mu   sync.Mutex
	open bool
}

// A Kernel is a kernel of a Module.
type Kernel struct {
	m     *Module
	name  string
	f     cuda.Function
	sizes []int // of its parameters; nil when the driver cannot tell
}

// Grid is the shape of a launch.
type Grid struct {
	Blocks  int // at least 1
	Threads int // per block, at least 1
	// Shared is dynamic shared memory per block, in bytes.
	Shared int
	// Cooperative refuses the launch unless all blocks run at the same time. Kernels whose blocks wait for each other
	// need it.
	Cooperative bool
	// Stream takes the launch; Launch then returns at once. nil: Launch waits for the kernel.
	Stream *Stream
}

// A LaunchError says that a kernel, or a pgas call in one, failed.
type LaunchError struct {
	Kernels []string // what was in the stream; the failure is in one of them
	Report  string   // what the software GPU saw: the lane, the address, the barrier; empty on hardware
	Err     error
}

func (e *LaunchError) Error() string {
	text := "kernel"
	if len(e.Kernels) > 0 {
		text += " " + strings.Join(e.Kernels, ", ")
	}
	text += ": " + e.Err.Error()
	if e.Report != "" {
		text += ": " + e.Report
	}
	return text
}

// Unwrap returns the cause.
func (e *LaunchError) Unwrap() error { return e.Err }

// Load compiles a .cu file of fsys for this platform, or takes it from the cache, and loads it. fsys also serves the
// file's own includes; the pgas headers are always there. It is local.
func (w *World) Load(ctx context.Context, fsys fs.FS, file string) (*Module, error) {
	if err := w.enter("load"); err != nil {
		return nil, err
	}
	defer w.leave()
	if fsys == nil {
		return nil, w.failed("load", NoPE, errs.Arg("load", "fsys", "nil", "a file system with "+file))
	}
	raw, err := w.plat.LoadKernels(ctx, fsys, file, w.cfg.CacheDir)
	if err != nil {
		return nil, w.failed("load "+file, NoPE, err)
	}
	m := &Module{w: w, file: file, m: raw, open: true}
	w.modules.add(m)
	return m, nil
}

// Kernel returns the kernel of that name: `extern "C" __global__ void name(...)` followed by PGAS_KERNEL(name). A kernel
// that was compiled with headers of another version is refused.
func (m *Module) Kernel(name string) (*Kernel, error) {
	if m == nil || m.w == nil {
		return nil, errs.Arg("kernel", "module", "nil or new", "a Module from World.Load")
	}
	w := m.w
	if err := w.enter("kernel"); err != nil {
		return nil, err
	}
	defer w.leave()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.open {
		return nil, w.failed("kernel", NoPE, errs.Arg("kernel", "module", m.file+", which was closed", "an open module"))
	}
	f, err := w.plat.CUDA.ModuleFunction(m.m, name)
	if err != nil {
		return nil, w.failed("kernel", NoPE, fmt.Errorf("%s has no kernel %q: %w [PGAS_KERNEL(%s) is needed after it]", m.file, name, err, name))
	}
	if err := m.checkLayout(name); err != nil {
		return nil, w.failed("kernel", NoPE, err)
	}
	sizes, err := w.plat.CUDA.FuncParamSizes(f)
	if err != nil && !errors.Is(err, errs.ErrNotSupported) {
		return nil, w.failed("kernel", NoPE, err)
	}
	if err == nil && sizes == nil {
		sizes = []int{}
	}
	return &Kernel{m: m, name: name, f: f, sizes: sizes}, nil
}

// checkLayout compares the structs that the kernel was compiled with. Kernels without the pgas headers have no hash.
func (m *Module) checkLayout(name string) error {
	d := m.w.plat.CUDA
	at, size, err := d.ModuleGlobal(m.m, name+"_pgas_layout_hash")
	if cuda.Code(err) == cuda.ErrNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	var hash [8]byte
	if size != uint64(len(hash)) {
		return fmt.Errorf("layout hash of kernel %s has %d bytes, want %d", name, size, len(hash))
	}
	if err := d.MemcpyDtoH(hash[:], at); err != nil {
		return err
	}
	if have := binary.NativeEndian.Uint64(hash[:]); have != wire.LayoutHash {
		return fmt.Errorf("kernel %s was compiled with other pgas headers: layout hash %#x, this program has %#x [compile it again]: %w",
			name, have, wire.LayoutHash, ErrMismatch)
	}
	return nil
}

// Close unloads the module after all kernels of this PE have ended. It is idempotent.
func (m *Module) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.open {
		return nil
	}
	m.open = false
	m.w.modules.drop(m)
	return errors.Join(m.w.plat.CUDA.CtxSynchronize(), m.w.plat.CUDA.ModuleUnload(m.m))
}

// Name returns the kernel's name.
func (k *Kernel) Name() string { return k.name }

// Launch runs the kernel. args are its parameters in order: sized numbers and structs of them by value, a Slice, Signals
// or SignalWord as the address of this PE's memory, World.Device() as pgas::world. Number and sizes are checked.
//
// With Grid.Stream it returns when the launch is queued; Stream.Sync tells how it went. Without, it waits as Stream.Sync
// does and returns the kernel's failure: a LaunchError.
func (k *Kernel) Launch(ctx context.Context, g Grid, args ...any) error {
	if k == nil || k.m == nil {
		return errs.Arg("launch", "kernel", "nil or new", "a Kernel from Module.Kernel")
	}
	w := k.m.w
	if err := w.enter("launch"); err != nil {
		return err
	}
	defer w.leave()
	packed, err := k.check(g, args)
	if err != nil {
		return w.failed("launch", NoPE, err)
	}
	if err := ctx.Err(); err != nil {
		return w.failed("launch", NoPE, err)
	}
	s := g.Stream
	if s == nil {
		if s, err = w.modules.blocking(w); err != nil {
			return w.failed("launch", NoPE, err)
		}
	}
	raw, err := s.raw()
	if err != nil {
		return w.failed("launch", NoPE, err)
	}
	shape := cuda.Launch{Grid: [3]uint32{uint32(g.Blocks)}, Block: [3]uint32{uint32(g.Threads)}, Shared: uint32(g.Shared),
		Stream: raw, Cooperative: g.Cooperative}
	if err := w.plat.CUDA.LaunchKernel(k.f, shape, packed); err != nil {
		return w.failed("launch", NoPE, &LaunchError{Kernels: []string{k.name}, Report: w.plat.GPUReport(), Err: err})
	}
	s.launched(k.name)
	if g.Stream != nil {
		return nil
	}
	err = s.Sync(ctx)
	if ctx.Err() == nil {
		w.modules.giveBack(s) // else the kernel may still be running in it: Close takes it down
	}
	return err
}

func (k *Kernel) check(g Grid, args []any) (*cuda.Args, error) {
	op := "launch " + k.name
	switch {
	case g.Blocks < 1 || g.Blocks > 1<<31-1:
		return nil, errs.Arg(op, "blocks", g.Blocks, "1..2147483647")
	case g.Threads < 1 || g.Threads > 1024:
		return nil, errs.Arg(op, "threads", g.Threads, "1..1024")
	case g.Shared < 0 || g.Shared > 1<<31-1:
		return nil, errs.Arg(op, "shared", g.Shared, "0..2147483647 bytes")
	case g.Stream != nil && g.Stream.w != k.m.w:
		return nil, errs.Arg(op, "stream", "of another World", "a stream of the World which loaded the kernel")
	}
	k.m.mu.Lock()
	open := k.m.open
	k.m.mu.Unlock()
	if !open {
		return nil, errs.Arg(op, "module", k.m.file+", which was closed", "an open module")
	}
	return k.m.w.packArgs(k.name, args, k.sizes)
}

// modules are the modules and streams of a World: Close takes down what the program left.
type modules struct {
	mu      sync.Mutex
	loaded  []*Module
	streams []*Stream
	spare   []*Stream // for launches without a stream, reused
}

func (m *modules) add(x *Module) { m.mu.Lock(); defer m.mu.Unlock(); m.loaded = append(m.loaded, x) }
func (m *modules) addStream(s *Stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.streams = append(m.streams, s)
}
func (m *modules) giveBack(s *Stream) { m.mu.Lock(); defer m.mu.Unlock(); m.spare = append(m.spare, s) }
func (m *modules) drop(x *Module)     { m.mu.Lock(); defer m.mu.Unlock(); m.loaded = without(m.loaded, x) }
func (m *modules) dropStream(s *Stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.streams = without(m.streams, s)
}
func without[T comparable](all []T, x T) []T {
	return slices.DeleteFunc(all, func(y T) bool { return x == y })
}

// blocking returns a stream that nobody else uses now.
func (m *modules) blocking(w *World) (*Stream, error) {
	m.mu.Lock()
	if n := len(m.spare); n > 0 {
		s := m.spare[n-1]
		m.spare = m.spare[:n-1]
		m.mu.Unlock()
		return s, nil
	}
	m.mu.Unlock()
	return w.NewStream()
}

// closeAll closes every stream, then every module.
func (m *modules) closeAll() error {
	m.mu.Lock()
	streams, loaded := slices.Clone(m.streams), slices.Clone(m.loaded)
	m.mu.Unlock()
	var all []error
	for _, s := range streams {
		all = append(all, s.Close())
	}
	for _, x := range loaded {
		all = append(all, x.Close())
	}
	return errors.Join(all...)
}
