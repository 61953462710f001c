package pgas

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// forPaths runs a test body on every path, with 1, 2 and 3 PEs.
func forPaths(t *testing.T, body func(ctx context.Context, w *World) error) {
	for _, path := range []string{"p2p", "ibgda"} {
		for _, size := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%s/%d", path, size), func(t *testing.T) {
				runPEs(t, size, []string{"PGAS_PATH=" + path, "PGAS_QUEUE_DEPTH=16", "PGAS_CONTEXTS=1"}, body)
			})
		}
	}
}

type pixel struct {
	R, G, B uint8
}

// pattern fills n elements that tell the writer and the position.
func pattern(pe, n int) []pixel {
	p := make([]pixel, n)
	for i := range p {
		p[i] = pixel{uint8(pe + 1), uint8(i), uint8(i >> 8)}
	}
	return p
}

// Sizes around everything that is special: inline limits, single stores, staging slots.
var counts = []int{0, 1, 2, 3, 4, 5, 9, 10, 21, 22, 341, 1365, 21846, 50000}

func TestPutGet(t *testing.T) {
	forPaths(t, func(ctx context.Context, w *World) error {
		for _, alloc := range []func(*World, int) (Slice[pixel], error){Alloc[pixel], AllocHost[pixel]} {
			a, err := alloc(w, 60000)
			if err != nil {
				return err
			}
			for round, n := range counts {
				first := 1 + round // odd byte offsets too
				if err := Put(ctx, a.Slice(first, first+n), pattern(w.PE(), n), w.Next()); err != nil {
					return err
				}
				if err := w.Barrier(ctx); err != nil {
					return err
				}
				own := make([]pixel, n+2)
				if err := CopyOut(own, a.Slice(first-1, first+n+1)); err != nil {
					return err
				}
				require.Equal(t, pattern(w.Prev(), n), append([]pixel{}, own[1:n+1]...), "%d elements", n)
				far := make([]pixel, n)
				if err := Get(ctx, far, a.Slice(first, first+n), w.Next()); err != nil {
					return err
				}
				require.Equal(t, pattern(w.PE(), n), append([]pixel{}, far...))
				if err := w.Barrier(ctx); err != nil {
					return err
				}
				if err := CopyIn(a, make([]pixel, a.Len())); err != nil {
					return err
				}
				if err := w.Barrier(ctx); err != nil {
					return err
				}
			}
			if err := Free(a); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestSignals(t *testing.T) {
	forPaths(t, func(ctx context.Context, w *World) error {
		sig, err := AllocSignals(w, 3)
		if err != nil {
			return err
		}
		a, err := Alloc[uint64](w, 1000)
		if err != nil {
			return err
		}
		data := make([]uint64, 1000)
		for round := uint64(1); round <= 20; round++ {
			for i := range data {
				data[i] = round<<32 | uint64(w.PE())<<16 | uint64(i)
			}
			n := int(round*61) % 1001
			if err := PutSignal(ctx, a, data[:n], sig.At(0), Set(round), w.Next()); err != nil {
				return err
			}
			seen, err := WaitSignal(ctx, sig.At(0), Ge(round))
			if err != nil {
				return err
			}
			require.Equal(t, round, seen)
			got := make([]uint64, n)
			if err := CopyOut(got, a); err != nil {
				return err
			}
			for i, v := range got {
				require.Equal(t, round<<32|uint64(w.Prev())<<16|uint64(i), v)
			}
			if err := w.Barrier(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestSignalWords(t *testing.T) {
	forPaths(t, func(ctx context.Context, w *World) error {
		sig, err := AllocSignals(w, 3)
		if err != nil {
			return err
		}
		// Everybody adds to word 1 of PE 0.
		for range 10 {
			if err := Signal(ctx, sig.At(1), Add(3), 0); err != nil {
				return err
			}
		}
		if w.PE() == 0 {
			seen, err := WaitSignal(ctx, sig.At(1), Ge(uint64(30*w.NPEs())))
			if err != nil {
				return err
			}
			require.Equal(t, uint64(30*w.NPEs()), seen)
		}
		// A signal alone, with the largest value; a wait on a word that nobody signals must not return.
		if err := Signal(ctx, sig.At(2), Set(math.MaxUint64), w.Next()); err != nil {
			return err
		}
		if _, err := WaitSignal(ctx, sig.At(2), Eq(math.MaxUint64)); err != nil {
			return err
		}
		ok, err := TestSignal(sig.At(2), Lt(math.MaxUint64))
		require.NoError(t, err)
		require.False(t, ok)
		v, err := SignalFetch(sig.At(2))
		require.NoError(t, err)
		require.Equal(t, uint64(math.MaxUint64), v)
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		_, err = WaitSignal(short, sig.At(0), Eq(77))
		require.ErrorIs(t, err, ErrTimeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the word is 0, waiting for == 77")
		gone, stop := context.WithCancel(ctx)
		time.AfterFunc(20*time.Millisecond, stop)
		_, err = WaitSignal(gone, sig.At(0), Eq(77))
		require.ErrorIs(t, err, context.Canceled)
		return w.Barrier(ctx)
	})
}

func TestFetchAddQuietFence(t *testing.T) {
	forPaths(t, func(ctx context.Context, w *World) error {
		a, err := Alloc[uint64](w, 4)
		if err != nil {
			return err
		}
		seen := map[uint64]bool{}
		for range 50 {
			old, err := FetchAdd(ctx, a.At(1), 1, 0)
			if err != nil {
				return err
			}
			require.False(t, seen[old], "an old value came twice")
			seen[old] = true
		}
		if err := w.Barrier(ctx); err != nil {
			return err
		}
		got := make([]uint64, 4)
		if err := Get(ctx, got, a, 0); err != nil {
			return err
		}
		require.Equal(t, []uint64{0, uint64(50 * w.NPEs()), 0, 0}, got)
		if err := w.Barrier(ctx); err != nil {
			return err
		}
		for i := range uint64(40) {
			if err := PutNBI(ctx, a.At(2), []uint64{i}, w.Next()); err != nil {
				return err
			}
			if err := w.Fence(ctx, w.Next()); err != nil {
				return err
			}
		}
		if err := w.Quiet(ctx, w.Next()); err != nil {
			return err
		}
		if err := Get(ctx, got, a, w.Next()); err != nil {
			return err
		}
		require.Equal(t, uint64(39), got[2])
		return errors.Join(w.QuietAll(ctx), w.Barrier(ctx))
	})
}

func TestBarrierRounds(t *testing.T) {
	for _, path := range []string{"p2p", "ibgda"} {
		t.Run(path, func(t *testing.T) {
			runPEs(t, 5, []string{"PGAS_PATH=" + path, "PGAS_CONTEXTS=1"}, func(ctx context.Context, w *World) error {
				a, err := Alloc[uint64](w, 5)
				if err != nil {
					return err
				}
				for round := uint64(1); round <= 100; round++ {
					for pe := range w.NPEs() {
						if err := Put(ctx, a.At(w.PE()), []uint64{round}, pe); err != nil {
							return err
						}
					}
					if err := w.Barrier(ctx); err != nil {
						return err
					}
					got := make([]uint64, 5)
					if err := CopyOut(got, a); err != nil {
						return err
					}
					for pe, v := range got {
						require.GreaterOrEqual(t, v, round, "PE %d passed the barrier before PE %d came", w.PE(), pe)
						require.LessOrEqual(t, v, round+1)
					}
				}
				return nil
			})
		})
	}
}
