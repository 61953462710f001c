// Package softhca is the software mlx5 HCA: a C++ library behind the table of internal/native/mlx5 that executes
// command mailboxes, WQEs and doorbells as the hardware would. This file only wraps its C interface, softhca.h;
// README.md describes configuration and behaviour.
package softhca

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo CXXFLAGS: -std=c++17 -O2 -Wall -Wextra
// #cgo LDFLAGS: -lpthread
// #include <stdlib.h>
// #include "softhca.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// Table returns the struct pgas_mlx5_api for mlx5.FromTable. It is the same on every call.
func Table() unsafe.Pointer { return unsafe.Pointer(C.softhca_table()) }

// Configure sets devices, engine mode and faults from "key=value,key=value"; README.md lists the keys. "" is the
// default: one RoCE device mlx5_0, inline mode, no faults. Devices that are open keep what they were opened with.
func Configure(spec string) error {
	c := C.CString(spec)
	defer C.free(unsafe.Pointer(c))
	var reason [512]C.char
	if C.softhca_configure(c, &reason[0], C.size_t(len(reason))) != 0 {
		return errors.New(C.GoString(&reason[0]))
	}
	return nil
}

// SetHooks passes a C softhca_hooks (softhca.h), which the software GPU provides; nil removes them. It is copied.
func SetHooks(hooks unsafe.Pointer) { C.softhca_set_hooks((*C.softhca_hooks)(hooks)) }

// MMIOStore is an 8-byte store by a CPU to a doorbell register, value in the byte order of a little-endian store.
func MMIOStore(reg uintptr, value uint64) error {
	if rc := C.softhca_mmio_store_at(C.uintptr_t(reg), C.uint64_t(value)); rc != 0 {
		return fmt.Errorf("mmio store to 0x%x: no doorbell page there: %w", reg, syscall.Errno(rc))
	}
	return nil
}

// Counts are the HCA's counters; bytes and events since the devices were configured.
type Counts struct {
	Doorbells             uint64 // MMIO stores to send registers
	DoorbellsIgnored      uint64 // wrong UAR page, unknown QP, or QP not in RTS or ERR
	DoorbellAheadOfRecord uint64 // doorbell index beyond the doorbell record
	DoorbellsDropped      uint64 // chaos: an early doorbell lost because a later one followed
	WQENop                uint64
	WQEWrite              uint64
	WQEWriteImm           uint64
	WQERead               uint64
	WQEAtomicCS           uint64
	WQEAtomicFA           uint64
	WQEMaskedCS           uint64
	WQEMaskedFA           uint64
	WQESend               uint64
	WQESendImm            uint64
	WQEDump               uint64
	WQEFlushed            uint64
	CQEs                  uint64
	CQEErrors             uint64
	CQOverruns            uint64
	BytesWritten          uint64
	BytesRead             uint64
	BytesSent             uint64
	NAKAccess             uint64
	NAKInvalid            uint64
	NAKRNR                uint64
	Timeouts              uint64 // acknowledge timers that fired
	Retries               uint64 // requests sent again
	Duplicates            uint64 // requests behind the expected PSN
	Commands              uint64
	CommandsRefused       uint64
	FaultsInjected        uint64
	BellsRung             uint64
	EngineSleeps          uint64
	ObjectsLeaked         uint64 // alive when their context was closed
}

// The Go struct is the C struct.
var _ = [1]struct{}{}[unsafe.Sizeof(Counts{})-C.sizeof_softhca_counts]

// Counters returns the sum over all devices of this process.
func Counters() Counts {
	var c C.softhca_counts
	C.softhca_counters(&c)
	return *(*Counts)(unsafe.Pointer(&c))
}

// QPCounters returns what one queue pair of this process did; false when there is no such QP.
func QPCounters(qpn uint32) (Counts, bool) {
	var c C.softhca_counts
	rc := C.softhca_qp_counters(C.uint32_t(qpn), &c)
	return *(*Counts)(unsafe.Pointer(&c)), rc == 0
}

// Objects counts what is alive in this process.
type Objects struct {
	Contexts, PDs, MKeys, UMems, UARs, CQs, QPs uint32
}

// LiveObjects returns the number of objects that nobody has closed.
func LiveObjects() Objects {
	var o C.softhca_objects
	C.softhca_live_objects(&o)
	return *(*Objects)(unsafe.Pointer(&o))
}
