package main

import (
	"fmt"
	"math/bits"
	"strings"
)

// parities is the number of receive buffers: generation g uses buffer g mod 2.
const parities = 2

// A region is a part of the job's one symmetric allocation.
type region struct {
	Name   string
	What   string // the formula in words
	Count  uint64 // entries of one parity
	Stride uint64 // bytes per entry, a multiple of 16
	Copies uint64 // 2 when there is one per parity
	Offset uint64 // in the allocation
}

// Bytes returns the size of all copies.
func (r region) Bytes() uint64 { return r.Count * r.Stride * r.Copies }

// at returns the offset of entry i of the buffer that generation gen uses.
func (r region) at(gen uint64, i int) uint64 {
	return r.Offset + ((gen%r.Copies)*r.Count+uint64(i))*r.Stride
}

// Layout is where everything lives in the symmetric allocation: worst-case buffers, so no receiver ever has to
// grant credits. It is a function of the configuration and the number of PEs only.
type Layout struct {
	HeaderBytes  int // 16-byte header and the list of 16-bit expert numbers
	PayloadBytes int // channels on the wire
	ScaleBytes   int // fp32 scales, 0 for bf16
	MessageBytes int // what one put of dispatch carries
	RowBytes     int // what one put of combine carries
	LocalExperts int
	Pairs        int // (local expert, source PE) pairs; equals the number of experts
	MaxRows      int // most tokens that a PE's experts can receive in one generation

	Recv, Combined, Staging, Rows, X, TopK, Weights, Out, W1, W2 region
	RowTable, Begin, Counters, Fault                             region
	Total                                                        uint64
	SignalWords                                                  int // 64-byte words of the signal segment
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// newLayout computes the layout for a configuration that check has accepted.
func newLayout(c Config, pes int) (Layout, error) {
	l := Layout{LocalExperts: c.localExperts(pes), Pairs: c.Experts}
	l.HeaderBytes = 16 + roundUp(2*c.TopK, 16)
	l.PayloadBytes = 2 * c.Hidden
	if c.FP8 {
		l.PayloadBytes = c.Hidden
		l.ScaleBytes = c.Hidden / scaleGroup * 4
	}
	l.MessageBytes = l.HeaderBytes + l.PayloadBytes + l.ScaleBytes
	l.RowBytes = 2 * c.Hidden
	l.MaxRows = pes * c.Tokens * min(c.TopK, l.LocalExperts)
	slot, row := roundUp(l.MessageBytes, 16), roundUp(l.RowBytes, 16)

	define := func(r *region, name, what string, count, stride, copies int) {
		*r = region{Name: name, What: what, Count: uint64(count), Stride: uint64(stride), Copies: uint64(copies)}
	}
	define(&l.Recv, "dispatch receive", "2 x local experts x PEs x tokens x slot", l.Pairs*c.Tokens, slot, parities)
	define(&l.Combined, "combine receive", "2 x tokens x topk x row", c.Tokens*c.TopK, row, parities)
	define(&l.Staging, "dispatch staging", "2 x tokens x slot", c.Tokens, slot, parities)
	define(&l.Rows, "expert outputs", "2 x PEs x tokens x min(topk, local experts) x row", l.MaxRows, row, parities)
	define(&l.X, "tokens", "2 x tokens x row", c.Tokens, row, parities)
	define(&l.TopK, "expert choice", "2 x tokens x topk x 4 B", 1, max(roundUp(c.Tokens*c.TopK*4, 16), 16), parities)
	define(&l.Weights, "combine weights", "2 x tokens x topk x 4 B", 1, max(roundUp(c.Tokens*c.TopK*4, 16), 16), parities)
	define(&l.Out, "combined tokens", "2 x tokens x row", c.Tokens, row, parities)
	w := roundUp(2*c.Hidden*c.FFN, 16)
	define(&l.W1, "expert weights, first layer", "local experts x hidden x ffn x 2 B", l.LocalExperts, w, 1)
	define(&l.W2, "expert weights, second layer", "local experts x ffn x hidden x 2 B", l.LocalExperts, w, 1)
	define(&l.RowTable, "row table", "2 x rows x 4 B", 1, max(roundUp(l.MaxRows*4, 16), 16), parities)
	define(&l.Begin, "pair begins", "2 x (experts + 1) x 4 B", 1, roundUp((l.Pairs+1)*4, 16), parities)
	define(&l.Counters, "issue counters", "2 x experts x 16 B", 2*l.Pairs, 16, 1)
	define(&l.Fault, "fault word", "64 B", 4, 16, 1)
	return l, l.place()
}

// place gives every region its offset, refusing sizes that do not fit 63 bits.
func (l *Layout) place() error {
	var offset uint64
	for _, r := range l.regions() {
		hi, n := bits.Mul64(r.Count*r.Copies, r.Stride)
		if hi != 0 || n > 1<<62 || offset > 1<<62 {
			return fmt.Errorf("moe: buffer sizes overflow at region %q: %d entries of %d B", r.Name, r.Count, r.Stride)
		}
		r.Offset = offset
		offset += (n + 255) / 256 * 256 // regions start on lines of their own
	}
	l.Total = offset
	l.SignalWords = 2 * parities * l.Pairs
	return nil
}

func (l *Layout) regions() []*region {
	return []*region{&l.Recv, &l.Combined, &l.Staging, &l.Rows, &l.X, &l.TopK, &l.Weights, &l.Out, &l.W1, &l.W2,
		&l.RowTable, &l.Begin, &l.Counters, &l.Fault}
}

// String prints the memory formula with its numbers.
func (l Layout) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dispatch message %d B (header %d, payload %d, scales %d), slot %d B; combine row %d B\n",
		l.MessageBytes, l.HeaderBytes, l.PayloadBytes, l.ScaleBytes, l.Recv.Stride, l.RowBytes)
	for _, r := range l.regions() {
		fmt.Fprintf(&b, "  %-29s %12d B = %s\n", r.Name, r.Bytes(), r.What)
	}
	fmt.Fprintf(&b, "  %-29s %12d B = 2 x 2 x experts x 64 B, in the signal segment\n", "signal words", 64*l.SignalWords)
	fmt.Fprintf(&b, "  %-29s %12d B per PE\n", "sum of the symmetric heap", l.Total)
	return b.String()
}

// fits compares the need with the room of the symmetric heap.
func (l Layout) fits(have uint64) error {
	if l.Total <= have {
		return nil
	}
	return fmt.Errorf("moe: buffers do not fit the symmetric heap: need %d B, have %d B [set PGAS_HEAP_SIZE=%dM, "+
		"or fewer tokens, experts or hidden]", l.Total, have, (l.Total>>20)+2)
}
