// Package cuda is the seam to the CUDA driver API: a C table of function pointers with NVIDIA's signatures, filled by
// dlopen of libcuda.so.1 or by the software GPU, and one thin Go method per call. It has no policy: names, argument
// order and meaning are those of cuda.h (CUDA 12 driver API reference).
//
// CUDA's current context belongs to an OS thread, and goroutines move between threads. So Bind names the context once,
// and every call makes it current on its thread first.
package cuda

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "calls.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/pgas-go/pgas/internal/errs"
)

// Handles and addresses, as the driver gives them.
type (
	Device   int32
	Context  uintptr
	Module   uintptr
	Function uintptr
	Stream   uintptr
	Event    uintptr
	// DevicePtr is a CUdeviceptr: an address that kernels may use.
	DevicePtr uint64
	// MemHandle is a CUmemGenericAllocationHandle.
	MemHandle uint64
)

// Streams that exist without being created.
const (
	StreamDefault   Stream = 0
	StreamLegacy    Stream = 1
	StreamPerThread Stream = 2
)

// Driver is a filled table. It is safe for concurrent use and lives as long as the process.
type Driver struct {
	c *C.struct_pgas_cuda
}

// Library is the name that Load opens.
const Library = "libcuda.so.1"

// Load opens the CUDA driver. Without one, or with one that is too old, it returns an *errs.UnsupportedError.
func Load() (*Driver, error) { return loadFrom(Library) }

func loadFrom(lib string) (*Driver, error) {
	name := C.CString(lib)
	defer C.free(unsafe.Pointer(name))
	var text [512]C.char
	var found C.int
	c := C.pgas_cuda_open(name, &found, &text[0], C.size_t(len(text)))
	if c != nil {
		return &Driver{c: c}, nil
	}
	have := C.GoString(&text[0])
	if found == 0 {
		return nil, &errs.UnsupportedError{Feature: "CUDA", Need: "the CUDA driver library " + lib, Have: have,
			Fix: "install the NVIDIA driver, or set PGAS_PLATFORM=soft"}
	}
	return nil, &errs.UnsupportedError{Feature: "CUDA", Need: "a CUDA driver of version 11.3 or newer",
		Have: lib + ": " + have, Fix: "update the NVIDIA driver, or set PGAS_PLATFORM=soft"}
}

// FromTable makes a Driver of a struct pgas_cuda_api, which is copied. It panics on a nil table.
func FromTable(table unsafe.Pointer) *Driver {
	if table == nil {
		panic("cuda: nil table")
	}
	c := C.pgas_cuda_wrap(table)
	if c == nil {
		panic("cuda: out of memory for the call table")
	}
	return &Driver{c: c}
}

// Table returns the struct pgas_cuda_api inside the Driver, for C++ engines that call it.
func (d *Driver) Table() unsafe.Pointer { return unsafe.Pointer(&d.c.api) }

// Error is a CUDA call that failed.
type Error struct {
	Call   string // "cuMemAlloc"
	Code   int    // CUresult
	Name   string // "CUDA_ERROR_OUT_OF_MEMORY"
	Detail string // the driver's description
}

// Error reads "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory".
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Detail)
}

// Is matches another *Error with the same code and, if that names one, the same call.
func (e *Error) Is(target error) bool {
	var t *Error
	ok := errors.As(target, &t)
	return ok && t.Code == e.Code && (t.Call == "" || t.Call == e.Call)
}

// Code returns the CUresult of an error from this package, or -1.
func Code(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return -1
}

func (d *Driver) check(call string, r C.CUresult) error {
	switch r {
	case C.CUDA_SUCCESS:
		return nil
	case C.PGAS_CUDA_ABSENT:
		return &errs.UnsupportedError{Feature: call, Need: "a CUDA driver that exports " + call, Have: "an older driver",
			Fix: "update the NVIDIA driver"}
	}
	return &Error{Call: call, Code: int(r), Name: d.text(r, 1), Detail: d.text(r, 0)}
}

func (d *Driver) text(r C.CUresult, name C.int) string {
	s := C.pgas_cuda_error_text(d.c, r, name)
	if s == nil {
		return "unknown error"
	}
	return C.GoString(s)
}
