package pgas

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every wrong call is an error with its numbers, sends nothing and leaves the World usable.
func TestMisuse(t *testing.T) {
	for _, path := range []string{"p2p", "ibgda"} {
		t.Run(path, func(t *testing.T) {
			runPEs(t, 2, []string{"PGAS_PATH=" + path, "PGAS_CONTEXTS=1"}, func(ctx context.Context, w *World) error {
				a, err := Alloc[uint64](w, 8)
				require.NoError(t, err)
				sig, err := AllocSignals(w, 2)
				require.NoError(t, err)
				one := []uint64{1}
				for _, c := range []struct {
					err  error
					text string
				}{
					{Put(ctx, a, one, 2), "put: put: pe is 2, want 0..1"},
					{Put(ctx, a, one, -1), "pe is -1, want 0..1"},
					{Get(ctx, one, a, math.MaxInt), "want 0..1"},
					{Put(ctx, a, make([]uint64, 9), 1), "length of src is 9, want at most 8 elements, the length of dst"},
					{Get(ctx, make([]uint64, 9), a, 1), "length of dst is 9, want at most 8 elements, the length of src"},
					{Put(ctx, a.Slice(3, 5), make([]uint64, 3), 1), "length of src is 3, want at most 2"},
					{Put(ctx, a.Slice(3, 9), one, 1), "slice: range is [3:9], want 0 <= i <= j <= 8"},
					{Put(ctx, a.Slice(-1, 2), one, 1), "range is [-1:2]"},
					{Put(ctx, a.Slice(5, 4), one, 1), "range is [5:4]"},
					{Put(ctx, a.At(8), one, 1), "index is 8, want 0..7"},
					{Put(ctx, Slice[uint64]{}, one, 1), "dst is the zero handle, want a handle of a World"},
					{PutSignal(ctx, a, one, SignalWord{}, Set(1), 1), "sig is the zero handle"},
					{PutSignal(ctx, a, one, sig.At(2), Set(1), 1), "signals: index is 2, want 0..1"},
					{PutSignal(ctx, a, make([]uint64, 9), sig.At(0), Set(1), 1), "length of src is 9"},
					{PutSignal(ctx, a, one, sig.At(0), Update{Op: 7}, 1), "update is op(7) 0, want Set or Add"},
					{Signal(ctx, sig.At(-1), Set(1), 1), "index is -1"},
					{Signal(ctx, sig.At(0), Set(1), 5), "pe is 5"},
					{Signal(ctx, SignalWord{}, Set(1), 1), "sig is the zero handle"},
					{w.Quiet(ctx, 2), "quiet: pe is 2, want 0..1"},
					{w.Fence(ctx, -7), "fence: pe is -7, want 0..1"},
					{CopyIn(a, make([]uint64, 9)), "length of the Go slice is 9"},
					{CopyOut(make([]uint64, 9), a), "length of the Go slice is 9"},
					{func() error { _, err := WaitSignal(ctx, sig.At(0), Cond{Cmp: 9}); return err }(), "condition is cmp(9) 0"},
					{func() error { _, err := TestSignal(sig.At(0), Cond{Cmp: 9}); return err }(), "condition is cmp(9) 0"},
					{func() error { _, err := SignalFetch(SignalWord{}); return err }(), "sig is the zero handle"},
					{func() error { _, err := FetchAdd(ctx, a.Slice(0, 0), 1, 0); return err }(), "length of word is 0"},
					{func() error { _, err := FetchAdd(ctx, a, 1, 2); return err }(), "pe is 2"},
					{func() error { _, err := w.Load(ctx, nil, "x.cu"); return err }(), "fsys is nil"},
					{Free(Slice[uint64]{}), "handle is the zero handle"},
				} {
					require.ErrorIs(t, c.err, ErrInvalid, c.text)
					require.ErrorContains(t, c.err, c.text)
				}
				require.NoError(t, Put(ctx, a, nil, 1))
				require.NoError(t, Put(ctx, a.Slice(8, 8), []uint64{}, 0))
				got := make([]uint64, 8)
				require.NoError(t, w.Barrier(ctx))
				require.NoError(t, CopyOut(got, a))
				require.Equal(t, make([]uint64, 8), got, "nothing was sent")
				v, err := SignalFetch(sig.At(0))
				require.NoError(t, err)
				require.Zero(t, v)
				return nil
			})
		})
	}
}

func TestAllocMisuse(t *testing.T) {
	runPEs(t, 2, nil, func(ctx context.Context, w *World) error {
		before := w.HeapStats()
		_, err := Alloc[*int](w, 1)
		var typed *TypeError
		require.ErrorAs(t, err, &typed)
		_, err = Alloc[uint64](w, -1)
		require.ErrorIs(t, err, ErrInvalid)
		_, err = Alloc[uint64](w, math.MaxInt)
		require.ErrorIs(t, err, ErrInvalid)
		_, err = AllocAligned[uint64](w, 1, 24)
		require.ErrorContains(t, err, "alignment is 24, want a power of two")

		_, err = Alloc[uint64](w, 1<<20)
		var full *HeapFullError
		require.ErrorAs(t, err, &full)
		require.ErrorIs(t, err, ErrHeapFull)
		require.Equal(t, HeapFullError{Segment: "device", Asked: 8 << 20, Align: 256, Free: 4 << 20, Largest: 4 << 20,
			Total: 4 << 20, Variable: "PGAS_HEAP_SIZE"}, *full)

		_, err = Alloc[uint64](w, 100+100*w.PE())
		require.ErrorIs(t, err, ErrMismatch)
		require.ErrorContains(t, err, "100 x uint64, 800 bytes")
		require.ErrorContains(t, err, "200 x uint64, 1600 bytes")
		if w.PE() == 0 {
			_, err = Alloc[uint64](w, -5)
			require.ErrorContains(t, err, "n is -5, want at least 0")
		} else {
			_, err = Alloc[uint64](w, 5)
			require.ErrorIs(t, err, ErrMismatch)
			require.ErrorContains(t, err, "n is -5", "the others learn why")
		}
		require.Equal(t, before, w.HeapStats(), "refused calls take nothing")

		empty, err := Alloc[uint64](w, 0)
		require.NoError(t, err)
		require.Zero(t, empty.Len())
		require.Zero(t, empty.Addr())
		require.NoError(t, Put(ctx, empty, nil, w.Next()))
		require.ErrorIs(t, Put(ctx, empty, []uint64{1}, w.Next()), ErrInvalid)
		require.Equal(t, before, w.HeapStats())
		require.NoError(t, Free(empty))
		require.ErrorContains(t, Free(empty), "which was freed")

		a, err := Alloc[uint64](w, 16)
		require.NoError(t, err)
		require.ErrorContains(t, Free(a.Slice(1, 16)), "want the whole object, 16 x uint64: 128 bytes at offset")
		require.NoError(t, Free(a))
		require.ErrorIs(t, Free(a), ErrInvalid)
		require.ErrorContains(t, Put(ctx, a, []uint64{1}, 0), "which was freed")
		require.Equal(t, before, w.HeapStats())

		b, err := AllocAligned[byte](w, 1, 1<<16)
		require.NoError(t, err)
		require.Zero(t, b.Offset()%(1<<16))
		require.NotZero(t, b.Addr())
		require.NoError(t, CopyIn(b, []byte{7}))
		require.NoError(t, Free(b))
		c, err := AllocAligned[byte](w, 1, 1<<16)
		require.NoError(t, err)
		require.Equal(t, b.Offset(), c.Offset())
		got := []byte{1}
		require.NoError(t, CopyOut(got, c))
		require.Equal(t, []byte{0}, got, "memory is zero also the second time")
		return nil
	})
}

func TestUseAfterClose(t *testing.T) {
	ctx := context.Background()
	runPEs(t, 2, []string{"PGAS_PATH=ibgda", "PGAS_CONTEXTS=1"}, func(ctx context.Context, w *World) error {
		a, err := Alloc[uint64](w, 8)
		require.NoError(t, err)
		sig, err := AllocSignals(w, 1)
		require.NoError(t, err)
		s, err := w.NewStream()
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, w.Close(), "a second Close is fine")
		select {
		case <-w.Done():
		default:
			t.Error("Done is open after Close")
		}
		require.ErrorIs(t, w.Err(), ErrClosed)
		w.Abort(fmt.Errorf("too late"))
		for i, err := range []error{
			Put(ctx, a, []uint64{1}, 0), Get(ctx, []uint64{1}, a, 0), PutSignal(ctx, a, []uint64{1}, sig.At(0), Set(1), 0),
			Signal(ctx, sig.At(0), Set(1), 0), w.Quiet(ctx, 0), w.Fence(ctx, 0), w.QuietAll(ctx), w.Barrier(ctx), Free(a), s.Sync(ctx),
			CopyIn(a, []uint64{1}), CopyOut([]uint64{1}, a),
			func() error { _, err := Alloc[uint64](w, 1); return err }(),
			func() error { _, err := WaitSignal(ctx, sig.At(0), Eq(0)); return err }(),
			func() error { _, err := SignalFetch(sig.At(0)); return err }(),
			func() error { _, err := FetchAdd(ctx, a, 1, 0); return err }(),
			func() error { _, err := w.NewStream(); return err }(),
			func() error { _, err := w.NewEvent(); return err }(),
			func() error { _, err := w.RegisterBuffer(4096, 4096); return err }(),
			func() error { _, err := w.Load(ctx, nil, ""); return err }(),
		} {
			require.ErrorIs(t, err, ErrClosed, "call %d", i)
		}
		return nil
	})
	var none *World
	_, err := Alloc[uint64](none, 1)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorIs(t, none.Barrier(ctx), ErrInvalid)
}

// Calls that wait in other goroutines end when the World is closed.
func TestCloseEndsWaits(t *testing.T) {
	runPEs(t, 1, nil, func(ctx context.Context, w *World) error {
		sig, err := AllocSignals(w, 1)
		require.NoError(t, err)
		ended := make(chan error)
		go func() {
			_, err := WaitSignal(ctx, sig.At(0), Eq(1))
			ended <- err
		}()
		time.Sleep(10 * time.Millisecond)
		begin := time.Now()
		require.NoError(t, w.Close())
		require.Less(t, time.Since(begin), 2*time.Second)
		require.ErrorIs(t, <-ended, ErrClosed)
		return nil
	})
}

func TestForeignWorld(t *testing.T) {
	runPEs(t, 1, nil, func(ctx context.Context, w *World) error {
		other, err := Init(ctx, Options{Environ: environ(0, 1, newRoot())})
		require.NoError(t, err)
		defer other.Close()
		a, err := Alloc[uint64](w, 1)
		require.NoError(t, err)
		sig, err := AllocSignals(other, 1)
		require.NoError(t, err)
		err = PutSignal(ctx, a, []uint64{1}, sig.At(0), Set(1), 0)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "a word of another World")
		return nil
	})
}

func TestRegisterBuffer(t *testing.T) {
	runPEs(t, 1, []string{"PGAS_PATH=ibgda"}, func(ctx context.Context, w *World) error {
		for _, c := range []struct{ addr, bytes uint64 }{{0, 0}, {4096, 0}} {
			release, err := w.RegisterBuffer(c.addr, c.bytes)
			require.NoError(t, err, "an empty buffer needs nothing")
			require.NoError(t, release())
		}
		_, err := w.RegisterBuffer(0, 8)
		require.ErrorIs(t, err, ErrInvalid)
		_, err = w.RegisterBuffer(math.MaxUint64, 8)
		require.ErrorIs(t, err, ErrInvalid)
		mem, err := w.plat.NewHostMemory(1 << 16)
		require.NoError(t, err)
		defer mem.Close()
		releases := []func() error{}
		for range 63 { // one entry is the engine's
			release, err := w.RegisterBuffer(mem.Addr, mem.Bytes)
			require.NoError(t, err)
			releases = append(releases, release)
		}
		_, err = w.RegisterBuffer(mem.Addr, mem.Bytes)
		require.ErrorContains(t, err, "want at most 64 at a time")
		for _, release := range releases {
			require.NoError(t, release())
		}
		require.ErrorIs(t, releases[0](), ErrInvalid, "a second release")
		return nil
	})
}

// Values that Init, Load and their like did not return are refused, not dereferenced.
func TestZeroValuesAreRefused(t *testing.T) {
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"barrier":  func() error { return (&World{}).Barrier(ctx) },
		"alloc":    func() error { _, err := Alloc[int32](&World{}, 1); return err },
		"close":    func() error { return (&World{}).Close() },
		"quiet":    func() error { return (&World{}).Quiet(ctx, 0) },
		"launch":   func() error { return (&Kernel{}).Launch(ctx, Grid{Blocks: 1, Threads: 1}) },
		"nil":      func() error { return (*Kernel)(nil).Launch(ctx, Grid{Blocks: 1, Threads: 1}) },
		"kernel":   func() error { _, err := (&Module{}).Kernel("k"); return err },
		"sync":     func() error { return (&Stream{}).Sync(ctx) },
		"record":   func() error { return (&Event{}).Record(nil) },
		"since":    func() error { _, err := (&Event{}).Since(nil); return err },
		"put":      func() error { return Put(ctx, Slice[int32]{}, []int32{1}, 0) },
		"signal":   func() error { return Signal(ctx, SignalWord{}, Set(1), 0) },
		"fetchadd": func() error { _, err := FetchAdd(ctx, Slice[uint64]{}, 1, 0); return err },
	} {
		require.ErrorIs(t, call(), ErrInvalid, name)
	}
}
