package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/nvrtc"
)

// GPU is what to know of a real GPU before compiling for it.
type GPU struct {
	Major, Minor int // compute capability
	// Driver is the CUDA version of the driver that will load the module, 1000*major + 10*minor; 0 when unknown.
	Driver int
}

// target is what NVRTC compiles for.
type target struct {
	arch string // sm_90: machine code; compute_90: PTX that the driver translates when it loads the module
	ptx  bool
}

// findNVRTC opens the first library that can compile for the GPU and whose code the driver can load.
func findNVRTC(asked string, gpu GPU) (toolchain, error) {
	if gpu.Major <= 0 || gpu.Minor < 0 || gpu.Minor > 9 || gpu.Driver < 0 {
		return nil, errs.Arg("build kernel", "GPU", fmt.Sprintf("%+v", gpu), "a compute capability and a driver version")
	}
	var unfit error
	var absent []string
	for _, file := range libraries(asked) {
		lib, err := nvrtc.Load(file)
		if err != nil {
			absent = append(absent, err.Error())
			continue
		}
		t, err := gpu.choose(lib)
		if err == nil {
			return gpuCompiler{lib: lib, target: t, includes: toolkitIncludes(lib.Path())}, nil
		}
		unfit = errors.Join(unfit, err)
	}
	if unfit != nil {
		return nil, unfit
	}
	need := asked
	if need == "" {
		need = strings.Join(nvrtc.Libraries(), " or ")
	}
	return nil, &errs.UnsupportedError{Feature: "nvrtc", Need: need, Have: strings.Join(absent, "; "),
		Fix: "install the CUDA toolkit, or set CUDA_HOME to it, or set PGAS_PLATFORM=soft"}
}

func (g GPU) choose(lib *nvrtc.Lib) (target, error) {
	known, err := lib.SupportedArchs()
	if err != nil {
		return target{}, fmt.Errorf("nvrtc: %s: %w", lib.Path(), err)
	}
	major, minor := lib.Version()
	t, need, fix := g.target(1000*major+10*minor, known)
	if need == "" {
		return t, nil
	}
	return target{}, &errs.UnsupportedError{Feature: "nvrtc", Need: need, Fix: fix,
		Have: fmt.Sprintf("%s of CUDA %d.%d for compute capabilities %s", lib.Path(), major, minor, capabilities(known))}
}

// target chooses machine code when the compiler knows the GPU, else PTX for the newest that it knows below. When the
// result would be of no use, need says what would, and fix how to get it.
//
// Drivers load machine code of all compilers up to their own major version, and PTX of those up to their own version
// (CUDA Compatibility, minor version compatibility).
func (g GPU) target(compiler int, known []int) (t target, need, fix string) {
	if g.Driver > 0 && compiler/1000 > g.Driver/1000 {
		return t, fmt.Sprintf("NVRTC of CUDA %d or older, as the driver", g.Driver/1000), "update the NVIDIA driver"
	}
	want := 10*g.Major + g.Minor
	if slices.Contains(known, want) {
		return target{arch: fmt.Sprintf("sm_%d", want)}, "", ""
	}
	below := slices.DeleteFunc(slices.Clone(known), func(a int) bool { return a > want })
	if len(below) == 0 {
		return t, "a compiler for compute capability " + capabilities([]int{want}), "install a CUDA toolkit that supports this GPU"
	}
	if g.Driver > 0 && compiler > g.Driver {
		return t, fmt.Sprintf("NVRTC of CUDA %d.%d or older for PTX, as the driver", g.Driver/1000, g.Driver%1000/10),
			"update the NVIDIA driver"
	}
	return target{arch: fmt.Sprintf("compute_%d", slices.Max(below)), ptx: true}, "", ""
}

func capabilities(list []int) string {
	texts := make([]string, len(list))
	for i, c := range list {
		texts[i] = fmt.Sprintf("%d.%d", c/10, c%10)
	}
	return strings.Join(texts, " ")
}

// toolkitHomes are the CUDA toolkits that the user names.
func toolkitHomes() []string {
	homes := []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH")}
	return slices.Compact(slices.DeleteFunc(homes, func(s string) bool { return s == "" }))
}

// libraries are the files to try, in order.
func libraries(asked string) []string {
	if asked != "" {
		return []string{asked}
	}
	below := func(home string) (list []string) {
		for _, dir := range []string{"lib64", "lib"} {
			for _, name := range nvrtc.Libraries() {
				file := filepath.Join(home, dir, name)
				if _, err := os.Stat(file); err == nil {
					list = append(list, file)
				}
			}
		}
		return list
	}
	var list []string
	for _, home := range toolkitHomes() {
		list = append(list, below(home)...)
	}
	list = append(list, nvrtc.Libraries()...)
	return append(list, below("/usr/local/cuda")...)
}

// toolkitIncludes are the folders with cuda_bf16.h and its like, none if there are none. Those of the library's own
// toolkit come first, because headers and compiler belong together.
func toolkitIncludes(lib string) []string {
	homes := append([]string{filepath.Dir(filepath.Dir(lib))}, toolkitHomes()...)
	for _, home := range homes {
		dir := filepath.Join(home, "include")
		// A system folder holds headers of the host as well, which NVRTC must not see.
		if dir == "/usr/include" || !filepath.IsAbs(dir) {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cuda_fp16.h")); err != nil {
			continue
		}
		list := []string{dir}
		// CUDA 13 keeps the C++ library (cuda/std) apart.
		if cccl := filepath.Join(dir, "cccl"); isDir(cccl) {
			list = append(list, cccl)
		}
		return list
	}
	return nil
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
