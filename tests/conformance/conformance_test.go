// Package conformance runs every operation of the device library over every path, scope, size, offset, queue depth and
// driver of the software HCA, and compares every byte of the target and of its surroundings.
package conformance

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pgas-go/pgas/internal/testjob"
)

//go:embed conformance.cu
var source embed.FS

func TestMain(m *testing.M) {
	testjob.Main(m, map[string]testjob.PE{"matrix": matrix, "api": api, "huge": huge})
}

// A config is one run of the whole matrix of operations.
type config struct {
	name string
	pes  int
	env  []string
}

func ibgda(name string, pes, depth int, hca string) config {
	return config{name, pes, []string{"PGAS_PATH=ibgda", fmt.Sprintf("PGAS_QUEUE_DEPTH=%d", depth), "PGAS_SOFT_HCA=" + hca}}
}

var configs = []config{
	{"p2p", 3, []string{"PGAS_PATH=p2p"}},
	{"p2p-1pe", 1, []string{"PGAS_PATH=p2p"}},
	ibgda("ibgda-inline", 3, 1024, "mode=inline"),
	ibgda("ibgda-inline-depth2", 2, 2, "mode=inline"),
	ibgda("ibgda-inline-depth8", 2, 8, "mode=inline"),
	ibgda("ibgda-inline-1pe", 1, 16, "mode=inline"),
	ibgda("ibgda-thread", 2, 64, "mode=thread"),
	ibgda("ibgda-thread-depth2", 2, 2, "mode=thread"),
	ibgda("ibgda-chaos-1", 2, 64, "mode=chaos,seed=1"),
	ibgda("ibgda-chaos-2", 3, 4, "mode=chaos,seed=2"),
	ibgda("ibgda-small-messages", 2, 8, "mode=inline,log_max_msg=12"),
}

func TestMatrix(t *testing.T) {
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && strings.Contains(c.name, "chaos-2") {
				t.Skip("-short: one chaos seed is enough")
			}
			results := testjob.Run(t, testjob.Job{Name: "matrix", PEs: c.pes, Env: c.env, Args: []string{strconv.FormatBool(testing.Short())}, Timeout: 10 * time.Minute})
			if !t.Failed() {
				t.Log(strings.TrimSpace(results[0].Output))
			}
		})
	}
}

// TestAPI checks what kernels see of their world and that bad calls are refused.
func TestAPI(t *testing.T) {
	for _, path := range []string{"p2p", "ibgda"} {
		t.Run(path, func(t *testing.T) {
			testjob.Run(t, testjob.Job{Name: "api", PEs: 2, Env: []string{"PGAS_PATH=" + path}, Args: []string{path}})
		})
	}
}

// TestHuge moves one message above 4 GiB, where 32-bit lengths and offsets wrap. It needs 9 GiB and is not part of the
// short run.
func TestHuge(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a message above 4 GiB needs 9 GiB of memory")
	}
	if free := availableBytes(t); free < 11<<30 {
		t.Skipf("need 11 GiB of free memory, have %.1f GiB", float64(free)/(1<<30))
	}
	for _, path := range []string{"p2p", "ibgda"} {
		t.Run(path, func(t *testing.T) {
			testjob.Run(t, testjob.Job{Name: "huge", PEs: 1, Env: []string{"PGAS_PATH=" + path, "PGAS_HEAP_SIZE=9G", "PGAS_SOFT_GPU=mem=11G"}, Timeout: 10 * time.Minute})
		})
	}
}

func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 9*time.Minute)
}
