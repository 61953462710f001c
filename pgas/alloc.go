package pgas

import (
	"context"
	"fmt"
	"math/bits"
	"reflect"

	"github.com/pgas-go/pgas/heap"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/wire"
)

// Alloc is collective: every PE allocates n elements of T in the device segment and gets the same offset. The memory is
// zero. n = 0 is legal and gives a Slice of length 0 that takes no memory. It waits for all PEs, at most Options.Timeout.
//
// Errors: HeapFullError (on all PEs alike), MismatchError when PEs ask for different things, TypeError, ArgError. After
// any of them nothing is allocated anywhere.
func Alloc[T any](w *World, n int) (Slice[T], error) { return AllocAligned[T](w, n, 0) }

// AllocAligned is Alloc with an alignment in bytes, a power of two; 0 means 256.
func AllocAligned[T any](w *World, n int, align uint64) (Slice[T], error) {
	return allocSlice[T](w, wire.SegmentDevice, n, align)
}

// AllocHost is Alloc in the host segment: pinned host memory that kernels can reach.
func AllocHost[T any](w *World, n int) (Slice[T], error) {
	return allocSlice[T](w, wire.SegmentHost, n, 0)
}

// AllocSignals is collective: it allocates n signal words, zero on every PE. Otherwise as Alloc.
func AllocSignals(w *World, n int) (Signals, error) {
	b, err := w.allocBlock(wire.SegmentSignal, n, wire.SignalAlign, wire.SignalAlign, fmt.Sprintf("%d signals", n), nil)
	if err != nil {
		return Signals{}, err
	}
	return Signals{b: b, off: b.off, n: n}, nil
}

func allocSlice[T any](w *World, seg wire.Segment, n int, align uint64) (Slice[T], error) {
	what := fmt.Sprintf("%d x %s", n, reflect.TypeFor[T]())
	b, err := w.allocBlock(seg, n, elemSize[T](), align, what, checkElem[T]("alloc"))
	if err != nil {
		return Slice[T]{}, err
	}
	return Slice[T]{b: b, off: b.off, n: n}, nil
}

// allocBlock takes part in the collective call even when the arguments are wrong: the other PEs are waiting in it.
func (w *World) allocBlock(seg wire.Segment, n int, size, align uint64, what string, refused error) (*block, error) {
	if err := w.enter("alloc"); err != nil {
		return nil, err
	}
	defer w.leave()
	high, bytes := bits.Mul64(uint64(max(n, 0)), size)
	switch {
	case refused != nil:
	case n < 0:
		refused = errs.Arg("alloc", "n", n, "at least 0")
	case high != 0:
		refused = errs.Arg("alloc", "n", n, fmt.Sprintf("at most %d elements of %d bytes", ^uint64(0)/size, size))
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.Timeout)
	defer cancel()
	off, err := w.heap.Alloc(ctx, heap.Request{Segment: seg, Bytes: bytes, Align: align, What: what, Refused: refused})
	if err != nil {
		return nil, w.failed("alloc", NoPE, err)
	}
	return &block{w: w, seg: seg, off: off, bytes: bytes, what: what}, nil
}

// Free is collective: every PE frees the same object. h is what Alloc, AllocHost or AllocSignals returned, whole; a part
// of it, a second Free and a foreign handle are refused with an ArgError. No operation on the memory may be under way
// on any PE.
func Free(h Handle) error {
	b, off, bytes := h.handle()
	if b == nil || b.w == nil {
		return b.check("free", "handle")
	}
	w := b.w
	if err := w.enter("free"); err != nil {
		return err
	}
	defer w.leave()
	refused := b.check("free", "handle")
	if refused == nil && (off != b.off || bytes != b.bytes) {
		refused = errs.Arg("free", "handle", fmt.Sprintf("%d bytes at offset %d", bytes, off),
			fmt.Sprintf("the whole object, %s: %d bytes at offset %d", b.what, b.bytes, b.off))
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.Timeout)
	defer cancel()
	if err := w.heap.Free(ctx, b.seg, b.off, b.bytes, refused); err != nil {
		return w.failed("free", NoPE, err)
	}
	b.freed.Store(true)
	return nil
}

// HeapStats is the state of a segment's allocator, in bytes.
type HeapStats = heap.Stats

// HeapStats returns the state of the device segment on this PE; it is the same on all PEs between collective calls.
func (w *World) HeapStats() HeapStats { return w.heap.Stats(wire.SegmentDevice) }
