package pgas

import (
	"github.com/pgas-go/pgas/heap"
	"github.com/pgas-go/pgas/internal/errs"
)

// Sentinels for errors.Is. The typed errors below match them.
var (
	// ErrNotSupported: this machine, platform or path cannot do it; see UnsupportedError.
	ErrNotSupported = errs.ErrNotSupported
	// ErrClosed: the World was closed before the call, or while it waited.
	ErrClosed = errs.ErrClosed
	// ErrHeapFull: the segment has no free block of the size asked for; see HeapFullError.
	ErrHeapFull = errs.ErrHeapFull
	// ErrPeerLost: another PE died; see PeerLostError.
	ErrPeerLost = errs.ErrPeerLost
	// ErrMismatch: PEs made unequal calls or have unequal settings; see MismatchError.
	ErrMismatch = errs.ErrMismatch
	// ErrTimeout: a deadline passed; see TimeoutError.
	ErrTimeout = errs.ErrTimeout
	// ErrAborted: a PE ended the job on purpose; see AbortError.
	ErrAborted = errs.ErrAborted
	// ErrInvalid: an argument is wrong and nothing was done; see ArgError.
	ErrInvalid = errs.ErrInvalid
	// ErrCompletion: a NIC completed an operation with an error; see CompletionError.
	ErrCompletion = errs.ErrCompletion
)

// Errors with their numbers, for errors.As.
type (
	// OpError says which operation failed, on which PE, towards which peer and path, and wraps the cause.
	OpError = errs.OpError
	// ArgError names a wrong argument, its value and what is accepted.
	ArgError = errs.ArgError
	// UnsupportedError says what is needed, what was found and how to get it.
	UnsupportedError = errs.UnsupportedError
	// PeerLostError names a PE that died.
	PeerLostError = errs.PeerLostError
	// AbortError names the PE that ended the job, and its reason.
	AbortError = errs.AbortError
	// TimeoutError says what waited, for how long and for whom.
	TimeoutError = errs.TimeoutError
	// MismatchError has the value of every PE.
	MismatchError = errs.MismatchError
	// CompletionError is an error CQE.
	CompletionError = errs.CompletionError
	// HeapFullError has the numbers of an allocation that did not fit.
	HeapFullError = heap.FullError
)
