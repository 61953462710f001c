package main

import (
	"encoding/binary"
	"fmt"
	"math"
)

// plan is the kernels' view of Layout and Config: struct plan of generation.cuh, passed by value. Offsets are bytes from the
// symmetric allocation.
type plan struct {
	Recv, Combined, Staging, Rows, X, TopK, Weights, Out, W1, W2, Table, Begin, Counters, Fault uint64

	SlotBytes, RowBytes, EntryBytes, TableBytes, BeginBytes uint64

	Tokens, Hidden, Experts, LocalExperts, TopKN, FFN, MaxRows, Contexts uint32
	HeaderBytes, PayloadBytes, MessageBytes, FP8, Pow2, Pad              uint32
}

func newPlan(c Config, l Layout) plan {
	flag := func(b bool) uint32 {
		if b {
			return 1
		}
		return 0
	}
	return plan{
		Recv: l.Recv.Offset, Combined: l.Combined.Offset, Staging: l.Staging.Offset, Rows: l.Rows.Offset, X: l.X.Offset,
		TopK: l.TopK.Offset, Weights: l.Weights.Offset, Out: l.Out.Offset, W1: l.W1.Offset, W2: l.W2.Offset,
		Table: l.RowTable.Offset, Begin: l.Begin.Offset, Counters: l.Counters.Offset, Fault: l.Fault.Offset,
		SlotBytes: l.Recv.Stride, RowBytes: l.Rows.Stride, EntryBytes: l.TopK.Stride, TableBytes: l.RowTable.Stride,
		BeginBytes: l.Begin.Stride,
		Tokens:     uint32(c.Tokens), Hidden: uint32(c.Hidden), Experts: uint32(c.Experts),
		LocalExperts: uint32(l.LocalExperts), TopKN: uint32(c.TopK), FFN: uint32(c.FFN), MaxRows: uint32(l.MaxRows),
		Contexts: uint32(c.Context), HeaderBytes: uint32(l.HeaderBytes), PayloadBytes: uint32(l.PayloadBytes),
		MessageBytes: uint32(l.MessageBytes), FP8: flag(c.FP8), Pow2: flag(c.Pow2),
	}
}

// inputs returns the bytes of a batch as the kernels read them: tokens at the row stride, expert choice, weights.
func inputs(c Config, l Layout, b Batch) (x, topk, weights []byte) {
	le := binary.LittleEndian
	stride := int(l.X.Stride)
	x = make([]byte, b.Tokens*stride)
	for t := range b.Tokens {
		for i, v := range b.X[t*c.Hidden : (t+1)*c.Hidden] {
			le.PutUint16(x[t*stride+2*i:], v)
		}
	}
	for i := range b.TopK {
		topk = le.AppendUint32(topk, uint32(b.TopK[i]))
		weights = le.AppendUint32(weights, math.Float32bits(b.Weights[i]))
	}
	return x, topk, weights
}

// expertBytes returns the weights of PE pe's experts in the order of the regions W1 and W2.
func expertBytes(c Config, l Layout, pe int) (w1, w2 []byte) {
	w1 = make([]byte, l.W1.Bytes())
	w2 = make([]byte, l.W2.Bytes())
	for local := range l.LocalExperts {
		a, b := expertWeights(c, pe*l.LocalExperts+local)
		for i := range a {
			at := local*int(l.W1.Stride) + 2*i
			binary.LittleEndian.PutUint16(w1[at:], a[i])
			binary.LittleEndian.PutUint16(w2[at:], b[i])
		}
	}
	return w1, w2
}

// A Fault is what a kernel left in the fault word.
type Fault struct {
	Step, Status uint32
	About        uint64
}

func (f *Fault) Error() string {
	steps := []string{"no step", "dispatch send", "dispatch receive", "mlp", "combine send", "combine receive"}
	about := []string{"", "expert", "pair", "row", "pair", "expert"}
	status := map[uint32]string{1: "timeout", 2: "peer lost", 3: "aborted", 4: "completion error", 5: "invalid argument",
		100: "a signal or header is not of this generation"}
	s := int(f.Step)
	if s >= len(steps) {
		return fmt.Sprintf("kernels: fault word %d/%d is damaged", f.Step, f.Status)
	}
	return fmt.Sprintf("%s: %s %d: %s", steps[s], about[s], f.About, status[f.Status])
}

// parseFault returns nil when the fault word is clear.
func parseFault(b []byte) error {
	word := binary.LittleEndian.Uint64(b)
	if word == 0 {
		return nil
	}
	return &Fault{Step: uint32(word >> 32), Status: uint32(word), About: binary.LittleEndian.Uint64(b[8:])}
}

// traffic returns what PE pe sends in dispatch (bytes of messages) and in combine (rows of its experts), and how many
// rows its experts receive.
func traffic(c Config, l Layout, batches []Batch, pe int) (dispatch, combine Traffic, rows uint64) {
	for source, b := range batches {
		for _, e := range b.TopK {
			if e < 0 {
				continue
			}
			owner := int(e) / l.LocalExperts
			if source == pe {
				dispatch.count(uint64(l.MessageBytes), owner == pe)
			}
			if owner == pe {
				combine.count(uint64(l.RowBytes), source == pe)
				rows++
			}
		}
	}
	return dispatch, combine, rows
}

func (t *Traffic) count(bytes uint64, local bool) {
	t.Logical += bytes
	if local {
		t.Local += bytes
	}
}

func (t *Traffic) add(u Traffic) {
	t.Logical += u.Logical
	t.Local += u.Local
}
