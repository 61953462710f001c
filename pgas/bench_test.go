package pgas

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// benchPEs runs body on size PEs that are goroutines; PE 0's loop is what is measured, the others run it along.
func benchPEs(b *testing.B, path string, size int, body func(ctx context.Context, w *World, n int) error) {
	b.Helper()
	root := newRoot()
	var all sync.WaitGroup
	for pe := range size {
		all.Go(func() {
			w, err := Init(context.Background(), Options{Environ: environ(pe, size, root, "PGAS_PATH="+path, "PGAS_CONTEXTS=1")})
			if err != nil {
				b.Error(err)
				return
			}
			defer w.Close()
			if err := w.Barrier(context.Background()); err != nil {
				b.Error(err)
				return
			}
			if pe == 0 {
				b.ResetTimer()
			}
			if err := body(context.Background(), w, b.N); err != nil {
				b.Error(err)
			}
			if pe == 0 {
				b.StopTimer()
			}
		})
	}
	all.Wait()
}

func BenchmarkBarrier(b *testing.B) {
	for _, path := range []string{"p2p", "ibgda"} {
		for _, size := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("%s/%d", path, size), func(b *testing.B) {
				benchPEs(b, path, size, func(ctx context.Context, w *World, n int) error {
					for range n {
						if err := w.Barrier(ctx); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}

func BenchmarkHost(b *testing.B) {
	for _, path := range []string{"p2p", "ibgda"} {
		for _, op := range []struct {
			name string
			n    int
			run  func(ctx context.Context, a Slice[uint64], data []uint64, sig SignalWord) error
		}{
			{"put", 1, func(ctx context.Context, a Slice[uint64], d []uint64, _ SignalWord) error { return Put(ctx, a, d, 0) }},
			{"put", 8192, func(ctx context.Context, a Slice[uint64], d []uint64, _ SignalWord) error { return Put(ctx, a, d, 0) }},
			{"get", 1, func(ctx context.Context, a Slice[uint64], d []uint64, _ SignalWord) error { return Get(ctx, d, a, 0) }},
			{"put_signal", 1, func(ctx context.Context, a Slice[uint64], d []uint64, s SignalWord) error {
				return PutSignal(ctx, a, d, s, Add(1), 0)
			}},
			{"fetch_add", 1, func(ctx context.Context, a Slice[uint64], _ []uint64, _ SignalWord) error {
				_, err := FetchAdd(ctx, a, 1, 0)
				return err
			}},
		} {
			b.Run(fmt.Sprintf("%s/%s/%dB", path, op.name, 8*op.n), func(b *testing.B) {
				benchPEs(b, path, 1, func(ctx context.Context, w *World, n int) error {
					a, err := Alloc[uint64](w, op.n)
					if err != nil {
						return err
					}
					sig, err := AllocSignals(w, 1)
					if err != nil {
						return err
					}
					data, word := make([]uint64, op.n), sig.At(0)
					b.SetBytes(int64(8 * op.n))
					b.ResetTimer()
					for range n {
						if err := op.run(ctx, a, data, word); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}
