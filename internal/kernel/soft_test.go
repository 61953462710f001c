package kernel_test

import (
	"encoding/binary"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/internal/kernel"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/softgpu"
	"github.com/pgas-go/pgas/internal/softgpu/include"
)

// One cache for the test run: modules are compiled once.
var testCache = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "pgas-kernel-test-")
	if err != nil {
		panic(err)
	}
	return dir
})

func TestMain(m *testing.M) {
	if child := os.Getenv("PGAS_KERNEL_TEST_CHILD"); child != "" {
		os.Exit(runChild(child))
	}
	code := m.Run()
	_ = os.RemoveAll(testCache())
	os.Exit(code)
}

// gpu is a software GPU with a context and one module.
type gpu struct {
	*cuda.Driver
	t     *testing.T
	mod   cuda.Module
	close func()
}

func buildModule(t *testing.T, file string, flags ...string) string {
	t.Helper()
	path, err := kernel.Build(t.Context(), kernel.Spec{FS: os.DirFS("testdata"), File: file, SIMT: include.FS,
		CacheDir: testCache(), Flags: flags})
	require.NoError(t, err)
	return path
}

// open starts a software GPU with options and loads a file of testdata.
func open(t *testing.T, options, file string) *gpu {
	t.Helper()
	require.NoError(t, softgpu.Configure(options))
	softgpu.ClearReport()
	d := softgpu.Driver()
	require.NoError(t, d.Init())
	dev, err := d.Device(0)
	require.NoError(t, err)
	ctx, err := d.PrimaryCtxRetain(dev)
	require.NoError(t, err)
	d.Bind(ctx)
	g := &gpu{Driver: d, t: t}
	g.close = sync.OnceFunc(func() {
		d.Bind(0)
		require.NoError(t, d.PrimaryCtxRelease(dev))
		require.NoError(t, softgpu.Configure(""))
		softgpu.ClearReport()
	})
	t.Cleanup(g.close)
	if file != "" {
		g.mod, err = d.ModuleLoad(buildModule(t, file))
		require.NoError(t, err, softgpu.LastReport())
	}
	return g
}

func (g *gpu) alloc(bytes uint64) cuda.DevicePtr {
	g.t.Helper()
	p, err := g.MemAlloc(bytes)
	require.NoError(g.t, err)
	require.NoError(g.t, g.MemsetD8(p, 0, bytes))
	return p
}

func (g *gpu) fn(name string) cuda.Function {
	g.t.Helper()
	f, err := g.ModuleFunction(g.mod, name)
	require.NoError(g.t, err)
	return f
}

func shape(blocks, threads uint32) cuda.Launch {
	return cuda.Launch{Grid: [3]uint32{blocks}, Block: [3]uint32{threads}}
}

func (g *gpu) start(name string, l cuda.Launch, args *cuda.Args) {
	g.t.Helper()
	require.NoError(g.t, g.LaunchKernel(g.fn(name), l, args))
}

func (g *gpu) run(name string, l cuda.Launch, args *cuda.Args) {
	g.t.Helper()
	g.start(name, l, args)
	require.NoError(g.t, g.StreamSynchronize(l.Stream), "report: %s", softgpu.LastReport())
}

func (g *gpu) u32(p cuda.DevicePtr, n int) []uint32 {
	g.t.Helper()
	raw := make([]byte, 4*n)
	require.NoError(g.t, g.MemcpyDtoH(raw, p))
	out := make([]uint32, n)
	for i := range out {
		out[i] = binary.NativeEndian.Uint32(raw[4*i:])
	}
	return out
}

func (g *gpu) u64(p cuda.DevicePtr) uint64 {
	g.t.Helper()
	var raw [8]byte
	require.NoError(g.t, g.MemcpyDtoH(raw[:], p))
	return binary.NativeEndian.Uint64(raw[:])
}

func (g *gpu) put32(p cuda.DevicePtr, values ...uint32) {
	g.t.Helper()
	var raw []byte
	for _, v := range values {
		raw = binary.NativeEndian.AppendUint32(raw, v)
	}
	require.NoError(g.t, g.MemcpyHtoD(p, raw))
}

// at is memory of the software GPU, which the CPU may touch too.
func at[T any](p cuda.DevicePtr) *T {
	return *(**T)(unsafe.Pointer(&p))
}

func args() *cuda.Args { return &cuda.Args{} }

// foreignPage maps a page that the software GPU has not made.
func (g *gpu) foreignPage() unsafe.Pointer {
	g.t.Helper()
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	require.NoError(g.t, err)
	g.t.Cleanup(func() { require.NoError(g.t, unix.Munmap(mem)) })
	return unsafe.Pointer(&mem[0])
}

// within fails the test with all stacks when f takes longer.
func within(t *testing.T, limit time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		buf := make([]byte, 1<<20)
		t.Fatalf("took longer than %v; report: %s\n%s", limit, softgpu.LastReport(), buf[:runtime.Stack(buf, true)])
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(e)
}

func threads(t *testing.T) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	return len(e)
}
