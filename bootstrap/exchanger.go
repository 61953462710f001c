// Package bootstrap lets the processes of a job find each other and agree, before there is a heap to talk through.
// It moves small blobs (addresses, keys, hashes) and file descriptors, and it notices when a PE dies.
package bootstrap

import "context"

// Exchanger connects the PEs of one job. All methods may be called from any goroutine; AllGather and Barrier are
// collective, so every PE must call them in the same order, and one at a time.
//
// A collective call that fails on one PE fails the job: every PE gets the same first cause, from this call or its
// next, and no later call succeeds. Only a call whose context has ended before it begins does nothing. Errors match ErrPeerLost, ErrAborted, ErrTimeout, ErrMismatch or ErrClosed of
// package errs.
type Exchanger interface {
	// Rank is this PE, 0..Size-1.
	Rank() int
	// Size is the number of PEs.
	Size() int
	// AllGather is collective. It returns the blobs of all PEs, indexed by PE; lengths may differ and may be 0. The
	// result is the caller's own copy. The wait ends with ctx, or after the Exchanger's own step timeout if ctx has
	// no deadline; the error then names the PEs that did not come.
	AllGather(ctx context.Context, mine []byte) ([][]byte, error)
	// Barrier is collective. It returns after every PE has called it. Deadline as for AllGather.
	Barrier(ctx context.Context) error
	// Abort ends the job for all PEs with cause; the first cause of the job wins. It is not collective, returns when
	// the others have been told or after two seconds, and does not close the Exchanger.
	Abort(cause error)
	// Watch returns a channel that is closed when the job has failed: a PE died, a PE aborted, or a collective call
	// failed anywhere. Orderly Close does not close it.
	Watch() <-chan struct{}
	// Cause is the first cause of the job's failure, nil while Watch is open.
	Cause() error
	// Close leaves the job and frees everything. It is idempotent. Every PE calls it, but it does not synchronise:
	// only PE 0 waits for the others (bounded by the step timeout), because it carries their messages. A PE that
	// ends without Close counts as lost.
	Close() error
}
