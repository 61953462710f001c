package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// build compiles in a folder of its own below dir and moves the result to out in one step. Headers are files there, also
// for NVRTC, which takes headers from memory as well: but by the one name that an #include has to use, while the includes
// of our headers are relative to the file that they are in.
func (in *inputs) build(ctx context.Context, s Spec, tools toolchain, dir, out string) error {
	if err := removeOldBuilds(dir); err != nil {
		return fmt.Errorf("build %s: %w", s.File, err)
	}
	work, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return fmt.Errorf("build %s: %w", s.File, err)
	}
	defer os.RemoveAll(work)
	if err := in.write(work); err != nil {
		return fmt.Errorf("build %s: %w", s.File, err)
	}
	if err := tools.compile(ctx, s, in, work); err != nil {
		return err
	}
	made := filepath.Join(work, tools.module())
	if err := seal(made, out); err != nil {
		return fmt.Errorf("build %s: %w", s.File, err)
	}
	return os.Rename(made, out)
}

// source is the place of the .cu file in the build folder.
func (s Spec) source() string { return path.Join("src", s.File) }

// removeOldBuilds removes what a killed process left; the caller holds the lock.
func removeOldBuilds(dir string) error {
	old, err := filepath.Glob(filepath.Join(dir, "build-*"))
	for _, o := range old {
		err = errors.Join(err, os.RemoveAll(o))
	}
	return err
}

func (in *inputs) write(dir string) error {
	for name, data := range in.files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
