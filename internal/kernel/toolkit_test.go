package kernel

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/native/nvrtc"
)

func TestTarget(t *testing.T) {
	known := []int{75, 80, 86, 90, 100}
	for _, c := range []struct {
		gpu      GPU
		compiler int
		arch     string
		need     string
	}{
		{GPU{Major: 9, Driver: 12040}, 12040, "sm_90", ""},
		{GPU{Major: 8, Minor: 6}, 13000, "sm_86", ""},
		{GPU{Major: 9, Driver: 13000}, 12040, "sm_90", ""},
		{GPU{Major: 9, Driver: 12000}, 12090, "sm_90", ""}, // same major version: machine code loads
		{GPU{Major: 9, Driver: 12090}, 13000, "", "NVRTC of CUDA 12 or older, as the driver"},
		{GPU{Major: 8, Minor: 9, Driver: 13000}, 13000, "compute_86", ""},
		{GPU{Major: 12, Driver: 13020}, 13000, "compute_100", ""},
		{GPU{Major: 12, Driver: 13010}, 13020, "", "NVRTC of CUDA 13.1 or older for PTX, as the driver"},
		{GPU{Major: 7, Driver: 13000}, 13000, "", "a compiler for compute capability 7.0"},
	} {
		got, need, fix := c.gpu.target(c.compiler, known)
		require.Equal(t, c.need, need, "%+v", c)
		require.Equal(t, c.need != "", fix != "", "%+v", c)
		require.Equal(t, c.arch, got.arch, "%+v", c)
		require.Equal(t, len(c.arch) > 6, got.ptx, "%+v", c)
	}
	require.Equal(t, []int{75, 80, 86, 90, 100}, known, "the list is the caller's")
}

func touch(t *testing.T, file string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	return file
}

func TestLibrariesInOrder(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	t.Setenv("CUDA_HOME", home)
	t.Setenv("CUDA_PATH", other)
	want := []string{touch(t, filepath.Join(home, "lib64/libnvrtc.so.12")), touch(t, filepath.Join(home, "lib/libnvrtc.so.13")),
		touch(t, filepath.Join(other, "lib/libnvrtc.so"))}
	want = append(want, nvrtc.Libraries()...)
	require.Equal(t, want, libraries("")[:len(want)])
	require.Equal(t, []string{"/x/libnvrtc.so"}, libraries("/x/libnvrtc.so"))
}

func TestToolkitIncludes(t *testing.T) {
	toolkit, home := t.TempDir(), t.TempDir()
	t.Setenv("CUDA_HOME", home)
	t.Setenv("CUDA_PATH", "")
	lib := filepath.Join(toolkit, "lib64/libnvrtc.so")
	require.Empty(t, toolkitIncludes(lib))
	touch(t, filepath.Join(home, "include/cuda_fp16.h"))
	require.Equal(t, []string{filepath.Join(home, "include")}, toolkitIncludes(lib))
	touch(t, filepath.Join(toolkit, "include/cuda_fp16.h"))
	touch(t, filepath.Join(toolkit, "include/cccl/cuda/std/array"))
	require.Equal(t, []string{filepath.Join(toolkit, "include"), filepath.Join(toolkit, "include/cccl")}, toolkitIncludes(lib))
}
