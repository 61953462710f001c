package platform

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/prm"
)

// MapDoorbellPage gives the GPU a NIC's doorbell page. The returned function takes it away again.
func (p *Platform) MapDoorbellPage(page uintptr) (cuda.DevicePtr, func() error, error) {
	at := unsafe.Pointer(At[byte](page))
	err := p.CUDA.MemHostRegister(at, prm.UarPageBytes, cuda.HostRegisterPortable|cuda.HostRegisterDevicemap|cuda.HostRegisterIomemory)
	if err != nil {
		return 0, nil, &errs.UnsupportedError{Feature: "ibgda", Need: "the NIC's doorbell page mapped into the GPU", Have: err.Error(),
			Fix: `load the nvidia module with NVreg_RegistryDwords="PeerMappingOverride=1;", or set PGAS_PATH=p2p`}
	}
	unmap := func() error { return p.CUDA.MemHostUnregister(at) }
	addr, err := p.CUDA.MemHostGetDevicePointer(at)
	if err != nil {
		_ = unmap()
		return 0, nil, err
	}
	return addr, unmap, nil
}

// probeDoorbell tries to map a doorbell page.
func (p *Platform) probeDoorbell() error {
	uar, err := p.NIC.Ctx.AllocUAR(mlx5.UARNonCached)
	if err != nil {
		if uar, err = p.NIC.Ctx.AllocUAR(mlx5.UARBlueFlame); err != nil {
			return err
		}
	}
	_, unmap, err := p.MapDoorbellPage(uar.BaseAddr)
	if err == nil {
		err = unmap()
	}
	if e := uar.Close(); err == nil {
		err = e
	}
	return err
}

func closeFD(fd int) { _ = unix.Close(fd) }
