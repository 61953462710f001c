package cuda

// #include "calls.h"
// #cgo noescape pgas_cuMemAddressReserve
// #cgo nocallback pgas_cuMemAddressReserve
// #cgo noescape pgas_cuMemCreate
// #cgo nocallback pgas_cuMemCreate
// #cgo noescape pgas_cuMemSetAccess
// #cgo nocallback pgas_cuMemSetAccess
// #cgo noescape pgas_cuMemGetAllocationGranularity
// #cgo nocallback pgas_cuMemGetAllocationGranularity
// #cgo noescape pgas_cuMemExportToShareableHandle
// #cgo nocallback pgas_cuMemExportToShareableHandle
// #cgo noescape pgas_import_fd
// #cgo nocallback pgas_import_fd
// #cgo noescape pgas_cuMemGetHandleForAddressRange
// #cgo nocallback pgas_cuMemGetHandleForAddressRange
import "C"

import "unsafe"

// MemProp says what MemCreate makes: pinned memory of a device, by default without a way to share it.
type MemProp struct {
	Device    Device
	Shareable bool // exportable as a POSIX file descriptor
	RDMA      bool // NICs may be given access (gpuDirectRDMACapable)
}

func (p MemProp) c() C.CUmemAllocationProp {
	var c C.CUmemAllocationProp
	c._type = C.CU_MEM_ALLOCATION_TYPE_PINNED
	c.location._type = C.CU_MEM_LOCATION_TYPE_DEVICE
	c.location.id = C.int(p.Device)
	if p.Shareable {
		c.requestedHandleTypes = C.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	}
	if p.RDMA {
		c.allocFlags.gpuDirectRDMACapable = 1
	}
	return c
}

// MemAllocationGranularity returns the unit of sizes and offsets for MemCreate and MemMap.
func (d *Driver) MemAllocationGranularity(p MemProp, recommended bool) (uint64, error) {
	var n C.size_t
	option := C.int(C.CU_MEM_ALLOC_GRANULARITY_MINIMUM)
	if recommended {
		option = C.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
	}
	prop := p.c()
	err := d.check("cuMemGetAllocationGranularity", C.pgas_cuMemGetAllocationGranularity(d.c, &n, &prop, option))
	return uint64(n), err
}

// MemAddressReserve reserves addresses; align 0 means the default, hint 0 none.
func (d *Driver) MemAddressReserve(bytes, align uint64, hint DevicePtr) (DevicePtr, error) {
	var p C.CUdeviceptr
	err := d.check("cuMemAddressReserve",
		C.pgas_cuMemAddressReserve(d.c, &p, C.size_t(bytes), C.size_t(align), C.CUdeviceptr(hint), 0))
	return DevicePtr(p), err
}

// MemAddressFree gives reserved addresses back.
func (d *Driver) MemAddressFree(p DevicePtr, bytes uint64) error {
	return d.check("cuMemAddressFree", C.pgas_cuMemAddressFree(d.c, C.CUdeviceptr(p), C.size_t(bytes)))
}

// MemCreate allocates memory without an address.
func (d *Driver) MemCreate(bytes uint64, p MemProp) (MemHandle, error) {
	var h C.CUmemGenericAllocationHandle
	prop := p.c()
	err := d.check("cuMemCreate", C.pgas_cuMemCreate(d.c, &h, C.size_t(bytes), &prop, 0))
	return MemHandle(h), err
}

// MemRelease gives a handle back; mapped memory lives until it is unmapped.
func (d *Driver) MemRelease(h MemHandle) error {
	return d.check("cuMemRelease", C.pgas_cuMemRelease(d.c, C.CUmemGenericAllocationHandle(h)))
}

// MemMap maps memory at reserved addresses; it is accessible after MemSetAccess.
func (d *Driver) MemMap(p DevicePtr, bytes, offset uint64, h MemHandle) error {
	return d.check("cuMemMap", C.pgas_cuMemMap(d.c, C.CUdeviceptr(p), C.size_t(bytes), C.size_t(offset),
		C.CUmemGenericAllocationHandle(h), 0))
}

// MemUnmap removes whole mappings.
func (d *Driver) MemUnmap(p DevicePtr, bytes uint64) error {
	return d.check("cuMemUnmap", C.pgas_cuMemUnmap(d.c, C.CUdeviceptr(p), C.size_t(bytes)))
}

// MemSetAccess sets what dev may do with whole mappings; access is an Access value.
func (d *Driver) MemSetAccess(p DevicePtr, bytes uint64, dev Device, access int) error {
	var desc C.CUmemAccessDesc
	desc.location._type = C.CU_MEM_LOCATION_TYPE_DEVICE
	desc.location.id = C.int(dev)
	desc.flags = C.int(access)
	return d.check("cuMemSetAccess", C.pgas_cuMemSetAccess(d.c, C.CUdeviceptr(p), C.size_t(bytes), &desc, 1))
}

// MemExportFD returns a file descriptor for the memory; the caller closes it.
func (d *Driver) MemExportFD(h MemHandle) (int, error) {
	var fd C.int
	err := d.check("cuMemExportToShareableHandle", C.pgas_cuMemExportToShareableHandle(d.c, unsafe.Pointer(&fd),
		C.CUmemGenericAllocationHandle(h), C.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
	return int(fd), err
}

// MemImportFD takes memory that another process exported. The caller keeps fd and may close it afterwards.
func (d *Driver) MemImportFD(fd int) (MemHandle, error) {
	var h C.CUmemGenericAllocationHandle
	err := d.check("cuMemImportFromShareableHandle", C.pgas_import_fd(d.c, &h, C.int(fd)))
	return MemHandle(h), err
}

// MemDmaBufFD returns a dma-buf descriptor of a range, for a NIC driver; the caller closes it. Address and length are
// multiples of the host page size.
func (d *Driver) MemDmaBufFD(p DevicePtr, bytes uint64) (int, error) {
	var fd C.int
	err := d.check("cuMemGetHandleForAddressRange", C.pgas_cuMemGetHandleForAddressRange(d.c, unsafe.Pointer(&fd),
		C.CUdeviceptr(p), C.size_t(bytes), C.CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0))
	return int(fd), err
}
