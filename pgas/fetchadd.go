package pgas

import (
	"context"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/wire"
	"github.com/pgas-go/pgas/signal"
)

// FetchAdd adds value to element 0 of word on PE pe, modulo 2^64, in one step, and returns the old value. It is atomic
// against other FetchAdds that reach the word by the same path; a word that some PEs reach by p2p and others through a
// NIC is always updated through the NIC. It completes at once. Errors as for Put.
func FetchAdd(ctx context.Context, word Slice[uint64], value uint64, pe int) (uint64, error) {
	if word.n > 0 {
		if old, done := word.b.fetchAdd8(word.off, value, pe); done {
			return old, nil
		}
	}
	w, err := start("fetch_add", "word", word.b, pe)
	if err != nil {
		return 0, err
	}
	defer w.leave()
	if word.n < 1 {
		return 0, w.failed("fetch_add", pe, errs.Arg("fetch_add", "length of word", word.n, "at least 1 element"))
	}
	p := &w.peers[pe]
	if p.direct && !w.mixed {
		old := signal.FetchAdd(p.base[word.b.seg]+uintptr(word.off), value)
		signal.Ring(p.bell)
		return old, nil
	}
	if w.eng == nil {
		return 0, w.failed("fetch_add", pe, &errs.UnsupportedError{Feature: "fetch_add from the host",
			Need: "a NIC, or memory that CPUs reach", Have: "GPU memory by p2p", Fix: "use a kernel, or set PGAS_PATH=ibgda"})
	}
	timeout, err := w.timeout(ctx)
	if err != nil {
		return 0, w.failed("fetch_add", pe, err)
	}
	old, s := w.eng.FetchAdd(w.base[word.b.seg]+word.off, value, uint32(pe), timeout)
	if s != wire.StatusOk {
		return 0, w.result(ctx, "fetch_add", pe, s, timeout)
	}
	return old, nil
}
