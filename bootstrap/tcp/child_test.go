package tcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/leak"
)

// The test binary is its own child program: with childMarker set it is one PE that does as its orders say.
const childMarker = "PGAS_TEST_CHILD"

// childMain joins the job and follows orders: "wait" enters a barrier, "watch" waits for Watch. Three wait for a byte on stdin first: "held" then enters the barrier, "abort" aborts and exits at once, "exit" exits without Close.
func childMain() int {
	rank, _ := strconv.Atoi(os.Getenv("PGAS_TEST_RANK"))
	size, _ := strconv.Atoi(os.Getenv("PGAS_TEST_SIZE"))
	step, _ := time.ParseDuration(os.Getenv("PGAS_TEST_STEP"))
	o := options(rank, size, os.Getenv("PGAS_TEST_ROOT"))
	o.StepTimeout = step
	if boot, err := time.ParseDuration(os.Getenv("PGAS_TEST_BOOT")); err == nil {
		o.BootTimeout = boot
	}
	o.Interface = os.Getenv("PGAS_TEST_INTERFACE")
	if os.Getenv("PGAS_TEST_KEEPALIVE") != "" {
		o.keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2}
	}
	if os.Getenv(childMarker) == "rounds" {
		return childRounds(o)
	}
	x, err := Connect(context.Background(), o)
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println("joined")
	order := os.Getenv(childMarker)
	if order == "held" || order == "abort" || order == "exit" {
		if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
			fmt.Println("failed:", err)
			return 1
		}
	}
	switch order {
	case "wait", "held":
		err = x.Barrier(context.Background())
	case "locate":
		err = childLocate(x)
	case "watch":
		<-x.Watch()
		err = x.Cause()
	case "abort":
		x.Abort(fmt.Errorf("out of registers: %w", errs.ErrNotSupported))
		os.Exit(7)
	case "exit":
		os.Exit(0)
	}
	if err != nil {
		fmt.Println("failed:", err, "| lost:", errors.Is(err, errs.ErrPeerLost), "| timeout:", errors.Is(err, errs.ErrTimeout),
			"| unsupported:", errors.Is(err, errs.ErrNotSupported))
		return 1
	}
	if err := x.Close(); err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println("closed")
	return 0
}

// childLocate says which PEs are on this host, and what descriptors it got from each.
func childLocate(x bootstrap.Exchanger) error {
	h, err := bootstrap.Locate(context.Background(), x)
	if err != nil {
		return err
	}
	got, err := bootstrap.ExchangeFDs(context.Background(), x, []int{1, 2})
	if err != nil {
		return err
	}
	counts := make([]int, len(got))
	for pe, fds := range got {
		counts[pe] = len(fds)
	}
	fmt.Println("PE", x.Rank(), "hosts", h.Of, "local", h.Local, "place", h.LocalRank, "descriptors", counts)
	return bootstrap.CloseFDs(got)
}

// childRounds joins and leaves 1,000 times, and says whether descriptors and goroutines stayed flat.
func childRounds(o Options) int {
	var before leak.Snapshot
	for round := range 1001 {
		x, err := Connect(context.Background(), o)
		if err == nil {
			err = checkGather(x, round%3)
		}
		if err == nil {
			err = x.Close()
		}
		if err != nil {
			fmt.Println("failed in round", round, ":", err)
			return 1
		}
		if round == 0 {
			fmt.Println("joined")
			before, _ = leak.Take()
		}
	}
	var grown []string
	for range 100 {
		after, _ := leak.Take()
		if grown = before.Diff(leak.Snapshot{FDs: after.FDs, Goroutines: after.Goroutines}, 0); len(grown) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond) // goroutines end a little after their work
	}
	fmt.Println("grown:", grown)
	return 0
}

// One fixed port, two processes, 1,000 times.
func TestThousandRoundsInOneProcessPair(t *testing.T) {
	for _, c := range children(t, freeRoot(t, "127.0.0.1"), 10*time.Second, "rounds", "rounds") {
		require.Equal(t, "grown: []", c.line())
	}
}

// The port of a root that was killed can be used again at once.
func TestPortOfAKilledRootIsFree(t *testing.T) {
	root := freeRoot(t, "127.0.0.1")
	for range 3 {
		all := children(t, root, 10*time.Second, "watch", "watch")
		require.NoError(t, all[0].cmd.Process.Kill())
		require.Contains(t, all[1].line(), "peer lost: PE 0")
	}
}

// A PE that is killed at any moment, also in the middle of the start, leaves nobody waiting beyond the deadline.
func TestKillAtAnyMoment(t *testing.T) {
	const size = 3
	for round := range 9 {
		root := freeRoot(t, "127.0.0.1")
		victim := round % size
		var cmds []*exec.Cmd
		for rank := range size {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childMarker+"=rounds", "PGAS_TEST_RANK="+strconv.Itoa(rank), "PGAS_TEST_BOOT=1s",
				"PGAS_TEST_SIZE="+strconv.Itoa(size), "PGAS_TEST_ROOT="+root, "PGAS_TEST_STEP=2s")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			require.NoError(t, cmd.Start())
			cmds = append(cmds, cmd)
		}
		time.Sleep(time.Duration(round) * 5 * time.Millisecond)
		require.NoError(t, cmds[victim].Process.Kill())
		limit := time.AfterFunc(12*time.Second, func() {
			for _, cmd := range cmds {
				_ = cmd.Process.Kill()
			}
		})
		for rank, cmd := range cmds {
			err := cmd.Wait()
			if rank != victim {
				require.EqualError(t, err, "exit status 1", "PE %d, victim %d after %d ms", rank, victim, 5*round)
			}
		}
		require.True(t, limit.Stop())
	}
}

type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// children starts one process per order and waits until all have joined.
func children(t *testing.T, root string, step time.Duration, orders ...string) []*child {
	t.Helper()
	var all []*child
	for rank, order := range orders {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childMarker+"="+order, "PGAS_TEST_RANK="+strconv.Itoa(rank),
			"PGAS_TEST_SIZE="+strconv.Itoa(len(orders)), "PGAS_TEST_ROOT="+root, "PGAS_TEST_STEP="+step.String())
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		cmd.Stderr = os.Stderr
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		all = append(all, &child{cmd, in, bufio.NewScanner(pipe)})
	}
	for rank, c := range all {
		require.Equal(t, "joined", c.line(), "PE %d", rank)
	}
	for rank, order := range orders {
		if order == "abort" || order == "exit" {
			all[rank].goOn(t)
		}
	}
	return all
}

// goOn lets a child that waits for it do what it was ordered to.
func (c *child) goOn(t *testing.T) {
	t.Helper()
	_, err := c.in.Write([]byte{'\n'})
	require.NoError(t, err)
}

func (c *child) line() string {
	if !c.out.Scan() {
		return io.EOF.Error()
	}
	return c.out.Text()
}

func TestKilledPEIsNamedOnAllOthersAtOnce(t *testing.T) {
	for _, victim := range []int{0, 2} {
		all := children(t, freeRoot(t, "127.0.0.1"), 30*time.Second, "watch", "wait", "watch", "wait")
		time.Sleep(50 * time.Millisecond)
		began := time.Now()
		require.NoError(t, all[victim].cmd.Process.Kill())
		for pe, c := range all {
			if pe == victim {
				continue
			}
			line := c.line()
			require.Contains(t, line, fmt.Sprintf("peer lost: PE %d on 127.0.0.1", victim), "PE %d", pe)
			require.Contains(t, line, "lost: true")
		}
		require.Less(t, time.Since(began), 2*time.Second)
	}
}

func TestExitWithoutCloseIsALoss(t *testing.T) {
	all := children(t, freeRoot(t, "127.0.0.1"), 30*time.Second, "watch", "exit", "wait")
	for _, pe := range []int{0, 2} {
		require.Contains(t, all[pe].line(), "peer lost: PE 1 on 127.0.0.1: its process ended without leaving the job (pid ")
	}
}

func TestAbortThenExitReachesAll(t *testing.T) {
	for _, aborter := range []int{0, 1} {
		orders := []string{"watch", "watch", "wait"}
		orders[aborter] = "abort"
		all := children(t, freeRoot(t, "127.0.0.1"), 30*time.Second, orders...)
		for pe, c := range all {
			if pe != aborter {
				line := c.line()
				require.Contains(t, line, fmt.Sprintf("job aborted by PE %d: out of registers: not supported", aborter))
				require.Contains(t, line, "unsupported: true")
			}
		}
	}
}

// A stopped PE is slow, not dead: nothing happens before the deadline, and it takes part again when it goes on.
func TestStoppedPEIsSlowNotDead(t *testing.T) {
	all := startStopped(t, freeRoot(t, "127.0.0.1"), 20*time.Second, 2)
	time.Sleep(1500 * time.Millisecond)
	require.NoError(t, all[2].cmd.Process.Signal(syscall.SIGCONT))
	for _, c := range all {
		require.Equal(t, "closed", c.line())
	}
}

func TestStoppedPEIsNamedAtTheDeadline(t *testing.T) {
	all := startStopped(t, freeRoot(t, "127.0.0.1"), time.Second, 2)
	for pe, c := range all[:2] {
		line := c.line()
		require.Contains(t, line, "2 of 3 PEs, missing: 2", "PE %d", pe)
		require.Contains(t, line, "timeout: true")
	}
	require.NoError(t, all[2].cmd.Process.Signal(syscall.SIGCONT))
	require.Contains(t, all[2].line(), "missing: 2", "the late PE learns it too")
}

func TestStoppedRootIsNamedAtTheDeadline(t *testing.T) {
	all := startStopped(t, freeRoot(t, "127.0.0.1"), time.Second, 0)
	for _, c := range all[1:] {
		line := c.line()
		require.Contains(t, line, "PE 0, which carries the messages, is silent")
		require.Contains(t, line, "timeout: true")
	}
}

// startStopped starts three PEs that enter a barrier. One of them is stopped before it does, once all have joined; it
// goes on into the barrier after SIGCONT.
func startStopped(t *testing.T, root string, step time.Duration, stopped int) []*child {
	t.Helper()
	orders := []string{"wait", "wait", "wait"}
	orders[stopped] = "held"
	all := children(t, root, step, orders...)
	require.NoError(t, all[stopped].cmd.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", all[stopped].cmd.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	}, 10*time.Second, 2*time.Millisecond)
	all[stopped].goOn(t)
	return all
}
