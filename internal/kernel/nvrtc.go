package kernel

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/nvrtc"
)

// gpuCompiler is NVRTC, set up for one GPU.
type gpuCompiler struct {
	lib      *nvrtc.Lib
	target   target
	includes []string // of the CUDA toolkit that the library is part of
}

func (c gpuCompiler) module() string {
	if c.target.ptx {
		return "module.ptx"
	}
	return "module.cubin"
}

func (c gpuCompiler) name() string {
	major, minor := c.lib.Version()
	return fmt.Sprintf("NVRTC %d.%d", major, minor)
}

// identity tells releases apart that differ only in the last number, which NVRTC does not say, by the file.
func (c gpuCompiler) identity(flags []string) []string {
	id := []string{c.name(), c.lib.Path()}
	if info, err := os.Stat(c.lib.Path()); err == nil {
		id = append(id, fmt.Sprint(info.Size(), info.ModTime().UnixNano()))
	}
	id = append(id, c.includes...)
	return append(id, c.flags(flags)...)
}

func (c gpuCompiler) flags(extra []string) []string {
	return append([]string{"--std=c++17", "--gpu-architecture=" + c.target.arch}, extra...)
}

func (c gpuCompiler) compile(ctx context.Context, s Spec, in *inputs, work string) (err error) {
	source := filepath.Join(work, filepath.FromSlash(s.source()))
	options := c.flags(s.Flags)
	// An NVRTC before 12 does not search the folder of the source by itself.
	for _, dir := range append([]string{filepath.Dir(source)}, in.in(work)...) {
		options = append(options, "--include-path="+dir)
	}
	for _, dir := range c.includes {
		options = append(options, "--include-path="+dir)
	}
	program, err := c.lib.CreateProgram(in.files[s.source()], source)
	if err != nil {
		return fmt.Errorf("compile %s: %w", s.File, err)
	}
	defer func() {
		if e := program.Destroy(); e != nil && err == nil {
			err = fmt.Errorf("compile %s: %w", s.File, e)
		}
	}()
	stop := context.AfterFunc(ctx, program.Cancel)
	defer stop()
	if err := program.Compile(options); err != nil {
		return c.refused(ctx, s, program, work, options, err)
	}
	return c.save(s, program, filepath.Join(work, c.module()))
}

// refused says why a compilation failed. Paths are as they are for the caller, without the build folder.
func (c gpuCompiler) refused(ctx context.Context, s Spec, p *nvrtc.Program, work string, options []string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("compile %s: %w", s.File, context.Cause(ctx))
	}
	log, logErr := p.Log()
	if logErr != nil {
		log = logErr.Error()
	}
	plain := func(text string) string { return strings.ReplaceAll(text, work+string(filepath.Separator), "") }
	switch nvrtc.Code(err) {
	case nvrtc.ErrCompilation, nvrtc.ErrInvalidOption:
		command := plain(c.name() + " " + strings.Join(options, " "))
		if log == "" {
			log = err.Error()
		}
		return &CompileError{File: s.File, Command: command, Output: plain(log)}
	case nvrtc.ErrBuiltinOperationFailure:
		return &errs.UnsupportedError{Feature: "nvrtc", Need: "libnvrtc-builtins beside " + c.lib.Path(),
			Have: err.Error() + ": " + log, Fix: "install the CUDA toolkit as a whole"}
	}
	return fmt.Errorf("compile %s with %s: %w: %s", s.File, c.name(), err, plain(log))
}

func (c gpuCompiler) save(s Spec, p *nvrtc.Program, file string) error {
	read := p.CUBIN
	if c.target.ptx {
		read = p.PTX
	}
	image, err := read()
	if err == nil && len(image) == 0 {
		err = fmt.Errorf("%s made no code for %s", c.name(), c.target.arch)
	}
	if err == nil {
		err = os.WriteFile(file, image, 0o644)
	}
	if err != nil {
		return fmt.Errorf("compile %s: %w", s.File, err)
	}
	return nil
}

// in returns the include path as absolute folders. NVRTC runs in this process, whose working directory is not ours.
func (in *inputs) in(work string) []string {
	dirs := slices.Clone(in.dirs)
	for i, d := range dirs {
		dirs[i] = filepath.Join(work, filepath.FromSlash(d))
	}
	return dirs
}
