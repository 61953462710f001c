package ibgda

import (
	"fmt"
	"time"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/wire"
)

// Decode turns a status record that a kernel or the host engine wrote into an error. cause is the first cause of the
// job's failure, for records that only say that there was one; path is the path to the record's peer, "" for waits.
// context replaces the record's context when it is not negative (the host's queues are a context of their own). place says
// where the record's address lies, "" when there is nothing to say.
func Decode(r *wire.StatusRecord, cause error, path string, context int, place string) error {
	if r.Status == wire.StatusOk {
		return nil
	}
	op := wire.Op(r.Op)
	e := &errs.OpError{Op: op.String(), PE: errs.NoPE, Peer: int(r.Peer), Path: path}
	if op == wire.OpWait {
		e.Peer, e.Path = errs.NoPE, ""
	}
	if context < 0 {
		context = int(r.Context)
	}
	waited := time.Duration(r.WaitedNs)
	switch r.Status {
	case wire.StatusCompletionError:
		e.Err = &errs.CompletionError{QPN: r.Qpn, Context: context, Peer: int(r.Peer), WQEIndex: r.WqeIndex,
			Opcode: uint8(r.Opcode), Syndrome: uint8(r.Syndrome), VendorSyndrome: uint8(r.VendorSyndrome)}
	case wire.StatusTimeout:
		e.Err = &errs.TimeoutError{Op: op.String(), After: waited, Detail: detail(r, context, place)}
	case wire.StatusInvalid:
		e.Err = errs.Arg(op.String(), "range", fmt.Sprintf("%#x%s, %d bytes", r.Address, place, r.Expected),
			fmt.Sprintf("symmetric memory, a PE and a context that exist (PE %d, context %d%s)", r.Peer, context, where(r)))
	case wire.StatusPeerLost, wire.StatusAborted:
		e.Err = cause
	}
	if e.Err == nil {
		e.Err = fmt.Errorf("status %s%s", r.Status, where(r))
	}
	return e
}

func detail(r *wire.StatusRecord, context int, place string) string {
	if wire.Op(r.Op) == wire.OpWait {
		return fmt.Sprintf("word %#x%s is %d, waiting for %d%s", r.Address, place, r.Seen, r.Expected, where(r))
	}
	return fmt.Sprintf("qp %#x (context %d) has completed %d basic blocks, wqe %d is waited for%s [raise PGAS_TIMEOUT if the peer is only slow]",
		r.Qpn, context, r.Seen, r.WqeIndex, where(r))
}

// where names the lane, unless the host posted.
func where(r *wire.StatusRecord) string {
	if r.Block == ^uint32(0) {
		return ""
	}
	return fmt.Sprintf(", block %d thread %d", r.Block, r.Thread)
}
