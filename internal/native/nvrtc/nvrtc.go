// Package nvrtc is the seam to NVRTC, NVIDIA's run-time compiler: a C table of function pointers with NVIDIA's
// signatures, filled by dlopen of libnvrtc.so, and one thin Go method per call. It needs no GPU and no CUDA driver. Names
// and meaning are those of nvrtc.h (CUDA 11.2 to 13).
package nvrtc

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "calls.h"
// #cgo noescape pgas_nvrtc_version
// #cgo nocallback pgas_nvrtc_version
// #cgo noescape pgas_nvrtc_num_archs
// #cgo nocallback pgas_nvrtc_num_archs
// #cgo noescape pgas_nvrtc_archs
// #cgo nocallback pgas_nvrtc_archs
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/pgas-go/pgas/internal/errs"
)

// Result codes (nvrtcResult).
const (
	ErrOutOfMemory             = C.NVRTC_ERROR_OUT_OF_MEMORY
	ErrProgramCreationFailure  = C.NVRTC_ERROR_PROGRAM_CREATION_FAILURE
	ErrInvalidInput            = C.NVRTC_ERROR_INVALID_INPUT
	ErrInvalidProgram          = C.NVRTC_ERROR_INVALID_PROGRAM
	ErrInvalidOption           = C.NVRTC_ERROR_INVALID_OPTION
	ErrCompilation             = C.NVRTC_ERROR_COMPILATION
	ErrBuiltinOperationFailure = C.NVRTC_ERROR_BUILTIN_OPERATION_FAILURE
	ErrInternal                = C.NVRTC_ERROR_INTERNAL_ERROR
	ErrCancelled               = C.NVRTC_ERROR_CANCELLED
)

// Libraries are the names that the dynamic loader is asked for, newest first.
func Libraries() []string { return []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"} }

// Lib is a filled table. It is safe for concurrent use and lives as long as the process.
type Lib struct {
	c            *C.struct_pgas_nvrtc
	path         string
	major, minor int
}

var loaded struct {
	sync.Mutex
	libs map[string]*Lib
}

// Load opens one library by file name or path, once per process. A library that is missing or too old gives an
// *errs.UnsupportedError.
func Load(lib string) (*Lib, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if l := loaded.libs[lib]; l != nil {
		return l, nil
	}
	l, err := open(lib)
	if err != nil {
		return nil, err
	}
	if loaded.libs == nil {
		loaded.libs = make(map[string]*Lib)
	}
	loaded.libs[lib] = l
	return l, nil
}

func open(lib string) (*Lib, error) {
	name := C.CString(lib)
	defer C.free(unsafe.Pointer(name))
	var text [512]C.char
	var found C.int
	c := C.pgas_nvrtc_open(name, &found, &text[0], C.size_t(len(text)))
	if c == nil {
		have := C.GoString(&text[0])
		if found == 0 {
			return nil, &errs.UnsupportedError{Feature: "nvrtc", Need: lib, Have: have, Fix: "install the CUDA toolkit"}
		}
		return nil, &errs.UnsupportedError{Feature: "nvrtc", Need: "NVRTC of CUDA 11.2 or newer", Have: lib + ": " + have,
			Fix: "update the CUDA toolkit"}
	}
	l := &Lib{c: c, path: C.GoString(&c.path[0])}
	var major, minor C.int
	if err := l.check("nvrtcVersion", C.pgas_nvrtc_version(c, &major, &minor)); err != nil {
		return nil, err
	}
	l.major, l.minor = int(major), int(minor)
	return l, nil
}

// Path is the file that the loader opened.
func (l *Lib) Path() string { return l.path }

// Version is the CUDA version of the compiler, such as 13, 0.
func (l *Lib) Version() (major, minor int) { return l.major, l.minor }

// SupportedArchs are the compute capabilities that the compiler knows, ascending, as 10*major + minor.
func (l *Lib) SupportedArchs() ([]int, error) {
	var n C.int
	if err := l.check("nvrtcGetNumSupportedArchs", C.pgas_nvrtc_num_archs(l.c, &n)); err != nil || n <= 0 {
		return nil, err
	}
	raw := make([]C.int, n)
	if err := l.check("nvrtcGetSupportedArchs", C.pgas_nvrtc_archs(l.c, &raw[0])); err != nil {
		return nil, err
	}
	archs := make([]int, n)
	for i, a := range raw {
		archs[i] = int(a)
	}
	return archs, nil
}

// Error is an NVRTC call that failed.
type Error struct {
	Call string // "nvrtcCompileProgram"
	Code int    // nvrtcResult
	Name string // "NVRTC_ERROR_COMPILATION"
}

// Error reads "nvrtcCompileProgram: NVRTC_ERROR_COMPILATION (6)".
func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code) }

// Code returns the nvrtcResult of an error from this package, or -1.
func Code(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return -1
}

func (l *Lib) check(call string, r C.nvrtcResult) error {
	if r == C.NVRTC_SUCCESS {
		return nil
	}
	return &Error{Call: call, Code: int(r), Name: C.GoString(C.pgas_nvrtc_error_text(l.c, r))}
}
