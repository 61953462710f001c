package launch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// guardMarker makes a copy of the launcher the guard of a job.
const guardMarker = "PGAS_LAUNCH_GUARD"

// guard is a second process that outlives a launcher that is killed with SIGKILL, to kill the PEs' process groups. The
// kernel's death signal alone would reach only the PEs themselves, not what a wrapper script has started.
type guard struct {
	process *os.Process
	pipe    *os.File // lines with process group numbers; its end means that the launcher is gone
}

// GuardMain turns this process into a guard if it was started as one; then it does not return. Programs that call Run
// call it first thing.
func GuardMain() {
	if os.Getenv(guardMarker) == "" {
		return
	}
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	guardLoop(os.Stdin, func(group int) { _ = unix.Kill(-group, unix.SIGKILL) })
	os.Exit(0)
}

// guardLoop reads "+group" and "-group" lines. When the stream ends, the groups that were added and not removed die.
func guardLoop(orders io.Reader, kill func(group int)) {
	groups := make(map[int]bool)
	lines := bufio.NewScanner(orders)
	for lines.Scan() {
		line := lines.Text()
		if group, err := strconv.Atoi(line[min(1, len(line)):]); err == nil && group > 1 {
			groups[group] = line[0] == '+'
		}
	}
	for group, alive := range groups {
		if alive {
			kill(group)
		}
	}
}

func startGuard() (*guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		w.Close()
		return nil, err
	}
	defer null.Close()
	p, err := os.StartProcess("/proc/self/exe", []string{"pgas-guard"}, &os.ProcAttr{Env: []string{guardMarker + "=1"},
		Files: []*os.File{r, null, null}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		w.Close()
		return nil, err
	}
	return &guard{p, w}, nil
}

// watch adds a process group. A guard that somebody killed is missed only if the launcher is killed too.
func (g *guard) watch(group int) { _, _ = fmt.Fprintf(g.pipe, "+%d\n", group) }

// forget takes a group back: it is gone, and its number may come to belong to somebody else.
func (g *guard) forget(group int) { _, _ = fmt.Fprintf(g.pipe, "-%d\n", group) }

func (g *guard) dismiss() {
	g.pipe.Close()
	_, _ = g.process.Wait()
}
