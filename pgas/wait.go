package pgas

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/wire"
	"github.com/pgas-go/pgas/signal"
)

// waitWord waits for this PE's word at an offset of the signal segment.
func (w *World) waitWord(ctx context.Context, off uint64, c Cond) (uint64, error) {
	at := w.peers[w.pe].base[wire.SegmentSignal]
	if at == 0 {
		return w.pollWord(ctx, off, c)
	}
	at += uintptr(off)
	if seen := signal.Load(at); c.Holds(seen) {
		return seen, nil // the common case needs no clock
	}
	stop := w.stopper(ctx)
	seen, err := signal.Wait(at, c, w.bell, w.plat.Crowded(), stop.err)
	return seen, stop.explain(err, seen, c)
}

// loadWord reads this PE's word at an offset of the signal segment.
func (w *World) loadWord(off uint64) (uint64, error) {
	if at := w.peers[w.pe].base[wire.SegmentSignal]; at != 0 {
		return signal.Load(at + uintptr(off)), nil
	}
	var word [8]byte
	err := w.plat.CUDA.MemcpyDtoH(word[:], cuda.DevicePtr(w.base[wire.SegmentSignal]+off))
	return binary.NativeEndian.Uint64(word[:]), err
}

// pollWord waits for a word that CPUs cannot load, by copies.
func (w *World) pollWord(ctx context.Context, off uint64, c Cond) (uint64, error) {
	stop := w.stopper(ctx)
	for {
		seen, err := w.loadWord(off)
		if err != nil || c.Holds(seen) {
			return seen, err
		}
		if err := stop.err(); err != nil {
			return seen, stop.explain(err, seen, c)
		}
		time.Sleep(20 * time.Microsecond)
	}
}

// stopper ends a wait: by ctx, by the operation's own deadline, or with the job.
type stopper struct {
	w     *World
	ctx   context.Context
	begin time.Time
}

func (w *World) stopper(ctx context.Context) *stopper {
	return &stopper{w: w, ctx: ctx, begin: time.Now()}
}

func (s *stopper) err() error {
	if s.w.state.Load() != stateOpen {
		return s.w.ended()
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	waited := time.Since(s.begin)
	if waited >= s.w.cfg.Timeout {
		return &errs.TimeoutError{Op: "wait", After: waited}
	}
	// An operation of this PE that failed on the wire shows here alone: the peer that starves for it never answers.
	if waited > patience && s.w.eng != nil {
		if status := s.w.eng.Check(); status != wire.StatusOk {
			return s.w.result(s.ctx, "wait", NoPE, status, waited)
		}
	}
	return nil
}

// patience is how long a wait goes on before it looks for failures of its own operations.
const patience = 10 * time.Millisecond

// explain says what was waited for when the wait ended without it.
func (s *stopper) explain(err error, seen uint64, c Cond) error {
	timeout, own := err.(*errs.TimeoutError)
	switch {
	case own:
		timeout.Detail = fmt.Sprintf("the word is %d, waiting for %s [raise PGAS_TIMEOUT if the other PE is only slow]", seen, c)
	case err == context.DeadlineExceeded:
		waited := &errs.TimeoutError{Op: "wait", After: time.Since(s.begin), Detail: fmt.Sprintf("the word is %d, waiting for %s", seen, c)}
		return fmt.Errorf("%w (%w)", waited, err)
	}
	return err
}
