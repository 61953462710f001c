package nvrtc

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/errs"
)

func TestLoadSaysWhatIsMissing(t *testing.T) {
	_, err := Load("libnvrtc-that-is-not-there.so.1")
	var u *errs.UnsupportedError
	require.ErrorAs(t, err, &u)
	require.Equal(t, "nvrtc", u.Feature)
	require.Equal(t, "libnvrtc-that-is-not-there.so.1", u.Need)
	require.Contains(t, u.Have, "cannot open shared object file")
	require.NotEmpty(t, u.Fix)
}

// fakeLibrary compiles a library from C, as a stand-in for libnvrtc.so.
func fakeLibrary(t *testing.T, source string) string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libfake.so")
	require.NoError(t, os.WriteFile(in, []byte(source), 0o644))
	here, err := os.Getwd()
	require.NoError(t, err)
	output, err := exec.Command(cc, "-shared", "-fPIC", "-I", here, "-o", out, in).CombinedOutput()
	require.NoError(t, err, "%s", output)
	return out
}

func TestLoadRefusesALibraryWithoutASymbol(t *testing.T) {
	_, err := Load(fakeLibrary(t, "int nvrtcVersion(int* major, int* minor) { return 0; }\n"))
	require.ErrorIs(t, err, errs.ErrNotSupported)
	require.ErrorContains(t, err, "symbol nvrtcGetNumSupportedArchs is missing")
}

// A library in which each call fails with its place in the table, and without the optional ones.
const failingLibrary = `
#include "nvrtc_api.h"
enum {
#define ID(name, params) id_##name,
PGAS_NVRTC_CALLS(ID, ID)
};
#define RESULT(name, params) static const int name##_result = 100 + id_##name;
PGAS_NVRTC_CALLS(RESULT, RESULT)
#define DEFINE(name, params) nvrtcResult name params { return name##_result; }
#define NONE(name, params)
#define nvrtcVersion_result (*major = 12, *minor = 4, 0)
#define nvrtcCreateProgram_result 0
PGAS_NVRTC_CALLS(DEFINE, NONE)
const char* nvrtcGetErrorString(nvrtcResult r) { return "NVRTC_ERROR_FAKE"; }
`

func TestEveryCallReportsItsFailure(t *testing.T) {
	file := fakeLibrary(t, failingLibrary)
	lib, err := Load(file)
	require.NoError(t, err)
	require.Equal(t, file, lib.Path())
	again, err := Load(file)
	require.NoError(t, err)
	require.Same(t, lib, again, "one table per library")
	major, minor := lib.Version()
	require.Equal(t, [2]int{12, 4}, [2]int{major, minor})

	_, err = lib.SupportedArchs()
	require.EqualError(t, err, "nvrtcGetNumSupportedArchs: NVRTC_ERROR_FAKE (101)")
	p, err := lib.CreateProgram([]byte("x"), "x.cu")
	require.NoError(t, err, "nvrtcSetFlowCallback is not needed")
	err = p.Compile(nil)
	require.EqualError(t, err, "nvrtcCompileProgram: NVRTC_ERROR_FAKE (105)")
	require.Equal(t, 105, Code(err))
	_, err = p.Log()
	require.EqualError(t, err, "nvrtcGetProgramLogSize: NVRTC_ERROR_FAKE (106)")
	_, err = p.CUBIN()
	require.EqualError(t, err, "nvrtcGetCUBINSize: NVRTC_ERROR_FAKE (108)")
	_, err = p.PTX()
	require.EqualError(t, err, "nvrtcGetPTXSize: NVRTC_ERROR_FAKE (110)")
	require.EqualError(t, p.Destroy(), "nvrtcDestroyProgram: NVRTC_ERROR_FAKE (104)")
	require.NoError(t, p.Destroy(), "once")
	p.Cancel()
	require.Equal(t, -1, Code(os.ErrClosed))
}

// realLibrary is the one of the pinned compilers, else what the loader finds.
func realLibrary(t *testing.T) *Lib {
	t.Helper()
	pinned, err := filepath.Abs("../../../.cache/cuda-toolchain/lib64/libnvrtc.so")
	require.NoError(t, err)
	for _, file := range append([]string{pinned}, Libraries()...) {
		if lib, err := Load(file); err == nil {
			return lib
		}
	}
	t.Skip("needs NVRTC [make cuda-toolchain]")
	return nil
}

func program(t *testing.T, source string) *Program {
	t.Helper()
	p, err := realLibrary(t).CreateProgram([]byte(source), "x.cu")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Destroy()) })
	return p
}

func TestRealLibraryCompiles(t *testing.T) {
	lib := realLibrary(t)
	major, minor := lib.Version()
	require.GreaterOrEqual(t, 100*major+minor, 1102)
	require.FileExists(t, lib.Path())
	archs, err := lib.SupportedArchs()
	require.NoError(t, err)
	require.IsIncreasing(t, archs)
	require.Contains(t, archs, 80)

	const source = "extern \"C\" __global__ void addOne(int* p) { int idle = 1; *p += 1; }\n"
	p := program(t, source)
	require.NoError(t, p.Compile([]string{"--gpu-architecture=sm_80"}))
	image, err := p.CUBIN()
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(image, []byte("\x7fELF")))
	log, err := p.Log()
	require.NoError(t, err)
	require.Contains(t, log, "idle", "a warning")
	require.NotContains(t, log, "\x00")

	p = program(t, source)
	require.NoError(t, p.Compile([]string{"--gpu-architecture=compute_80"}))
	text, err := p.PTX()
	require.NoError(t, err)
	require.Contains(t, string(text), ".entry addOne")
	require.NotContains(t, string(text), "\x00")
	image, err = p.CUBIN()
	require.NoError(t, err)
	require.Empty(t, image)
}

func TestRealLibraryRefuses(t *testing.T) {
	p := program(t, "extern \"C\" __global__ void k() { nonsense(); }\n")
	err := p.Compile(nil)
	require.Equal(t, ErrCompilation, Code(err))
	require.EqualError(t, err, "nvrtcCompileProgram: NVRTC_ERROR_COMPILATION (6)")
	log, err := p.Log()
	require.NoError(t, err)
	require.Contains(t, log, "nonsense")
	require.Equal(t, ErrInvalidOption, Code(program(t, "").Compile([]string{"--no-such-option"})))
	_, err = realLibrary(t).CreateProgram([]byte("int x;\x00"), "x.cu")
	require.ErrorIs(t, err, errs.ErrInvalid)
}

func TestCancelEndsARunningCompilation(t *testing.T) {
	lib := realLibrary(t)
	if lib.c.api.nvrtcSetFlowCallback == nil {
		t.Skip("this NVRTC has no nvrtcSetFlowCallback")
	}
	// Many instantiations take seconds to compile.
	p := program(t, `template <int n> __device__ float f(float x) { return f<n - 1>(x * n + __sinf(x)) / (x + n); }
		template <> __device__ float f<0>(float x) { return x; }
		extern "C" __global__ void slow(float* p) { `+string(bytes.Repeat([]byte("p[threadIdx.x] += f<190>(*p++);\n"), 60))+"}\n")
	timer := time.AfterFunc(50*time.Millisecond, p.Cancel)
	defer timer.Stop()
	start := time.Now()
	require.Equal(t, ErrCancelled, Code(p.Compile([]string{"--gpu-architecture=sm_80"})))
	t.Logf("ended after %v", time.Since(start))
}
