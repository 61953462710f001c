package tcp

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/pgas-go/pgas/internal/errs"
)

// wireCause carries an error to other processes: the typed errors of package errs arrive as themselves, all others as
// their text, still matching the same sentinels.
type wireCause struct {
	Text     string              `json:"text,omitempty"`
	Is       []string            `json:"is,omitempty"`
	Inner    *wireCause          `json:"inner,omitempty"` // the typed error inside, or the cause of a typed one
	Lost     *wireLost           `json:"lost,omitempty"`
	Timeout  *errs.TimeoutError  `json:"timeout,omitempty"`
	Mismatch *errs.MismatchError `json:"mismatch,omitempty"`
	AbortPE  *int                `json:"abort_pe,omitempty"`
}

type wireLost struct {
	PE   int           `json:"pe"`
	Host string        `json:"host,omitempty"`
	Op   string        `json:"op,omitempty"`
	Age  time.Duration `json:"age,omitempty"`
}

var sentinels = map[string]error{
	"not-supported": errs.ErrNotSupported, "closed": errs.ErrClosed, "heap-full": errs.ErrHeapFull,
	"peer-lost": errs.ErrPeerLost, "mismatch": errs.ErrMismatch, "timeout": errs.ErrTimeout,
	"aborted": errs.ErrAborted, "invalid": errs.ErrInvalid, "completion": errs.ErrCompletion, "refused": errs.ErrRefused,
}

// maxCauseText bounds what one PE can make all others read.
const maxCauseText = 4096

// textError is an error of another process.
type textError struct {
	text  string
	is    []error
	inner error
}

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return e.inner }
func (e *textError) Is(target error) bool {
	for _, s := range e.is {
		if s == target {
			return true
		}
	}
	return false
}

func encodeCause(err error) []byte {
	b, jsonErr := json.Marshal(toWire(err, 0))
	if jsonErr != nil {
		// Only strings, numbers and maps of them are marshalled; this cannot fail.
		panic(jsonErr)
	}
	return b
}

func toWire(err error, depth int) *wireCause {
	if err == nil {
		return nil
	}
	switch e := err.(type) {
	case *errs.PeerLostError:
		return &wireCause{Lost: &wireLost{e.PE, e.Host, e.Op, e.Age}, Inner: toWire(e.Cause, depth+1)}
	case *errs.TimeoutError:
		return &wireCause{Timeout: e}
	case *errs.MismatchError:
		return &wireCause{Mismatch: e}
	case *errs.AbortError:
		return &wireCause{AbortPE: &e.PE, Inner: toWire(e.Cause, depth+1)}
	}
	w := &wireCause{Text: err.Error()}
	if len(w.Text) > maxCauseText {
		w.Text = w.Text[:maxCauseText] + " [...]"
	}
	for name, s := range sentinels {
		if errors.Is(err, s) {
			w.Is = append(w.Is, name)
		}
	}
	if depth < 4 {
		w.Inner = toWire(typedInside(err), depth+1)
	}
	return w
}

// typedInside returns the outermost typed error in the chain of err, or nil.
func typedInside(err error) error {
	for err = errors.Unwrap(err); err != nil; err = errors.Unwrap(err) {
		switch err.(type) {
		case *errs.PeerLostError, *errs.TimeoutError, *errs.MismatchError, *errs.AbortError:
			return err
		}
	}
	return nil
}

func decodeCause(b []byte) error {
	var w wireCause
	if err := json.Unmarshal(b, &w); err != nil {
		return &textError{text: "the cause cannot be read: " + err.Error(), is: []error{errs.ErrAborted}}
	}
	return w.toError()
}

func (w *wireCause) toError() error {
	var inner error
	if w.Inner != nil {
		inner = w.Inner.toError()
	}
	switch {
	case w.Lost != nil:
		return &errs.PeerLostError{PE: w.Lost.PE, Host: w.Lost.Host, Op: w.Lost.Op, Age: w.Lost.Age, Cause: inner}
	case w.Timeout != nil:
		return w.Timeout
	case w.Mismatch != nil:
		return w.Mismatch
	case w.AbortPE != nil:
		if inner == nil {
			inner = &textError{text: "no cause given"}
		}
		return &errs.AbortError{PE: *w.AbortPE, Cause: inner}
	}
	e := &textError{text: w.Text, inner: inner}
	for _, name := range w.Is {
		if s := sentinels[name]; s != nil {
			e.is = append(e.is, s)
		}
	}
	return e
}
