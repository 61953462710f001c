package tcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/leak"
)

// abortTimeout bounds Abort, byeTimeout the goodbye of Close.
const (
	abortTimeout = 2 * time.Second
	byeTimeout   = 2 * time.Second
)

// exchanger is one PE's side. PE 0's also owns the hub.
type exchanger struct {
	opt  Options
	conn net.Conn
	in   *bufio.Reader
	hub  *hub // PE 0 only
	owed leak.Token

	turn    chan struct{} // holds one token: collective calls are one at a time
	started chan struct{}
	failed  chan struct{}
	bye     chan struct{} // the hub has acknowledged the goodbye
	ended   chan struct{} // the reader has ended

	writing sync.Mutex

	mu     sync.Mutex
	cause  error
	closed bool
	step   uint64
	wait   *gather

	closing  sync.Once
	closeErr error
}

var _ bootstrap.Exchanger = (*exchanger)(nil)

// gather collects the results of one step.
type gather struct {
	step  uint64
	blobs [][]byte
	count int
	done  chan struct{}
}

func newExchanger(o Options, conn net.Conn, in *bufio.Reader, h *hub) *exchanger {
	e := &exchanger{opt: o, conn: conn, in: in, hub: h, owed: leak.Track("exchanger", fmt.Sprintf("PE %d of job %s", o.Rank, o.Job)), turn: make(chan struct{}, 1), started: make(chan struct{}),
		failed: make(chan struct{}), bye: make(chan struct{}), ended: make(chan struct{})}
	e.turn <- struct{}{}
	go e.read()
	return e
}

func (e *exchanger) Rank() int { return e.opt.Rank }
func (e *exchanger) Size() int { return e.opt.Size }

func (e *exchanger) Watch() <-chan struct{} { return e.failed }

func (e *exchanger) Cause() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}

// fail keeps the first cause and wakes everybody.
func (e *exchanger) fail(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause == nil && !e.closed {
		e.cause = cause
		close(e.failed)
	}
}

// read handles what the hub sends, until the connection ends.
func (e *exchanger) read() {
	defer close(e.ended)
	for {
		f, err := readFrame(e.in, maxPayload)
		if err != nil {
			e.fail(&errs.PeerLostError{PE: 0, Host: hostOf(e.conn), Op: e.waiting(),
				Cause: fmt.Errorf("its connection ended, and with it the job's rendezvous: %w", err)})
			return
		}
		switch f.kind {
		case kindStart:
			closeOnce(e.started)
		case kindResult, kindRelease:
			e.result(f)
		case kindFail:
			e.fail(decodeCause(f.payload))
		case kindBye:
			closeOnce(e.bye)
		default:
			e.fail(fmt.Errorf("PE 0 sent a frame of kind %d", f.kind))
			return
		}
	}
}

// closeOnce closes a channel that only the calling goroutine closes.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

func (e *exchanger) waiting() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wait == nil {
		return ""
	}
	return fmt.Sprintf("step %d", e.wait.step)
}

func (e *exchanger) result(f *frame) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.wait
	if w == nil || f.step != w.step {
		return // a step that this PE gave up; the job has failed already
	}
	if f.kind == kindResult {
		if int(f.pe) >= len(w.blobs) || w.blobs[f.pe] != nil {
			return
		}
		w.blobs[f.pe] = f.payload
		if w.count++; w.count < len(w.blobs) {
			return
		}
	}
	e.wait = nil
	close(w.done)
}

func (e *exchanger) AllGather(ctx context.Context, mine []byte) ([][]byte, error) {
	if len(mine) > maxBlob {
		err := errs.Arg("all-gather", "length", len(mine), fmt.Sprintf("at most %d bytes", maxBlob))
		e.Abort(err)
		return nil, err
	}
	return e.collect(ctx, opAllGather, mine)
}

func (e *exchanger) Barrier(ctx context.Context) error {
	_, err := e.collect(ctx, opBarrier, nil)
	return err
}

// collect takes part in one step.
func (e *exchanger) collect(ctx context.Context, o op, mine []byte) ([][]byte, error) {
	if ctx.Err() != nil {
		return nil, errs.Op(o.String(), e.opt.Rank, context.Cause(ctx))
	}
	select {
	case <-e.turn:
		defer func() { e.turn <- struct{}{} }()
	case <-e.failed:
		return nil, e.failure(o)
	case <-ctx.Done():
		return nil, errs.Op(o.String(), e.opt.Rank, ctx.Err())
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(e.opt.StepTimeout)
	}
	w, err := e.enter(o)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	part := &frame{version: e.opt.version, kind: kindContribute, job: jobHash(e.opt.Job), step: w.step, pe: uint32(e.opt.Rank),
		payload: encodeContribution(o, time.Until(deadline), mine)}
	if err := e.write(part, deadline.Add(grace)); err != nil {
		e.fail(&errs.PeerLostError{PE: 0, Host: hostOf(e.conn), Op: o.String(), Cause: err})
	}
	verdict := time.NewTimer(time.Until(deadline) + grace)
	defer verdict.Stop()
	for cancelled := ctx.Done(); ; {
		select {
		case <-w.done:
			return w.blobs, nil
		case <-e.failed:
			select {
			case <-w.done: // complete before the job failed: all PEs have this result
				return w.blobs, nil
			default:
			}
			return nil, e.failure(o)
		case <-cancelled:
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				cancelled = nil // the hub knows who is missing, and its verdict is due
				continue
			}
			e.Abort(errs.Op(o.String()+" given up", e.opt.Rank, context.Cause(ctx)))
			return nil, errs.Op(o.String(), e.opt.Rank, context.Cause(ctx))
		case <-verdict.C:
			e.fail(&errs.TimeoutError{Op: o.String(), After: time.Since(began),
				Detail: "PE 0, which carries the messages, is silent (is it stopped or overloaded?)"})
			return nil, e.failure(o)
		}
	}
}

func (e *exchanger) enter(o op) (*gather, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.cause != nil:
		return nil, e.wrap(o, e.cause)
	case e.closed:
		return nil, e.wrap(o, errs.ErrClosed)
	}
	e.wait = &gather{step: e.step, blobs: make([][]byte, e.opt.Size), done: make(chan struct{})}
	e.step++
	return e.wait, nil
}

func (e *exchanger) failure(o op) error { return e.wrap(o, e.Cause()) }

// wrap names the operation, unless the cause begins with it.
func (e *exchanger) wrap(o op, cause error) error {
	var t *errs.TimeoutError
	if errors.As(cause, &t) && t.Op == o.String() {
		return cause
	}
	return errs.Op(o.String(), e.opt.Rank, cause)
}

func (e *exchanger) write(f *frame, deadline time.Time) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	if err := e.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	return send(e.conn, f)
}

func (e *exchanger) Abort(cause error) {
	if cause == nil {
		cause = errors.New("no cause given")
	}
	e.mu.Lock()
	over := e.closed || e.cause != nil
	e.mu.Unlock()
	if over {
		return
	}
	deadline := time.Now().Add(abortTimeout)
	own := &errs.AbortError{PE: e.opt.Rank, Cause: cause}
	if err := e.write(&frame{version: e.opt.version, kind: kindAbort, job: jobHash(e.opt.Job), pe: uint32(e.opt.Rank),
		payload: encodeCause(cause)}, deadline); err != nil {
		e.fail(own) // the hub is gone; the others notice that themselves
		return
	}
	// The hub answers everybody with the first cause of the job, which may be another one.
	select {
	case <-e.failed:
	case <-time.After(time.Until(deadline)):
		e.fail(own)
	}
}

func (e *exchanger) Close() error {
	e.closing.Do(func() { e.closeErr = e.close() })
	return e.closeErr
}

func (e *exchanger) close() error {
	e.mu.Lock()
	e.closed = true
	failed := e.cause != nil
	if w := e.wait; w != nil && !failed {
		// Another goroutine waits in a collective call: let it see ErrClosed.
		e.cause = errs.ErrClosed
		close(e.failed)
	}
	e.mu.Unlock()
	if !failed {
		if err := e.write(&frame{version: e.opt.version, kind: kindBye, job: jobHash(e.opt.Job), pe: uint32(e.opt.Rank)},
			time.Now().Add(byeTimeout)); err == nil {
			select {
			case <-e.bye:
			case <-e.ended:
			case <-time.After(byeTimeout):
			}
		}
	}
	var err error
	if e.hub != nil {
		err = e.hub.close()
	}
	e.conn.Close()
	<-e.ended
	e.owed.Release()
	return err
}
