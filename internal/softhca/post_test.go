package softhca_test

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/softhca"
)

// post writes a WQE's bytes at the next index, wrapping at the ring's end, and sets index and QPN.
func (q *queue) post(wqe []byte) uint16 {
	w := append([]byte(nil), wqe...)
	binary.BigEndian.PutUint32(w, binary.BigEndian.Uint32(w)&0xff0000ff|uint32(q.next)<<8)
	binary.BigEndian.PutUint32(w[4:], q.qpn<<8|binary.BigEndian.Uint32(w[4:])&0xff)
	return q.postRaw(w)
}

func (q *queue) postRaw(w []byte) uint16 {
	ring := 64 << q.cfg.logSQ
	at := int(q.next) * 64 % ring
	for i := range w {
		q.mem.b[q.sqAt+(at+i)%ring] = w[i]
	}
	index := q.next
	q.next += uint16((len(w) + 63) / 64)
	return index
}

func (q *queue) record() {
	atomic.StoreUint32(q.mem.word32(sqRecord+4), swap32(uint32(q.next)))
}

// ring writes the doorbell record and the doorbell, form 2.
func (q *queue) ring() {
	q.record()
	q.ringOnly()
}

func (q *queue) ringOnly() {
	q.d.t.Helper()
	require.NoError(q.d.t, softhca.MMIOStore(q.d.uar.RegAddr, doorbell(uint32(q.next)<<8, q.qpn<<8)))
}

func doorbell(word0, word1 uint32) uint64 { return uint64(swap32(word1))<<32 | uint64(swap32(word0)) }

func swap32(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}

// do posts, rings, and returns the CQE.
func (q *queue) do(wqe []byte) prm.Mailbox {
	q.d.t.Helper()
	q.post(wqe)
	q.ring()
	return q.wait()
}

// wait returns the next CQE of the send CQ.
func (q *queue) wait() prm.Mailbox {
	q.d.t.Helper()
	cqe, ok := q.poll(sendCQAt, &q.seen, q.cfg.logCQ, 10*time.Second)
	require.True(q.d.t, ok, "no CQE %d within 10 s; state %v", q.seen, q.state())
	return cqe
}

func (q *queue) waitRecv() prm.Mailbox {
	q.d.t.Helper()
	cqe, ok := q.poll(recvCQAt, &q.recvSeen, 8, 10*time.Second)
	require.True(q.d.t, ok, "no receive CQE %d within 10 s", q.recvSeen)
	return cqe
}

// none checks that no CQE comes for a while.
func (q *queue) none(d time.Duration) {
	q.d.t.Helper()
	seen := q.seen
	cqe, ok := q.poll(sendCQAt, &seen, q.cfg.logCQ, d)
	require.False(q.d.t, ok, "unexpected CQE % x", []byte(cqe))
}

func (q *queue) poll(base int, seen *uint32, logSize uint64, limit time.Duration) (prm.Mailbox, bool) {
	at := base + int(*seen&(1<<logSize-1))*64
	owner := byte(*seen >> logSize & 1)
	for end := time.Now().Add(limit); ; {
		last := atomic.LoadUint32(q.mem.word32(at + 0x3c))
		opOwn := byte(last >> 24)
		if opOwn>>4 != byte(prm.CqeOpcodeInvalid) && opOwn&1 == owner {
			*seen++
			return append(prm.Mailbox(nil), q.mem.b[at:at+64]...), true
		}
		if time.Now().After(end) {
			return nil, false
		}
		time.Sleep(20 * time.Microsecond)
	}
}

func requireOK(t testing.TB, cqe prm.Mailbox, index uint16) {
	t.Helper()
	require.Equal(t, prm.CqeOpcodeReq, prm.CqeOpcode(cqe.Get(prm.Cqe.Opcode)), "CQE % x", []byte(cqe))
	require.Equal(t, uint64(index), cqe.Get(prm.Cqe.WqeCounter))
}

func requireError(t testing.TB, cqe prm.Mailbox, want prm.Syndrome) {
	t.Helper()
	require.Equal(t, prm.CqeOpcodeReqErr, prm.CqeOpcode(cqe.Get(prm.Cqe.Opcode)), "CQE % x", []byte(cqe))
	require.Equal(t, want, prm.Syndrome(cqe.Get(prm.ErrCqe.Syndrome)))
}

func ptr(m *memory) unsafe.Pointer { return unsafe.Pointer(&m.b[0]) }
