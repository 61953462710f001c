package pgas

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/kernel"
)

//go:embed testdata
var testKernels embed.FS

func loadKernel(ctx context.Context, w *World, name string) (*Kernel, error) {
	m, err := w.Load(ctx, testKernels, "testdata/test.cu")
	if err != nil {
		return nil, err
	}
	return m.Kernel(name)
}

func TestKernelRing(t *testing.T) {
	forPaths(t, kernelRing(t))
}

// The NIC may work beside the kernel, and in any order that the rules allow.
func TestKernelRingOnEveryEngine(t *testing.T) {
	for _, spec := range []string{"mode=thread", "mode=chaos,seed=1", "mode=chaos,seed=2"} {
		for _, depth := range []string{"2", "1024"} {
			t.Run(spec+"/"+depth, func(t *testing.T) {
				runPEs(t, 2, []string{"PGAS_PATH=ibgda", "PGAS_SOFT_HCA=" + spec, "PGAS_QUEUE_DEPTH=" + depth, "PGAS_CONTEXTS=1"}, kernelRing(t))
			})
		}
	}
}

// kernelRing sends data round the PEs by kernels, in streams and without.
func kernelRing(t *testing.T) func(ctx context.Context, w *World) error {
	return func(ctx context.Context, w *World) error {
		k, err := loadKernel(ctx, w, "ring")
		if err != nil {
			return err
		}
		const n = 3000
		box, err := Alloc[uint64](w, n)
		if err != nil {
			return err
		}
		src, err := Alloc[uint64](w, n)
		if err != nil {
			return err
		}
		flag, err := AllocSignals(w, 1)
		if err != nil {
			return err
		}
		status, err := AllocHost[uint32](w, 1)
		if err != nil {
			return err
		}
		stream, err := w.NewStream()
		if err != nil {
			return err
		}
		for round := uint64(1); round <= 10; round++ {
			data := make([]uint64, n)
			for i := range data {
				data[i] = round<<32 | uint64(w.PE()*n+i)
			}
			if err := CopyIn(src, data); err != nil {
				return err
			}
			grid := Grid{Blocks: 1, Threads: 64}
			if round%2 == 0 {
				grid.Stream = stream
			}
			if err := k.Launch(ctx, grid, w.Device(), box, src, uint64(n), flag, round, status); err != nil {
				return err
			}
			if err := stream.Sync(ctx); err != nil {
				return err
			}
			got, code := make([]uint64, n), []uint32{99}
			if err := errors.Join(CopyOut(got, box), CopyOut(code, status)); err != nil {
				return err
			}
			require.Equal(t, []uint32{0}, code)
			for i, v := range got {
				require.Equal(t, round<<32|uint64(w.Prev()*n+i), v)
			}
			if err := w.Barrier(ctx); err != nil {
				return err
			}
		}
		return stream.Close()
	}
}

func TestKernelArguments(t *testing.T) {
	runPEs(t, 1, nil, func(ctx context.Context, w *World) error {
		k, err := loadKernel(ctx, w, "all_types")
		require.NoError(t, err)
		require.Equal(t, "all_types", k.Name())
		out, err := Alloc[int8](w, 4)
		require.NoError(t, err)
		type scale struct {
			By   float32
			Plus int32
		}
		good := []any{out, float32(1.5), float64(2.5), uint16(3), scale{2, -4}, true}
		require.NoError(t, k.Launch(ctx, Grid{Blocks: 2, Threads: 32}, good...))
		got := make([]int8, 4)
		require.NoError(t, CopyOut(got, out))
		require.Equal(t, []int8{7, 7, 0, 0}, got)

		with := func(i int, v any) []any {
			args := append([]any{}, good...)
			args[i] = v
			return args
		}
		for _, c := range []struct {
			args []any
			text string
		}{
			{good[:5], "number of arguments is 5, want 6"},
			{append(good, 1), "number of arguments is 7, want 6"},
			{with(1, float64(1)), "argument 1 is float64, 8 bytes, want 4 bytes, as the kernel's parameter"},
			{with(2, int(1)), "argument 2: element type int cannot be shared: it is int, whose size depends on the machine"},
			{with(3, "x"), "argument 3: element type string cannot be shared"},
			{with(4, &scale{}), "element type *pgas.scale cannot be shared"},
			{with(0, nil), "argument 0 is nil"},
			{with(0, Slice[int8]{}), "argument 0 is the zero handle"},
			{with(0, out.At(4)), "index is 4, want 0..3"},
			{with(4, w.Device()), ""}, // 8 bytes, as the struct: sizes are all that the driver tells
		} {
			err := k.Launch(ctx, Grid{Blocks: 1, Threads: 1}, c.args...)
			if c.text == "" {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, c.text)
		}
		for _, c := range []struct {
			g    Grid
			text string
		}{
			{Grid{}, "blocks is 0"}, {Grid{Blocks: 1}, "threads is 0"}, {Grid{Blocks: -1, Threads: 1}, "blocks is -1"},
			{Grid{Blocks: 1, Threads: 1025}, "threads is 1025, want 1..1024"},
			{Grid{Blocks: 1, Threads: 1, Shared: -1}, "shared is -1"},
		} {
			err := k.Launch(ctx, c.g, good...)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, c.text)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		require.ErrorIs(t, k.Launch(gone, Grid{Blocks: 1, Threads: 1}, good...), context.Canceled)
		return nil
	})
}

func TestModules(t *testing.T) {
	runPEs(t, 1, nil, func(ctx context.Context, w *World) error {
		m, err := w.Load(ctx, testKernels, "testdata/test.cu")
		require.NoError(t, err)
		_, err = m.Kernel("nobody")
		require.ErrorContains(t, err, `testdata/test.cu has no kernel "nobody"`)
		require.ErrorContains(t, err, "PGAS_KERNEL(nobody) is needed after it")
		_, err = m.Kernel("stale")
		require.ErrorIs(t, err, ErrMismatch)
		require.ErrorContains(t, err, "compiled with other pgas headers: layout hash 0x1, this program has 0x")
		k, err := m.Kernel("plain")
		require.NoError(t, err, "a kernel without the headers has no layout")
		out, err := AllocHost[uint64](w, 1)
		require.NoError(t, err)
		require.NoError(t, k.Launch(ctx, Grid{Blocks: 1, Threads: 1}, out))
		got := make([]uint64, 1)
		require.NoError(t, CopyOut(got, out))
		require.Equal(t, uint64(42), got[0])

		require.NoError(t, m.Close())
		require.NoError(t, m.Close())
		_, err = m.Kernel("plain")
		require.ErrorContains(t, err, "which was closed")
		require.ErrorContains(t, k.Launch(ctx, Grid{Blocks: 1, Threads: 1}, out), "which was closed")

		_, err = w.Load(ctx, fstest.MapFS{"bad.cu": {Data: []byte("this is no code")}}, "bad.cu")
		var refused *kernel.CompileError
		require.ErrorAs(t, err, &refused)
		_, err = w.Load(ctx, testKernels, "testdata/none.cu")
		require.Error(t, err)
		return nil
	})
}

func TestKernelFailures(t *testing.T) {
	for _, path := range []string{"p2p", "ibgda"} {
		runPEs(t, 1, []string{"PGAS_TIMEOUT=200ms", "PGAS_PATH=" + path}, func(ctx context.Context, w *World) error {
			flag, err := AllocSignals(w, 1)
			require.NoError(t, err)
			status, err := AllocHost[uint32](w, 1)
			require.NoError(t, err)
			k, err := loadKernel(ctx, w, "wait_forever")
			require.NoError(t, err)
			err = k.Launch(ctx, Grid{Blocks: 1, Threads: 1}, w.Device(), flag, status)
			var failed *LaunchError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, []string{"wait_forever"}, failed.Kernels)
			require.ErrorIs(t, err, ErrTimeout)
			require.ErrorContains(t, err, fmt.Sprintf("word %#x (offset %d of the signal segment) is 0, waiting for 1, block 0 thread 0", flag.Addr(), flag.Offset()))

			box, err := Alloc[uint64](w, 1)
			require.NoError(t, err)
			k, err = loadKernel(ctx, w, "bad_pe")
			require.NoError(t, err)
			err = k.Launch(ctx, Grid{Blocks: 1, Threads: 1}, w.Device(), box)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, "PE 99")
			return w.Barrier(ctx)
		})
	}
}

// Kernels that wait end when the job ends, long before their own deadline.
func TestAbortEndsKernels(t *testing.T) {
	reason := errors.New("enough")
	failures := tryPEs(t, 2, nil, func(ctx context.Context, w *World) error {
		flag, err := AllocSignals(w, 1)
		require.NoError(t, err)
		status, err := AllocHost[uint32](w, 1)
		require.NoError(t, err)
		k, err := loadKernel(ctx, w, "wait_forever")
		require.NoError(t, err)
		require.NoError(t, w.Barrier(ctx))
		if w.PE() == 1 {
			time.Sleep(50 * time.Millisecond)
			return reason
		}
		begin := time.Now()
		err = k.Launch(ctx, Grid{Blocks: 1, Threads: 1}, w.Device(), flag, status)
		require.Less(t, time.Since(begin), 5*time.Second)
		require.ErrorIs(t, err, ErrAborted)
		require.ErrorContains(t, err, "kernel wait_forever: job aborted by PE 1: enough")
		return nil
	})
	require.NoError(t, failures[0])
	require.ErrorIs(t, failures[1], reason)
}

func TestStreamsAndEvents(t *testing.T) {
	runPEs(t, 1, nil, func(ctx context.Context, w *World) error {
		k, err := loadKernel(ctx, w, "plain")
		require.NoError(t, err)
		out, err := Alloc[uint64](w, 1)
		require.NoError(t, err)
		a, err := w.NewStream()
		require.NoError(t, err)
		b, err := w.NewStream()
		require.NoError(t, err)
		start, err := w.NewEvent()
		require.NoError(t, err)
		end, err := w.NewEvent()
		require.NoError(t, err)
		require.NoError(t, start.Record(a))
		require.NoError(t, k.Launch(ctx, Grid{Blocks: 1, Threads: 1, Stream: a}, out))
		require.NoError(t, end.Record(a))
		require.NoError(t, end.Wait(b))
		require.NoError(t, b.Sync(ctx))
		done, err := a.Done()
		require.NoError(t, err)
		require.True(t, done, "b waited for a")
		d, err := end.Since(start)
		require.NoError(t, err)
		require.Positive(t, d)
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		require.ErrorContains(t, a.Sync(ctx), "stream is closed")
		require.ErrorContains(t, k.Launch(ctx, Grid{Blocks: 1, Threads: 1, Stream: a}, out), "stream is closed")
		require.ErrorContains(t, start.Record(a), "stream is closed")
		return errors.Join(start.Close(), end.Close())
	})
}
