// Package litmus tests each promise of docs/memory-model.md, and that each test can fail.
package litmus

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/testjob"
	"github.com/pgas-go/pgas/pgas"
)

//go:embed litmus.cu
var source embed.FS

func TestMain(m *testing.M) { testjob.Main(m, map[string]testjob.PE{"litmus": litmus}) }

// A promise is one litmus test. Its number is that of the enum in litmus.cu.
type promise struct {
	name    string
	pes     int
	sizes   []int
	control bool // its control makes a mistake that chaos must bring to light
}

var promises = []promise{
	{"put_signal_data", 2, []int{1, 8, 29, 1000, 70000}, true},
	{"signal_covers_earlier", 2, []int{8, 1000, 30000}, true},
	{"fence_orders", 2, []int{8, 1000, 30000}, true},
	{"quiet_completes", 2, []int{8, 1000, 30000}, true},
	{"fence_get_put", 2, []int{100, 5000}, true},
	{"source_reuse", 2, []int{8, 1000, 30000}, true},
	{"get_then_read", 2, []int{8, 1000, 30000}, true},
	{"signal_not_torn", 2, []int{8}, false},
	{"signal_add_sum", 3, []int{8}, false},
	{"signal_relay", 3, []int{8, 1000, 30000}, true},
}

// A way is a path and, for NICs, a driver of the software HCA.
type way struct {
	name   string
	env    []string
	rounds int
}

var ways = []way{
	{"p2p", []string{"PGAS_PATH=p2p"}, 100},
	{"inline", []string{"PGAS_PATH=ibgda", "PGAS_SOFT_HCA=mode=inline", "PGAS_QUEUE_DEPTH=4"}, 100},
	{"thread", []string{"PGAS_PATH=ibgda", "PGAS_SOFT_HCA=mode=thread", "PGAS_QUEUE_DEPTH=16"}, 100},
	{"chaos-1", []string{"PGAS_PATH=ibgda", "PGAS_SOFT_HCA=mode=chaos,seed=1"}, 100},
	{"chaos-2", []string{"PGAS_PATH=ibgda", "PGAS_SOFT_HCA=mode=chaos,seed=2", "PGAS_QUEUE_DEPTH=2"}, 60},
}

func TestPromises(t *testing.T) {
	for _, w := range ways {
		for i, p := range promises {
			t.Run(w.name+"/"+p.name, func(t *testing.T) {
				for _, n := range p.sizes {
					if testing.Short() && n != p.sizes[len(p.sizes)-1] {
						continue
					}
					require.Zero(t, violations(t, i, p, w, n, w.rounds, false), "%d bytes; replay: go test ./tests/litmus -run '%s'", n, t.Name())
				}
			})
		}
	}
}

// TestControls makes the mistakes. Under chaos they must show; if one does not, its promise is not being tested.
func TestControls(t *testing.T) {
	for i, p := range promises {
		if !p.control {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			n := p.sizes[len(p.sizes)-1]
			for seed := range 5 {
				w := way{env: []string{"PGAS_PATH=ibgda", fmt.Sprintf("PGAS_SOFT_HCA=mode=chaos,seed=%d", seed+1)}}
				if found := violations(t, i, p, w, n, 200, true); found > 0 {
					t.Logf("seed %d: %d violations in 200 rounds of the mistake", seed+1, found)
					return
				}
			}
			t.Error("the mistake was never seen: this litmus test cannot fail")
		})
	}
}

// TestEveryPromiseIsTested compares the names in the memory model with the tests here.
func TestEveryPromiseIsTested(t *testing.T) {
	text, err := os.ReadFile("../../docs/memory-model.md")
	require.NoError(t, err)
	var documented, tested []string
	for _, m := range regexp.MustCompile(`\*\*\s+\[([a-z_]+)\]`).FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1])
	}
	for _, p := range promises {
		tested = append(tested, p.name)
	}
	require.ElementsMatch(t, documented, tested)
}

// violations runs one test and returns how many rounds broke the promise, over all PEs.
func violations(t *testing.T, which int, p promise, w way, n, rounds int, control bool) int {
	t.Helper()
	results := testjob.Run(t, testjob.Job{Name: "litmus", PEs: p.pes, Env: w.env,
		Args: []string{strconv.Itoa(which), strconv.Itoa(n), strconv.Itoa(rounds), strconv.FormatBool(control)}, Timeout: 5 * time.Minute})
	sum := 0
	for _, r := range results {
		found, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(lastLine(r.Output), "violations")))
		require.NoError(t, err, r.Output)
		sum += found
	}
	return sum
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// litmus is one PE: it runs the kernel and prints the violations that its threads counted.
func litmus(ctx context.Context, args []string) error {
	which, err1 := strconv.Atoi(args[0])
	n, err2 := strconv.Atoi(args[1])
	rounds, err3 := strconv.Atoi(args[2])
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	control := uint32(0)
	if args[3] == "true" {
		control = 1
	}
	w, err := pgas.Init(ctx, pgas.Options{HeapSize: 4 << 20, Contexts: 2})
	if err != nil {
		return err
	}
	m, err := w.Load(ctx, source, "litmus.cu")
	if err != nil {
		return err
	}
	k, err := m.Kernel("litmus")
	if err != nil {
		return err
	}
	box, err := pgas.Alloc[byte](w, 2*n)
	if err != nil {
		return err
	}
	src, err := pgas.Alloc[byte](w, 2*n)
	if err != nil {
		return err
	}
	out, err := pgas.Alloc[uint32](w, 2)
	if err != nil {
		return err
	}
	signals, err := pgas.AllocSignals(w, 4)
	if err != nil {
		return err
	}
	if err := k.Launch(ctx, pgas.Grid{Blocks: 1, Threads: 32}, w.Device(), uint32(which), control, uint32(rounds), box, src, uint64(n),
		signals, out.Slice(0, 1), out.Slice(1, 2)); err != nil {
		return err
	}
	got := make([]uint32, 2)
	if err := pgas.CopyOut(got, out); err != nil {
		return err
	}
	if got[1] != 0 {
		return fmt.Errorf("device status %d", got[1])
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	fmt.Printf("violations %d\n", got[0])
	return w.Close()
}
