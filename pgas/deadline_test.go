package pgas

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A caller with hardly any time must not spoil the queue for the others: when its deadline passes between the poster
// before it and its own turn, it waits on.
func TestShortDeadlinesLeaveTheQueueUsable(t *testing.T) {
	runPEs(t, 2, []string{"PGAS_PATH=ibgda", "PGAS_QUEUE_DEPTH=8"}, func(ctx context.Context, w *World) error {
		a, err := Alloc[uint64](w, 64)
		if err != nil {
			return err
		}
		end := time.Now().Add(1500 * time.Millisecond)
		failures := make([]error, 12)
		var all sync.WaitGroup
		for i := range failures {
			all.Go(func() {
				for time.Now().Before(end) && failures[i] == nil {
					if i%2 == 0 {
						brief, cancel := context.WithTimeout(ctx, 20*time.Microsecond)
						_ = Put(brief, a, []uint64{1, 2}, w.Next())
						cancel()
						continue
					}
					failures[i] = Put(ctx, a, []uint64{1, 2}, w.Next())
				}
			})
		}
		all.Wait()
		return errors.Join(errors.Join(failures...), w.QuietAll(ctx), w.Barrier(ctx))
	})
}

// Close waits for kernels no longer than the timeout, then ends their waits, and frees everything.
func TestCloseEndsKernels(t *testing.T) {
	begin := time.Now()
	failures := tryPEs(t, 2, []string{"PGAS_TIMEOUT=1s"}, func(ctx context.Context, w *World) error {
		k, err := loadKernel(ctx, w, "wait_without_deadline")
		if err != nil {
			return err
		}
		sig, err := AllocSignals(w, 1)
		if err != nil {
			return err
		}
		brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		err = k.Launch(brief, Grid{Blocks: 1, Threads: 1}, w.Device(), sig)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return nil
	})
	for pe, err := range failures {
		var timeout *TimeoutError
		require.ErrorAs(t, err, &timeout, "PE %d", pe)
		require.ErrorContains(t, err, "kernels of this PE are still running", "PE %d", pe)
	}
	require.Less(t, time.Since(begin), 30*time.Second)
	requireNothingLeft(t, "kernels that Close ended")
}

// `defer w.Close()` before the error of Init is looked at is common Go.
func TestCloseOfNoWorld(t *testing.T) {
	var w *World
	require.ErrorIs(t, w.Close(), ErrInvalid)
	require.ErrorIs(t, new(World).Close(), ErrInvalid)
}
