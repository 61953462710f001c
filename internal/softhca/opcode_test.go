package softhca_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/softhca"
)

var modes = []string{"mode=inline", "mode=thread", "mode=chaos,seed=7"}

func eachMode(t *testing.T, extra string, test func(t *testing.T)) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			configure(t, mode+extra)
			test(t)
		})
	}
}

func TestWrite(t *testing.T) {
	eachMode(t, "", func(t *testing.T) {
		p := newPair(t, defaults())
		for i, n := range []uint32{1, 2, 3, 4, 7, 8, 9, 16, 63, 128, 129, 1000, 4096, 65537} {
			from, to := uint64(i*3), uint64(4096+i*5)
			clear(p.dst.b)
			cqe := p.a.do(write(n, p.lkey, from, p.rkey, to))
			requireOK(t, cqe, uint16(i))
			require.Equal(t, uint64(5), cqe.Get(prm.Cqe.SrqnUidx), "user index")
			require.Equal(t, uint64(p.a.qpn), cqe.Get(prm.Cqe.Qpn))
			require.Equal(t, uint64(prm.OpcodeRdmaWrite), cqe.Get(prm.Cqe.SendOpcode))
			require.Equal(t, p.src.b[from:from+uint64(n)], p.dst.b[to:to+uint64(n)])
			require.Zero(t, p.dst.b[to-1], "byte before the target")
			require.Zero(t, p.dst.b[to+uint64(n)], "byte after the target")
		}
	})
}

func TestWriteGathersInlinesAndEmpties(t *testing.T) {
	eachMode(t, "", func(t *testing.T) {
		p := newPair(t, defaults())
		gather := ctrl(prm.OpcodeRdmaWrite, 0, signaled, 0, raddr(64, p.rkey), data(3, p.lkey, 10), data(70, p.lkey, 300),
			data(5, p.lkey, 7))
		requireOK(t, p.a.do(gather), 0)
		want := append(append(append([]byte{}, p.src.b[10:13]...), p.src.b[300:370]...), p.src.b[7:12]...)
		require.Equal(t, want, p.dst.b[64:64+78])

		payload := []byte("inline payload that is longer than one block of sixty-four bytes, so that it takes two or more of them")
		cqe := p.a.do(ctrl(prm.OpcodeRdmaWrite, 0, signaled, 0, raddr(1001, p.rkey), inline(payload)))
		requireOK(t, cqe, 2)
		require.Equal(t, payload, p.dst.b[1001:1001+len(payload)])

		// Nothing is checked for a zero-length WRITE, not even the key.
		requireOK(t, p.a.do(ctrl(prm.OpcodeRdmaWrite, 0, signaled, 0, raddr(0, 0xdead))), p.a.next-1)
	})
}

func TestReadAndAtomics(t *testing.T) {
	eachMode(t, "", func(t *testing.T) {
		p := newPair(t, defaults())
		for i := range p.dst.b {
			p.dst.b[i] = byte(i * 11)
		}
		cqe := p.a.do(read(3000, p.lkey, 17, p.rkey, 333))
		requireOK(t, cqe, 0)
		require.Equal(t, uint64(3000), cqe.Get(prm.Cqe.ByteCnt))
		require.Equal(t, p.dst.b[333:3333], p.src.b[17:3017])

		*p.dst.word64(64) = 41
		requireOK(t, p.a.do(fetchAdd(1, p.lkey, 0, p.rkey, 64)), 1)
		require.Equal(t, uint64(42), *p.dst.word64(64))
		require.Equal(t, uint64(41), *p.src.word64(0), "old value in host order")

		cas := func(swap, compare uint64) []byte {
			return ctrl(prm.OpcodeAtomicCs, 0, signaled, 0, raddr(64, p.rkey), pair64(swap, compare), data(8, p.lkey, 8))
		}
		requireOK(t, p.a.do(cas(7, 41)), 2)
		require.Equal(t, uint64(42), *p.dst.word64(64), "compare failed")
		requireOK(t, p.a.do(cas(7, 42)), 3)
		require.Equal(t, uint64(7), *p.dst.word64(64))
		require.Equal(t, uint64(42), *p.src.word64(8))
	})
}

func TestMaskedAtomics(t *testing.T) {
	configure(t, "")
	p := newPair(t, defaults())
	const at = 128
	fa32 := func(add, boundary uint32) []byte {
		return ctrl(prm.OpcodeAtomicMaskedFa, 8, signaled, 0, raddr(at, p.rkey), quad32(add, boundary, 0, 0), data(4, p.lkey, 0))
	}
	cs32 := func(swap, compare, swapMask, compareMask uint32) []byte {
		return ctrl(prm.OpcodeAtomicMaskedCs, 8, signaled, 0, raddr(at, p.rkey), quad32(swap, compare, swapMask, compareMask),
			data(4, p.lkey, 0))
	}
	fa64 := func(add, boundary uint64) []byte {
		return ctrl(prm.OpcodeAtomicMaskedFa, 9, signaled, 0, raddr(at, p.rkey), pair64(add, boundary), data(8, p.lkey, 0))
	}
	cs64 := func(swap, compare, swapMask, compareMask uint64) []byte {
		return ctrl(prm.OpcodeAtomicMaskedCs, 9, signaled, 0, raddr(at, p.rkey), pair64(swap, compare),
			pair64(swapMask, compareMask), data(8, p.lkey, 0))
	}
	const ones32, ones64 = ^uint32(0), ^uint64(0)
	for _, c := range []struct {
		name     string
		old, new uint64
		wqe      []byte
	}{
		{"add32", 0xffffffff, 1, fa32(2, 0)},
		{"add32 in bytes", 0x01ff01ff, 0x02000200, fa32(0x01010101, 0x80808080)},
		{"xor32", 0xf0f0, 0xff0f, fa32(0x0fff, ones32)},
		{"swap32", 5, 9, cs32(9, 0, ones32, 0)},
		{"cas32 fails", 5, 5, cs32(9, 6, ones32, ones32)},
		{"and32", 0xff, 0x0f, cs32(0x0f, 0, ^uint32(0x0f), 0)},
		{"or32", 0xf0, 0xff, cs32(0x0f, 0, 0x0f, 0)},
		{"masked compare32", 0xab12, 0xcd12, cs32(0xcd00, 0x0012, 0xff00, 0x00ff)},
		{"add64", ones64, 4, fa64(5, 0)},
		{"xor64", 0xff, 0xf0f, fa64(0xff0, ones64)},
		{"add64 in halves", 1<<32 | 0xffffffff, 2 << 32, fa64(1<<32|1, 1<<63|1<<31)},
		{"swap64", 5, 1 << 60, cs64(1<<60, 0, ones64, 0)},
		{"cas64", 77, 78, cs64(78, 77, ones64, ones64)},
		{"cas64 fails", 77, 77, cs64(78, 76, ones64, ones64)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.a.d.t = t
			*p.dst.word64(at) = c.old
			*p.src.word64(0) = 0
			cqe := p.a.do(c.wqe)
			require.Equal(t, prm.CqeOpcodeReq, prm.CqeOpcode(cqe.Get(prm.Cqe.Opcode)))
			require.Equal(t, c.new, *p.dst.word64(at))
			if c.wqe[0] == 8 { // 4-byte extended atomics deliver big-endian
				require.Equal(t, uint32(c.old), binary.BigEndian.Uint32(p.src.b))
			} else {
				require.Equal(t, c.old, *p.src.word64(0))
			}
		})
	}
	p.a.d.t = t
}

// Addition in fields equals doing every field by itself.
func TestMaskedAddMatchesReference(t *testing.T) {
	configure(t, "")
	p := newPair(t, defaults())
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		old, add, boundary := r.Uint64(), r.Uint64(), r.Uint64()&r.Uint64()
		*p.dst.word64(0) = old
		wqe := ctrl(prm.OpcodeAtomicMaskedFa, 9, signaled, 0, raddr(0, p.rkey), pair64(add, boundary), data(8, p.lkey, 0))
		p.a.do(wqe)
		var want, carry uint64
		for bit := range 64 {
			sum := old>>bit&1 + add>>bit&1 + carry
			want |= sum & 1 << bit
			carry = sum >> 1
			if boundary>>bit&1 == 1 {
				carry = 0
			}
		}
		require.Equal(t, want, *p.dst.word64(0), "%#x + %#x, boundary %#x", old, add, boundary)
	}
}

func TestSendAndReceive(t *testing.T) {
	eachMode(t, "", func(t *testing.T) {
		cfg := defaults()
		cfg.logRQ = 4
		p := newPair(t, cfg)
		p.b.postReceive(data(10, p.lkeyB, 100), data(2000, p.lkeyB, 5000))
		p.b.postReceive(data(64, p.lkeyB, 9000))
		p.b.postReceive(data(64, p.lkeyB, 9100))

		send := ctrl(prm.OpcodeSend, 0, signaled, 0, data(700, p.lkey, 3))
		requireOK(t, p.a.do(send), 0)
		cqe := p.b.waitRecv()
		require.Equal(t, prm.CqeOpcodeRespSend, prm.CqeOpcode(cqe.Get(prm.Cqe.Opcode)))
		require.Equal(t, uint64(700), cqe.Get(prm.Cqe.ByteCnt))
		require.Equal(t, p.src.b[3:13], p.dst.b[100:110])
		require.Equal(t, p.src.b[13:703], p.dst.b[5000:5690])

		requireOK(t, p.a.do(ctrl(prm.OpcodeSendImm, 0, signaled, 0xcafe0001, inline([]byte("hello")))), 1)
		cqe = p.b.waitRecv()
		require.Equal(t, prm.CqeOpcodeRespSendImm, prm.CqeOpcode(cqe.Get(prm.Cqe.Opcode)))
		require.Equal(t, uint64(0xcafe0001), cqe.Get(prm.Cqe.Imm))
		require.Equal(t, "hello", string(p.dst.b[9000:9005]))

		wimm := ctrl(prm.OpcodeRdmaWriteImm, 0, signaled, 0x01020304, raddr(20000, p.rkey), data(128, p.lkey, 0))
		requireOK(t, p.a.do(wimm), 2)
		cqe = p.b.waitRecv()
		require.Equal(t, prm.CqeOpcodeRespWrImm, prm.CqeOpcode(cqe.Get(prm.Cqe.Opcode)))
		require.Equal(t, uint64(2), cqe.Get(prm.Cqe.WqeCounter))
		require.Equal(t, p.src.b[:128], p.dst.b[20000:20128])
	})
}

// postReceive posts a receive WQE and moves the doorbell record.
func (q *queue) postReceive(segs ...[]byte) {
	at := ringAt + int(q.recvNext)%(1<<q.cfg.logRQ)*rqStride
	w := make([]byte, 0, rqStride)
	for _, s := range segs {
		w = append(w, s...)
	}
	for len(w) < rqStride {
		w = append(w, data(0, 0x100, 0)...)
	}
	copy(q.mem.b[at:], w)
	q.recvNext++
	*q.mem.word32(sqRecord) = swap32(uint32(q.recvNext))
}

func TestNopDumpAndUnsignaled(t *testing.T) {
	configure(t, "")
	p := newPair(t, defaults())
	requireOK(t, p.a.do(nop()), 0)
	requireOK(t, p.a.do(ctrl(prm.OpcodeNop, 0, signaled, 0, make([]byte, 16))), 1)
	requireOK(t, p.a.do(ctrl(prm.OpcodeDump, 0, signaled|fenced, 0, data(1, p.lkey, 0))), 2)
	p.a.post(ctrl(prm.OpcodeRdmaWrite, 0, 0, 0, raddr(0, p.rkey), data(8, p.lkey, 0)))
	p.a.post(ctrl(prm.OpcodeRdmaWrite, 0, 0x04, 0, raddr(8, p.rkey), data(8, p.lkey, 8)))
	requireOK(t, p.a.do(nop()), 5)
	require.Equal(t, p.src.b[:16], p.dst.b[:16])
}

// Every index of a ring wraps at 2^16, also in rings of two blocks with WQEs of two blocks.
func TestIndexWraps(t *testing.T) {
	for _, logSQ := range []uint64{1, 3} {
		t.Run(fmt.Sprint(logSQ), func(t *testing.T) {
			configure(t, "")
			cfg := defaults()
			cfg.logSQ, cfg.logCQ, cfg.collapsed = logSQ, 0, true
			p := newPair(t, cfg)
			payload := make([]byte, 40)
			long := ctrl(prm.OpcodeRdmaWrite, 0, signaled, 0, raddr(100, p.rkey), inline(payload))
			for i := 0; i < 3; i++ {
				p.a.do(nop()) // odd start: two-block WQEs then wrap in the middle
				p.a.seen = uint32(i+1) & 1
			}
			before := softhca.Counters().WQEWrite
			for i := range 40000 {
				binary.NativeEndian.PutUint64(long[36:], uint64(i))
				index := p.a.post(long)
				p.a.ring()
				require.Equal(t, uint32(index), swap32(*p.a.mem.word32(0x3c))>>16)
				require.Equal(t, uint64(i), binary.NativeEndian.Uint64(p.dst.b[100:]))
			}
			require.Equal(t, uint64(40000), softhca.Counters().WQEWrite-before)
		})
	}
}
