package kernel_test

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/device"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/kernel"
	"github.com/pgas-go/pgas/internal/native/nvrtc"
	"github.com/pgas-go/pgas/internal/wire"
)

var hopper = kernel.GPU{Major: 9, Minor: 0}

// needNVRTC returns a library on this machine: the one of the pinned compilers, else what a user would get.
func needNVRTC(t *testing.T) string {
	t.Helper()
	pinned, err := filepath.Abs("../../.cache/cuda-toolchain/lib64/libnvrtc.so")
	require.NoError(t, err)
	for _, file := range append([]string{pinned}, nvrtc.Libraries()...) {
		if _, err := nvrtc.Load(file); err == nil {
			return file
		}
	}
	t.Skip("needs NVRTC [make cuda-toolchain]")
	return ""
}

func gpuSpec(t *testing.T, fsys fs.FS, file string) kernel.Spec {
	t.Helper()
	return kernel.Spec{FS: fsys, File: file, GPU: hopper, NVRTC: needNVRTC(t), CacheDir: t.TempDir(),
		Include: []kernel.Tree{{FS: device.FS, Root: "include"}}}
}

func source(text string) fstest.MapFS { return fstest.MapFS{"dir/a.cu": {Data: []byte(text)}} }

// cubinSymbols are the kernels of a cubin, and its variables with their bytes. The compilers make variables local symbols
// in programs of one part, for cuModuleGetGlobal to find all the same.
func cubinSymbols(t *testing.T, file string) (kernels map[string]bool, variables map[string][]byte) {
	t.Helper()
	f, err := elf.Open(file)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, elf.EM_CUDA, f.Machine)
	symbols, err := f.Symbols()
	require.NoError(t, err)
	kernels, variables = map[string]bool{}, map[string][]byte{}
	for _, s := range symbols {
		switch {
		case s.Section == elf.SHN_UNDEF:
		case elf.ST_TYPE(s.Info) == elf.STT_FUNC && elf.ST_BIND(s.Info) == elf.STB_GLOBAL:
			kernels[s.Name] = true
		case elf.ST_TYPE(s.Info) == elf.STT_OBJECT:
			section := f.Sections[s.Section]
			data := make([]byte, s.Size)
			if section.Type != elf.SHT_NOBITS {
				_, err := section.ReadAt(data, int64(s.Value-section.Addr))
				require.NoError(t, err)
			}
			variables[s.Name] = data
		}
	}
	return kernels, variables
}

// The kernels of the example, as the library builds them on a real GPU.
func TestNVRTCBuildsTheExample(t *testing.T) {
	text, err := os.ReadFile("../../examples/moe/moe.cu")
	require.NoError(t, err)
	named := regexp.MustCompile(`PGAS_KERNEL\((\w+)\)`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, named)

	out, err := kernel.Build(t.Context(), gpuSpec(t, os.DirFS("../../examples/moe"), "moe.cu"))
	require.NoError(t, err)
	require.Equal(t, "module.cubin", filepath.Base(out))
	kernels, variables := cubinSymbols(t, out)
	for _, n := range named {
		require.True(t, kernels[n[1]], "kernel %s among %v", n[1], kernels)
		hash := variables[n[1]+"_pgas_layout_hash"]
		require.Len(t, hash, 8, n[1])
		require.Equal(t, wire.LayoutHash, binary.LittleEndian.Uint64(hash), n[1])
	}
}

// The compiler does not know a GPU of the future. The driver does, and translates PTX.
func TestNVRTCBuildsPTXForAGPUThatItDoesNotKnow(t *testing.T) {
	s := gpuSpec(t, source("extern \"C\" __global__ void k(int* p) { *p = 1; }\n"), "dir/a.cu")
	s.GPU = kernel.GPU{Major: 99, Minor: 9}
	out, err := kernel.Build(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, "module.ptx", filepath.Base(out))
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Contains(t, string(text), ".visible .entry k(")
	require.NotContains(t, string(text), "\x00")
	lib, err := nvrtc.Load(s.NVRTC)
	require.NoError(t, err)
	archs, err := lib.SupportedArchs()
	require.NoError(t, err)
	require.Regexp(t, `\.target sm_`+strconv.Itoa(archs[len(archs)-1])+`\b`, string(text))
}

func TestNVRTCSeesHeaders(t *testing.T) {
	files := source(`#include "own.cuh"
		#include <lib/other.cuh>
		#include <pgas/pgas.cuh>
		extern "C" __global__ void k(int* p) { *p = OWN + OTHER; }
		PGAS_KERNEL(k)
	`)
	files["dir/own.cuh"] = &fstest.MapFile{Data: []byte("#include \"deep/own.cuh\"\n")}
	files["dir/deep/own.cuh"] = &fstest.MapFile{Data: []byte("#include \"../up.h\"\n#define OWN UP\n")}
	files["dir/up.h"] = &fstest.MapFile{Data: []byte("#define UP 1\n")}
	s := gpuSpec(t, files, "dir/a.cu")
	other := kernel.Tree{FS: fstest.MapFS{"root/lib/other.cuh": {Data: []byte("#define OTHER 2\n")}}, Root: "root"}
	s.Include = append(s.Include, other)
	out, err := kernel.Build(t.Context(), s)
	require.NoError(t, err)
	kernels, _ := cubinSymbols(t, out)
	require.Equal(t, map[string]bool{"k": true}, kernels)

	s.Include = s.Include[:1]
	_, err = kernel.Build(t.Context(), s)
	var compile *kernel.CompileError
	require.ErrorAs(t, err, &compile)
	require.Contains(t, compile.Output, "lib/other.cuh")
}

func TestNVRTCSeesTheToolkit(t *testing.T) {
	s := gpuSpec(t, source(`#include <cuda_bf16.h>
		#include <cuda_fp8.h>
		#include <cuda/std/array>
		#include <cuda/std/cstdint>
		#include <pgas/pgas.cuh>
		extern "C" __global__ void k(__nv_bfloat16* p, float f) {
			cuda::std::array<float, 2> a{f, float(__nv_fp8_e4m3(f))};
			*p = __float2bfloat16(a[0] + a[1]);
		}
	`), "dir/a.cu")
	if lib, err := nvrtc.Load(s.NVRTC); err == nil {
		if _, err := os.Stat(filepath.Join(filepath.Dir(lib.Path()), "../include/cuda_bf16.h")); err != nil {
			t.Skip("the CUDA toolkit has no headers:", err)
		}
	}
	out, err := kernel.Build(t.Context(), s)
	require.NoError(t, err)
	kernels, _ := cubinSymbols(t, out)
	require.Equal(t, map[string]bool{"k": true}, kernels)
}

func TestNVRTCErrorsAreTheCompilers(t *testing.T) {
	s := gpuSpec(t, source("\nextern \"C\" __global__ void k() { nonsense(); }\n"), "dir/a.cu")
	_, err := kernel.Build(t.Context(), s)
	var compile *kernel.CompileError
	require.ErrorAs(t, err, &compile)
	require.Equal(t, "dir/a.cu", compile.File)
	require.Contains(t, compile.Output, `src/dir/a.cu(2): error: identifier "nonsense" is undefined`)
	require.Contains(t, compile.Command, "--gpu-architecture=sm_90")
	require.NotContains(t, err.Error(), s.CacheDir, "the build folder is gone, so it is not named")

	s.Flags = []string{"--no-such-option"}
	_, err = kernel.Build(t.Context(), s)
	require.ErrorAs(t, err, &compile)
	require.Contains(t, compile.Output, "--no-such-option")
	left, err := filepath.Glob(filepath.Join(s.CacheDir, "*", "*"))
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left of a build that failed")
}

func TestNVRTCBuildsAreCachedByContent(t *testing.T) {
	s := gpuSpec(t, source("extern \"C\" __global__ void k() {}\n"), "dir/a.cu")
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

	seen := map[string]bool{first: true}
	for name, change := range map[string]func(*kernel.Spec){
		"flags":  func(s *kernel.Spec) { s.Flags = []string{"-DX=1"} },
		"GPU":    func(s *kernel.Spec) { s.GPU = kernel.GPU{Major: 8} },
		"source": func(s *kernel.Spec) { s.FS = source("extern \"C\" __global__ void other() {}\n") },
	} {
		other := s
		change(&other)
		out, err := kernel.Build(t.Context(), other)
		require.NoError(t, err, name)
		require.False(t, seen[out], name)
		seen[out] = true
	}
}

// Different sources do not wait for each other; NVRTC runs them at the same time.
func TestNVRTCBuildsAtTheSameTime(t *testing.T) {
	s := gpuSpec(t, nil, "dir/a.cu")
	var group sync.WaitGroup
	for i := range 6 {
		name := "kernel" + strconv.Itoa(i%3)
		group.Go(func() {
			own := s
			own.FS = source("extern \"C\" __global__ void " + name + "(int* p) { *p = 1; }\n")
			out, err := kernel.Build(t.Context(), own)
			require.NoError(t, err)
			kernels, _ := cubinSymbols(t, out)
			require.Equal(t, map[string]bool{name: true}, kernels)
		})
	}
	group.Wait()
}

func TestNVRTCEndsWithItsContext(t *testing.T) {
	s := gpuSpec(t, os.DirFS("../../examples/moe"), "moe.cu")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := kernel.Build(ctx, s)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotContains(t, strings.ToLower(err.Error()), "refused")
}

func TestNVRTCForGPUsOutOfReach(t *testing.T) {
	s := gpuSpec(t, source("extern \"C\" __global__ void k() {}\n"), "dir/a.cu")
	s.GPU = kernel.GPU{Major: 1, Minor: 3}
	_, err := kernel.Build(t.Context(), s)
	var u *errs.UnsupportedError
	require.ErrorAs(t, err, &u)
	require.Equal(t, "nvrtc", u.Feature)
	require.Equal(t, "a compiler for compute capability 1.3", u.Need)
	require.Contains(t, u.Have, " 8.0 ")

	s.GPU = hopper
	s.GPU.Driver = 11040
	lib, err := nvrtc.Load(s.NVRTC)
	require.NoError(t, err)
	if major, _ := lib.Version(); major <= 11 {
		t.Skip("this NVRTC is as old as the driver of the test")
	}
	_, err = kernel.Build(t.Context(), s)
	require.ErrorAs(t, err, &u)
	require.Equal(t, "NVRTC of CUDA 11 or older, as the driver", u.Need)
}
