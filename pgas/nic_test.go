package pgas

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/softhca"
	"github.com/pgas-go/pgas/internal/wire"
)

// ringOnce moves data and signals between all neighbours and checks what came.
func ringOnce(ctx context.Context, w *World) error {
	a, err := Alloc[uint64](w, 5000)
	if err != nil {
		return err
	}
	sig, err := AllocSignals(w, 1)
	if err != nil {
		return err
	}
	data := make([]uint64, 5000)
	for round := uint64(1); round <= 5; round++ {
		for i := range data {
			data[i] = round<<40 | uint64(w.PE())<<20 | uint64(i)
		}
		if err := PutSignal(ctx, a, data, sig.At(0), Set(round), w.Next()); err != nil {
			return err
		}
		if _, err := WaitSignal(ctx, sig.At(0), Ge(round)); err != nil {
			return err
		}
		got := make([]uint64, 5000)
		if err := CopyOut(got, a); err != nil {
			return err
		}
		for i, v := range got {
			if want := round<<40 | uint64(w.Prev())<<20 | uint64(i); v != want {
				w.log.Sugar().Errorf("element %d is %#x, want %#x", i, v, want)
				return ErrInvalid
			}
		}
		if err := w.Barrier(ctx); err != nil {
			return err
		}
	}
	return nil
}

// The job runs on every kind of NIC that can run it.
func TestNICs(t *testing.T) {
	for _, spec := range []string{
		"", "mode=thread", "mode=chaos,seed=3", "dev0.link=ib", "dev0.mtu=256", "dev0.gids=-/-/ll1/ip2", "dev0.gids=ll1",
		"no_dmabuf=1", "no_uar=nc_dedicated", "no_uar=nc_dedicated+nc", "log_max_msg=12", "no_zero_write=1",
		"devices=3,dev0.vendor=other,dev1.open_errno=13",
	} {
		t.Run(spec, func(t *testing.T) {
			runPEs(t, 3, []string{"PGAS_PATH=ibgda", "PGAS_SOFT_HCA=" + spec, "PGAS_CONTEXTS=2"}, ringOnce)
		})
	}
	for _, depth := range []string{"2", "4", "32768"} {
		t.Run("depth "+depth, func(t *testing.T) {
			runPEs(t, 2, []string{"PGAS_PATH=ibgda", "PGAS_CONTEXTS=1", "PGAS_QUEUE_DEPTH=" + depth}, ringOnce)
		})
	}
}

// What a NIC cannot do is refused at Init, on all PEs, with what it takes.
func TestNICsRefused(t *testing.T) {
	for _, c := range []struct{ spec, env, text string }{
		{"no_atomics=1", "", "need masked atomics"},
		{"max_qp=8", "PGAS_CONTEXTS=4", "queue pairs"},
		{"log_max_qp_sz=5", "PGAS_QUEUE_DEPTH=64", "need send queues of 64 basic blocks, have at most 32 (lower PGAS_QUEUE_DEPTH)"},
		{"devices=0", "", "need a device that libmlx5 drives, have no RDMA device"},
		{"dev0.vendor=other", "", `have only ["mlx5_0"], which are not mlx5`},
		{"dev0.gids=-/-", "", "port 1 has no GID among 2 entries"},
		{"no_uar=nc_dedicated+nc+bf", "", "need a doorbell register (UAR)"},
	} {
		failures := tryPEs(t, 2, []string{"PGAS_PATH=ibgda", "PGAS_SOFT_HCA=" + c.spec, c.env},
			func(context.Context, *World) error { return nil })
		for pe, err := range failures {
			require.ErrorContains(t, err, c.text, "%s on PE %d", c.spec, pe)
			require.ErrorIs(t, err, ErrNotSupported, "%s on PE %d: %v", c.spec, pe, err)
		}
		requireNothingLeft(t, c.spec)
	}
	failures := tryPEs(t, 1, []string{"PGAS_SOFT_HCA=no=such", "PGAS_PATH=ibgda"}, nil)
	require.ErrorContains(t, failures[0], "PGAS_SOFT_HCA")
	failures = tryPEs(t, 1, []string{"PGAS_SOFT_GPU=no=such"}, nil)
	require.ErrorContains(t, failures[0], "PGAS_SOFT_GPU")
}

// Every command of the NIC may fail, at any time of Init.
func TestInitFailsAtEachCommand(t *testing.T) {
	for _, f := range []string{"get_device_list", "open", "alloc_pd", "query_port", "reg_dmabuf_mr", "umem_reg", "alloc_uar", "query_eqn",
		"create_cq", "create_qp", "rst2init", "init2rtr", "rtr2rts", "query_qp", "query_hca_cap", "query_roce_address"} {
		for _, nth := range []string{"1", "3"} {
			spec := "fail=" + f + ":" + nth + "+:errno=12"
			failures := tryPEs(t, 2, []string{"PGAS_PATH=ibgda", "PGAS_CONTEXTS=2", "PGAS_SOFT_HCA=" + spec},
				func(ctx context.Context, w *World) error { return w.Barrier(ctx) })
			require.Equal(t, failures[0] == nil, failures[1] == nil, "%s: %v; %v", spec, failures[0], failures[1])
			if failures[0] == nil && nth == "1" {
				require.Equal(t, "reg_dmabuf_mr", f, "only this one has a way around")
			}
			requireNothingLeft(t, spec)
		}
	}
}

// A fetch that gave up waiting keeps its landing slot only until the NIC is done with it.
func TestFetchesThatTimedOutLeaveTheQueueUsable(t *testing.T) {
	runPEs(t, 1, []string{"PGAS_PATH=ibgda", "PGAS_SOFT_HCA=mode=thread,delay_us=3000", "PGAS_CONTEXTS=1"}, func(ctx context.Context, w *World) error {
		a, err := Alloc[uint64](w, 1)
		require.NoError(t, err)
		// The delay makes most of them late; a few never start, because their deadline passed before.
		for late := 0; late <= int(wire.SinkSlots) && ctx.Err() == nil; {
			brief, cancel := context.WithTimeout(ctx, time.Millisecond)
			_, err := FetchAdd(brief, a, 1, 0)
			cancel()
			// On a busy machine the delay may be over before the deadline is looked at, or the deadline before the start.
			require.True(t, err == nil || errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded), "%v", err)
			if errors.Is(err, ErrTimeout) {
				late++
			}
		}
		require.NoError(t, w.Quiet(ctx, 0))
		_, err = FetchAdd(ctx, a, 1, 0)
		return err
	})
}

func TestCompletionErrors(t *testing.T) {
	require.NoError(t, softhca.Configure(""))
	runPEs(t, 1, []string{"PGAS_PATH=ibgda", "PGAS_SOFT_HCA=error_wqe=40:19", "PGAS_CONTEXTS=1"}, func(ctx context.Context, w *World) error {
		a, err := Alloc[uint64](w, 8)
		require.NoError(t, err)
		for range 100 {
			if err = Put(ctx, a, []uint64{1}, 0); err == nil {
				err = w.Quiet(ctx, 0)
			}
			if err != nil {
				break
			}
		}
		var failed *CompletionError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, ErrCompletion)
		require.Equal(t, uint8(0x13), failed.Syndrome)
		require.Equal(t, 1, failed.Context, "the host's context comes after those of kernels")
		require.Equal(t, 0, failed.Peer)
		require.ErrorContains(t, err, "remote access error (syndrome 0x13")
		require.ErrorIs(t, Put(ctx, a, []uint64{1}, 0), ErrCompletion, "the queue stays failed")
		return nil
	})
}

// A signal that failed on its way starves the waiter, here or on another PE. The wait finds out from its own queues, long
// before its deadline.
func TestWaitSeesFailureOfOwnOperation(t *testing.T) {
	require.NoError(t, softhca.Configure(""))
	spec := []string{"PGAS_PATH=ibgda", "PGAS_SOFT_HCA=error_wqe=40:19", "PGAS_CONTEXTS=1"}
	t.Run("host", func(t *testing.T) {
		runPEs(t, 1, spec, func(ctx context.Context, w *World) error {
			sig, err := AllocSignals(w, 1)
			require.NoError(t, err)
			for i := uint64(1); i <= 100 && err == nil; i++ {
				require.NoError(t, Signal(ctx, sig.At(0), Set(i), 0))
				_, err = WaitSignal(ctx, sig.At(0), Ge(i))
			}
			require.ErrorIs(t, err, ErrCompletion)
			return nil
		})
	})
	t.Run("kernel", func(t *testing.T) {
		runPEs(t, 1, spec, func(ctx context.Context, w *World) error {
			k, err := loadKernel(ctx, w, "ring")
			require.NoError(t, err)
			box, err := Alloc[uint64](w, 8)
			require.NoError(t, err)
			status, err := Alloc[uint32](w, 1)
			require.NoError(t, err)
			sig, err := AllocSignals(w, 1)
			require.NoError(t, err)
			for i := uint64(1); i <= 100 && err == nil; i++ {
				err = k.Launch(ctx, Grid{Blocks: 1, Threads: 32}, w.Device(), box, box, uint64(8), sig, i, status)
			}
			require.ErrorIs(t, err, ErrCompletion)
			return nil
		})
	})
}
