package cuda

// #include "calls.h"
// #cgo noescape pgas_cuDriverGetVersion
// #cgo nocallback pgas_cuDriverGetVersion
// #cgo noescape pgas_cuDeviceGetCount
// #cgo nocallback pgas_cuDeviceGetCount
// #cgo noescape pgas_cuDeviceGet
// #cgo nocallback pgas_cuDeviceGet
// #cgo noescape pgas_cuDeviceGetName
// #cgo nocallback pgas_cuDeviceGetName
// #cgo noescape pgas_cuDeviceGetUuid
// #cgo nocallback pgas_cuDeviceGetUuid
// #cgo noescape pgas_cuDeviceGetPCIBusId
// #cgo nocallback pgas_cuDeviceGetPCIBusId
// #cgo noescape pgas_cuDeviceGetAttribute
// #cgo nocallback pgas_cuDeviceGetAttribute
// #cgo noescape pgas_cuDeviceTotalMem
// #cgo nocallback pgas_cuDeviceTotalMem
// #cgo noescape pgas_cuDevicePrimaryCtxRetain
// #cgo noescape pgas_cuCtxGetCurrent
// #cgo nocallback pgas_cuCtxGetCurrent
import "C"

import "unsafe"

// Init calls cuInit(0).
func (d *Driver) Init() error { return d.check("cuInit", C.pgas_cuInit(d.c, 0)) }

// DriverVersion returns the CUDA version of the driver: 1000*major + 10*minor.
func (d *Driver) DriverVersion() (int, error) {
	var v C.int
	err := d.check("cuDriverGetVersion", C.pgas_cuDriverGetVersion(d.c, &v))
	return int(v), err
}

// DeviceCount returns the number of devices.
func (d *Driver) DeviceCount() (int, error) {
	var n C.int
	err := d.check("cuDeviceGetCount", C.pgas_cuDeviceGetCount(d.c, &n))
	return int(n), err
}

// Device returns the device with the given ordinal.
func (d *Driver) Device(ordinal int) (Device, error) {
	var dev C.CUdevice
	err := d.check("cuDeviceGet", C.pgas_cuDeviceGet(d.c, &dev, C.int(ordinal)))
	return Device(dev), err
}

// DeviceName returns the product name.
func (d *Driver) DeviceName(dev Device) (string, error) {
	var s [256]C.char
	err := d.check("cuDeviceGetName", C.pgas_cuDeviceGetName(d.c, &s[0], C.int(len(s)), C.CUdevice(dev)))
	return C.GoString(&s[0]), err
}

// DeviceUUID returns the 16-byte identity of the device.
func (d *Driver) DeviceUUID(dev Device) ([16]byte, error) {
	var u C.CUuuid
	err := d.check("cuDeviceGetUuid", C.pgas_cuDeviceGetUuid(d.c, &u, C.CUdevice(dev)))
	return *(*[16]byte)(unsafe.Pointer(&u)), err
}

// DevicePCIBusID returns the PCI address as "0000:3b:00.0".
func (d *Driver) DevicePCIBusID(dev Device) (string, error) {
	var s [32]C.char
	err := d.check("cuDeviceGetPCIBusId", C.pgas_cuDeviceGetPCIBusId(d.c, &s[0], C.int(len(s)), C.CUdevice(dev)))
	return C.GoString(&s[0]), err
}

// DeviceAttribute returns an Attr value.
func (d *Driver) DeviceAttribute(attr int, dev Device) (int, error) {
	var v C.int
	err := d.check("cuDeviceGetAttribute", C.pgas_cuDeviceGetAttribute(d.c, &v, C.int(attr), C.CUdevice(dev)))
	return int(v), err
}

// DeviceTotalMem returns the memory of the device in bytes.
func (d *Driver) DeviceTotalMem(dev Device) (uint64, error) {
	var n C.size_t
	err := d.check("cuDeviceTotalMem", C.pgas_cuDeviceTotalMem(d.c, &n, C.CUdevice(dev)))
	return uint64(n), err
}

// PrimaryCtxRetain returns the primary context and takes a reference on it.
func (d *Driver) PrimaryCtxRetain(dev Device) (Context, error) {
	var c C.CUcontext
	err := d.check("cuDevicePrimaryCtxRetain", C.pgas_cuDevicePrimaryCtxRetain(d.c, &c, C.CUdevice(dev)))
	return Context(c), err
}

// PrimaryCtxRelease gives a reference back; with the last one everything in the context is destroyed. A bound
// context must be unbound (Bind(0)) first.
func (d *Driver) PrimaryCtxRelease(dev Device) error {
	return d.check("cuDevicePrimaryCtxRelease", C.pgas_cuDevicePrimaryCtxRelease(d.c, C.CUdevice(dev)))
}

// Bind names the context that every later call of this Driver makes current on its thread; 0 ends that.
func (d *Driver) Bind(ctx Context) { C.pgas_cuda_bind(d.c, C.CUcontext(ctx)) }

// CtxSetCurrent makes ctx current on the calling OS thread. Only for code that holds its thread; see Bind.
func (d *Driver) CtxSetCurrent(ctx Context) error {
	return d.check("cuCtxSetCurrent", C.pgas_cuda_set_current(d.c, C.CUcontext(ctx)))
}

// CtxGetCurrent returns the current context of the calling OS thread, 0 for none.
func (d *Driver) CtxGetCurrent() (Context, error) {
	var c C.CUcontext
	err := d.check("cuCtxGetCurrent", C.pgas_cuCtxGetCurrent(d.c, &c))
	return Context(c), err
}

// CtxSynchronize waits for all work in the context.
func (d *Driver) CtxSynchronize() error {
	return d.check("cuCtxSynchronize", C.pgas_cuCtxSynchronize(d.c))
}

// FlushGPUDirectRDMAWrites makes writes of NICs that have arrived at the GPU visible to scope.
func (d *Driver) FlushGPUDirectRDMAWrites(scope int) error {
	return d.check("cuFlushGPUDirectRDMAWrites",
		C.pgas_cuFlushGPUDirectRDMAWrites(d.c, C.CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, C.int(scope)))
}
