// Package testjob runs a function of a test binary as a job: the binary starts itself once per PE.
//
//	func TestMain(m *testing.M) { testjob.Main(m, map[string]testjob.PE{"ring": ring}) }
//	func TestRing(t *testing.T) { testjob.Run(t, testjob.Job{Name: "ring", PEs: 4}) }
package testjob

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const nameVariable = "PGASTEST_JOB"

// A PE is what each process of a job does. An error, or a panic, fails the job.
type PE func(ctx context.Context, args []string) error

// A Job is a run of a registered PE function in several processes.
type Job struct {
	Name    string
	PEs     int
	Args    []string
	Env     []string      // added to a clean environment without PGAS_* variables
	Timeout time.Duration // 0 means two minutes
}

// Main runs the tests, or the PE function that this process was started for.
func Main(m *testing.M, jobs map[string]PE) {
	name := os.Getenv(nameVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := jobs[name](ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "PE %s: %v\n", os.Getenv("PGAS_RANK"), err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A Result is what one PE left.
type Result struct {
	Output string
	Err    error
}

// Run runs the job and fails the test unless every PE succeeds.
func Run(t testing.TB, j Job) []Result {
	t.Helper()
	if j.Timeout == 0 {
		j.Timeout = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), j.Timeout)
	defer cancel()
	results := make([]Result, j.PEs)
	commands := make([]*exec.Cmd, j.PEs)
	outputs := make([]bytes.Buffer, j.PEs)
	id := random()
	for rank := range commands {
		cmd := exec.CommandContext(ctx, os.Args[0], j.Args...)
		cmd.Env = append(environment(), nameVariable+"="+j.Name, "PGAS_RANK="+strconv.Itoa(rank), "PGAS_SIZE="+strconv.Itoa(j.PEs),
			"PGAS_ROOT=unix:@pgas-test-"+id, "PGAS_JOB_ID=test-"+id, "PGAS_JOB_KEY="+id)
		cmd.Env = append(cmd.Env, j.Env...)
		cmd.Stdout, cmd.Stderr = &outputs[rank], &outputs[rank]
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // a stuck PE shows its stacks
		cmd.WaitDelay = 5 * time.Second
		if err := cmd.Start(); err != nil {
			t.Fatalf("job %s: start PE %d: %v", j.Name, rank, err)
		}
		commands[rank] = cmd
	}
	var wg sync.WaitGroup
	for rank, cmd := range commands {
		wg.Go(func() {
			err := cmd.Wait()
			results[rank] = Result{outputs[rank].String(), err}
		})
	}
	wg.Wait()
	for rank, r := range results {
		if r.Err != nil {
			t.Errorf("job %s %v: PE %d: %v\n%s", j.Name, j.Args, rank, r.Err, r.Output)
		}
	}
	return results
}

// environment is the test's own, without anything that speaks to pgas or names a launcher.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		known := false
		for _, prefix := range []string{"PGAS_", "OMPI_", "PMIX_", "PMI_", "SLURM_", "RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "MASTER_"} {
			known = known || strings.HasPrefix(v, prefix)
		}
		if !known {
			env = append(env, v)
		}
	}
	return env
}

func random() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
