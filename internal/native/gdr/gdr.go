// Package gdr is the seam to GDRCopy, which maps GPU memory into the CPU's address space: a C table of function
// pointers with NVIDIA's signatures, filled by dlopen of libgdrapi.so.2 or by the software GPU, and one thin Go
// method per call. Names and meaning are those of gdrapi.h 2.x.
package gdr

// #cgo LDFLAGS: -ldl
// #include <errno.h>
// #include <stdlib.h>
// #include "calls.h"
// #cgo noescape pgas_gdr_pin
// #cgo nocallback pgas_gdr_pin
// #cgo noescape pgas_gdr_map
// #cgo nocallback pgas_gdr_map
// #cgo noescape pgas_gdr_get_info_v2
// #cgo nocallback pgas_gdr_get_info_v2
// #cgo noescape pgas_gdr_copy_to_mapping
// #cgo nocallback pgas_gdr_copy_to_mapping
// #cgo noescape pgas_gdr_copy_from_mapping
// #cgo nocallback pgas_gdr_copy_from_mapping
// #cgo noescape pgas_gdr_runtime_get_version
// #cgo nocallback pgas_gdr_runtime_get_version
// #cgo noescape pgas_gdr_driver_get_version
// #cgo nocallback pgas_gdr_driver_get_version
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/pgas-go/pgas/internal/errs"
)

// PageSize is the GPU page: addresses and sizes of Pin are multiples of it.
const PageSize = 1 << 16

// PinForcePCIe asks for a mapping over PCIe on machines with a coherent link (GDRCopy 2.5).
const PinForcePCIe = 1

// Library is the name that Load opens.
const Library = "libgdrapi.so.2"

// Lib is a filled table. It is safe for concurrent use and lives as long as the process.
type Lib struct {
	c *C.struct_pgas_gdr
}

// Handle is an opened GDRCopy device. Pin and map calls on one Handle are not safe for concurrent use.
type Handle struct {
	lib *Lib
	g   C.gdr_t
}

// Pinned is a pinned range of GPU memory.
type Pinned uint64

// Info describes a mapping.
type Info struct {
	VA         uint64 // GPU address of the first byte of the mapping
	MappedSize uint64
	PageSize   uint32
	Mapped     bool
	WC         bool // write combining: copies into it are fast, reads are slow
	Type       int  // gdr_mapping_type_t
}

// Error is a GDRCopy call that failed.
type Error struct {
	Call  string
	Errno syscall.Errno
}

// Error reads "gdr_map: invalid argument".
func (e *Error) Error() string { return e.Call + ": " + e.Errno.Error() }

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Load opens GDRCopy. Without it, or with one that is too old, it returns an *errs.UnsupportedError.
func Load() (*Lib, error) { return loadFrom(Library) }

func loadFrom(lib string) (*Lib, error) {
	name := C.CString(lib)
	defer C.free(unsafe.Pointer(name))
	var text [512]C.char
	var found C.int
	c := C.pgas_gdr_load(name, &found, &text[0], C.size_t(len(text)))
	if c != nil {
		return &Lib{c: c}, nil
	}
	have := C.GoString(&text[0])
	if found == 0 {
		return nil, &errs.UnsupportedError{Feature: "GDRCopy", Need: "the library " + lib, Have: have,
			Fix: "install GDRCopy 2.x and load its gdrdrv module"}
	}
	return nil, &errs.UnsupportedError{Feature: "GDRCopy", Need: "GDRCopy 2.x", Have: lib + ": " + have,
		Fix: "update GDRCopy"}
}

// FromTable makes a Lib of a struct pgas_gdr_api, which is copied. It panics on a nil table.
func FromTable(table unsafe.Pointer) *Lib {
	if table == nil {
		panic("gdr: nil table")
	}
	c := C.pgas_gdr_wrap(table)
	if c == nil {
		panic("gdr: out of memory for the call table")
	}
	return &Lib{c: c}
}

// Table returns the struct pgas_gdr_api inside the Lib, for C++ engines that call it.
func (l *Lib) Table() unsafe.Pointer { return unsafe.Pointer(&l.c.api) }

// Version returns the version of the library as "2.4".
func (l *Lib) Version() string {
	var major, minor C.int
	C.pgas_gdr_runtime_get_version(l.c, &major, &minor)
	return fmt.Sprintf("%d.%d", int(major), int(minor))
}

func check(call string, r C.int) error {
	if r == 0 {
		return nil
	}
	if r < 0 {
		r = -r
	}
	return &Error{Call: call, Errno: syscall.Errno(r)}
}

// Open opens the GDRCopy device. It fails when the gdrdrv module is not loaded.
func (l *Lib) Open() (*Handle, error) {
	g := C.pgas_gdr_open(l.c)
	if g == nil {
		return nil, &errs.UnsupportedError{Feature: "GDRCopy", Need: "the gdrdrv device", Have: "gdr_open failed",
			Fix: "load the gdrdrv kernel module and check the rights of /dev/gdrdrv"}
	}
	return &Handle{lib: l, g: g}, nil
}

// Close closes the device; its mappings and pinned ranges go with it.
func (h *Handle) Close() error {
	if h.g == nil {
		return nil
	}
	g := h.g
	h.g = nil
	return check("gdr_close", C.pgas_gdr_close(h.lib.c, g))
}

// DriverVersion returns the version of the kernel module as "2.4".
func (h *Handle) DriverVersion() (string, error) {
	var major, minor C.int
	err := check("gdr_driver_get_version", C.pgas_gdr_driver_get_version(h.lib.c, h.g, &major, &minor))
	return fmt.Sprintf("%d.%d", int(major), int(minor)), err
}

// Pin pins GPU memory; addr and size are multiples of PageSize.
func (h *Handle) Pin(addr, size uint64, flags uint32) (Pinned, error) {
	var mh C.gdr_mh_t
	err := check("gdr_pin_buffer",
		C.pgas_gdr_pin(h.lib.c, h.g, C.ulong(addr), C.size_t(size), C.uint32_t(flags), &mh))
	return Pinned(mh.h), err
}

// Unpin gives a pinned range back; it must not be mapped.
func (h *Handle) Unpin(p Pinned) error {
	return check("gdr_unpin_buffer", C.pgas_gdr_unpin_buffer(h.lib.c, h.g, C.gdr_mh_t{h: C.ulong(p)}))
}

// Map maps a pinned range into the process.
func (h *Handle) Map(p Pinned, size uint64) (unsafe.Pointer, error) {
	var va unsafe.Pointer
	err := check("gdr_map", C.pgas_gdr_map(h.lib.c, h.g, C.gdr_mh_t{h: C.ulong(p)}, &va, C.size_t(size)))
	return va, err
}

// Unmap removes a mapping.
func (h *Handle) Unmap(p Pinned, va unsafe.Pointer, size uint64) error {
	return check("gdr_unmap", C.pgas_gdr_unmap(h.lib.c, h.g, C.gdr_mh_t{h: C.ulong(p)}, va, C.size_t(size)))
}

// Info describes a pinned range.
func (h *Handle) Info(p Pinned) (Info, error) {
	var i C.gdr_info_v2_t
	err := check("gdr_get_info_v2", C.pgas_gdr_get_info_v2(h.lib.c, h.g, C.gdr_mh_t{h: C.ulong(p)}, &i))
	flags := C.pgas_gdr_info_flags(&i)
	return Info{VA: uint64(i.va), MappedSize: uint64(i.mapped_size), PageSize: uint32(i.page_size),
		Mapped: flags&1 != 0, WC: flags&2 != 0, Type: int(i.mapping_type)}, err
}

// CopyTo copies src into a mapping, which dst lies in.
func (h *Handle) CopyTo(p Pinned, dst unsafe.Pointer, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return check("gdr_copy_to_mapping", C.pgas_gdr_copy_to_mapping(h.lib.c, C.gdr_mh_t{h: C.ulong(p)}, dst,
		unsafe.Pointer(&src[0]), C.size_t(len(src))))
}

// CopyFrom copies from a mapping, which src lies in.
func (h *Handle) CopyFrom(p Pinned, dst []byte, src unsafe.Pointer) error {
	if len(dst) == 0 {
		return nil
	}
	return check("gdr_copy_from_mapping", C.pgas_gdr_copy_from_mapping(h.lib.c, C.gdr_mh_t{h: C.ulong(p)},
		unsafe.Pointer(&dst[0]), src, C.size_t(len(dst))))
}
