package kernel_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/kernel"
)

// An NVRTC that writes down each compilation, takes a while, and gives the result that it was built with. It is an old
// one: it cannot be interrupted.
const fakeNVRTC = `
#include <stdio.h>
#include <string.h>
#include <unistd.h>
typedef int R;
R nvrtcVersion(int* major, int* minor) { return *major = 12, *minor = 2, 0; }
R nvrtcGetNumSupportedArchs(int* n) { return *n = 1, 0; }
R nvrtcGetSupportedArchs(int* a) { return *a = 90, 0; }
R nvrtcCreateProgram(void** p, const char* s, const char* n, int h, const char** x, const char** y) { return *p = 0, 0; }
R nvrtcDestroyProgram(void** p) { return 0; }
R nvrtcCompileProgram(void* p, int n, const char** options) {
    FILE* log = fopen(LOG, "a");
    fputs("compile\n", log);
    fclose(log);
    usleep(MILLISECONDS * 1000);
    return RESULT;
}
R nvrtcGetProgramLogSize(void* p, size_t* n) { return *n = 4, 0; }
R nvrtcGetProgramLog(void* p, char* s) { return strcpy(s, "log"), 0; }
R nvrtcGetCUBINSize(void* p, size_t* n) { return *n = BYTES, 0; }
R nvrtcGetCUBIN(void* p, char* s) { return memcpy(s, "cubin", BYTES), 0; }
R nvrtcGetPTXSize(void* p, size_t* n) { return *n = 1, 0; }
R nvrtcGetPTX(void* p, char* s) { return *s = 0, 0; }
const char* nvrtcGetErrorString(R r) { return "NVRTC_ERROR_FAKE"; }
`

type fake struct {
	result, bytes int
	takes         time.Duration
}

// spec is a build with this NVRTC, and compilations says how often it has run.
func (f fake) spec(t *testing.T) (s kernel.Spec, compilations func() int) {
	t.Helper()
	dir := t.TempDir()
	in, out, log := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libfake.so"), filepath.Join(dir, "log")
	require.NoError(t, os.WriteFile(in, []byte(fakeNVRTC), 0o644))
	output, err := exec.Command("cc", "-shared", "-fPIC", fmt.Sprintf("-DLOG=%q", log), fmt.Sprintf("-DRESULT=%d", f.result),
		fmt.Sprintf("-DBYTES=%d", f.bytes), fmt.Sprintf("-DMILLISECONDS=%d", f.takes.Milliseconds()), "-o", out, in).CombinedOutput()
	require.NoError(t, err, "%s", output)
	s = kernel.Spec{FS: source("x"), File: "dir/a.cu", GPU: hopper, NVRTC: out, CacheDir: t.TempDir()}
	return s, func() int {
		text, err := os.ReadFile(log)
		require.NoError(t, err)
		return strings.Count(string(text), "compile\n")
	}
}

func TestNVRTCBuildersOfTheSameWaitForOne(t *testing.T) {
	s, compilations := fake{bytes: 5, takes: 50 * time.Millisecond}.spec(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			out, err := kernel.Build(t.Context(), s)
			require.NoError(t, err)
			image, err := os.ReadFile(out)
			require.NoError(t, err)
			require.Equal(t, "cubin", string(image))
		})
	}
	group.Wait()
	require.Equal(t, 1, compilations())
}

// Build does not wait for an NVRTC that cannot be interrupted. What that makes in the end is used.
func TestAnNVRTCThatCannotBeInterrupted(t *testing.T) {
	s, compilations := fake{bytes: 5, takes: 3 * time.Second}.spec(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := kernel.Build(ctx, s)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(start), 2900*time.Millisecond)

	out, err := kernel.Build(t.Context(), s)
	require.NoError(t, err)
	require.FileExists(t, out)
	require.Equal(t, 1, compilations())
}

func TestNVRTCFailuresAreNotTheSourcesFault(t *testing.T) {
	const builtins, internal = 7, 11
	s, _ := fake{result: builtins}.spec(t)
	_, err := kernel.Build(t.Context(), s)
	var u *errs.UnsupportedError
	require.ErrorAs(t, err, &u)
	require.Contains(t, u.Need, "libnvrtc-builtins")

	s, _ = fake{result: internal}.spec(t)
	_, err = kernel.Build(t.Context(), s)
	require.EqualError(t, err, "compile dir/a.cu with NVRTC 12.2: nvrtcCompileProgram: NVRTC_ERROR_FAKE (11): log")

	s, _ = fake{}.spec(t)
	_, err = kernel.Build(t.Context(), s)
	require.EqualError(t, err, "compile dir/a.cu: NVRTC 12.2 made no code for sm_90")
}

func TestBuildForHardwareWithoutNVRTC(t *testing.T) {
	s := kernel.Spec{FS: source("x"), File: "dir/a.cu", GPU: hopper, NVRTC: "/no/such/libnvrtc.so", CacheDir: t.TempDir()}
	_, err := kernel.Build(t.Context(), s)
	var u *errs.UnsupportedError
	require.ErrorAs(t, err, &u)
	require.Equal(t, "nvrtc", u.Feature)
	require.Equal(t, "/no/such/libnvrtc.so", u.Need)
	require.Contains(t, u.Have, "cannot open shared object file")
	require.Contains(t, u.Fix, "CUDA_HOME")

	s.GPU = kernel.GPU{}
	_, err = kernel.Build(t.Context(), s)
	require.ErrorIs(t, err, errs.ErrInvalid)
}
