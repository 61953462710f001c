package pgas

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/wire"
)

// Memory that CPUs cannot load and store, as that of a real GPU, is reached by copies of the driver. The software GPU's
// memory is reachable, so the test forgets its CPU addresses.
func TestOperationsByCopy(t *testing.T) {
	runPEs(t, 1, []string{"PGAS_PATH=p2p", "PGAS_TIMEOUT=100ms"}, func(ctx context.Context, w *World) error {
		w.peers[0].direct = false
		w.peers[0].base = [wire.Segments]uintptr{}
		a, err := Alloc[uint32](w, 100)
		require.NoError(t, err)
		sig, err := AllocSignals(w, 1)
		require.NoError(t, err)
		require.NoError(t, PutSignal(ctx, a.Slice(5, 8), []uint32{7, 8, 9}, sig.At(0), Set(3), 0))
		require.NoError(t, PutNBI(ctx, a, []uint32{1}, 0))
		seen, err := WaitSignal(ctx, sig.At(0), Ge(3))
		require.NoError(t, err)
		require.Equal(t, uint64(3), seen)
		got := make([]uint32, 9)
		require.NoError(t, Get(ctx, got, a, 0))
		require.Equal(t, []uint32{1, 0, 0, 0, 0, 7, 8, 9, 0}, got)
		require.NoError(t, w.Fence(ctx, 0))
		require.NoError(t, w.Quiet(ctx, 0))

		begin := time.Now()
		_, err = WaitSignal(ctx, sig.At(0), Eq(4))
		require.ErrorIs(t, err, ErrTimeout)
		require.ErrorContains(t, err, "the word is 3, waiting for == 4")
		require.GreaterOrEqual(t, time.Since(begin), 100*time.Millisecond)

		require.ErrorIs(t, Signal(ctx, sig.At(0), Add(1), 0), ErrNotSupported)
		words, err := Alloc[uint64](w, 1)
		require.NoError(t, err)
		_, err = FetchAdd(ctx, words, 1, 0)
		require.ErrorIs(t, err, ErrNotSupported)
		return w.Barrier(ctx)
	})
}
