package tcp

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/pgas-go/pgas/internal/errs"
)

// op is a collective call.
type op uint8

const (
	opAllGather op = 1
	opBarrier   op = 2
)

func (o op) String() string {
	switch o {
	case opAllGather:
		return "all-gather"
	case opBarrier:
		return "barrier"
	}
	return fmt.Sprintf("call %d", uint8(o))
}

// A contribution is the op, the nanoseconds that its caller will still wait, and the blob.
const contributionPrefix = 1 + 8

func encodeContribution(o op, remaining time.Duration, blob []byte) []byte {
	b := make([]byte, 0, contributionPrefix+len(blob))
	b = append(b, byte(o))
	b = binary.BigEndian.AppendUint64(b, uint64(max(remaining, 0)))
	return append(b, blob...)
}

// step is the collective call in progress. There is only one: nobody can enter the next before all have left this one.
type step struct {
	num   uint64
	op    op
	count int
	blobs [][]byte // by rank, nil until contributed
	alarm alarm
}

func (s *step) reset(num uint64, size int) {
	s.alarm.stop()
	*s = step{num: num, blobs: make([][]byte, size)}
}

// describe names the call that PEs are waiting in, if any.
func (s *step) describe() string {
	if s.count == 0 {
		return ""
	}
	return fmt.Sprintf("%v (step %d)", s.op, s.num)
}

// contribute takes the part of one member, and completes the step with the last one. The earliest deadline of all who
// wait is the deadline of the step. Callers hold the lock.
func (h *hub) contribute(m *member, f *frame) {
	s := &h.step
	switch {
	case h.failed != nil:
		return
	case !h.started || f.step != s.num || s.blobs[m.rank] != nil || len(f.payload) < contributionPrefix:
		h.fail(h.lost(m, fmt.Errorf("it is out of step: it sent step %d, the job is at step %d", f.step, s.num)))
		return
	}
	o := op(f.payload[0])
	s.blobs[m.rank] = f.payload[contributionPrefix:]
	if s.count == 0 {
		s.op = o
	}
	s.count++
	if o != s.op {
		h.fail(h.unequalCalls(m.rank, o))
		return
	}
	for _, other := range h.members {
		if other.left {
			h.fail(h.lost(other, errLeft))
			return
		}
	}
	if s.count == h.opt.Size {
		h.complete()
		return
	}
	num, remaining := s.num, time.Duration(binary.BigEndian.Uint64(f.payload[1:]))
	s.alarm.lower(max(remaining, 0), func() { h.stepExpired(num) })
}

func (h *hub) unequalCalls(rank int, o op) error {
	e := &errs.MismatchError{What: fmt.Sprintf("collective call (step %d)", h.step.num), Values: make(map[int]string)}
	for pe, b := range h.step.blobs {
		if b != nil {
			e.Values[pe] = h.step.op.String()
		}
	}
	e.Values[rank] = o.String()
	return e
}

func (h *hub) complete() {
	s := &h.step
	var out [][]byte
	if s.op == opBarrier {
		out = append(out, h.frame(kindRelease, s.num, 0, nil))
	} else {
		for pe, b := range s.blobs {
			out = append(out, h.frame(kindResult, s.num, pe, b))
		}
	}
	for _, m := range h.members {
		for _, b := range out {
			m.out.push(b)
		}
	}
	s.reset(s.num+1, h.opt.Size)
}

func (h *hub) stepExpired(num uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.step
	if s.num != num || s.count == 0 || h.closing {
		return
	}
	e := &errs.TimeoutError{Op: s.op.String(), After: s.alarm.after, Size: h.opt.Size}
	for pe, b := range s.blobs {
		if b == nil {
			e.Missing = append(e.Missing, pe)
		}
	}
	h.fail(e)
}
