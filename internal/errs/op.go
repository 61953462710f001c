package errs

import (
	"fmt"
	"strings"
)

// NoPE stands for "no PE" where an error has a field for one.
const NoPE = -1

// OpError says which operation failed, where, and why.
type OpError struct {
	Op   string // "put", "barrier", "alloc", ...
	PE   int    // the PE that reports; NoPE if unknown
	Peer int    // the other side; NoPE if there is none
	Path string // "p2p", "ibgda", ...; empty if none was involved
	Err  error  // the cause, never nil
}

// Error reads "put to PE 3 (ibgda): cause".
func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Peer >= 0 {
		fmt.Fprintf(&b, " to PE %d", e.Peer)
	}
	if e.Path != "" {
		fmt.Fprintf(&b, " (%s)", e.Path)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// Op wraps err in an OpError without peer and path. It returns nil for a nil err.
func Op(op string, pe int, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, PE: pe, Peer: NoPE, Err: err}
}
