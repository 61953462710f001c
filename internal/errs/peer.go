package errs

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PeerLostError says that a PE is gone without having left the job.
type PeerLostError struct {
	PE    int           // the lost PE
	Host  string        // its address; empty if unknown
	Op    string        // what was going on when the loss was seen; empty if nothing was
	Age   time.Duration // time since the PE was last known to live; 0 if unknown
	Cause error         // how the loss was seen; may be nil
}

// Error reads "barrier: peer lost: PE 2 on 10.0.0.7: connection closed, last seen 12ms ago".
func (e *PeerLostError) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	fmt.Fprintf(&b, "peer lost: PE %d", e.PE)
	if e.Host != "" {
		b.WriteString(" on " + e.Host)
	}
	if e.Cause != nil {
		b.WriteString(": " + e.Cause.Error())
	}
	if e.Age > 0 {
		fmt.Fprintf(&b, ", last seen %v ago", e.Age.Round(time.Millisecond))
	}
	return b.String()
}

// Is matches ErrPeerLost.
func (e *PeerLostError) Is(target error) bool { return target == ErrPeerLost }

// Unwrap returns the cause.
func (e *PeerLostError) Unwrap() error { return e.Cause }

// AbortError says that a PE ended the job, and why.
type AbortError struct {
	PE    int   // the PE that called Abort
	Cause error // its reason, never nil
}

// Error reads "job aborted by PE 1: cause".
func (e *AbortError) Error() string { return fmt.Sprintf("job aborted by PE %d: %v", e.PE, e.Cause) }

// Is matches ErrAborted.
func (e *AbortError) Is(target error) bool { return target == ErrAborted }

// Unwrap returns the cause.
func (e *AbortError) Unwrap() error { return e.Cause }

// TimeoutError says that a deadline passed and, for collective operations, who was missing.
type TimeoutError struct {
	Op      string        // what waited
	After   time.Duration // for how long
	Size    int           // PEs expected; 0 if the wait was not collective
	Missing []int         // PEs that did not come, ascending
	Detail  string        // what is known beyond that, with the remedy in brackets; may be empty
}

// Error reads "barrier: timed out after 2s: 2 of 3 PEs, missing: 1".
func (e *TimeoutError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: timed out after %v", e.Op, e.After.Round(time.Millisecond))
	if len(e.Missing) > 0 {
		fmt.Fprintf(&b, ": %d of %d PEs, missing: %s", e.Size-len(e.Missing), e.Size, PEList(e.Missing))
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	return b.String()
}

// Is matches ErrTimeout.
func (e *TimeoutError) Is(target error) bool { return target == ErrTimeout }

// Timeout says that this is a timeout, as net.Error does.
func (e *TimeoutError) Timeout() bool { return true }

// PEList prints ascending PE numbers with runs folded: "1, 3-7, 9".
func PEList(pes []int) string {
	var b strings.Builder
	for i := 0; i < len(pes); {
		j := i
		for j+1 < len(pes) && pes[j+1] == pes[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(pes[i]))
		switch {
		case j == i+1:
			b.WriteString(", " + strconv.Itoa(pes[j]))
		case j > i+1:
			b.WriteString("-" + strconv.Itoa(pes[j]))
		}
		i = j + 1
	}
	return b.String()
}
