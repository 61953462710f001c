package pgas

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/internal/leak"
	"github.com/pgas-go/pgas/internal/softgpu"
	"github.com/pgas-go/pgas/internal/softhca"
)

func TestWorldFacts(t *testing.T) {
	runPEs(t, 3, nil, func(ctx context.Context, w *World) error {
		require.Equal(t, 3, w.NPEs())
		require.Equal(t, (w.PE()+1)%3, w.Next())
		require.Equal(t, (w.PE()+2)%3, w.Prev())
		require.Equal(t, "p2p", w.Path(2))
		require.Empty(t, w.Path(3))
		require.Empty(t, w.Path(-1))
		require.Equal(t, "soft", w.Platform())
		require.Equal(t, 20*time.Second, w.Timeout())
		require.NoError(t, w.Err())
		return w.Barrier(ctx)
	})
}

// A program may bring its own rendezvous; Init closes it, also when it fails.
func TestOwnExchanger(t *testing.T) {
	x := bootstrap.Single()
	w, err := Init(t.Context(), Options{Platform: "soft", HeapSize: 1 << 20, Exchanger: x})
	require.NoError(t, err)
	require.NoError(t, w.Barrier(t.Context()))
	require.NoError(t, w.Close())
	require.ErrorIs(t, x.Barrier(t.Context()), ErrClosed)

	for _, o := range []Options{{Platform: "nowhere"}, {Platform: "soft", SoftGPU: "vmm=0"}} {
		o.Exchanger = bootstrap.Single()
		_, err = Init(t.Context(), o)
		require.Error(t, err)
		require.Error(t, o.Exchanger.Barrier(t.Context()))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Init(gone, Options{Platform: "soft", Exchanger: bootstrap.Single()})
	require.ErrorIs(t, err, context.Canceled)
	requireNothingLeft(t, "own exchanger")
}

// The path that was asked for is the one that moves the bytes.
func TestPathIsReallyUsed(t *testing.T) {
	for _, path := range []string{"p2p", "ibgda"} {
		require.NoError(t, softhca.Configure(""))
		runPEs(t, 2, []string{"PGAS_PATH=" + path}, func(ctx context.Context, w *World) error {
			require.Equal(t, path, w.Path(w.PE()), "also to itself")
			a, err := Alloc[uint64](w, 1000)
			if err != nil {
				return err
			}
			for pe := range w.NPEs() {
				if err := Put(ctx, a, make([]uint64, 1000), pe); err != nil {
					return err
				}
			}
			return w.Barrier(ctx)
		})
		n := softhca.Counters()
		if path == "p2p" {
			require.Zero(t, n.Doorbells)
			require.Zero(t, n.Commands, "the NIC is not even opened")
		} else {
			require.GreaterOrEqual(t, n.BytesWritten, uint64(2*2*8000))
			require.GreaterOrEqual(t, n.WQEWrite, uint64(4))
			require.Zero(t, n.DoorbellsIgnored)
			require.Zero(t, n.CQEErrors)
		}
	}
}

func TestAbortReachesEverybody(t *testing.T) {
	reason := errors.New("the input is unusable")
	failures := tryPEs(t, 3, nil, func(ctx context.Context, w *World) error {
		if w.PE() == 1 {
			time.Sleep(20 * time.Millisecond)
			return reason // the harness aborts with it
		}
		begin := time.Now()
		err := w.Barrier(ctx)
		require.Less(t, time.Since(begin), 5*time.Second)
		require.ErrorIs(t, err, ErrAborted)
		require.ErrorContains(t, err, "job aborted by PE 1: the input is unusable")
		<-w.Done()
		require.ErrorContains(t, w.Err(), "the input is unusable")
		require.ErrorIs(t, w.Barrier(ctx), ErrAborted, "later calls give the same cause")
		_, err = Alloc[uint64](w, 1)
		require.ErrorIs(t, err, ErrAborted)
		return nil
	})
	require.NoError(t, failures[0])
	require.ErrorIs(t, failures[1], reason)
	require.NoError(t, failures[2])
}

func TestUnequalSettingsAreRefused(t *testing.T) {
	for _, c := range []struct{ name, zero, one string }{
		{"PGAS_HEAP_SIZE", "4194304 bytes", "8388608 bytes"},
		{"PGAS_HOST_HEAP_SIZE", "1048576 bytes", "8388608 bytes"},
		{"PGAS_CONTEXTS", "4", "2"},
		{"PGAS_QUEUE_DEPTH", "1024", "64"},
		{"PGAS_PATH", "auto", "p2p"},
		{"PGAS_TIMEOUT", "20s", "9s"},
	} {
		value := map[string]string{"PGAS_CONTEXTS": "2", "PGAS_QUEUE_DEPTH": "64", "PGAS_PATH": "p2p", "PGAS_TIMEOUT": "9s"}[c.name]
		if value == "" {
			value = "8M"
		}
		root := newRoot()
		failed := make(chan error, 2)
		for pe := range 2 {
			go func() {
				var extra []string
				if pe == 1 {
					extra = []string{c.name + "=" + value}
				}
				w, err := Init(context.Background(), Options{Environ: environ(pe, 2, root, extra...)})
				if err == nil {
					err = errors.Join(errors.New("init worked"), w.Close())
				}
				failed <- err
			}()
		}
		for range 2 {
			err := <-failed
			require.ErrorIs(t, err, ErrMismatch, c.name)
			require.ErrorContains(t, err, c.name+": "+c.zero+" on PE 0; "+c.one+" on PE 1")
		}
	}
}

func TestHeapTooLarge(t *testing.T) {
	for _, size := range []string{"1000000G", "9223372036854775807"} {
		failures := tryPEs(t, 2, []string{"PGAS_HEAP_SIZE=" + size}, func(context.Context, *World) error { return nil })
		for _, err := range failures {
			require.ErrorIs(t, err, ErrNotSupported)
			require.ErrorContains(t, err, "for each of 2 PEs")
			require.ErrorContains(t, err, "bytes available (lower PGAS_HEAP_SIZE)")
		}
	}
}

// Whatever step of Init fails, the first cause comes out on every PE and nothing is left.
func TestInitFailsAtEachStep(t *testing.T) {
	calls := []string{"cuInit", "cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuMemGetAllocationGranularity", "cuMemCreate",
		"cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle",
		"cuMemsetD8", "cuMemHostRegister", "cuMemHostGetDevicePointer", "cuMemcpyHtoD"}
	for _, call := range calls {
		for _, nth := range []string{"1", "2", "5"} {
			leak.Check(t)
			spec := "PGAS_SOFT_GPU=fail=" + call + ":" + nth + ":999"
			failures := tryPEs(t, 2, []string{spec, "PGAS_PATH=ibgda", "PGAS_CONTEXTS=2"}, func(ctx context.Context, w *World) error {
				return w.Barrier(ctx)
			})
			if failures[0] == nil && failures[1] == nil {
				continue // Init makes fewer such calls
			}
			for pe, err := range failures {
				require.Error(t, err, "%s %s: PE %d started alone", call, nth, pe)
			}
			require.True(t, strings.Contains(failures[0].Error(), call) || strings.Contains(failures[1].Error(), call),
				"%s %s: the cause is named: %v; %v", call, nth, failures[0], failures[1])
			requireNothingLeft(t, call+" "+nth)
		}
	}
}

func requireNothingLeft(t *testing.T, after string) {
	t.Helper()
	u := softgpu.GetUsage()
	require.Zero(t, u.Bytes, "%s: GPU memory", after)
	require.Zero(t, u.Streams+u.Events+u.Modules+u.MMIORanges, "%s: GPU objects", after)
	require.Equal(t, softhca.Objects{}, softhca.LiveObjects(), "%s: NIC objects", after)
}

func rounds(full int) int {
	if testing.Short() {
		return full / 25
	}
	return full
}

// Init and Close, again and again, leave nothing behind.
func TestInitCloseRounds(t *testing.T) {
	round := func(path string) {
		runPEs(t, 2, []string{"PGAS_PATH=" + path, "PGAS_CONTEXTS=1"}, func(ctx context.Context, w *World) error {
			a, err := Alloc[uint64](w, 16)
			if err != nil {
				return err
			}
			if err := Put(ctx, a, []uint64{1, 2, 3}, w.Next()); err != nil {
				return err
			}
			return w.Barrier(ctx)
		})
	}
	for range 5 {
		round("p2p")
		round("ibgda")
	}
	before, err := leak.Take()
	require.NoError(t, err)
	before.Shm = nil // others use it too, and pgas never does: see TestKilledPE
	before.Maps += 8 // arenas of Go and of malloc; a mapping lost per round would be many times that
	for range rounds(250) {
		round("p2p")
		round("ibgda")
	}
	requireNothingLeft(t, "rounds")
	var grown []string
	for range 50 { // threads and goroutines end a little later than their work
		after, err := leak.Take()
		require.NoError(t, err)
		after.Shm = nil
		if grown = before.Diff(after, 32<<20); len(grown) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	require.Empty(t, grown)
}

func TestMain(m *testing.M) {
	if scenario := os.Getenv("PGAS_TEST_SCENARIO"); scenario != "" {
		os.Exit(runScenario(scenario))
	}
	os.Exit(m.Run())
}

// A bad variable on one PE is refused on every PE, naming it, and not after the start-up deadline.
func TestBadVariableOnOnePEIsRefusedOnAll(t *testing.T) {
	root := newRoot()
	failures := make([]error, 3)
	var all sync.WaitGroup
	for pe := range failures {
		all.Go(func() {
			env := environ(pe, len(failures), root, "PGAS_BOOT_TIMEOUT=60s")
			if pe == 1 {
				env = append([]string{"PGAS_QUEUE_DEPTH=3"}, env...)
			}
			_, failures[pe] = Init(t.Context(), Options{Environ: env})
		})
	}
	all.Wait()
	for pe, err := range failures {
		require.ErrorContains(t, err, "PGAS_QUEUE_DEPTH", "PE %d", pe)
		require.NotErrorIs(t, err, ErrTimeout, "PE %d", pe)
	}
}
