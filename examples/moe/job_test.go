package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// binaries builds the launcher and this program once.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "moe-test-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir, "../../cmd/pgas", ".").CombinedOutput()
	if err != nil {
		return dir, errors.New(string(out))
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := binaries(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

type result struct {
	code int
	out  string
}

// start runs a job on the software platform.
func start(t *testing.T, pes int, path string, env []string, args ...string) result {
	t.Helper()
	dir, err := binaries()
	require.NoError(t, err)
	return startProgram(t, filepath.Join(dir, "moe"), pes, path, env, args...)
}

func startProgram(t *testing.T, program string, pes int, path string, env []string, args ...string) result {
	t.Helper()
	out, err := command(t, program, pes, path, env, args...).CombinedOutput()
	return resultOf(t, string(out), err)
}

func command(t *testing.T, program string, pes int, path string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := binaries()
	require.NoError(t, err)
	all := []string{"run", "-n", strconv.Itoa(pes), "--platform", "soft", "--path", path, "--timeout", "120s"}
	for _, e := range env {
		all = append(all, "--env", e)
	}
	all = append(all, "--", program)
	return exec.Command(filepath.Join(dir, "pgas"), append(all, args...)...)
}

func resultOf(t *testing.T, out string, err error) result {
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	r := result{out: out}
	if exit != nil {
		r.code = exit.ExitCode()
	}
	return r
}

// small is a shape that runs in a second or two.
var small = []string{"-tokens", "6", "-hidden", "256", "-experts", "24", "-topk", "3", "-iters", "2", "-blocks", "2", "-threads", "64"}

func with(args ...string) []string { return append(append([]string{}, small...), args...) }

func TestJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("jobs take a minute")
	}
	chaos := []string{"PGAS_SOFT_HCA=mode=chaos,seed=1"}
	for _, x := range []struct {
		name string
		pes  int
		path string
		env  []string
		args []string
	}{
		{"1 PE", 1, "p2p", nil, nil},
		{"1 PE ibgda", 1, "ibgda", nil, nil},
		{"2 PEs odd hidden", 2, "ibgda", nil, []string{"-bf16", "-hidden", "15"}},
		{"2 PEs one channel", 2, "p2p", nil, []string{"-bf16", "-hidden", "1"}},
		{"3 PEs split", 3, "p2p", nil, []string{"-split", "-pow2-scales"}},
		{"3 PEs no tokens", 3, "ibgda", nil, []string{"-tokens", "0"}},
		{"4 PEs p2p", 4, "p2p", nil, nil},
		{"4 PEs ibgda", 4, "ibgda", nil, nil},
		{"4 PEs smallest queues", 4, "ibgda", []string{"PGAS_QUEUE_DEPTH=2"}, []string{"-split"}},
		{"4 PEs thread", 4, "ibgda", []string{"PGAS_SOFT_HCA=mode=thread"}, []string{"-split"}},
		{"4 PEs chaos", 4, "ibgda", chaos, []string{"-split", "-contexts", "3"}},
		{"4 PEs chaos bf16", 4, "ibgda", []string{"PGAS_SOFT_HCA=mode=chaos,seed=2", "PGAS_QUEUE_DEPTH=4"}, []string{"-bf16"}},
		{"8 PEs", 8, "ibgda", nil, []string{"-iters", "1"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := start(t, x.pes, x.path, x.env, with(x.args...)...)
			require.Zero(t, r.code, r.out)
			require.Equal(t, len(routings), strings.Count(r.out, "equal the reference in every byte"), r.out)
			require.Contains(t, r.out, "PASS: 6 routings on "+strconv.Itoa(x.pes)+" PEs")
		})
	}
}

func TestJobJSON(t *testing.T) {
	r := start(t, 2, "ibgda", nil, with("-json", "-routing", "zerope")...)
	require.Zero(t, r.code, r.out)
	var lines []string
	for _, line := range strings.Split(r.out, "\n") {
		if _, text, ok := strings.Cut(line, "[0] "); ok {
			line = text
		}
		lines = append(lines, line)
	}
	text := strings.Join(lines, "\n")
	var doc Document
	require.NoError(t, json.Unmarshal([]byte(text[strings.Index(text, "{"):strings.LastIndex(text, "}")+1]), &doc), r.out)
	require.True(t, doc.Pass)
	require.Equal(t, 2, doc.PEs)
	require.Len(t, doc.Results, 1)
	require.Len(t, doc.Results[0].Rows, 2)
	for pe, row := range doc.Results[0].Rows {
		require.Equal(t, pe, row.PE)
		require.Equal(t, "ibgda", row.Path)
		require.Equal(t, uint64(6), row.Tokens) // two rounds, one of them without tokens
		require.Equal(t, uint64(4), row.Checked)
		require.Positive(t, row.Dispatch.P50)
		require.Positive(t, row.Combine.P99)
		require.Equal(t, uint64(6*3)*uint64(32+256+8), row.DispatchBytes.Logical)
	}
}

// Refusals: one line for the job, the numbers in it, and exit code 2.
func TestJobRefusals(t *testing.T) {
	for _, x := range []struct {
		env  []string
		args []string
		want string
	}{
		{nil, []string{"-experts", "31"}, "experts must be a multiple of the PEs; you have 31 experts on 2 PEs"},
		{nil, []string{"-hidden", "100"}, "hidden must be a multiple of 128 for fp8"},
		{nil, []string{"-topk", "9", "-experts", "8"}, "topk must be <= experts; you have topk 9 of 8 experts"},
		{[]string{"PGAS_HEAP_SIZE=256K"}, nil, "buffers do not fit the symmetric heap: need"},
	} {
		r := start(t, 2, "p2p", x.env, with(x.args...)...)
		require.Equal(t, 2, r.code, r.out)
		said := 0
		for _, line := range strings.Split(r.out, "\n") {
			if strings.HasPrefix(line, "[") && strings.Contains(line, x.want) { // pgas run repeats it as its last line
				said++
			}
		}
		require.Equal(t, 1, said, r.out)
	}
}

// An operation that fails on the wire ends the job with exit code 1 and the failure in the output, long before the
// deadline of a wait, although only the sender's queue shows it.
func TestJobFailsOnACompletionError(t *testing.T) {
	begin := time.Now()
	r := start(t, 2, "ibgda", []string{"PGAS_SOFT_HCA=error_wqe=40:0x13", "PGAS_TIMEOUT=100s"}, with()...)
	require.Equal(t, 1, r.code, r.out)
	require.NotContains(t, r.out, "PASS: ")
	require.Regexp(t, "completion error.*syndrome 0x", r.out)
	require.Less(t, time.Since(begin), 60*time.Second)
}

// A PE that is killed in the middle of rounds ends the job at once: its peers' kernels stop waiting, and name it.
func TestJobLosesAPE(t *testing.T) {
	for _, path := range []string{"p2p", "ibgda"} {
		cmd := command(t, filepath.Join(must(binaries()), "moe"), 3, path, []string{"PGAS_TIMEOUT=100s"}, with("-iters", "1000000")...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		defer cmd.Process.Kill()
		var pes []int
		require.Eventually(t, func() bool { pes = children(cmd.Process.Pid); return len(pes) == 3 }, 20*time.Second, 200*time.Millisecond)
		time.Sleep(2 * time.Second) // into the rounds
		begin := time.Now()
		require.NoError(t, syscall.Kill(pes[1], syscall.SIGKILL))
		r := resultOf(t, "", cmd.Wait())
		require.Equal(t, 128+int(syscall.SIGKILL), r.code, out.String())
		require.Less(t, time.Since(begin), 30*time.Second)
		require.Contains(t, out.String(), "peer lost: PE ")
		require.NotContains(t, out.String(), "PASS: ")
	}
}

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

// children returns the processes of this program whose parent is pid; the launcher has helpers of its own.
func children(pid int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, _ := os.ReadFile(stat) // "number (name) state parent ..."
		before, after, _ := strings.Cut(string(text), " (moe) ")
		fields := strings.Fields(after)
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if n, err := strconv.Atoi(before); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}
