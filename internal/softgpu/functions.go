package softgpu

// #include "softgpu.h"
import "C"

import "unsafe"

// Functions are C functions of the software GPU that other engines of the platform call directly.
type Functions struct {
	MMIOStore      unsafe.Pointer // simt_mmio_store64
	Pause          unsafe.Pointer // simt_pause
	Notify         unsafe.Pointer // simt_notify
	RingBell       unsafe.Pointer // simt_bell_ring
	MMIORegister   unsafe.Pointer // softgpu_mmio_register
	MMIOUnregister unsafe.Pointer // softgpu_mmio_unregister
	ExportRange    unsafe.Pointer // softgpu_export_range
	BellFD         unsafe.Pointer // softgpu_bell_fd
}

// CFunctions returns their addresses.
func CFunctions() Functions {
	return Functions{
		MMIOStore:      C.simt_mmio_store64,
		Pause:          C.simt_pause,
		Notify:         C.simt_notify,
		RingBell:       C.simt_bell_ring,
		MMIORegister:   C.softgpu_mmio_register,
		MMIOUnregister: C.softgpu_mmio_unregister,
		ExportRange:    C.softgpu_export_range,
		BellFD:         C.softgpu_bell_fd,
	}
}
