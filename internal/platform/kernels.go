package platform

import (
	"context"
	"io/fs"

	"github.com/pgas-go/pgas/device"
	"github.com/pgas-go/pgas/internal/kernel"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/softgpu/include"
)

// KernelSpec is how file is compiled for this platform; cacheDir "" means the user's cache directory.
func (p *Platform) KernelSpec(fsys fs.FS, file, cacheDir string) (spec kernel.Spec, err error) {
	spec = kernel.Spec{FS: fsys, File: file, Include: []kernel.Tree{{FS: device.FS, Root: "include"}}, CacheDir: cacheDir}
	if p.Soft {
		spec.SIMT = include.FS
		return spec, nil
	}
	if spec.GPU.Major, err = p.CUDA.DeviceAttribute(cuda.AttrComputeCapabilityMajor, p.Device); err != nil {
		return spec, err
	}
	if spec.GPU.Minor, err = p.CUDA.DeviceAttribute(cuda.AttrComputeCapabilityMinor, p.Device); err != nil {
		return spec, err
	}
	spec.GPU.Driver, err = p.CUDA.DriverVersion()
	return spec, err
}

// LoadKernels compiles file, or finds it in the cache, and loads it. The caller unloads the module.
func (p *Platform) LoadKernels(ctx context.Context, fsys fs.FS, file, cacheDir string) (cuda.Module, error) {
	spec, err := p.KernelSpec(fsys, file, cacheDir)
	if err != nil {
		return 0, err
	}
	path, err := kernel.Build(ctx, spec)
	if err != nil {
		return 0, err
	}
	return p.CUDA.ModuleLoad(path)
}
