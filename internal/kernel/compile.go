package kernel

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pgas-go/pgas/internal/errs"
)

// compiler is a host C++ compiler.
type compiler struct {
	path    string
	version string // what it says of its version and target
	clang   bool
}

func findCompiler(ctx context.Context, asked string) (toolchain, error) {
	candidates := []string{asked}
	if asked == "" {
		candidates = []string{os.Getenv("CXX"), "g++", "clang++"}
		if candidates[0] != "" {
			candidates = candidates[:1]
		}
	}
	for _, name := range candidates {
		if name == "" {
			continue
		}
		p, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, p, "--version").Output()
		if err != nil {
			return nil, fmt.Errorf("ask %s for its version: %w", p, err)
		}
		return compiler{path: p, version: p + "\n" + string(out), clang: bytes.Contains(out, []byte("clang"))}, nil
	}
	have := strings.Join(slices.DeleteFunc(candidates, func(s string) bool { return s == "" }), ", ") + " not found"
	return nil, &errs.UnsupportedError{Feature: "kernels on the software GPU", Need: "a C++17 compiler", Have: have,
		Fix: "install g++, or set CXX"}
}

func (c compiler) identity(flags []string) []string {
	return append([]string{c.version}, c.flags(flags)...)
}

func (c compiler) module() string { return "module.so" }

// flags are those of every build. Strict aliasing is off because CUDA compilers do not use it; contraction is off so that
// results do not depend on the compiler.
func (c compiler) flags(extra []string) []string {
	f := []string{"-std=c++17", "-O2", "-fPIC", "-fsanitize-coverage=trace-pc", "-fno-strict-aliasing",
		"-ffp-contract=off", "-fno-math-errno", "-Wno-attributes", "-Wno-unknown-pragmas"}
	if !c.clang {
		// Unique symbols would be one object for all modules of the process, and keep them from being unloaded.
		f = append(f, "-fno-gnu-unique")
	}
	return append(f, extra...)
}

// compile makes an object, then links it.
func (c compiler) compile(ctx context.Context, s Spec, in *inputs, work string) error {
	args := c.flags(s.Flags)
	for _, d := range in.dirs {
		args = append(args, "-I", d)
	}
	args = append(args, "-include", "simt/cuda.h", "-x", "c++", "-c", s.source(), "-o", "module.o")
	if err := c.run(ctx, s.File, work, args); err != nil {
		return err
	}
	link := []string{"-shared", "-Wl,-Bsymbolic", "module.o", "-o", c.module()}
	names, err := dynamicShared(filepath.Join(work, "module.o"))
	if err != nil {
		return fmt.Errorf("build %s: %w", s.File, err)
	}
	if len(names) > 0 {
		if err := os.WriteFile(filepath.Join(work, "shared.S"), sharedSource(names), 0o644); err != nil {
			return fmt.Errorf("build %s: %w", s.File, err)
		}
		link = append(link, "shared.S")
	}
	return c.run(ctx, s.File, work, link)
}

// run calls the compiler in dir, which also takes its temporary files.
func (c compiler) run(ctx context.Context, file, dir string, args []string) error {
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "LC_ALL=C")
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("compile %s: %w", file, context.Cause(ctx))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &CompileError{File: file, Command: c.path + " " + strings.Join(args, " "), Output: string(output)}
	}
	if err != nil {
		return fmt.Errorf("compile %s: %w", file, err)
	}
	return nil
}

// dynamicShared returns the names of the `extern __shared__` arrays of an object: thread-local symbols that it uses and
// does not define, without those of the runner.
func dynamicShared(object string) ([]string, error) {
	f, err := elf.Open(object)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_TLS && !strings.HasPrefix(s.Name, "simt_") {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// sharedBytes is the most dynamic shared memory that a launch may ask for (227 KiB, as on sm_90) and room behind it in
// which the software GPU sees overruns.
const sharedBytes = 227<<10 + 1<<10

// sharedSource defines one thread-local array under all the names, because CUDA gives every `extern __shared__` array of a
// kernel the same address.
func sharedSource(names []string) []byte {
	var b bytes.Buffer
	b.WriteString("\t.section .tbss,\"awT\",%nobits\n\t.balign 1024\n")
	for _, n := range append([]string{"simt_dynamic_shared"}, names...) {
		fmt.Fprintf(&b, "\t.globl %s\n\t.type %s, %%tls_object\n\t.size %s, %d\n%s:\n", n, n, n, sharedBytes, n)
	}
	fmt.Fprintf(&b, "\t.zero %d\n", sharedBytes)
	b.WriteString("\t.section .rodata\n\t.balign 8\n\t.globl simt_dynamic_shared_bytes\n" +
		"\t.type simt_dynamic_shared_bytes, %object\n\t.size simt_dynamic_shared_bytes, 8\nsimt_dynamic_shared_bytes:\n")
	fmt.Fprintf(&b, "\t.quad %d\n\t.section .note.GNU-stack,\"\",%%progbits\n", sharedBytes)
	return b.Bytes()
}
