package tcp

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/leak"
)

func TestAllGatherAndBarrier(t *testing.T) {
	for _, size := range []int{2, 3, 8} {
		var entered atomic.Int64
		noErrors(t, withJob(t, size, nil, func(x bootstrap.Exchanger) error {
			for round := range 30 {
				if err := checkGather(x, round); err != nil {
					return err
				}
				entered.Add(1)
				if err := x.Barrier(context.Background()); err != nil {
					return err
				}
				if got := entered.Load(); got < int64((round+1)*size) {
					return errors.New("left the barrier before all had entered")
				}
			}
			return nil
		}))
	}
}

func TestUnixRoot(t *testing.T) {
	name := "unix:@pgas-test-" + t.Name() + time.Now().Format("150405.000000")
	noErrors(t, withJob(t, 3, func(o *Options) { o.Root = name }, func(x bootstrap.Exchanger) error { return checkGather(x, 5) }))
}

func TestIPv6Only(t *testing.T) {
	root := freeRoot(t, "::1")
	noErrors(t, withJob(t, 2, func(o *Options) { o.Root = root }, func(x bootstrap.Exchanger) error { return checkGather(x, 5) }))
}

func TestLocalhostByName(t *testing.T) {
	_, port, ok := bytes.Cut([]byte(freeRoot(t, "127.0.0.1")), []byte(":"))
	require.True(t, ok)
	noErrors(t, withJob(t, 2, func(o *Options) { o.Root = "localhost:" + string(port) }, func(x bootstrap.Exchanger) error { return checkGather(x, 1) }))
}

func TestLargeBlobs(t *testing.T) {
	const size = 9 << 20
	noErrors(t, withJob(t, 3, nil, func(x bootstrap.Exchanger) error {
		all, err := x.AllGather(context.Background(), bytes.Repeat([]byte{byte(x.Rank() + 1)}, size+x.Rank()))
		if err != nil {
			return err
		}
		for pe, b := range all {
			if len(b) != size+pe || bytes.Count(b, []byte{byte(pe + 1)}) != len(b) {
				return errors.New("damaged")
			}
		}
		return nil
	}))
}

func TestTooLargeBlobFailsEverywhere(t *testing.T) {
	out := withJob(t, 2, nil, func(x bootstrap.Exchanger) error {
		n := 1
		if x.Rank() == 1 {
			n = maxBlob + 1
		}
		_, err := x.AllGather(context.Background(), make([]byte, n))
		return err
	})
	require.ErrorIs(t, out[1], errs.ErrInvalid)
	require.ErrorContains(t, out[0], "job aborted by PE 1: all-gather: length is 67108865, want at most 67108864 bytes")
}

func TestMissingPEIsNamedAtTheDeadline(t *testing.T) {
	began := time.Now()
	out := withJob(t, 3, nil, func(x bootstrap.Exchanger) error {
		if err := x.Barrier(context.Background()); err != nil {
			return err
		}
		if x.Rank() == 1 {
			<-x.Watch()
			return x.Cause()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
		defer cancel()
		return x.Barrier(ctx)
	})
	require.Less(t, time.Since(began), 3*time.Second)
	for _, err := range out {
		var e *errs.TimeoutError
		require.ErrorAs(t, err, &e)
		require.Equal(t, []int{1}, e.Missing)
		require.Regexp(t, `^barrier: timed out after (400|[1-3]\d\d)ms: 2 of 3 PEs, missing: 1$`, err.Error())
	}
}

func TestStepTimeoutAppliesWithoutContextDeadline(t *testing.T) {
	out := withJob(t, 2, func(o *Options) { o.StepTimeout = 300 * time.Millisecond }, func(x bootstrap.Exchanger) error {
		if x.Rank() == 1 {
			<-x.Watch()
			return x.Cause()
		}
		_, err := x.AllGather(context.Background(), nil)
		return err
	})
	for _, err := range out {
		require.ErrorIs(t, err, errs.ErrTimeout)
		require.ErrorContains(t, err, "1 of 2 PEs, missing: 1")
	}
}

func TestCancelledCallFailsTheJob(t *testing.T) {
	out := withJob(t, 3, nil, func(x bootstrap.Exchanger) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if x.Rank() == 2 {
			time.AfterFunc(100*time.Millisecond, cancel)
		} else if x.Rank() == 0 {
			<-x.Watch()
			return x.Cause()
		}
		return x.Barrier(ctx)
	})
	require.ErrorIs(t, out[2], context.Canceled)
	for _, pe := range []int{0, 1} {
		require.ErrorIs(t, out[pe], errs.ErrAborted)
		require.ErrorContains(t, out[pe], "job aborted by PE 2: barrier given up: context canceled")
	}
}

func TestEndedContextDoesNothing(t *testing.T) {
	noErrors(t, withJob(t, 2, nil, func(x bootstrap.Exchanger) error {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := x.Barrier(ctx); !errors.Is(err, context.Canceled) {
			return errors.New("not refused")
		}
		return checkGather(x, 3)
	}))
}

func TestAbortReachesAllWithTheFirstCause(t *testing.T) {
	began := time.Now()
	out := withJob(t, 4, nil, func(x bootstrap.Exchanger) error {
		switch x.Rank() {
		case 2:
			x.Abort(&errs.PeerLostError{PE: 3, Host: "10.0.0.9", Cause: errors.New("NIC port down")})
			x.Abort(errors.New("a later cause"))
			return x.Cause()
		case 1:
			<-x.Watch()
			x.Abort(errors.New("a later cause"))
			return x.Cause()
		}
		_, err := x.AllGather(context.Background(), []byte("x"))
		return err
	})
	require.Less(t, time.Since(began), 3*time.Second)
	for pe, err := range out {
		require.ErrorIs(t, err, errs.ErrAborted, "PE %d", pe)
		require.ErrorIs(t, err, errs.ErrPeerLost)
		var lost *errs.PeerLostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, 3, lost.PE)
		require.ErrorContains(t, err, "job aborted by PE 2: peer lost: PE 3 on 10.0.0.9: NIC port down")
		require.NotContains(t, err.Error(), "later")
	}
}

func TestAbortByRootReachesAll(t *testing.T) {
	out := withJob(t, 3, nil, func(x bootstrap.Exchanger) error {
		if x.Rank() == 0 {
			x.Abort(errors.New("out of memory"))
		}
		<-x.Watch()
		return x.Cause()
	})
	for _, err := range out {
		require.EqualError(t, err, "job aborted by PE 0: out of memory")
	}
}

func TestUnequalCalls(t *testing.T) {
	out := withJob(t, 3, nil, func(x bootstrap.Exchanger) error {
		if x.Rank() == 1 {
			return x.Barrier(context.Background())
		}
		_, err := x.AllGather(context.Background(), nil)
		return err
	})
	for _, err := range out {
		require.ErrorIs(t, err, errs.ErrMismatch)
		require.ErrorContains(t, err, "collective call (step 0)")
		require.ErrorContains(t, err, "barrier on PE 1")
	}
}

func TestCloseWhileOthersWaitIsALoss(t *testing.T) {
	for _, leaver := range []int{0, 2} {
		out := withJob(t, 3, func(o *Options) { o.StepTimeout = 3 * time.Second }, func(x bootstrap.Exchanger) error {
			if x.Rank() == leaver {
				return x.Close()
			}
			return x.Barrier(context.Background())
		})
		for pe, err := range out {
			if pe == leaver {
				require.NoError(t, err)
				continue
			}
			var lost *errs.PeerLostError
			require.ErrorAs(t, err, &lost, "PE %d", pe)
			require.Equal(t, leaver, lost.PE)
			require.ErrorContains(t, err, "left the job while others still use it")
		}
	}
}

func TestRootWaitsForOthersInClose(t *testing.T) {
	out := withJob(t, 2, func(o *Options) { o.StepTimeout = 300 * time.Millisecond }, func(x bootstrap.Exchanger) error {
		if x.Rank() == 0 {
			return x.Close()
		}
		<-x.Watch()
		return x.Cause()
	})
	require.EqualError(t, out[0], "close: timed out after 300ms: 1 of 2 PEs, missing: 1")
	require.ErrorIs(t, out[1], errs.ErrPeerLost)
}

func TestUseAfterClose(t *testing.T) {
	noErrors(t, withJob(t, 2, nil, func(x bootstrap.Exchanger) error {
		if err := x.Close(); err != nil {
			return err
		}
		_, gatherErr := x.AllGather(context.Background(), nil)
		if err := x.Barrier(context.Background()); !errors.Is(err, errs.ErrClosed) || !errors.Is(gatherErr, errs.ErrClosed) {
			return errors.New("use after Close was not refused")
		}
		x.Abort(errors.New("too late"))
		select {
		case <-x.Watch():
			return errors.New("Watch fired after an orderly Close")
		default:
		}
		return x.Close()
	}))
}

func TestSinglePE(t *testing.T) {
	before, err := leak.Take()
	require.NoError(t, err)
	x, err := Connect(context.Background(), Options{Size: 1, Root: "nonsense"})
	require.NoError(t, err)
	during, err := leak.Take()
	require.NoError(t, err)
	require.Equal(t, before.FDs, during.FDs)
	require.Equal(t, before.Goroutines, during.Goroutines)
	require.NoError(t, checkGather(x, 4))
	require.NoError(t, x.Barrier(context.Background()))
	x.Abort(errors.New("stop"))
	<-x.Watch()
	require.EqualError(t, x.Barrier(context.Background()), "barrier: job aborted by PE 0: stop")
	require.NoError(t, x.Close())
}

// Re-init in one process, on one port: nothing may grow and no round may fail.
func TestThreeHundredRoundsOnOnePort(t *testing.T) {
	root := freeRoot(t, "127.0.0.1")
	round := func() {
		noErrors(t, everyPE(t, 3, 30*time.Second, func(rank int) error {
			x, err := Connect(context.Background(), options(rank, 3, root))
			if err != nil {
				return err
			}
			if err := checkGather(x, 2); err != nil {
				return err
			}
			return x.Close()
		}))
	}
	round()
	before, err := leak.Take()
	require.NoError(t, err)
	for range 300 {
		round()
	}
	var grown []string
	for range 100 {
		after, err := leak.Take()
		require.NoError(t, err)
		grown = before.Diff(leak.Snapshot{FDs: after.FDs, Goroutines: after.Goroutines}, 0)
		if len(grown) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond) // goroutines of the last round end a little after their work
	}
	t.Fatal(grown)
}
