// Package engine is the C++ side of the proxy. Today it holds host-initiated operations: the CPU posts on its own
// context's queues with the device library's code, compiled for the host.
//
// Symmetric addresses are this PE's own virtual addresses, as in kernels. Every call returns a wire.Status; details of a
// failure are in the world's StatusRecord. All methods are safe for concurrent use. A timeout of 0 means no deadline,
// but an abort of the job (wire.Control) ends every wait.
package engine

/*
#cgo CXXFLAGS: -std=c++17 -O2 -Wall -Wextra -I${SRCDIR}/../../device/include
#cgo LDFLAGS: -lpthread
#cgo noescape pgas_engine_put
#cgo nocallback pgas_engine_put
#cgo noescape pgas_engine_put_nbi
#cgo nocallback pgas_engine_put_nbi
#cgo noescape pgas_engine_get
#cgo nocallback pgas_engine_get
#cgo noescape pgas_engine_put_signal
#cgo nocallback pgas_engine_put_signal
#cgo noescape pgas_engine_fetch_add
#cgo nocallback pgas_engine_fetch_add
#include "engine.h"
*/
import "C"

import (
	"errors"
	"time"
	"unsafe"

	"github.com/pgas-go/pgas/internal/wire"
)

// Hooks are C function pointers of the platform; nil members mean hardware behaviour (plain MMIO stores, no bells).
type Hooks struct {
	Doorbell unsafe.Pointer // void (*)(volatile void*, uint64_t)
	Pause    unsafe.Pointer // void (*)(void)
	Notify   unsafe.Pointer // void (*)(void)
	RingBell unsafe.Pointer // void (*)(void*)
}

// SetHooks installs the platform's hooks for the whole process. Call it before the first engine is used.
func SetHooks(h Hooks) {
	var c C.pgas_engine_hooks
	*(*unsafe.Pointer)(unsafe.Pointer(&c.doorbell)) = h.Doorbell
	*(*unsafe.Pointer)(unsafe.Pointer(&c.pause)) = h.Pause
	*(*unsafe.Pointer)(unsafe.Pointer(&c.notify)) = h.Notify
	*(*unsafe.Pointer)(unsafe.Pointer(&c.ring_bell)) = h.RingBell
	C.pgas_engine_set_hooks(&c)
}

// An Engine issues operations on context 0 of one world.
type Engine struct{ c *C.pgas_engine }

// New makes an engine for a *wire.World (C memory, CPU-readable, as are its queues and heap). stage is memory in a
// segment or registered region of that world, used for data in memory the NIC does not know; without it such
// transfers return wire.StatusInvalid. The world and the stage must outlive the engine.
func New(world unsafe.Pointer, stage unsafe.Pointer, stageBytes uintptr) (*Engine, error) {
	if world == nil {
		return nil, errors.New("engine: world is nil")
	}
	return &Engine{C.pgas_engine_new(world, stage, C.size_t(stageBytes))}, nil
}

// Close frees the engine. No call may be under way.
func (e *Engine) Close() {
	if e.c != nil {
		C.pgas_engine_free(e.c)
		e.c = nil
	}
}

// Put copies n bytes to dst on a PE and returns when src may be reused.
func (e *Engine) Put(dst uint64, src unsafe.Pointer, n uint64, pe uint32, timeout time.Duration) wire.Status {
	return wire.Status(C.pgas_engine_put(e.c, C.uint64_t(dst), src, C.uint64_t(n), C.uint32_t(pe), ns(timeout)))
}

// PutNBI is Put that returns when issued: a registered src stays in use until Quiet.
func (e *Engine) PutNBI(dst uint64, src unsafe.Pointer, n uint64, pe uint32, timeout time.Duration) wire.Status {
	return wire.Status(C.pgas_engine_put_nbi(e.c, C.uint64_t(dst), src, C.uint64_t(n), C.uint32_t(pe), ns(timeout)))
}

// Get copies n bytes from src on a PE and returns when they are in dst.
func (e *Engine) Get(dst unsafe.Pointer, src uint64, n uint64, pe uint32, timeout time.Duration) wire.Status {
	return wire.Status(C.pgas_engine_get(e.c, dst, C.uint64_t(src), C.uint64_t(n), C.uint32_t(pe), ns(timeout)))
}

// PutSignal is Put followed, in order, by an update of the signal word at sig on the same PE. n may be 0.
func (e *Engine) PutSignal(dst uint64, src unsafe.Pointer, n uint64, sig uint64, add bool, value uint64, pe uint32, timeout time.Duration) wire.Status {
	return wire.Status(C.pgas_engine_put_signal(e.c, C.uint64_t(dst), src, C.uint64_t(n), C.uint64_t(sig), flag(add),
		C.uint64_t(value), C.uint32_t(pe), ns(timeout)))
}

// Signal updates the signal word at sig on a PE, after every earlier operation to it.
func (e *Engine) Signal(sig uint64, add bool, value uint64, pe uint32, timeout time.Duration) wire.Status {
	return wire.Status(C.pgas_engine_signal(e.c, C.uint64_t(sig), flag(add), C.uint64_t(value), C.uint32_t(pe), ns(timeout)))
}

// FetchAdd adds to the 8-byte aligned symmetric word on a PE and returns its old value.
func (e *Engine) FetchAdd(word, value uint64, pe uint32, timeout time.Duration) (uint64, wire.Status) {
	var old C.uint64_t
	s := C.pgas_engine_fetch_add(e.c, C.uint64_t(word), C.uint64_t(value), C.uint32_t(pe), ns(timeout), &old)
	return uint64(old), wire.Status(s)
}

// Fence orders later operations to a PE behind earlier ones.
func (e *Engine) Fence(pe uint32, timeout time.Duration) wire.Status {
	return wire.Status(C.pgas_engine_fence(e.c, C.uint32_t(pe), ns(timeout)))
}

// Quiet waits until earlier operations to a PE are complete. A timeout changes nothing: call again to go on waiting.
func (e *Engine) Quiet(pe uint32, timeout time.Duration) wire.Status {
	return wire.Status(C.pgas_engine_quiet(e.c, C.uint32_t(pe), ns(timeout)))
}

// Check looks once at the completions of all queues: wire.StatusCompletionError when an operation issued here has failed.
func (e *Engine) Check() wire.Status { return wire.Status(C.pgas_engine_check(e.c)) }

func ns(d time.Duration) C.uint64_t { return C.uint64_t(max(d, 0)) }

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
