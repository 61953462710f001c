package cuda

// #include "calls.h"
// #cgo noescape pgas_cuMemGetInfo
// #cgo nocallback pgas_cuMemGetInfo
// #cgo noescape pgas_cuMemAlloc
// #cgo nocallback pgas_cuMemAlloc
// #cgo noescape pgas_cuMemHostAlloc
// #cgo nocallback pgas_cuMemHostAlloc
// #cgo noescape pgas_cuMemHostGetDevicePointer
// #cgo nocallback pgas_cuMemHostGetDevicePointer
// #cgo noescape pgas_cuMemcpyHtoD
// #cgo noescape pgas_cuMemcpyDtoH
// #cgo noescape pgas_cuPointerGetAttribute
// #cgo nocallback pgas_cuPointerGetAttribute
// #cgo noescape pgas_cuPointerSetAttribute
// #cgo nocallback pgas_cuPointerSetAttribute
import "C"

import "unsafe"

// MemGetInfo returns the free and the total bytes of device memory.
func (d *Driver) MemGetInfo() (free, total uint64, err error) {
	var f, t C.size_t
	err = d.check("cuMemGetInfo", C.pgas_cuMemGetInfo(d.c, &f, &t))
	return uint64(f), uint64(t), err
}

// MemAlloc allocates device memory.
func (d *Driver) MemAlloc(bytes uint64) (DevicePtr, error) {
	var p C.CUdeviceptr
	err := d.check("cuMemAlloc", C.pgas_cuMemAlloc(d.c, &p, C.size_t(bytes)))
	return DevicePtr(p), err
}

// MemFree frees memory of MemAlloc. It waits for the device's work, as CUDA does.
func (d *Driver) MemFree(p DevicePtr) error {
	return d.check("cuMemFree", C.pgas_cuMemFree(d.c, C.CUdeviceptr(p)))
}

// MemHostAlloc allocates pinned host memory; flags are HostAlloc values.
func (d *Driver) MemHostAlloc(bytes uint64, flags uint32) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := d.check("cuMemHostAlloc", C.pgas_cuMemHostAlloc(d.c, &p, C.size_t(bytes), C.uint(flags)))
	return p, err
}

// MemFreeHost frees memory of MemHostAlloc.
func (d *Driver) MemFreeHost(p unsafe.Pointer) error {
	return d.check("cuMemFreeHost", C.pgas_cuMemFreeHost(d.c, p))
}

// MemHostRegister pins memory that was made elsewhere (not Go memory); flags are HostRegister values. With
// HostRegisterIomemory the range is a device's registers, such as a NIC's UAR page.
func (d *Driver) MemHostRegister(p unsafe.Pointer, bytes uint64, flags uint32) error {
	return d.check("cuMemHostRegister", C.pgas_cuMemHostRegister(d.c, p, C.size_t(bytes), C.uint(flags)))
}

// MemHostUnregister undoes MemHostRegister.
func (d *Driver) MemHostUnregister(p unsafe.Pointer) error {
	return d.check("cuMemHostUnregister", C.pgas_cuMemHostUnregister(d.c, p))
}

// MemHostGetDevicePointer returns the address that kernels use for pinned host memory.
func (d *Driver) MemHostGetDevicePointer(p unsafe.Pointer) (DevicePtr, error) {
	var dp C.CUdeviceptr
	err := d.check("cuMemHostGetDevicePointer", C.pgas_cuMemHostGetDevicePointer(d.c, &dp, p, 0))
	return DevicePtr(dp), err
}

// MemcpyHtoD copies from src to the device and waits for it.
func (d *Driver) MemcpyHtoD(dst DevicePtr, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return d.check("cuMemcpyHtoD",
		C.pgas_cuMemcpyHtoD(d.c, C.CUdeviceptr(dst), unsafe.Pointer(&src[0]), C.size_t(len(src))))
}

// MemcpyDtoH copies from the device to dst and waits for it.
func (d *Driver) MemcpyDtoH(dst []byte, src DevicePtr) error {
	if len(dst) == 0 {
		return nil
	}
	return d.check("cuMemcpyDtoH",
		C.pgas_cuMemcpyDtoH(d.c, unsafe.Pointer(&dst[0]), C.CUdeviceptr(src), C.size_t(len(dst))))
}

// MemcpyDtoD copies within the device.
func (d *Driver) MemcpyDtoD(dst, src DevicePtr, bytes uint64) error {
	return d.check("cuMemcpyDtoD", C.pgas_cuMemcpyDtoD(d.c, C.CUdeviceptr(dst), C.CUdeviceptr(src), C.size_t(bytes)))
}

// MemcpyHtoDAsync copies in stream order. src must be C memory and live until the copy is done.
func (d *Driver) MemcpyHtoDAsync(dst DevicePtr, src unsafe.Pointer, bytes uint64, s Stream) error {
	return d.check("cuMemcpyHtoDAsync",
		C.pgas_cuMemcpyHtoDAsync(d.c, C.CUdeviceptr(dst), src, C.size_t(bytes), C.CUstream(s)))
}

// MemcpyDtoHAsync copies in stream order. dst must be C memory and live until the copy is done.
func (d *Driver) MemcpyDtoHAsync(dst unsafe.Pointer, src DevicePtr, bytes uint64, s Stream) error {
	return d.check("cuMemcpyDtoHAsync",
		C.pgas_cuMemcpyDtoHAsync(d.c, dst, C.CUdeviceptr(src), C.size_t(bytes), C.CUstream(s)))
}

// MemcpyDtoDAsync copies within the device in stream order.
func (d *Driver) MemcpyDtoDAsync(dst, src DevicePtr, bytes uint64, s Stream) error {
	return d.check("cuMemcpyDtoDAsync",
		C.pgas_cuMemcpyDtoDAsync(d.c, C.CUdeviceptr(dst), C.CUdeviceptr(src), C.size_t(bytes), C.CUstream(s)))
}

// MemsetD8 sets bytes.
func (d *Driver) MemsetD8(dst DevicePtr, value byte, bytes uint64) error {
	return d.check("cuMemsetD8", C.pgas_cuMemsetD8(d.c, C.CUdeviceptr(dst), C.uchar(value), C.size_t(bytes)))
}

// MemsetD8Async sets bytes in stream order.
func (d *Driver) MemsetD8Async(dst DevicePtr, value byte, bytes uint64, s Stream) error {
	return d.check("cuMemsetD8Async",
		C.pgas_cuMemsetD8Async(d.c, C.CUdeviceptr(dst), C.uchar(value), C.size_t(bytes), C.CUstream(s)))
}

// PointerAttribute returns a Pointer attribute of p as a 64-bit value.
func (d *Driver) PointerAttribute(attr int, p DevicePtr) (uint64, error) {
	var v C.uint64_t
	err := d.check("cuPointerGetAttribute",
		C.pgas_cuPointerGetAttribute(d.c, unsafe.Pointer(&v), C.int(attr), C.CUdeviceptr(p)))
	return uint64(v), err
}

// PointerSetSyncMemops makes synchronous copies of the allocation at p truly synchronous (needed before a NIC uses it).
func (d *Driver) PointerSetSyncMemops(p DevicePtr) error {
	on := C.int(1)
	return d.check("cuPointerSetAttribute",
		C.pgas_cuPointerSetAttribute(d.c, unsafe.Pointer(&on), C.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, C.CUdeviceptr(p)))
}
