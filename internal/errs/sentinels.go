// Package errs holds the errors of pgas: sentinels to test with errors.Is, and types that carry what a caller may act
// on. Package pgas exports them again, so programs need only that import.
//
// Wording: lower case, operation first, numbers with names, then the cause, then the remedy in brackets.
package errs

import "errors"

// Sentinels. The typed errors of this package match them through errors.Is.
var (
	// ErrNotSupported: this machine, platform or path cannot do it. See UnsupportedError.
	ErrNotSupported = errors.New("not supported")
	// ErrClosed: the object was closed before the call, or while it waited.
	ErrClosed = errors.New("closed")
	// ErrHeapFull: the symmetric heap has no free block of the size asked for.
	ErrHeapFull = errors.New("symmetric heap full")
	// ErrPeerLost: another PE died. See PeerLostError.
	ErrPeerLost = errors.New("peer lost")
	// ErrMismatch: PEs made unequal calls or have unequal settings. See MismatchError.
	ErrMismatch = errors.New("mismatch between PEs")
	// ErrTimeout: a deadline passed. See TimeoutError.
	ErrTimeout = errors.New("timed out")
	// ErrAborted: a PE ended the job on purpose. See AbortError.
	ErrAborted = errors.New("job aborted")
	// ErrInvalid: an argument is wrong; nothing was done. See ArgError.
	ErrInvalid = errors.New("invalid argument")
	// ErrCompletion: a NIC completed an operation with an error. See CompletionError.
	ErrCompletion = errors.New("completion error")
	// ErrRefused: a rendezvous refused this process (other job, other key).
	ErrRefused = errors.New("refused by the rendezvous")
)
