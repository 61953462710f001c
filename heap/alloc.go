package heap

import (
	"context"
	"fmt"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/wire"
)

// A Request is one collective allocation. What is not a number only serves to compare the PEs' calls.
type Request struct {
	Segment wire.Segment
	Bytes   uint64
	Align   uint64 // a power of two; 0 means DefaultAlign
	What    string // the object in the caller's words: "100 x uint64"
	Refused error  // the caller found the call wrong before it came here; it still takes part
}

// Alloc is collective: every PE makes the same request and gets the same offset. The memory is zero on every PE when any
// PE returns. 0 bytes need no memory and give offset 0. Unequal requests are refused on all PEs with the values of
// all, and a request that one PE refuses is refused everywhere.
func (h *Heap) Alloc(ctx context.Context, r Request) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.seg[r.Segment].alloc
	off, err := uint64(0), r.Refused
	if err == nil && r.Bytes > 0 {
		if off, err = a.Alloc(r.Bytes, r.Align); err == nil {
			if err = h.clear(r.Segment, off); err != nil {
				_ = a.Free(off)
			}
		}
	}
	text := fmt.Sprintf("alloc %s, %d bytes of the %s segment, alignment %d", r.What, r.Bytes, r.Segment, r.Align)
	agreed := h.agreeOn(ctx, text, err)
	if agreed != nil && err == nil && r.Bytes > 0 {
		_ = a.Free(off) // every PE does: the allocators stay equal
	}
	if agreed != nil {
		return 0, agreed
	}
	return off, nil
}

// Free is collective: every PE frees the same block. Only the exact offset that Alloc returned can be freed. bytes 0
// frees an empty object, which has no memory.
func (h *Heap) Free(ctx context.Context, s wire.Segment, off, bytes uint64, refused error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.seg[s].alloc
	err := refused
	if err == nil && bytes > 0 {
		if _, ok := a.SizeOf(off); !ok {
			err = &FreeError{Segment: s.String(), Offset: off, Reason: a.describe(off)}
		}
	}
	text := fmt.Sprintf("free offset %d, %d bytes of the %s segment", off, bytes, s)
	if err = h.agreeOn(ctx, text, err); err != nil || bytes == 0 {
		return err
	}
	return a.Free(off)
}

// agreeOn exchanges what this PE did and compares. An own error wins; the others learn of it as a mismatch.
func (h *Heap) agreeOn(ctx context.Context, request string, own error) error {
	h.calls++
	text := fmt.Sprintf("%s (collective call %d)", request, h.calls)
	if own != nil {
		text += ": refused: " + own.Error()
	}
	all, err := h.x.AllGather(ctx, []byte(text))
	if err != nil {
		return err
	}
	if own != nil {
		return own
	}
	values := make([]string, len(all))
	for pe, blob := range all {
		values[pe] = string(blob)
	}
	return errs.CheckEqual("collective call", values)
}

// clear zeroes a block before other PEs may know of it.
func (h *Heap) clear(s wire.Segment, off uint64) error {
	size, _ := h.seg[s].alloc.SizeOf(off)
	return h.p.CUDA.MemsetD8(cuda.DevicePtr(h.Base(s)+off), 0, size)
}
