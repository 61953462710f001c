// Package softgpu is the software GPU: one device per process behind the CUDA driver and GDRCopy tables. The C++ beside
// this file knows nothing of Go; README.md tells how to link it into a C++ program, also under ThreadSanitizer.
//
// A CUDA block is an OS thread, a CUDA thread (lane) is a fiber of it. Kernels are shared objects that internal/kernel
// builds; they call back into the symbols of this package, hence --export-dynamic.
package softgpu

// #cgo CPPFLAGS: -I${SRCDIR} -I${SRCDIR}/../native/cuda -I${SRCDIR}/../native/gdr
// #cgo CFLAGS: -DPGAS_CUDA_INTEGER_HANDLES
// #cgo CXXFLAGS: -std=c++17 -O2 -Wall -Wextra
// #cgo LDFLAGS: -Wl,--export-dynamic -ldl -lpthread
// #include <stdlib.h>
// #include "softgpu.h"
// #cgo noescape softgpu_export_range
// #cgo nocallback softgpu_export_range
// #cgo noescape softgpu_last_report
// #cgo nocallback softgpu_last_report
// #cgo noescape softgpu_describe
// #cgo nocallback softgpu_describe
// #cgo noescape softgpu_get_usage
// #cgo nocallback softgpu_get_usage
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/native/gdr"
	"github.com/pgas-go/pgas/internal/softgpu/include"
)

// The runner is built from the same headers as kernels. Naming the embedded ones makes Go rebuild it when they change.
var _ = include.FS

// Driver returns the CUDA table of the software GPU.
func Driver() *cuda.Driver { return cuda.FromTable(unsafe.Pointer(C.softgpu_cuda_table())) }

// GDR returns the GDRCopy table of the software GPU.
func GDR() *gdr.Lib { return gdr.FromTable(unsafe.Pointer(C.softgpu_gdr_table())) }

// Configure sets options from "key=value,key=value" (keys in config.cpp), before the primary context is retained.
// An empty text sets the defaults.
func Configure(options string) error {
	text := C.CString(options)
	defer C.free(unsafe.Pointer(text))
	var wrong [512]C.char
	if C.softgpu_configure(text, &wrong[0], C.size_t(len(wrong))) != 0 {
		return fmt.Errorf("configure software GPU: %s", C.GoString(&wrong[0]))
	}
	return nil
}

// ExportRange returns a descriptor of the memory behind [addr, addr+bytes), which the caller closes, and the place of
// addr in it. The software HCA maps memory of other processes through it.
func ExportRange(addr, bytes uint64) (fd int, offset uint64, err error) {
	var cfd C.int
	var off C.uint64_t
	r := C.softgpu_export_range(pointer(addr), C.size_t(bytes), &cfd, &off)
	if r != 0 {
		return -1, 0, fmt.Errorf("export [%#x, +%d bytes): %s: CUDA error %d", addr, bytes, Describe(addr), int(r))
	}
	return int(cfd), uint64(off), nil
}

// Describe says in words which allocation holds addr, or which is the nearest.
func Describe(addr uint64) string {
	var text [512]C.char
	C.softgpu_describe(pointer(addr), &text[0], C.size_t(len(text)))
	return C.GoString(&text[0])
}

// LastReport returns what the last failed launches did wrong and what was noted about running ones, one line each.
func LastReport() string {
	text := make([]byte, 16<<10)
	n := C.softgpu_last_report((*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
	return string(text[:min(int(n), len(text)-1)])
}

// ClearReport forgets the lines of LastReport.
func ClearReport() { C.softgpu_clear_report() }

// BellFD returns the memfd of this process' bell, which the software GPU keeps; Bell returns where it is mapped.
func BellFD() int { return int(C.softgpu_bell_fd()) }

// Bell returns this process' bell (wire.Bell). It lives as long as the process.
func Bell() unsafe.Pointer { return C.softgpu_bell() }

// Usage is what the process holds now.
type Usage struct {
	Bytes       uint64
	Allocations int
	Threads     int
	Streams     int
	Events      int
	Modules     int
	MMIORanges  int
}

// GetUsage counts what the software GPU holds, for leak checks.
func GetUsage() Usage {
	var u C.struct_softgpu_usage
	C.softgpu_get_usage(&u)
	return Usage{Bytes: uint64(u.bytes), Allocations: int(u.allocations), Threads: int(u.threads),
		Streams: int(u.streams), Events: int(u.events), Modules: int(u.modules), MMIORanges: int(u.mmio_ranges)}
}

// pointer makes a C pointer of an address outside Go memory.
func pointer(addr uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}
