package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pe is one started process with its process group.
type pe struct {
	rank    int
	process *os.Process
	began   time.Time
	tail    tail
	readers sync.WaitGroup
	pipes   []*os.File // our ends

	// Set by the job's loop when the process has ended.
	ended  bool
	status syscall.WaitStatus
	lasted time.Duration
}

// exit is the end of a PE.
type exit struct {
	pe     *pe
	status syscall.WaitStatus
	at     time.Time
}

// startPE starts one process in a process group of its own. The kernel kills it when the calling thread ends, so the
// caller is locked to a thread that lives as long as the launcher.
func startPE(rank int, program string, args, env []string, out, err *relay, raw bool) (*pe, error) {
	p := &pe{rank: rank}
	null, openErr := os.Open(os.DevNull)
	if openErr != nil {
		return nil, openErr
	}
	defer null.Close()
	files := []*os.File{null}
	err.tail = &p.tail
	relays := []*relay{out, err}
	for range relays {
		r, w, pipeErr := os.Pipe()
		if pipeErr != nil {
			p.closePipes()
			return nil, pipeErr
		}
		defer w.Close()
		p.pipes = append(p.pipes, r)
		files = append(files, w)
	}
	var startErr error
	p.process, startErr = os.StartProcess(program, args, &os.ProcAttr{Env: env, Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}})
	if startErr != nil {
		p.closePipes()
		return nil, startErr
	}
	p.began = time.Now()
	for i, r := range relays {
		p.readers.Go(func() { r.copy(p.pipes[i], raw) })
	}
	return p, nil
}

func (p *pe) closePipes() {
	for _, f := range p.pipes {
		f.Close()
	}
}

// wait blocks until the process ends. Then it kills what is left of its group and waits until the output has been
// read; a descendant that left the group may hold the pipes, and is not waited for.
func (p *pe) wait() exit {
	for unix.Waitid(unix.P_PID, p.process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	e := exit{pe: p, at: time.Now()}
	// Not yet reaped, so the number of the group cannot belong to anybody else.
	p.signal(unix.SIGKILL)
	if state, err := p.process.Wait(); err == nil {
		e.status, _ = state.Sys().(syscall.WaitStatus)
	}
	read := make(chan struct{})
	go func() { p.readers.Wait(); close(read) }()
	select {
	case <-read:
	case <-time.After(drainTime):
	}
	p.closePipes() // ends readers that still wait
	<-read
	return e
}

// drainTime is how long output may take to arrive after the end of a PE.
const drainTime = time.Second

// signal reaches every process of the PE's group. A group that is gone is what we want.
func (p *pe) signal(s syscall.Signal) {
	_ = unix.Kill(-p.process.Pid, s)
}

// describe says how the PE ended: "PE 2 exited with code 3 after 1.2s: last line of stderr".
func (p *pe) describe() string {
	how := fmt.Sprintf("exited with code %d", p.status.ExitStatus())
	if p.status.Signaled() {
		how = "was killed by " + unix.SignalName(p.status.Signal())
		if p.status.CoreDump() {
			how += " (core dumped)"
		}
	}
	text := fmt.Sprintf("PE %d %s after %v", p.rank, how, round(p.lasted))
	if line := p.tail.line(); line != "" {
		text += ": " + line
	}
	return text
}

// code is the PE's exit code as a shell would give it.
func (p *pe) code() int {
	if p.status.Signaled() {
		return codeSignalBase + int(p.status.Signal())
	}
	return p.status.ExitStatus()
}

// round keeps two or three digits.
func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// startError is a process that could not be started, without the words of package os.
func startError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return errors.New(strings.TrimPrefix(err.Error(), "fork/exec "))
}
