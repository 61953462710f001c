package heap

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/pgas-go/pgas/internal/errs"
)

const (
	// DefaultAlign is the alignment in bytes of a block when the caller names none.
	DefaultAlign = 256
	// Quantum is the unit in bytes that block sizes are rounded up to: one cache line, so that two blocks never share
	// a line that different PEs write.
	Quantum = 64
)

// A FullError says why an allocation did not fit. All numbers are bytes.
type FullError struct {
	Segment  string
	Asked    uint64
	Align    uint64
	Free     uint64
	Largest  uint64 // largest free block
	Total    uint64
	Variable string // environment variable that sets Total
}

func (e *FullError) Error() string {
	why := "no free block is that large"
	if e.Free >= e.Asked && e.Largest >= e.Asked {
		why = fmt.Sprintf("no free block holds it at alignment %d", e.Align)
	}
	return fmt.Sprintf("alloc: %s segment is full: asked %d bytes, free %d, largest free block %d, total %d: %s [raise %s]",
		e.Segment, e.Asked, e.Free, e.Largest, e.Total, why, e.Variable)
}

// Is matches errs.ErrHeapFull.
func (e *FullError) Is(target error) bool { return target == errs.ErrHeapFull }

// A FreeError says why an offset cannot be freed.
type FreeError struct {
	Segment string
	Offset  uint64
	Reason  string // what lies at Offset instead, with numbers
}

func (e *FreeError) Error() string {
	return fmt.Sprintf("free: offset %d of the %s segment is not an allocated block: %s", e.Offset, e.Segment, e.Reason)
}

// Is matches errs.ErrInvalid.
func (e *FreeError) Is(target error) bool { return target == errs.ErrInvalid }

// An Allocator hands out offsets of one segment. It touches no memory, so every PE can run the same sequence of calls
// and get the same offsets: the choice depends only on the calls so far (best fit, lowest offset first).
//
// It is not safe for concurrent use; Heap serialises its callers.
type Allocator struct {
	segment  string
	variable string
	total    uint64
	free     uint64
	live     map[uint64]uint64 // offset -> rounded size
	byOffset []extent          // free extents in address order, never adjacent
	bySize   []extent          // the same extents, by (size, offset)
}

type extent struct{ off, size uint64 }

func (x extent) end() uint64 { return x.off + x.size }

func byOffset(a, b extent) int { return compare(a.off, b.off) }

func bySize(a, b extent) int {
	if c := compare(a.size, b.size); c != 0 {
		return c
	}
	return compare(a.off, b.off)
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// NewAllocator returns an allocator for offsets [0, total). segment and variable only appear in error texts. A total
// that is no multiple of Quantum loses the remainder.
func NewAllocator(segment, variable string, total uint64) *Allocator {
	a := &Allocator{segment: segment, variable: variable, total: total, live: map[uint64]uint64{}}
	if usable := total &^ (Quantum - 1); usable > 0 {
		a.insert(extent{0, usable})
	}
	return a
}

// Alloc reserves size bytes at a multiple of align and returns the offset. align 0 means DefaultAlign; any other align
// must be a power of two. size 0 is refused: an empty object needs no block (Heap.Alloc handles it).
func (a *Allocator) Alloc(size, align uint64) (uint64, error) {
	if align == 0 {
		align = DefaultAlign
	}
	if bits.OnesCount64(align) != 1 {
		return 0, errs.Arg("alloc", "alignment", align, "a power of two")
	}
	if size == 0 {
		return 0, errs.Arg("alloc", "size", size, "at least 1 byte: an empty block has no offset")
	}
	need := roundUp(size, Quantum)
	align = max(align, Quantum)
	if need < size {
		return 0, a.full(size, align)
	}
	from, _ := slices.BinarySearchFunc(a.bySize, extent{0, need}, bySize)
	for _, x := range a.bySize[from:] {
		start := roundUp(x.off, align)
		if start < x.off || start > x.end() || x.end()-start < need {
			continue
		}
		a.remove(x)
		if start > x.off {
			a.insert(extent{x.off, start - x.off})
		}
		if rest := x.end() - start - need; rest > 0 {
			a.insert(extent{start + need, rest})
		}
		a.live[start] = need
		return start, nil
	}
	return 0, a.full(size, align)
}

// Free gives the block that starts at off back and merges it with free neighbours. A second free, an offset inside a
// block and an offset outside the segment are refused with a FreeError that says what lies there.
func (a *Allocator) Free(off uint64) error {
	size, ok := a.live[off]
	if !ok {
		return &FreeError{Segment: a.segment, Offset: off, Reason: a.describe(off)}
	}
	delete(a.live, off)
	merged := extent{off, size}
	i, _ := slices.BinarySearchFunc(a.byOffset, merged, byOffset)
	var before, after extent
	if i > 0 {
		before = a.byOffset[i-1]
	}
	if i < len(a.byOffset) {
		after = a.byOffset[i]
	}
	if before.size > 0 && before.end() == off {
		a.remove(before)
		merged = extent{before.off, before.size + merged.size}
	}
	if after.size > 0 && merged.end() == after.off {
		a.remove(after)
		merged.size += after.size
	}
	a.insert(merged)
	return nil
}

// SizeOf returns the reserved bytes of the block that starts at off, or false.
func (a *Allocator) SizeOf(off uint64) (uint64, bool) {
	size, ok := a.live[off]
	return size, ok
}

// Stats is the state of an Allocator; all numbers but Blocks are bytes.
type Stats struct {
	Total, Free, Largest uint64
	Blocks               int // blocks in use
}

// Stats returns the current state.
func (a *Allocator) Stats() Stats {
	return Stats{Total: a.total, Free: a.free, Largest: a.largest(), Blocks: len(a.live)}
}

func (a *Allocator) largest() uint64 {
	if len(a.bySize) == 0 {
		return 0
	}
	return a.bySize[len(a.bySize)-1].size
}

func (a *Allocator) full(size, align uint64) error {
	return &FullError{Segment: a.segment, Asked: size, Align: align, Free: a.free, Largest: a.largest(), Total: a.total,
		Variable: a.variable}
}

func (a *Allocator) describe(off uint64) string {
	if off >= a.total {
		return fmt.Sprintf("it is outside the segment of %d bytes", a.total)
	}
	for start, size := range a.live {
		if off > start && off < start+size {
			return fmt.Sprintf("it is %d bytes into the block at %d of %d bytes", off-start, start, size)
		}
	}
	return "that memory is free (freed before, or never allocated)"
}

func (a *Allocator) insert(x extent) {
	i, _ := slices.BinarySearchFunc(a.byOffset, x, byOffset)
	a.byOffset = slices.Insert(a.byOffset, i, x)
	i, _ = slices.BinarySearchFunc(a.bySize, x, bySize)
	a.bySize = slices.Insert(a.bySize, i, x)
	a.free += x.size
}

func (a *Allocator) remove(x extent) {
	i, _ := slices.BinarySearchFunc(a.byOffset, x, byOffset)
	a.byOffset = slices.Delete(a.byOffset, i, i+1)
	i, _ = slices.BinarySearchFunc(a.bySize, x, bySize)
	a.bySize = slices.Delete(a.bySize, i, i+1)
	a.free -= x.size
}

// roundUp rounds n up to a multiple of unit, a power of two; the result wraps to less than n when it does not fit.
func roundUp(n, unit uint64) uint64 { return (n + unit - 1) &^ (unit - 1) }
