package pgas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/leak"
	"github.com/pgas-go/pgas/internal/softgpu"
)

// scenarios run in processes of their own, one per PE. They return what the process prints as its result.
var scenarios = map[string]func(ctx context.Context, w *World) (string, error){
	"exchange": exchangeScenario,
	"speed":    speedScenario,
	"barrier":  func(ctx context.Context, w *World) (string, error) { return victim(ctx, w, w.Barrier) },
	"wait": func(ctx context.Context, w *World) (string, error) {
		sig, err := AllocSignals(w, 1)
		if err != nil {
			return "", err
		}
		return victim(ctx, w, func(ctx context.Context) error { _, err := WaitSignal(ctx, sig.At(0), Eq(1)); return err })
	},
	"alloc": func(ctx context.Context, w *World) (string, error) {
		return victim(ctx, w, func(context.Context) error { _, err := Alloc[byte](w, 1); return err })
	},
	"kernel": kernelScenario,
	"put": func(ctx context.Context, w *World) (string, error) {
		a, err := Alloc[uint64](w, 1<<16)
		if err != nil {
			return "", err
		}
		return victim(ctx, w, func(ctx context.Context) error {
			data := make([]uint64, a.Len())
			for {
				if err := errors.Join(Put(ctx, a, data, w.Next()), w.Quiet(ctx, w.Next())); err != nil {
					return err
				}
			}
		})
	},
}

// kernelScenario lets a kernel wait for a PE that dies: the kernel must end as well.
func kernelScenario(ctx context.Context, w *World) (string, error) {
	flag, err := AllocSignals(w, 1)
	if err != nil {
		return "", err
	}
	status, err := AllocHost[uint32](w, 1)
	if err != nil {
		return "", err
	}
	k, err := loadKernel(ctx, w, "wait_forever")
	if err != nil {
		return "", err
	}
	return victim(ctx, w, func(ctx context.Context) error {
		err := k.Launch(ctx, Grid{Blocks: 2, Threads: 32}, w.Device(), flag, status)
		if u := softgpu.GetUsage(); u.Streams > 1 {
			return fmt.Errorf("%d streams", u.Streams)
		}
		return err
	})
}

// victim lets one PE die and reports how call ended on the others.
func victim(ctx context.Context, w *World, call func(context.Context) error) (string, error) {
	if err := w.Barrier(ctx); err != nil {
		return "", err
	}
	if fmt.Sprint(w.PE()) == os.Getenv("PGAS_TEST_VICTIM") {
		time.Sleep(50 * time.Millisecond)
		return "", syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	begin := time.Now()
	err := call(ctx)
	var lost *PeerLostError
	if !errors.As(err, &lost) || !errors.Is(err, ErrPeerLost) {
		return "", fmt.Errorf("no loss was reported: %w", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		return "", fmt.Errorf("the loss was reported after %v", took)
	}
	return fmt.Sprintf("lost PE %d", lost.PE), nil
}

func exchangeScenario(ctx context.Context, w *World) (string, error) {
	a, err := Alloc[uint64](w, w.NPEs())
	if err != nil {
		return "", err
	}
	for pe := range w.NPEs() {
		if err := Put(ctx, a.At(w.PE()), []uint64{uint64(100 + w.PE())}, pe); err != nil {
			return "", err
		}
	}
	if err := w.Barrier(ctx); err != nil {
		return "", err
	}
	got := make([]uint64, w.NPEs())
	err = CopyOut(got, a)
	return fmt.Sprint(got), err
}

// speedScenario measures barriers; every PE prints the same kind of line.
func speedScenario(ctx context.Context, w *World) (string, error) {
	const batches, each = 20, 50
	var barriers, naps []time.Duration
	for range batches {
		begin := time.Now()
		for range each {
			if err := w.Barrier(ctx); err != nil {
				return "", err
			}
		}
		barriers = append(barriers, time.Since(begin)/each)
		begin = time.Now()
		time.Sleep(time.Millisecond)
		naps = append(naps, time.Since(begin))
	}
	slices.Sort(barriers)
	slices.Sort(naps)
	return fmt.Sprint("barrier ", barriers[batches/2], " nap ", naps[batches/2]), nil
}

// runScenario is the main function of a child process.
func runScenario(name string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	w, err := Init(ctx, Options{})
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	result, err := scenarios[name](ctx, w)
	if e := w.Close(); err == nil && w.Err() == nil {
		err = e
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	if left := leak.Live(); len(left) > 0 {
		fmt.Println("error: not freed:", left)
		return 1
	}
	fmt.Println(result)
	return 0
}

// runProcesses runs a scenario with one process per PE and returns what each printed.
func runProcesses(t *testing.T, name string, size int, extra ...string) []string {
	t.Helper()
	root := newRoot()
	procs, outs := make([]*exec.Cmd, size), make([]bytes.Buffer, size)
	for pe := range procs {
		procs[pe] = exec.Command(os.Args[0])
		procs[pe].Env = environ(pe, size, root, append(extra, "PGAS_TEST_SCENARIO="+name)...)
		procs[pe].Stdout, procs[pe].Stderr = &outs[pe], &outs[pe]
		require.NoError(t, procs[pe].Start())
		t.Cleanup(func() { _ = procs[pe].Process.Kill() })
	}
	ends := make(chan int, size)
	for pe := range procs {
		go func() { _ = procs[pe].Wait(); ends <- pe }()
	}
	limit := time.After(time.Minute)
	for range procs {
		select {
		case <-ends:
		case <-limit:
			require.Fail(t, "processes did not end")
		}
	}
	texts := make([]string, size)
	for pe := range outs {
		texts[pe] = strings.TrimSpace(outs[pe].String())
	}
	return texts
}

func TestProcessesExchange(t *testing.T) {
	for _, path := range []string{"p2p", "ibgda"} {
		for _, driver := range []string{"mode=inline", "mode=thread", "mode=chaos,seed=7"} {
			require.Equal(t, []string{"[100 101 102 103]", "[100 101 102 103]", "[100 101 102 103]", "[100 101 102 103]"},
				runProcesses(t, "exchange", 4, "PGAS_PATH="+path, "PGAS_SOFT_HCA="+driver), "%s %s", path, driver)
		}
	}
}

// A PE that is killed makes every other PE return, naming it, with nothing left.
func TestKilledPE(t *testing.T) {
	for _, path := range []string{"p2p", "ibgda"} {
		for name := range scenarios {
			if name == "exchange" || name == "speed" {
				continue
			}
			for _, dead := range []int{0, 1} { // PE 0 is the one that all are connected to
				begin := time.Now()
				texts := runProcesses(t, name, 3, "PGAS_PATH="+path, fmt.Sprint("PGAS_TEST_VICTIM=", dead))
				lost := fmt.Sprint("lost PE ", dead)
				want := []string{lost, lost, lost}
				want[dead] = ""
				require.Equal(t, want, texts, "%s %s", path, name)
				require.Less(t, time.Since(begin), 15*time.Second)
			}
		}
	}
	names, err := leak.Shm()
	require.NoError(t, err)
	for _, name := range names {
		require.NotContains(t, name, "pgas", "left in /dev/shm")
	}
}

// Barriers between processes on fewer cores stay far from the collapse that spinning waiters have: tens of milliseconds
// each. The yardstick is what this machine makes of a sleep of 1 ms in the same run.
func TestBarrierDoesNotCollapse(t *testing.T) {
	for _, size := range []int{2, 4, 8} {
		for pe, text := range runProcesses(t, "speed", size, "PGAS_PATH=p2p") {
			f := strings.Fields(text)
			require.Len(t, f, 4, "PE %d: %s", pe, text)
			took, err := time.ParseDuration(f[1])
			require.NoError(t, err)
			nap, err := time.ParseDuration(f[3])
			require.NoError(t, err)
			require.Less(t, took, 5*nap, "%d PEs", size)
			if pe == 0 {
				t.Logf("%d PEs: %v per barrier, %v per sleep of 1 ms", size, took, nap)
			}
		}
	}
}
