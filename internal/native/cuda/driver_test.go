package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/errs"
)

func TestLoadSaysWhatIsMissing(t *testing.T) {
	_, err := loadFrom("libcuda-that-is-not-there.so.1")
	var u *errs.UnsupportedError
	require.ErrorAs(t, err, &u)
	require.Contains(t, u.Need, "libcuda-that-is-not-there.so.1")
	require.Contains(t, u.Have, "cannot open shared object file")
	require.NotEmpty(t, u.Fix)
}

// fakeDriver compiles a library from C, as a stand-in for libcuda.so.1.
func fakeDriver(t *testing.T, source string) string {
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

func TestLoadRefusesADriverWithoutASymbol(t *testing.T) {
	_, err := loadFrom(fakeDriver(t, "int cuInit(unsigned f) { return 0; }\n"))
	require.ErrorIs(t, err, errs.ErrNotSupported)
	require.ErrorContains(t, err, "symbol cuDriverGetVersion is missing")
}

// A driver that has every required symbol and none of the optional ones. Each call returns its place in the table.
const countingDriver = `
#include "cuda_api.h"
enum {
#define ID(name, symbol, params, args) id_##name,
PGAS_CUDA_CALLS(ID, ID)
};
#define DEFINE(name, symbol, params, args) CUresult symbol params { return name##_result; }
#define NONE(name, symbol, params, args)
#define RESULT(name, symbol, params, args) static const int name##_result = id_##name;
PGAS_CUDA_CALLS(RESULT, RESULT)
#undef cuGetErrorName
#define cuGetErrorName_result (*name = "CUDA_ERROR_FAKE", 0)
#define cuGetErrorString_result (*text = "fake", 0)
#define cuCtxSetCurrent_result 0
#define cuDriverGetVersion_result (*version = 12345, 0)
PGAS_CUDA_CALLS(DEFINE, NONE)
`

func TestLoadFindsVersionedSymbols(t *testing.T) {
	d, err := loadFrom(fakeDriver(t, countingDriver))
	require.NoError(t, err)
	require.NoError(t, d.Init(), "the first call of the table returns 0")
	v, err := d.DriverVersion()
	require.NoError(t, err)
	require.Equal(t, 12345, v)

	_, err = d.MemAlloc(64) // cuMemAlloc_v2
	require.EqualError(t, err, "cuMemAlloc: CUDA_ERROR_FAKE (17): fake")
	require.Equal(t, 17, Code(err))
	require.ErrorIs(t, err, &Error{Code: 17})
	require.NotErrorIs(t, err, &Error{Code: 17, Call: "cuMemFree"})

	err = d.FlushGPUDirectRDMAWrites(FlushToOwner)
	require.ErrorIs(t, err, errs.ErrNotSupported)
	require.ErrorContains(t, err, "cuFlushGPUDirectRDMAWrites")
	d.Bind(8)
	require.EqualError(t, d.MemFree(8), "cuMemFree: CUDA_ERROR_FAKE (18): fake")
}

func TestArgsArePackedAligned(t *testing.T) {
	var a Args
	a.U32(1).Bytes(make([]byte, 20)).Ptr(5).F32(1)
	require.Equal(t, 4, a.Len())
	require.Equal(t, []int{4, 20, 8, 4}, a.Sizes())
	require.Equal(t, []uint32{0, 16, 48, 64}, a.offsets)
}

func TestTooManyArguments(t *testing.T) {
	d, err := loadFrom(fakeDriver(t, countingDriver))
	require.NoError(t, err)
	var a Args
	for range MaxArgs + 1 {
		a.U32(0)
	}
	require.ErrorIs(t, d.LaunchKernel(1, Launch{}, &a), errs.ErrInvalid)
}
