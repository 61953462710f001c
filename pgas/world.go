package pgas

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/heap"
	"github.com/pgas-go/pgas/ibgda"
	"github.com/pgas-go/pgas/internal/config"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/platform"
	"github.com/pgas-go/pgas/internal/wire"
	"github.com/pgas-go/pgas/proxy/engine"
)

// NoPE stands for "no PE" in errors.
const NoPE = errs.NoPE

// States of a World.
const (
	stateNew uint32 = iota // not from Init
	stateOpen
	stateFailed
	stateClosed
)

// A World is one PE's membership in a job. All methods may be called from any goroutine. Calls that are collective say
// so: every PE makes them, in the same order.
type World struct {
	pe, npes int
	cfg      *config.Config
	log      *zap.Logger
	x        bootstrap.Exchanger
	plat     *platform.Platform
	heap     *heap.Heap
	net      *ibgda.Net     // nil when no peer is reached through a NIC
	eng      *engine.Engine // nil without net
	base     [wire.Segments]uint64
	peers    []peerView
	mixed    bool    // some peers by p2p and some by NIC: signals all go through the NIC
	bell     uintptr // this PE's wire.Bell; 0 on hardware
	shared   *shared // what kernels, the engine and this process look at together
	barrier  barrier
	modules  modules

	state    atomic.Uint32
	inflight atomic.Int64 // calls between enter and leave
	mu       sync.Mutex
	cause    error         // first cause of failure
	done     chan struct{} // closed with the first cause, or by Close
	closing  chan struct{}
	watcher  sync.WaitGroup
	undo     platform.Undo
	closed   sync.Once
	closeErr error
}

// peerView is how this process reaches one PE.
type peerView struct {
	base   [wire.Segments]uintptr // CPU addresses of its segments; 0 when not reachable
	addr   [wire.Segments]uint64  // kernel addresses of its segments; 0 when not mapped
	path   wire.Path
	direct bool    // p2p, and CPUs reach the memory: operations are plain loads and stores
	bell   uintptr // its wire.Bell
}

// PE returns this PE's number, 0..NPEs()-1.
func (w *World) PE() int { return w.pe }

// NPEs returns the number of PEs.
func (w *World) NPEs() int { return w.npes }

// Next returns the PE after this one, round to 0.
func (w *World) Next() int { return (w.pe + 1) % w.npes }

// Prev returns the PE before this one, round from 0.
func (w *World) Prev() int { return (w.pe + w.npes - 1) % w.npes }

// Platform returns "soft" or "hw".
func (w *World) Platform() string { return w.plat.Name() }

// Path returns the path to a PE: "p2p" or "ibgda". It returns "" for a PE that does not exist.
func (w *World) Path(pe int) string {
	if pe < 0 || pe >= w.npes {
		return ""
	}
	return w.peers[pe].path.String()
}

// Timeout returns the longest time that one operation waits.
func (w *World) Timeout() time.Duration { return w.cfg.Timeout }

// Done returns a channel that is closed when the World ends: a PE died, a PE aborted, or Close was called.
func (w *World) Done() <-chan struct{} { return w.done }

// Err returns the first cause of the World's end: a PeerLostError, an AbortError or ErrClosed; nil while it lives.
func (w *World) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cause
}

// Abort ends the job on all PEs with cause, which must not be nil. The first cause of the job wins. Kernels and waits
// return at once; the World must still be closed.
func (w *World) Abort(cause error) {
	if cause == nil {
		cause = errors.New("no reason given")
	}
	if w.state.Load() == stateClosed {
		return
	}
	w.fail(&errs.AbortError{PE: w.pe, Cause: cause})
	w.x.Abort(cause)
}

// fail records the first cause and ends every wait of this PE.
func (w *World) fail(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cause != nil {
		return
	}
	w.cause = cause
	w.state.CompareAndSwap(stateOpen, stateFailed)
	if w.shared != nil {
		w.shared.stop(cause)
	}
	close(w.done)
}

// watch turns a failure of the job into the end of this World.
func (w *World) watch() {
	w.watcher.Go(func() {
		select {
		case <-w.x.Watch():
			cause := w.x.Cause()
			w.log.Error("job failed", zap.Int("pe", w.pe), zap.Error(cause))
			w.fail(cause)
		case <-w.closing:
		}
	})
}

// enter starts a call: between enter and leave Close does not take memory away. Errors are ready to be returned.
func (w *World) enter(op string) error {
	if w == nil || w.state.Load() == stateNew {
		return errs.Arg(op, "world", "nil or new", "a World from Init")
	}
	w.inflight.Add(1)
	if w.state.Load() == stateOpen {
		return nil
	}
	w.inflight.Add(-1)
	return w.failed(op, NoPE, w.ended())
}

func (w *World) leave() { w.inflight.Add(-1) }

// ended is why the World no longer works.
func (w *World) ended() error {
	if cause := w.Err(); cause != nil {
		return cause
	}
	return errs.ErrClosed
}

// failed wraps the cause of a failed operation.
func (w *World) failed(op string, peer int, err error) error {
	var done *errs.OpError
	if errors.As(err, &done) && done.Op == op {
		return err
	}
	path := ""
	if peer >= 0 && peer < w.npes {
		path = w.peers[peer].path.String()
	} else {
		peer = NoPE
	}
	return &errs.OpError{Op: op, PE: w.pe, Peer: peer, Path: path, Err: err}
}

// Close leaves the job and frees everything, also after a failure. In a living job it first waits for this PE's kernels
// and then for all PEs to come here, at most Options.Timeout, so that nobody's memory goes while others use it. It is
// idempotent. Calls in other goroutines end with ErrClosed. Kernels that still run then have their waits ended; one that
// does not end all the same makes Close return an error and keep its memory until the process ends. Closing a nil World,
// as a deferred Close after a failed Init does, is an error and no panic.
func (w *World) Close() error {
	if w == nil || w.x == nil {
		return errs.Arg("close", "world", "nil", "a World from Init")
	}
	w.closed.Do(func() { w.closeErr = w.close() })
	return w.closeErr
}

func (w *World) close() error {
	var first error
	if w.state.Load() == stateOpen {
		ctx, cancel := context.WithTimeout(context.Background(), w.cfg.Timeout)
		first = w.drain(ctx)
		cancel()
	}
	w.fail(errs.ErrClosed) // ends waits; an earlier cause stays
	w.state.Store(stateClosed)
	close(w.closing)
	w.watcher.Wait()
	if !w.waitIdle() {
		return w.abandon(fmt.Errorf("close: %d calls did not end within %v; memory is kept", w.inflight.Load(), idleLimit))
	}
	ctx, cancel := context.WithTimeout(context.Background(), idleLimit)
	defer cancel()
	if !w.kernelsEnd(ctx) {
		return w.abandon(fmt.Errorf("close: kernels still run %v after their waits were ended; memory is kept "+
			"[a kernel that spins by itself never ends: use pgas::wait_until]", idleLimit))
	}
	if err := w.undo.Run(); first == nil && err != nil {
		first = fmt.Errorf("close: %w", err)
	}
	return first
}

// abandon leaves the job without freeing what kernels or calls may still use.
func (w *World) abandon(cause error) error {
	w.x.Abort(cause)
	return errors.Join(cause, w.x.Close())
}

// kernelsEnd waits for all kernels of this PE. It reports false when ctx ends first; the driver cannot be interrupted,
// so its call is left behind.
func (w *World) kernelsEnd(ctx context.Context) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.plat.CUDA.CtxSynchronize(); err != nil {
			w.log.Warn("kernels failed before close", zap.Error(err))
		}
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// drain finishes what is under way while the job is alive.
func (w *World) drain(ctx context.Context) error {
	if !w.kernelsEnd(ctx) {
		return &errs.TimeoutError{Op: "close", After: w.cfg.Timeout, Detail: "kernels of this PE are still running"}
	}
	if err := w.quietAll(ctx, "close"); err != nil {
		w.log.Warn("operations failed before close", zap.Error(err))
	}
	if err := w.x.Barrier(ctx); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// idleLimit bounds the wait for calls of other goroutines: all their waits end at once, so this is long.
const idleLimit = 10 * time.Second

func (w *World) waitIdle() bool {
	deadline := time.Now().Add(idleLimit)
	for w.inflight.Load() != 0 {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(100 * time.Microsecond)
	}
	return true
}
