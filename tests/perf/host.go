package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pgas-go/pgas/pgas"
)

// Operations in one batch, as in oshmem.c.
const (
	latencyBatch = 256
	rateBatch    = 1024
	barrierBatch = 16
)

// host measures what the Go program itself does over p2p. With two PEs all figures are taken, with more the barrier.
func host(ctx context.Context, w *pgas.World, s settings) error {
	box, err := pgas.Alloc[uint64](w, 8)
	if err != nil {
		return err
	}
	done, err := pgas.AllocSignals(w, 1)
	if err != nil {
		return err
	}
	for r := range s.repeats {
		if err := w.Barrier(ctx); err != nil {
			return err
		}
		if w.NPEs() == 2 {
			if err := oneSided(ctx, w, s, box, done.At(0), uint64(r)+1); err != nil {
				return err
			}
		}
		if err := barriers(ctx, w, s); err != nil {
			return err
		}
	}
	return nil
}

// oneSided lets PE 0 work on PE 1, which meanwhile has other things to do: it neither waits in pgas nor keeps a core
// busy.
func oneSided(ctx context.Context, w *pgas.World, s settings, box pgas.Slice[uint64], done pgas.SignalWord, round uint64) error {
	if w.PE() != 0 {
		return lookNowAndThen(w, done, round)
	}
	value := []uint64{1}
	one, word := box.At(0), box.At(1)
	for _, f := range []struct {
		name string
		size int
		run  func() error
	}{
		{"put", latencyBatch, func() error {
			for range latencyBatch {
				if err := pgas.Put(ctx, one, value, 1); err != nil {
					return err
				}
				if err := w.Quiet(ctx, 1); err != nil {
					return err
				}
			}
			return nil
		}},
		{"put_nbi", rateBatch, func() error {
			for range rateBatch {
				if err := pgas.PutNBI(ctx, one, value, 1); err != nil {
					return err
				}
			}
			return w.Quiet(ctx, 1)
		}},
		{"fetch_add", latencyBatch, func() error {
			for range latencyBatch {
				if _, err := pgas.FetchAdd(ctx, word, 1, 1); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		ns, err := measure(s.batches(hostBatches), f.size, f.run)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		report(f.name, ns)
	}
	return pgas.Signal(ctx, done, pgas.Set(round), 1)
}

func lookNowAndThen(w *pgas.World, done pgas.SignalWord, round uint64) error {
	for {
		ok, err := pgas.TestSignal(done, pgas.Ge(round))
		if ok || err != nil {
			return err
		}
		select {
		case <-w.Done():
			return w.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func barriers(ctx context.Context, w *pgas.World, s settings) error {
	ns, err := measure(s.batches(hostBatches), barrierBatch, func() error {
		for range barrierBatch {
			if err := w.Barrier(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	if w.PE() == 0 {
		report(fmt.Sprintf("barrier_%d", w.NPEs()), ns)
	}
	return nil
}
