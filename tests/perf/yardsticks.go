package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed yardsticks
var yardsticks embed.FS

// A builder compiles the yardsticks into a folder, each once.
type builder struct {
	dir   string
	built map[string]error
}

func newBuilder() (*builder, error) {
	dir, err := os.MkdirTemp("", "pgas-bench-")
	return &builder{dir, map[string]error{}}, err
}

func (b *builder) close() error { return os.RemoveAll(b.dir) }

// build compiles yardsticks/file and returns the program's path.
func (b *builder) build(ctx context.Context, file string, compiler ...string) (string, error) {
	program := filepath.Join(b.dir, strings.TrimSuffix(file, filepath.Ext(file)))
	err, done := b.built[file]
	if !done {
		err = b.compile(ctx, file, program, compiler)
		b.built[file] = err
	}
	return program, err
}

func (b *builder) compile(ctx context.Context, file, program string, compiler []string) error {
	text, err := yardsticks.ReadFile("yardsticks/" + file)
	if err != nil {
		return err
	}
	at := filepath.Join(b.dir, file)
	if err := os.WriteFile(at, text, 0o600); err != nil {
		return err
	}
	_, err = command(ctx, nil, compiler[0], append(compiler[1:], "-O2", "-Wall", "-Wextra", at, "-o", program)...)
	return err
}

// cxx is the compiler of the software GPU's kernels, too.
func cxx() string {
	if name := os.Getenv("CXX"); name != "" {
		return name
	}
	return "g++"
}

// cores runs the yardsticks of the machine. One that cannot run does not keep the others from it.
func (b *builder) cores(ctx context.Context, runs [][]string) (string, error) {
	if _, err := exec.LookPath(cxx()); err != nil {
		return "", &skipError{"no C++ compiler [install g++]"}
	}
	program, err := b.build(ctx, "cores.cpp", cxx(), "-std=c++17")
	if err != nil {
		return "", err
	}
	var text strings.Builder
	var skipped error
	for _, args := range runs {
		out, err := command(ctx, nil, program, args...)
		var skip *skipError
		switch {
		case errors.As(err, &skip):
			skipped = err
		case err != nil:
			return "", fmt.Errorf("%v: %w", args, err)
		}
		text.WriteString(out)
	}
	return text.String(), skipped
}

const noOSHMEM = "no OSHMEM [apt-get install openmpi-bin libopenmpi-dev]"

// oshmem runs the OpenSHMEM program on this host.
func (b *builder) oshmem(ctx context.Context, pes int, batches, repeats string) (string, error) {
	for _, tool := range []string{"oshcc", "oshrun"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", &skipError{noOSHMEM}
		}
	}
	program, err := b.build(ctx, "oshmem.c", "oshcc")
	if err != nil {
		return "", err
	}
	// Open MPI refuses root without these.
	env := []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
	return command(ctx, env, "oshrun", "--oversubscribe", "--bind-to", "core:overload-allowed", "-np", strconv.Itoa(pes), program, batches, repeats)
}
