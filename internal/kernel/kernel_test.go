package kernel_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/kernel"
	"github.com/pgas-go/pgas/internal/softgpu/include"
)

const emptyKernel = "extern \"C\" __global__ void k() {}\nPGAS_KERNEL(k)\n"

func spec(t *testing.T, source string) kernel.Spec {
	return kernel.Spec{FS: fstest.MapFS{"dir/a.cu": {Data: []byte(source)}}, File: "dir/a.cu", SIMT: include.FS,
		CacheDir: t.TempDir()}
}

func TestBuildIsCachedByContent(t *testing.T) {
	s := spec(t, emptyKernel)
	first, err := kernel.Build(t.Context(), s)
	require.NoError(t, err)
	before, err := os.Stat(first)
	require.NoError(t, err)
	second, err := kernel.Build(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, first, second)
	after, err := os.Stat(second)
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime(), "not compiled again")

	s.Flags = []string{"-DX=1"}
	third, err := kernel.Build(t.Context(), s)
	require.NoError(t, err)
	require.NotEqual(t, first, third)
	left, err := os.ReadDir(filepath.Dir(third))
	require.NoError(t, err)
	require.Len(t, left, 2, "only the module and its seal are left in its folder")
}

// A module that was cut short, emptied or changed is built again, not loaded.
func TestBuildRepairsItsCache(t *testing.T) {
	s := spec(t, emptyKernel)
	out, err := kernel.Build(t.Context(), s)
	require.NoError(t, err)
	good, err := os.ReadFile(out)
	require.NoError(t, err)
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)/2] ^= 1
	for _, bad := range [][]byte{nil, good[:1000], good[:len(good)-1], flipped} {
		require.NoError(t, os.WriteFile(out, bad, 0o755))
		again, err := kernel.Build(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, out, again)
		now, err := os.ReadFile(out)
		require.NoError(t, err)
		require.Equal(t, len(good), len(now))
	}
}

func TestCacheFolderThatCannotBeNamesItsVariable(t *testing.T) {
	s := spec(t, emptyKernel)
	s.CacheDir = filepath.Join(os.DevNull, "x")
	_, err := kernel.Build(t.Context(), s)
	require.ErrorContains(t, err, "set PGAS_CACHE_DIR")
}

func TestBuildSeesHeadersOfEveryTree(t *testing.T) {
	s := spec(t, "#include \"own.cuh\"\n#include <lib/other.cuh>\nextern \"C\" __global__ void k(int* p) { *p = OWN + OTHER; }\n")
	s.FS.(fstest.MapFS)["dir/own.cuh"] = &fstest.MapFile{Data: []byte("#define OWN 1\n")}
	s.Include = []kernel.Tree{{FS: fstest.MapFS{"root/lib/other.cuh": {Data: []byte("#define OTHER 2\n")}}, Root: "root"}}
	_, err := kernel.Build(t.Context(), s)
	require.NoError(t, err)
	s.Include = nil
	_, err = kernel.Build(t.Context(), s)
	var compile *kernel.CompileError
	require.ErrorAs(t, err, &compile)
	require.Contains(t, compile.Output, "lib/other.cuh")
}

func TestCompileErrorsAreTheCompilers(t *testing.T) {
	s := spec(t, "extern \"C\" __global__ void k() { nonsense(); }\n")
	_, err := kernel.Build(t.Context(), s)
	var compile *kernel.CompileError
	require.ErrorAs(t, err, &compile)
	require.Equal(t, "dir/a.cu", compile.File)
	require.Contains(t, err.Error(), "a.cu:1:")
	require.Contains(t, err.Error(), "nonsense")
}

func TestBuildersOfTheSameWaitForOne(t *testing.T) {
	s := spec(t, emptyKernel)
	s.Compiler = countingCompiler(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			_, err := kernel.Build(t.Context(), s)
			require.NoError(t, err)
		})
	}
	group.Wait()
	log, err := os.ReadFile(filepath.Join(filepath.Dir(s.Compiler), "log"))
	require.NoError(t, err)
	require.Equal(t, "compile\nlink\n", string(log))
}

// countingCompiler is g++ that writes down what it is used for.
func countingCompiler(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\ncase \"$*\" in\n--version) ;;\n*-shared*) echo link >>" + dir + "/log ;;\n*) echo compile >>" + dir +
		"/log ;;\nesac\nexec g++ \"$@\"\n"
	path := filepath.Join(dir, "cxx")
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

func TestBuildWithoutACompiler(t *testing.T) {
	s := spec(t, emptyKernel)
	s.Compiler = "no-such-compiler"
	_, err := kernel.Build(t.Context(), s)
	var u *errs.UnsupportedError
	require.ErrorAs(t, err, &u)
	require.Equal(t, "install g++, or set CXX", u.Fix)
}

func TestBuildEndsWithItsContext(t *testing.T) {
	s := spec(t, emptyKernel)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	_, err := kernel.Build(ctx, s)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestBuildRefusesBadSources(t *testing.T) {
	_, err := kernel.Build(t.Context(), kernel.Spec{})
	require.ErrorIs(t, err, errs.ErrInvalid)
	s := spec(t, emptyKernel)
	s.File = "dir/missing.cu"
	_, err = kernel.Build(t.Context(), s)
	require.ErrorIs(t, err, os.ErrNotExist)
	s.File = "../a.cu"
	_, err = kernel.Build(t.Context(), s)
	require.Error(t, err)
}

func TestClangBuildsKernelsToo(t *testing.T) {
	s := spec(t, emptyKernel)
	for _, name := range []string{"clang++", "clang++-19"} {
		s.Compiler = name
		_, err := kernel.Build(t.Context(), s)
		if err == nil {
			return
		}
		require.ErrorIs(t, err, errs.ErrNotSupported, "only a missing compiler is an excuse")
	}
}
