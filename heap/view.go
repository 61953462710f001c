package heap

import (
	"fmt"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/wire"
)

// Size returns the bytes of a segment.
func (h *Heap) Size(s wire.Segment) uint64 { return h.cfg.Sizes[s] }

// Base returns the address of my segment for kernels, 0 for an empty segment.
func (h *Heap) Base(s wire.Segment) uint64 { return h.Peer(h.x.Rank(), s) }

// Peer returns the address, for kernels of this PE, of another PE's segment; 0 when it is not mapped here.
func (h *Heap) Peer(pe int, s wire.Segment) uint64 {
	if m := h.peers[pe].mem[s]; m != nil {
		return m.Addr
	}
	return 0
}

// Host returns the address of a PE's segment for CPUs of this process; 0 when they cannot reach it.
func (h *Heap) Host(pe int, s wire.Segment) uintptr {
	if m := h.peers[pe].mem[s]; m != nil {
		return m.Host
	}
	return 0
}

// Mapped reports whether all segments of a PE are mapped here.
func (h *Heap) Mapped(pe int) bool {
	for s := range h.seg {
		if h.seg[s].mem != nil && h.peers[pe].mem[s] == nil {
			return false
		}
	}
	return true
}

// LKey and RKey return the keys of the zero-based MRs; 0 without a NIC.
func (h *Heap) LKey(s wire.Segment) uint32 {
	if mr := h.seg[s].mr; mr != nil {
		return mr.LKey
	}
	return 0
}

// RKey returns the key under which a PE's segment is written and read remotely.
func (h *Heap) RKey(pe int, s wire.Segment) uint32 { return h.peers[pe].rkey[s] }

// Stats returns the allocator's state of a segment.
func (h *Heap) Stats(s wire.Segment) Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seg[s].alloc.Stats()
}

// Locate turns an address of this PE into a segment and an offset. All n bytes must lie in that segment.
func (h *Heap) Locate(op string, addr, n uint64) (wire.Segment, uint64, error) {
	for s := range h.seg {
		base, size := h.Base(wire.Segment(s)), h.cfg.Sizes[s]
		if base == 0 || addr < base || addr-base > size {
			continue
		}
		if off := addr - base; n <= size-off {
			return wire.Segment(s), off, nil
		}
		return 0, 0, errs.Arg(op, "length", n, fmt.Sprintf("at most %d: offset %d of the %s segment of %d bytes",
			size-(addr-base), addr-base, wire.Segment(s), size))
	}
	return 0, 0, errs.Arg(op, "address", fmt.Sprintf("%#x", addr), "an address in the symmetric heap of this PE ("+h.ranges()+")")
}

func (h *Heap) ranges() string {
	text := ""
	for s := range h.seg {
		if base := h.Base(wire.Segment(s)); base != 0 {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%s %#x..%#x", wire.Segment(s), base, base+h.cfg.Sizes[s])
		}
	}
	return text
}
