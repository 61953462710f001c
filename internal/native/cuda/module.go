package cuda

// #include <stdlib.h>
// #include "calls.h"
// #cgo noescape pgas_cuModuleLoad
// #cgo noescape pgas_cuModuleLoadData
// #cgo noescape pgas_cuModuleGetFunction
// #cgo nocallback pgas_cuModuleGetFunction
// #cgo noescape pgas_cuModuleGetGlobal
// #cgo nocallback pgas_cuModuleGetGlobal
// #cgo noescape pgas_cuFuncGetAttribute
// #cgo nocallback pgas_cuFuncGetAttribute
// #cgo noescape pgas_cuFuncGetParamInfo
// #cgo nocallback pgas_cuFuncGetParamInfo
// #cgo noescape pgas_cuOccupancyMaxActiveBlocksPerMultiprocessor
// #cgo nocallback pgas_cuOccupancyMaxActiveBlocksPerMultiprocessor
// #cgo noescape pgas_cuda_launch
// #cgo nocallback pgas_cuda_launch
import "C"

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/pgas-go/pgas/internal/errs"
)

// ModuleLoad loads a module from a file: a cubin, or what internal/kernel built for the software GPU.
func (d *Driver) ModuleLoad(path string) (Module, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var m C.CUmodule
	err := d.check("cuModuleLoad", C.pgas_cuModuleLoad(d.c, &m, name))
	return Module(m), err
}

// ModuleLoadData loads a module from memory. PTX must end in a zero byte.
func (d *Driver) ModuleLoadData(image []byte) (Module, error) {
	if len(image) == 0 {
		return 0, errs.Arg("cuModuleLoadData", "image", "empty", "a module image")
	}
	var m C.CUmodule
	err := d.check("cuModuleLoadData", C.pgas_cuModuleLoadData(d.c, &m, unsafe.Pointer(&image[0])))
	return Module(m), err
}

// ModuleUnload unloads a module. No kernel of it may be running.
func (d *Driver) ModuleUnload(m Module) error {
	return d.check("cuModuleUnload", C.pgas_cuModuleUnload(d.c, C.CUmodule(m)))
}

// ModuleFunction finds a kernel by name.
func (d *Driver) ModuleFunction(m Module, name string) (Function, error) {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	var f C.CUfunction
	err := d.check("cuModuleGetFunction", C.pgas_cuModuleGetFunction(d.c, &f, C.CUmodule(m), s))
	return Function(f), err
}

// ModuleGlobal finds a __device__ or __constant__ variable by name.
func (d *Driver) ModuleGlobal(m Module, name string) (DevicePtr, uint64, error) {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	var p C.CUdeviceptr
	var n C.size_t
	err := d.check("cuModuleGetGlobal", C.pgas_cuModuleGetGlobal(d.c, &p, &n, C.CUmodule(m), s))
	return DevicePtr(p), uint64(n), err
}

// FuncAttribute returns a Func attribute.
func (d *Driver) FuncAttribute(attr int, f Function) (int, error) {
	var v C.int
	err := d.check("cuFuncGetAttribute", C.pgas_cuFuncGetAttribute(d.c, &v, C.int(attr), C.CUfunction(f)))
	return int(v), err
}

// FuncSetAttribute sets a Func attribute.
func (d *Driver) FuncSetAttribute(f Function, attr, value int) error {
	return d.check("cuFuncSetAttribute", C.pgas_cuFuncSetAttribute(d.c, C.CUfunction(f), C.int(attr), C.int(value)))
}

// FuncParamSizes returns the size of each kernel parameter. It needs CUDA 12.4; older drivers give an
// *errs.UnsupportedError.
func (d *Driver) FuncParamSizes(f Function) ([]int, error) {
	var sizes []int
	for i := 0; ; i++ {
		var off, n C.size_t
		r := C.pgas_cuFuncGetParamInfo(d.c, C.CUfunction(f), C.size_t(i), &off, &n)
		if r == C.CUDA_ERROR_INVALID_VALUE {
			return sizes, nil
		}
		if err := d.check("cuFuncGetParamInfo", r); err != nil {
			return nil, err
		}
		sizes = append(sizes, int(n))
	}
}

// MaxActiveBlocks returns how many blocks of f can be resident on one multiprocessor.
func (d *Driver) MaxActiveBlocks(f Function, threads int, shared uint64) (int, error) {
	var n C.int
	err := d.check("cuOccupancyMaxActiveBlocksPerMultiprocessor",
		C.pgas_cuOccupancyMaxActiveBlocksPerMultiprocessor(d.c, &n, C.CUfunction(f), C.int(threads), C.size_t(shared)))
	return int(n), err
}

// MaxArgs is the largest number of kernel arguments.
const MaxArgs = int(C.PGAS_CUDA_MAX_ARGS)

// Args are kernel arguments in order, packed by value. The zero value is an empty list.
type Args struct {
	buf     []byte
	offsets []uint32
	sizes   []int
}

// Len returns the number of arguments.
func (a *Args) Len() int { return len(a.offsets) }

// Sizes returns the size of each argument in bytes.
func (a *Args) Sizes() []int { return a.sizes }

// Bytes appends a struct or other value given as its bytes, aligned to 16.
func (a *Args) Bytes(p []byte) *Args {
	for len(a.buf)%16 != 0 {
		a.buf = append(a.buf, 0)
	}
	a.offsets = append(a.offsets, uint32(len(a.buf)))
	a.sizes = append(a.sizes, len(p))
	a.buf = append(a.buf, p...)
	return a
}

// U32 appends a 32-bit integer.
func (a *Args) U32(v uint32) *Args { return a.Bytes(binary.NativeEndian.AppendUint32(nil, v)) }

// I32 appends a signed 32-bit integer.
func (a *Args) I32(v int32) *Args { return a.U32(uint32(v)) }

// U64 appends a 64-bit integer.
func (a *Args) U64(v uint64) *Args { return a.Bytes(binary.NativeEndian.AppendUint64(nil, v)) }

// Ptr appends an address.
func (a *Args) Ptr(p DevicePtr) *Args { return a.U64(uint64(p)) }

// F32 appends a float.
func (a *Args) F32(v float32) *Args { return a.U32(math.Float32bits(v)) }

// Launch is the shape of a launch. Grid and Block components that are 0 count as 1.
type Launch struct {
	Grid, Block [3]uint32
	Shared      uint32 // dynamic shared memory in bytes
	Stream      Stream
	Cooperative bool // refuse the launch unless all blocks are resident together
}

// LaunchKernel starts a kernel in stream order and returns; arguments are copied.
func (d *Driver) LaunchKernel(f Function, l Launch, args *Args) error {
	var c C.struct_pgas_cuda_launch
	c.fn, c.shared, c.stream = C.CUfunction(f), C.uint(l.Shared), C.CUstream(l.Stream)
	call := "cuLaunchKernel"
	if l.Cooperative {
		c.cooperative, call = 1, "cuLaunchCooperativeKernel"
	}
	for i := range 3 {
		c.grid[i], c.block[i] = C.uint(max(l.Grid[i], 1)), C.uint(max(l.Block[i], 1))
	}
	var buf unsafe.Pointer
	if args != nil && len(args.offsets) > 0 {
		if len(args.offsets) > MaxArgs {
			return errs.Arg(call, "args", len(args.offsets), "at most 64 arguments")
		}
		c.n = C.uint(len(args.offsets))
		for i, off := range args.offsets {
			c.offsets[i] = C.uint(off)
		}
		if len(args.buf) > 0 {
			buf = unsafe.Pointer(&args.buf[0])
		}
	}
	return d.check(call, C.pgas_cuda_launch(d.c, &c, buf))
}
