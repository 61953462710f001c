package pgas

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/wire"
)

// block is one allocation of the symmetric heap as this PE sees it. Every handle into it points here.
type block struct {
	w     *World
	seg   wire.Segment
	off   uint64 // of the first byte in the segment; equal on all PEs
	bytes uint64 // asked for, 0 when there is no memory
	what  string // for errors: "100 x uint64"
	freed atomic.Bool
	bad   error // the handle was made by a wrong call; every use returns this
}

// A Slice is a handle to n elements of symmetric memory: the same place on every PE. It is not memory; Put, Get,
// CopyIn and CopyOut move data, and kernels get its address. The zero Slice belongs to no World.
//
// Handles are values: copy them freely. T is fixed-size and free of pointers.
type Slice[T any] struct {
	b   *block
	off uint64 // of element 0 in the segment, bytes
	n   int
}

// Len returns the number of elements.
func (s Slice[T]) Len() int { return s.n }

// Bytes returns the size in bytes.
func (s Slice[T]) Bytes() uint64 { return uint64(s.n) * elemSize[T]() }

// Offset returns the offset in the segment, in bytes. It is the same on every PE.
func (s Slice[T]) Offset() uint64 { return s.off }

// Addr returns this PE's address of element 0, as a kernel gets it; 0 for a Slice without memory.
func (s Slice[T]) Addr() uint64 { return s.b.addr(s.off) }

// Slice returns elements i to j-1. A range outside the Slice gives a handle whose every use returns the error.
func (s Slice[T]) Slice(i, j int) Slice[T] {
	if i < 0 || j < i || j > s.n {
		return Slice[T]{b: &block{bad: errs.Arg("slice", "range", fmt.Sprintf("[%d:%d]", i, j), fmt.Sprintf("0 <= i <= j <= %d", s.n))}}
	}
	return Slice[T]{b: s.b, off: s.off + uint64(i)*elemSize[T](), n: j - i}
}

// At returns a handle to element i alone. An index outside the Slice gives a handle whose every use returns the error.
func (s Slice[T]) At(i int) Slice[T] {
	if i < 0 || i >= s.n {
		return Slice[T]{b: &block{bad: errs.Arg("slice", "index", i, fmt.Sprintf("0..%d", s.n-1))}}
	}
	return s.Slice(i, i+1)
}

func (s Slice[T]) String() string {
	var zero T
	return fmt.Sprintf("%d x %T at offset %d", s.n, zero, s.off)
}

// handle is what Free and kernel arguments need of a Slice or Signals.
func (s Slice[T]) handle() (*block, uint64, uint64) { return s.b, s.off, s.Bytes() }

// A Handle is a Slice or Signals.
type Handle interface {
	handle() (b *block, off, bytes uint64)
}

// Signals is a handle to an array of signal words: 64 bits each, 64 bytes apart, zero at first. The zero Signals belongs
// to no World.
type Signals struct {
	b   *block
	off uint64
	n   int
}

// Len returns the number of words.
func (s Signals) Len() int { return s.n }

// Offset returns the offset of word 0 in the signal segment, in bytes. It is the same on every PE.
func (s Signals) Offset() uint64 { return s.off }

// Addr returns this PE's address of word 0, as a kernel gets it. Word i is 64*i bytes further (pgas::signal_at).
func (s Signals) Addr() uint64 { return s.b.addr(s.off) }

// At returns a handle to word i. An index outside gives a handle whose every use returns the error.
func (s Signals) At(i int) SignalWord {
	if i < 0 || i >= s.n {
		return SignalWord{b: &block{bad: errs.Arg("signals", "index", i, fmt.Sprintf("0..%d", s.n-1))}}
	}
	return SignalWord{b: s.b, off: s.off + uint64(i)*wire.SignalAlign}
}

func (s Signals) handle() (*block, uint64, uint64) { return s.b, s.off, uint64(s.n) * wire.SignalAlign }

// A SignalWord is a handle to one signal word, the same on every PE.
type SignalWord struct {
	b   *block
	off uint64
}

// Addr returns this PE's address of the word, as a kernel gets it.
func (s SignalWord) Addr() uint64 { return s.b.addr(s.off) }

func (s SignalWord) handle() (*block, uint64, uint64) { return s.b, s.off, 8 }

// addr is this PE's address of an offset in the block's segment.
func (b *block) addr(off uint64) uint64 {
	if b == nil || b.w == nil || b.bytes == 0 {
		return 0
	}
	return b.w.base[b.seg] + off
}

// check refuses handles that name no live memory of a live World.
func (b *block) check(op, arg string) error {
	switch {
	case b == nil:
		return errs.Arg(op, arg, "the zero handle", "a handle of a World")
	case b.bad != nil:
		return b.bad
	case b.freed.Load():
		return errs.Arg(op, arg, fmt.Sprintf("%s at offset %d of the %s segment, which was freed", b.what, b.off, b.seg),
			"a handle to live memory")
	}
	return nil
}

func elemSize[T any]() uint64 {
	var zero T
	return uint64(unsafe.Sizeof(zero))
}
