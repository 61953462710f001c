package pgas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgas-go/pgas/ibgda"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/wire"
	"github.com/pgas-go/pgas/signal"
)

// start checks a handle, the World and the PE. After success the caller must leave the World.
func start(op, arg string, b *block, pe int) (*World, error) {
	if b == nil || b.w == nil {
		err := b.check(op, arg)
		return nil, &errs.OpError{Op: op, PE: NoPE, Peer: pe, Err: err}
	}
	w := b.w
	if err := w.enter(op); err != nil {
		return nil, err
	}
	err := errs.PE(op, pe, w.npes)
	if err == nil {
		err = b.check(op, arg)
	}
	if err != nil {
		w.leave()
		return nil, w.failed(op, NoPE, err)
	}
	return w, nil
}

func tooLong(op *opKind, have, room int) error {
	return errs.Arg(op.name, "length of "+op.local, have, fmt.Sprintf("at most %d elements, the length of %s", room, op.symmetric))
}

// checkSignal refuses words of another World and updates that do not exist.
func (w *World) checkSignal(op string, sig SignalWord, u Update) error {
	if err := sig.b.check(op, "sig"); err != nil {
		return err
	}
	if sig.b.w != w {
		return errs.Arg(op, "sig", "a word of another World", "a word of the World that dst belongs to")
	}
	if !u.Op.Valid() {
		return errs.Arg(op, "update", u, "Set or Add")
	}
	return nil
}

// Signal updates the signal word sig on PE pe, in order after every earlier operation to that PE. Errors as for Put.
func Signal(ctx context.Context, sig SignalWord, u Update, pe int) error {
	w, err := start("signal", "sig", sig.b, pe)
	if err != nil {
		return err
	}
	defer w.leave()
	if err := w.checkSignal("signal", sig, u); err != nil {
		return w.failed("signal", pe, err)
	}
	return w.signalNow(ctx, "signal", sig, u, pe)
}

func (w *World) signalNow(ctx context.Context, op string, sig SignalWord, u Update, pe int) error {
	p := &w.peers[pe]
	if p.direct && !w.mixed {
		signal.Apply(p.base[wire.SegmentSignal]+uintptr(sig.off), u)
		signal.Ring(p.bell)
		return nil
	}
	if w.eng == nil {
		return w.signalByCopy(op, sig, u, pe)
	}
	timeout, err := w.timeout(ctx)
	if err != nil {
		return w.failed(op, pe, err)
	}
	s := w.eng.Signal(w.base[wire.SegmentSignal]+sig.off, u.Op == signal.Add, u.Value, uint32(pe), timeout)
	return w.result(ctx, op, pe, s, timeout)
}

// WaitSignal waits until this PE's word sig satisfies c and returns its value. What was put before the signal is then
// visible. The wait ends at the deadline of ctx, when ctx is cancelled, after Options.Timeout, and when the job ends.
func WaitSignal(ctx context.Context, sig SignalWord, c Cond) (uint64, error) {
	w, err := start("wait_signal", "sig", sig.b, 0)
	if err != nil {
		return 0, err
	}
	defer w.leave()
	if !c.Cmp.Valid() {
		return 0, w.failed("wait_signal", NoPE, errs.Arg("wait_signal", "condition", c, "a condition made by Eq, Ne, Gt, Ge, Lt or Le"))
	}
	seen, err := w.waitWord(ctx, sig.off, c)
	if err != nil {
		return seen, w.failed("wait_signal", NoPE, err)
	}
	return seen, nil
}

// TestSignal reports whether this PE's word sig satisfies c now, with the same visibility as WaitSignal. It never waits.
func TestSignal(sig SignalWord, c Cond) (bool, error) {
	v, err := fetch("test_signal", sig)
	if err == nil && !c.Cmp.Valid() {
		err = errs.Arg("test_signal", "condition", c, "a condition made by Eq, Ne, Gt, Ge, Lt or Le")
	}
	return err == nil && c.Holds(v), err
}

// SignalFetch returns the value of this PE's word sig, with the same visibility as WaitSignal. It never waits.
func SignalFetch(sig SignalWord) (uint64, error) { return fetch("signal_fetch", sig) }

func fetch(op string, sig SignalWord) (uint64, error) {
	w, err := start(op, "sig", sig.b, 0)
	if err != nil {
		return 0, err
	}
	defer w.leave()
	v, err := w.loadWord(sig.off)
	if err != nil {
		return 0, w.failed(op, NoPE, err)
	}
	return v, nil
}

// Fence orders: what this PE's host does to PE pe after it takes effect there after what it did before.
func (w *World) Fence(ctx context.Context, pe int) error {
	return w.order(ctx, "fence", pe, func(timeout time.Duration) wire.Status { return w.eng.Fence(uint32(pe), timeout) })
}

// Quiet waits until everything that this PE's host has done to PE pe is complete and visible there. Kernels have their
// own quiet.
func (w *World) Quiet(ctx context.Context, pe int) error {
	return w.order(ctx, "quiet", pe, func(timeout time.Duration) wire.Status { return w.eng.Quiet(uint32(pe), timeout) })
}

// QuietAll is Quiet towards every PE.
func (w *World) QuietAll(ctx context.Context) error {
	if err := w.enter("quiet"); err != nil {
		return err
	}
	defer w.leave()
	return w.quietAll(ctx, "quiet")
}

func (w *World) quietAll(ctx context.Context, op string) error {
	if w.eng == nil {
		return nil
	}
	for pe := range w.npes {
		if err := w.poll(ctx, op, pe, func(t time.Duration) wire.Status { return w.eng.Quiet(uint32(pe), t) }); err != nil {
			return err
		}
	}
	return nil
}

// order runs an ordering operation. Loads and stores need none: every p2p operation is complete when its call returns,
// and ends with an atomic that is a fence.
func (w *World) order(ctx context.Context, op string, pe int, run func(time.Duration) wire.Status) error {
	if w != nil && w.eng == nil && w.state.Load() == stateOpen && uint(pe) < uint(w.npes) {
		return nil
	}
	if err := w.enter(op); err != nil {
		return err
	}
	defer w.leave()
	if err := errs.PE(op, pe, w.npes); err != nil {
		return w.failed(op, NoPE, err)
	}
	if w.eng == nil {
		return nil
	}
	return w.poll(ctx, op, pe, run)
}

// slice is how long the engine waits before this side looks whether ctx was cancelled.
const slice = 20 * time.Millisecond

// poll repeats an engine call that has no effect when it times out, so that a cancelled ctx ends it.
func (w *World) poll(ctx context.Context, op string, pe int, run func(time.Duration) wire.Status) error {
	limit, err := w.timeout(ctx)
	if err != nil {
		return w.failed(op, pe, err)
	}
	begin := time.Now()
	for {
		left := limit - time.Since(begin)
		s := run(min(max(left, time.Nanosecond), slice))
		if s != wire.StatusTimeout || left <= slice {
			return w.result(ctx, op, pe, s, limit)
		}
		take(w.shared.host) // a slice that ran out is no error
		if err := ctx.Err(); err != nil {
			return w.failed(op, pe, err)
		}
	}
}

// timeout is how long an operation may wait.
func (w *World) timeout(ctx context.Context) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	limit := w.cfg.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	if limit <= 0 {
		return 0, context.DeadlineExceeded
	}
	return limit, nil
}

// grace is how long an operation that failed on the wire waits for the news that its peer is dead.
const grace = 500 * time.Millisecond

// result turns the engine's status into an error.
func (w *World) result(ctx context.Context, op string, pe int, s wire.Status, limit time.Duration) error {
	if s == wire.StatusOk {
		return nil
	}
	record, known := take(w.shared.host)
	switch s {
	case wire.StatusPeerLost, wire.StatusAborted:
		return w.failed(op, pe, w.ended())
	case wire.StatusTimeout:
		err := &errs.TimeoutError{Op: op, After: limit}
		if known && record.Status == s {
			errors.As(ibgda.Decode(&record, nil, "", w.cfg.Contexts, w.place(record.Address)), &err)
		}
		return w.failed(op, pe, expired(ctx, err))
	case wire.StatusCompletionError:
		if cause := w.awaitEnd(grace); cause != nil {
			return w.failed(op, pe, cause)
		}
	}
	if known && record.Status == s {
		return w.failed(op, pe, errors.Unwrap(ibgda.Decode(&record, w.Err(), "", w.cfg.Contexts, w.place(record.Address))))
	}
	if s == wire.StatusCompletionError {
		return w.failed(op, pe, fmt.Errorf("the queue failed earlier: %w", errs.ErrCompletion))
	}
	return w.failed(op, pe, fmt.Errorf("the engine returned status %s", s))
}

// place says where an address of this PE lies in the symmetric heap, for errors.
func (w *World) place(addr uint64) string {
	if seg, off, err := w.heap.Locate("", addr, 0); err == nil {
		return fmt.Sprintf(" (offset %d of the %s segment)", off, seg)
	}
	return ""
}

// awaitEnd waits a little for the job to end and returns why, or nil.
func (w *World) awaitEnd(limit time.Duration) error {
	select {
	case <-w.done:
		return w.ended()
	case <-time.After(limit):
		return nil
	}
}

// expired adds ctx's own error to a time-out that ctx caused, so that errors.Is finds both.
func expired(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}
