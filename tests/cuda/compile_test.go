package cuda

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const includeDir = "../../device/include"

// unit is one thing to compile: a source of the tree, or a file that includes one header alone.
type unit struct {
	name string
	path string
}

// units lists every .cu of the tree, and writes a source per header of the device library.
func units(t *testing.T) []unit {
	t.Helper()
	sources, err := filesBelow("../..", ".cu")
	require.NoError(t, err)
	headers, err := filesBelow(includeDir, ".cuh")
	require.NoError(t, err)
	require.NotEmpty(t, headers, "no device headers found")

	var list []unit
	for _, source := range sources {
		name, err := filepath.Rel("../..", source)
		require.NoError(t, err)
		list = append(list, unit{name, source})
	}
	dir := t.TempDir()
	for i, header := range headers {
		name, err := filepath.Rel(includeDir, header)
		require.NoError(t, err)
		list = append(list, unit{name, writeSource(t, dir, fmt.Sprintf("header%d.cu", i), includeAlone(name))})
	}
	return list
}

// includeAlone includes a header twice, so that it must be complete by itself and guarded.
func includeAlone(header string) string {
	return fmt.Sprintf("#include <%s>\n#include <%s>\n", header, header)
}

func writeSource(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

func filesBelow(root, extension string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if filepath.Ext(path) == extension {
			found = append(found, path)
		}
		return nil
	})
	return found, err
}

// nvccCompile compiles both passes, host and device, for all architectures at once.
func nvccCompile(t *testing.T, k *toolkit, source string) (string, error) {
	t.Helper()
	args := []string{"-std=c++17", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror",
		"-I", includeDir, "-c", "-o", filepath.Join(t.TempDir(), "out.o")}
	for _, arch := range architectures {
		args = append(args, "-gencode", fmt.Sprintf("arch=%s,code=%s", strings.Replace(arch, "sm", "compute", 1), arch))
	}
	return run(t, k.nvcc(), append(args, source)...)
}

func TestNVCC(t *testing.T) {
	k := needToolkit(t)
	for _, u := range units(t) {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			if out, err := nvccCompile(t, k, u.path); err != nil {
				t.Fatalf("nvcc: %v\n%s", err, out)
			}
		})
	}
}

// nvrtcTool builds the helper once. It finds libnvrtc by its run path, so nothing need be installed.
var nvrtcTool struct {
	once sync.Once
	path string
	out  string
	err  error
}

func needNVRTC(t *testing.T) string {
	t.Helper()
	k := needToolkit(t)
	tool := &nvrtcTool
	tool.once.Do(func() {
		var dir string
		if dir, tool.err = os.MkdirTemp("", "pgas-nvrtc-"); tool.err != nil {
			return
		}
		tool.path = filepath.Join(dir, "nvrtc")
		lib := filepath.Join(k.home, "lib64")
		tool.out, tool.err = run(t, "g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-isystem",
			filepath.Join(k.home, "include"), "-o", tool.path, "nvrtc/main.cpp", "-L"+lib, "-lnvrtc", "-Wl,-rpath,"+lib)
	})
	require.NoError(t, tool.err, tool.out)
	return tool.path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if nvrtcTool.path != "" {
		if err := os.RemoveAll(filepath.Dir(nvrtcTool.path)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

func nvrtcCompile(t *testing.T, tool, arch, source string) (string, error) {
	t.Helper()
	return run(t, tool, arch, source, "--Werror=all-warnings", "-I"+includeDir, "-I"+filepath.Dir(source))
}

func TestNVRTC(t *testing.T) {
	tool := needNVRTC(t)
	for _, u := range units(t) {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			for _, arch := range architectures {
				out, err := nvrtcCompile(t, tool, arch, u.path)
				if err != nil || !strings.Contains(out, "bytes of SASS") {
					t.Fatalf("NVRTC for %s: %v\n%s", arch, err, out)
				}
			}
		})
	}
}

// TestCompilersRefuse shows that the checks above can fail: a warning, and a header that lacks an include.
func TestCompilersRefuse(t *testing.T) {
	tool := needNVRTC(t)
	k := needToolkit(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"warning.cu":    "extern \"C\" __global__ void k(int* p) { int unused = 3; *p = 1; }\n",
		"incomplete.cu": "#include <pgas/pgas.cuh>\n__device__ pgas::no_such_type x;\n",
	} {
		source := writeSource(t, dir, name, text)
		out, err := nvccCompile(t, k, source)
		require.Error(t, err, "nvcc accepted %s: %s", name, out)
		out, err = nvrtcCompile(t, tool, "sm_90", source)
		require.Error(t, err, "NVRTC accepted %s: %s", name, out)
	}
}
