// Package kernel compiles CUDA source for the platform and keeps the result in a cache.
//
// For the software GPU the host's C++ compiler makes a shared object that cuModuleLoad of the software GPU takes. For a
// real GPU NVRTC makes a cubin, or PTX for a GPU that is newer than NVRTC. A build is named by the hash of all it depends
// on: source, headers, flags and compiler. Processes that want the same build at the same time compile it once.
package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/internal/errs"
)

// Tree is a folder of a file system that goes on the include path.
type Tree struct {
	FS   fs.FS
	Root string // "" or "." for the whole file system
}

// Spec is what to build. It is plain data; nothing happens before Build.
type Spec struct {
	// FS holds File and the headers beside and below it.
	FS   fs.FS
	File string // slash-separated path of the .cu file

	// Include are the folders searched for headers, such as device/include.
	Include []Tree

	// SIMT holds the folder "simt", the software GPU's CUDA headers. nil asks for a build for GPU.
	SIMT fs.FS
	// GPU is what to build for when SIMT is nil.
	GPU GPU

	// Compiler is the C++ compiler for the software GPU; empty means $CXX, else g++, else clang++.
	Compiler string
	// NVRTC is the path of the library that compiles for GPU; empty means below $CUDA_HOME or $CUDA_PATH, else where the
	// dynamic loader finds it, else below /usr/local/cuda.
	NVRTC string
	// Flags are added behind the standard ones.
	Flags []string

	// CacheDir holds finished builds; empty means $XDG_CACHE_HOME/pgas, else ~/.cache/pgas.
	CacheDir string
}

// CompileError is source that the compiler refused.
type CompileError struct {
	File    string
	Command string
	Output  string // as the compiler printed it
}

// Error holds the compiler's output.
func (e *CompileError) Error() string {
	return fmt.Sprintf("compile %s: refused by the compiler (%s):\n%s", e.File, e.Command, strings.TrimRight(e.Output, "\n"))
}

// Build compiles s, or finds it in the cache, and returns the path of the module. It waits for another process that
// builds the same, until ctx ends. Errors: *CompileError, *errs.UnsupportedError, and those of the file system.
func Build(ctx context.Context, s Spec) (string, error) {
	if s.FS == nil || s.File == "" {
		return "", errs.Arg("build kernel", "source", s.File, "a file system and the path of a .cu file in it")
	}
	tools, err := s.toolchain(ctx)
	if err != nil {
		return "", err
	}
	in, err := collect(s)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", s.File, err)
	}
	dir, err := s.cacheFolder(in.hash(s, tools))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", s.File, err)
	}
	out := filepath.Join(dir, tools.module())
	if intact(out) {
		return out, nil
	}
	unlock, err := lockFolder(ctx, dir)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", s.File, err)
	}
	return out, within(ctx, func() error {
		defer unlock()
		if intact(out) {
			return nil
		}
		return in.build(ctx, s, tools, dir, out)
	})
}

// toolchain is one compiler, ready for use.
type toolchain interface {
	// identity is all that a build depends on besides its inputs.
	identity(flags []string) []string
	// module is the name of the file that compile makes.
	module() string
	// compile makes the module in work, where the inputs are.
	compile(ctx context.Context, s Spec, in *inputs, work string) error
}

func (s Spec) toolchain(ctx context.Context) (toolchain, error) {
	if s.SIMT == nil {
		return findNVRTC(s.NVRTC, s.GPU)
	}
	return findCompiler(ctx, s.Compiler)
}

// endLimit is how long a compiler may take to notice that it shall end.
const endLimit = 2 * time.Second

// within waits for f. When ctx ends and f does not soon follow, as an old NVRTC, f goes on alone: it holds the lock until
// its end, and what it makes is for the next who asks.
func within(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(endLimit):
		return fmt.Errorf("wait for the compiler: %w", context.Cause(ctx))
	}
}

func (s Spec) cacheFolder(hash string) (string, error) {
	root := s.CacheDir
	if root == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder: %w [set PGAS_CACHE_DIR]", err)
		}
		root = filepath.Join(base, "pgas")
	}
	name := strings.TrimSuffix(path.Base(s.File), path.Ext(s.File))
	dir := filepath.Join(root, name+"-"+hash[:24])
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cache folder: %w [set PGAS_CACHE_DIR to a folder that this user may write to]", err)
	}
	return dir, nil
}

// lockFolder locks a folder itself, so no lock file is left behind. The lock ends with the process, however that ends.
func lockFolder(ctx context.Context, dir string) (func(), error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for another process that builds the same: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// inputs are all files of a build, by their place in the build folder.
type inputs struct {
	files map[string][]byte
	order []string
	dirs  []string // include path, in the build folder
}

func (in *inputs) hash(s Spec, tools toolchain) string {
	h := sha256.New()
	put := func(text string) { fmt.Fprintf(h, "%d:%s", len(text), text) }
	put("pgas kernel build 1")
	put(s.File)
	for _, text := range tools.identity(s.Flags) {
		put(text)
	}
	for _, name := range in.order {
		put(name)
		put(string(in.files[name]))
	}
	return hex.EncodeToString(h.Sum(nil))
}
