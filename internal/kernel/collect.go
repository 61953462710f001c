package kernel

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// maxInput bounds what a build copies; a larger tree is a mistake in the caller's file system.
const maxInput = 64 << 20

var sourceSuffixes = []string{".cu", ".cuh", ".h", ".hpp", ".inc"}

// collect reads everything that the compiler may open.
func collect(s Spec) (*inputs, error) {
	in := &inputs{files: map[string][]byte{}}
	file := path.Clean(s.File)
	if !fs.ValidPath(file) {
		return nil, fmt.Errorf("%q is not a path in a file system", s.File)
	}
	if _, err := fs.Stat(s.FS, file); err != nil {
		return nil, err
	}
	if err := in.add(s.FS, path.Dir(file), path.Join("src", path.Dir(file))); err != nil {
		return nil, err
	}
	for i, t := range s.Include {
		dir := fmt.Sprintf("include%d", i)
		if err := in.add(t.FS, path.Clean(t.Root), dir); err != nil {
			return nil, err
		}
		in.dirs = append(in.dirs, dir)
	}
	if s.SIMT != nil {
		if err := in.add(s.SIMT, "simt", "soft/simt"); err != nil {
			return nil, err
		}
		in.dirs = append(in.dirs, "soft", "soft/simt")
	}
	slices.Sort(in.order)
	return in, nil
}

func (in *inputs) add(fsys fs.FS, root, as string) error {
	total := 0
	return fs.WalkDir(fsys, root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != root && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains(sourceSuffixes, path.Ext(p)) {
			return nil
		}
		data, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		if total += len(data); total > maxInput {
			return fmt.Errorf("more than %d bytes of source below %s [give a smaller file system]", maxInput, root)
		}
		rel := p
		if root != "." {
			rel = strings.TrimPrefix(strings.TrimPrefix(p, root), "/")
		}
		name := path.Join(as, rel)
		in.files[name] = data
		in.order = append(in.order, name)
		return nil
	})
}
