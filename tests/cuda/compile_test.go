package cuda

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
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
	// program is set for the kernels of the test suites. They instantiate everything many times, so they are compiled
	// for every architecture without the optimiser, which takes most of the time and finds no errors.
	program bool
}

// units lists every .cu of the product, the examples and the suites, and writes a source per header of the device library.
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
		if strings.Contains(name, "/testdata/") {
			continue // made for the software GPU's own tests: faults on purpose, and words that only it has
		}
		list = append(list, unit{name, source, strings.HasPrefix(name, "tests/") && !strings.HasPrefix(name, "tests/cuda/")})
	}
	dir := t.TempDir()
	for i, header := range headers {
		name, err := filepath.Rel(includeDir, header)
		require.NoError(t, err)
		list = append(list, unit{name, writeSource(t, dir, fmt.Sprintf("header%d.cu", i), includeAlone(name)), false})
	}
	// Longest first, so that two cores finish together.
	sort.SliceStable(list, func(i, j int) bool { return list[i].program && !list[j].program })
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
		if filepath.Ext(path) != extension {
			return nil
		}
		found = append(found, path)
		// The compilers read the file, not this process. Reading it here as well lets `go test` see that the result
		// depends on it, so that a cached result is used only while no source has changed.
		_, err = os.ReadFile(path)
		return err
	})
	return found, err
}

// nvccCompile compiles both passes, host and device, for all architectures at once.
func nvccCompile(t *testing.T, k *toolkit, u unit) (string, error) {
	t.Helper()
	args := []string{"-std=c++17", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror",
		"-I", includeDir, "-c", "-o", filepath.Join(t.TempDir(), "out.o")}
	if u.program {
		codes := strings.Join(architectures, ",")
		args = append(args, "-Xcicc", "-O1", "-Xptxas", "-O0", "-gencode", "arch=compute_80,code=["+codes+"]")
	} else {
		for _, arch := range architectures {
			virtual := strings.Replace(arch, "sm", "compute", 1)
			args = append(args, "-gencode", "arch="+virtual+",code="+arch)
		}
	}
	return run(t, k.nvcc(), append(args, u.path)...)
}

func TestNVCC(t *testing.T) {
	k := needToolkit(t)
	for _, u := range units(t) {
		if filepath.Base(u.path) == fastPathFile {
			continue // TestFastPathReport compiles it
		}
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			if out, err := nvccCompile(t, k, u); err != nil {
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

func nvrtcCompile(t *testing.T, tool, arch string, u unit) (string, error) {
	t.Helper()
	args := []string{arch, u.path, "--warning-as-error=all-warnings", "-I" + includeDir, "-I" + filepath.Dir(u.path)}
	if u.program {
		args = append(args, "--ptxas-options=-O0")
	}
	return run(t, tool, args...)
}

// TestNVRTC compiles as the host library does at run time. Test programs take one architecture: nvcc has done the others.
func TestNVRTC(t *testing.T) {
	tool := needNVRTC(t)
	for _, u := range units(t) {
		archs := architectures
		if u.program {
			archs = []string{"sm_90"}
		}
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			for _, arch := range archs {
				out, err := nvrtcCompile(t, tool, arch, u)
				if err != nil || !strings.Contains(out, "bytes of SASS") {
					t.Fatalf("NVRTC for %s: %v\n%s", arch, err, out)
				}
			}
		})
	}
}

// TestCompilersRefuse shows that the checks above can fail, and for the right reason: a warning, an undeclared name.
func TestCompilersRefuse(t *testing.T) {
	tool := needNVRTC(t)
	k := needToolkit(t)
	for _, c := range []struct{ text, complaint string }{
		{"extern \"C\" __global__ void k(int* p) { *p = 1; }\n", ""},
		{"extern \"C\" __global__ void k(int* p) { int idle = 3; *p = 1; }\n", "idle"},
		{"#include <pgas/config.cuh>\n__device__ pgas::no_such_type x;\n", "no_such_type"},
	} {
		source := unit{path: writeSource(t, t.TempDir(), "source.cu", c.text)}
		nvccOut, nvccErr := nvccCompile(t, k, source)
		nvrtcOut, nvrtcErr := nvrtcCompile(t, tool, "sm_90", source)
		if c.complaint == "" {
			require.NoError(t, nvccErr, nvccOut)
			require.NoError(t, nvrtcErr, nvrtcOut)
			continue
		}
		require.Error(t, nvccErr, "nvcc accepted: %s", c.text)
		require.Contains(t, nvccOut, c.complaint)
		require.Error(t, nvrtcErr, "NVRTC accepted: %s", c.text)
		require.Contains(t, nvrtcOut, c.complaint)
	}
}
