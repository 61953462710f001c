package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/internal/errs"
)

// settle is how long the ends of other PEs are compared after the first failure. A PE that was killed is a better cause
// than one that exited because it noticed.
const settle = 200 * time.Millisecond

// job is the state of one run. Only the loop of run touches it.
type job struct {
	o       Options
	program string
	guard   *guard
	pes     []*pe
	exits   chan exit
	running int

	cause    *Failure // decided
	failed   []*pe    // PEs that ended badly before we ended any, in order
	ending   bool     // we have sent SIGTERM
	signaled os.Signal
	settled  <-chan time.Time
	grace    <-chan time.Time
}

func newJob(o Options, program string) *job {
	return &job{o: o, program: program, exits: make(chan exit, o.N)}
}

func (j *job) run(ctx context.Context) error {
	// PDEATHSIG follows the thread, not the process: this thread must live until all PEs have ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g, err := startGuard()
	if err != nil {
		return &Failure{CodeNotRun, errs.NoPE, fmt.Sprintf("cannot start the guard process: %v", err)}
	}
	defer g.dismiss()
	j.guard = g
	if err := j.startAll(); err != nil {
		j.cause = cannotStart(j.o.Command[0], startError(err))
		j.kill()
	}
	var timeout <-chan time.Time
	if j.o.Timeout > 0 {
		timer := time.NewTimer(j.o.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	done := ctx.Done()
	for j.running > 0 {
		select {
		case e := <-j.exits:
			j.exited(e)
		case s := <-j.o.Signals:
			j.passOn(s)
		case <-done:
			done = nil
			j.decide(&Failure{codeSignalBase + int(unix.SIGTERM), errs.NoPE, "stopped: " + context.Cause(ctx).Error()})
			j.end()
		case <-timeout:
			j.decide(&Failure{CodeTimeout, errs.NoPE, fmt.Sprintf("timed out after %v, still running: PE %s (raise --timeout)",
				j.o.Timeout, errs.PEList(j.alive()))})
			j.end()
		case <-j.settled:
			j.blame()
			j.end()
		case <-j.grace:
			j.say("PE %s did not end within %v of SIGTERM, killing", errs.PEList(j.alive()), j.o.Grace)
			j.kill()
		}
	}
	j.blame()
	if j.cause != nil {
		return j.cause
	}
	return nil
}

// startAll starts the PEs. If one does not start, those before it are left running for the caller to end.
func (j *job) startAll() error {
	meet := newRendezvous(j.o.Root)
	out, err := &sink{w: j.o.Stdout}, &sink{w: j.o.Stderr}
	if j.o.Stdout == j.o.Stderr {
		err = out
	}
	raw := j.o.N == 1 && !j.o.Tag
	for rank := range j.o.N {
		tag := ""
		if j.o.Tag {
			tag = tagOf(rank, j.o.N)
		}
		p, startErr := startPE(rank, j.program, j.o.Command, meet.peEnv(j.o.Env, rank, j.o.N), &relay{to: out, tag: tag},
			&relay{to: err, tag: tag}, raw)
		if startErr != nil {
			return startErr
		}
		j.guard.watch(p.process.Pid)
		j.pes = append(j.pes, p)
		j.running++
		go func() { j.exits <- p.wait() }()
	}
	return nil
}

func (j *job) exited(e exit) {
	p := e.pe
	p.ended, p.status, p.lasted = true, e.status, e.at.Sub(p.began)
	j.running--
	j.guard.forget(p.process.Pid)
	switch {
	case p.code() == 0 || j.ending:
		return
	case j.cause != nil: // after a signal that was passed on: one has ended, so all must
		j.end()
		return
	}
	j.failed = append(j.failed, p)
	if j.settled == nil {
		j.settled = time.After(settle)
	}
}

// blame decides which of the failed PEs is the cause: the first that was killed by a signal, else the first.
func (j *job) blame() {
	j.settled = nil
	if len(j.failed) == 0 {
		return
	}
	culprit := j.failed[0]
	for _, p := range j.failed {
		if p.status.Signaled() {
			culprit = p
			break
		}
	}
	j.decide(&Failure{culprit.code(), culprit.rank, culprit.describe()})
}

// decide keeps the first cause.
func (j *job) decide(f *Failure) {
	if j.cause == nil {
		j.cause = f
	}
}

// end asks the PEs that still run to end, and sets the time at which they are killed.
func (j *job) end() {
	if j.ending {
		return
	}
	j.ending = true
	for _, p := range j.pes {
		if !p.ended {
			p.signal(unix.SIGTERM)
			p.signal(unix.SIGCONT) // a stopped PE must be able to obey
		}
	}
	j.grace = time.After(j.o.Grace)
}

func (j *job) kill() {
	j.ending, j.grace = true, nil
	for _, p := range j.pes {
		if !p.ended {
			p.signal(unix.SIGKILL)
		}
	}
}

// passOn gives a signal to all PEs. The second one kills them.
func (j *job) passOn(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	if j.signaled != nil {
		j.kill()
		return
	}
	j.signaled = s
	j.decide(&Failure{codeSignalBase + int(sig), errs.NoPE, "interrupted by " + unix.SignalName(sig)})
	for _, p := range j.pes {
		if !p.ended {
			p.signal(sig)
		}
	}
}

func (j *job) alive() []int {
	var ranks []int
	for _, p := range j.pes {
		if !p.ended {
			ranks = append(ranks, p.rank)
		}
	}
	return ranks
}

func (j *job) say(format string, args ...any) {
	fmt.Fprintf(j.o.Stderr, "pgas run: "+format+"\n", args...)
}

// CodeOf is the exit code for an error of Run.
func CodeOf(err error) int {
	var f *Failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return f.Code
	}
	return 1
}
