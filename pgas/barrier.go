package pgas

import (
	"context"
	"math/bits"
	"sync"

	"github.com/pgas-go/pgas/heap"
	"github.com/pgas-go/pgas/internal/wire"
)

// barrier is a dissemination barrier: in round k every PE signals the PE 2^k after it and waits for the one 2^k before.
// The words only grow, so a word is never reset and a fast PE cannot overtake a slow one's view.
type barrier struct {
	mu     sync.Mutex // one at a time on each PE
	block  *block     // one word per round
	rounds int
	number uint64 // barriers begun
}

// open allocates the words. It is collective.
func (b *barrier) open(ctx context.Context, w *World) error {
	b.rounds = bits.Len(uint(w.npes - 1))
	bytes := uint64(b.rounds) * wire.SignalAlign
	off, err := w.heap.Alloc(ctx, heap.Request{Segment: wire.SegmentSignal, Bytes: bytes, Align: wire.SignalAlign, What: "barrier words"})
	if err != nil {
		return err
	}
	b.block = &block{w: w, seg: wire.SegmentSignal, off: off, bytes: bytes, what: "barrier words"}
	return nil
}

// Barrier is collective: it returns on any PE after every PE has called it, and what the hosts did before it is complete
// and visible to all (it includes QuietAll). Kernels that are running are not waited for. It ends with an error at
// the deadline of ctx, after Options.Timeout, or when the job ends; a barrier that failed on one PE cannot be
// repeated, because others may have passed it.
func (w *World) Barrier(ctx context.Context) error {
	if err := w.enter("barrier"); err != nil {
		return err
	}
	defer w.leave()
	b := &w.barrier
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := w.quietAll(ctx, "barrier"); err != nil {
		return err
	}
	b.number++
	for k := range b.rounds {
		word := SignalWord{b: b.block, off: b.block.off + uint64(k)*wire.SignalAlign}
		to := (w.pe + 1<<k) % w.npes
		if err := w.signalNow(ctx, "barrier", word, Set(b.number), to); err != nil {
			return err
		}
		if _, err := w.waitWord(ctx, word.off, Ge(b.number)); err != nil {
			return w.failed("barrier", (w.pe-1<<k%w.npes+w.npes)%w.npes, err)
		}
	}
	return nil
}
