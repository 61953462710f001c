package softhca_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/softhca"
)

func edit(w []byte, at int, v byte) []byte {
	out := append([]byte(nil), w...)
	out[at] = v
	return out
}

// Every check at the requester and at the responder gives its syndrome, the queue pair goes to ERR, and what follows
// is flushed.
func TestSyndromes(t *testing.T) {
	const size = pairMemory
	for _, c := range []struct {
		name    string
		want    prm.Syndrome
		cfg     func(*queueConfig)
		access  uint32
		wqe     func(p *pair) []byte
		noPeer  bool // the peer's queue pair stays in RTS
		noBytes bool
	}{
		{name: "unknown opcode", want: prm.SyndromeLocalQpOp, noPeer: true, wqe: func(p *pair) []byte {
			return ctrl(prm.OpcodeUmr, 0, signaled, 0)
		}},
		{name: "opmod", want: prm.SyndromeLocalQpOp, noPeer: true, wqe: func(p *pair) []byte {
			return edit(write(8, p.lkey, 0, p.rkey, 0), 0, 1)
		}},
		{name: "no data after READ's address", want: prm.SyndromeLocalQpOp, noPeer: true, wqe: func(p *pair) []byte {
			return ctrl(prm.OpcodeRdmaWrite, 0, signaled, 0)
		}},
		{name: "inline READ", want: prm.SyndromeLocalQpOp, noPeer: true, wqe: func(p *pair) []byte {
			return ctrl(prm.OpcodeRdmaRead, 0, signaled, 0, raddr(0, p.rkey), inline([]byte{1}))
		}},
		{name: "inline longer than the WQE", want: prm.SyndromeLocalQpOp, noPeer: true, wqe: func(p *pair) []byte {
			return ctrl(prm.OpcodeRdmaWrite, 0, signaled, 0, raddr(0, p.rkey), data(1<<31|40, 0, 0))
		}},
		{name: "zero byte count", want: prm.SyndromeLocalQpOp, noPeer: true, wqe: func(p *pair) []byte {
			return write(0, p.lkey, 0, p.rkey, 0)
		}},
		{name: "signature", want: prm.SyndromeLocalQpOp, noPeer: true, wqe: func(p *pair) []byte { return edit(nop(), 8, 1) }},
		{name: "fence mode 5", want: prm.SyndromeLocalQpOp, noPeer: true, wqe: func(p *pair) []byte { return edit(nop(), 11, 0xa8) }},
		{name: "reserved ctrl bit", want: prm.SyndromeLocalQpOp, noPeer: true, wqe: func(p *pair) []byte { return edit(nop(), 11, 0x18) }},
		{name: "reserved raddr word", want: prm.SyndromeLocalQpOp, noPeer: true, wqe: func(p *pair) []byte {
			return edit(write(8, p.lkey, 0, p.rkey, 0), 31, 1)
		}},
		{name: "immediate without use", want: prm.SyndromeLocalQpOp, noPeer: true, wqe: func(p *pair) []byte { return edit(nop(), 12, 1) }},
		{name: "atomic of a wrong size", want: prm.SyndromeLocalQpOp, noPeer: true, wqe: func(p *pair) []byte {
			return ctrl(prm.OpcodeAtomicFa, 0, signaled, 0, raddr(0, p.rkey), pair64(1, 0), data(4, p.lkey, 0))
		}},
		{name: "longer than log_msg_max", want: prm.SyndromeLocalLength, noPeer: true,
			cfg: func(c *queueConfig) { c.logMsg = 10 }, wqe: func(p *pair) []byte { return write(1025, p.lkey, 0, p.rkey, 0) }},
		{name: "lkey", want: prm.SyndromeLocalProt, noPeer: true, wqe: func(p *pair) []byte { return write(8, p.lkey^1, 0, p.rkey, 0) }},
		{name: "lkey of another PD", want: prm.SyndromeLocalProt, noPeer: true, wqe: func(p *pair) []byte { return write(8, p.lkeyB, 0, p.rkey, 0) }},
		{name: "source range", want: prm.SyndromeLocalProt, noPeer: true, wqe: func(p *pair) []byte { return write(8, p.lkey, size-7, p.rkey, 0) }},
		{name: "source address overflow", want: prm.SyndromeLocalProt, noPeer: true, wqe: func(p *pair) []byte { return write(8, p.lkey, ^uint64(3), p.rkey, 0) }},
		{name: "READ into read-only memory", want: prm.SyndromeLocalProt, noPeer: true, access: mlx5.AccessRemoteRead,
			wqe: func(p *pair) []byte { return read(8, p.lkey, 0, p.rkey, 0) }},
		{name: "rkey", want: prm.SyndromeRemoteAccess, wqe: func(p *pair) []byte { return write(8, p.lkey, 0, p.rkey+1, 0) }},
		{name: "rkey of another PD", want: prm.SyndromeRemoteAccess, wqe: func(p *pair) []byte { return write(8, p.lkey, 0, p.rkeyA, 0) }},
		{name: "target range", want: prm.SyndromeRemoteAccess, noBytes: true, wqe: func(p *pair) []byte { return write(16, p.lkey, 0, p.rkey, size-15) }},
		{name: "target start", want: prm.SyndromeRemoteAccess, wqe: func(p *pair) []byte { return write(16, p.lkey, 0, p.rkey, ^uint64(7)) }},
		{name: "MR without remote write", want: prm.SyndromeRemoteAccess, access: mlx5.AccessLocalWrite | mlx5.AccessRemoteRead,
			wqe: func(p *pair) []byte { return write(8, p.lkey, 0, p.rkey, 0) }},
		{name: "MR without remote atomic", want: prm.SyndromeRemoteAccess, access: mlx5.AccessLocalWrite | mlx5.AccessRemoteRead,
			wqe: func(p *pair) []byte { return fetchAdd(1, p.lkey, 0, p.rkey, 0) }},
		{name: "QP without rwe", want: prm.SyndromeRemoteInvReq, cfg: func(c *queueConfig) { c.noWrite = true },
			wqe: func(p *pair) []byte { return write(8, p.lkey, 0, p.rkey, 0) }},
		{name: "QP without rre", want: prm.SyndromeRemoteInvReq, cfg: func(c *queueConfig) { c.noRead = true },
			wqe: func(p *pair) []byte { return read(8, p.lkey, 0, p.rkey, 0) }},
		{name: "QP without rae", want: prm.SyndromeRemoteInvReq, cfg: func(c *queueConfig) { c.noAtomic = true },
			wqe: func(p *pair) []byte { return fetchAdd(1, p.lkey, 0, p.rkey, 0) }},
		{name: "4-byte atomic in 8-byte mode", want: prm.SyndromeRemoteInvReq,
			cfg: func(c *queueConfig) { c.atomicMode = uint64(prm.AtomicModeIbSpec) }, wqe: func(p *pair) []byte {
				return ctrl(prm.OpcodeAtomicMaskedFa, 8, signaled, 0, raddr(0, p.rkey), quad32(1, 0, 0, 0), data(4, p.lkey, 0))
			}},
		{name: "unaligned atomic", want: prm.SyndromeRemoteInvReq, wqe: func(p *pair) []byte { return fetchAdd(1, p.lkey, 0, p.rkey, 4) }},
		{name: "no receive WQE", want: prm.SyndromeRnrRetry, noPeer: true, cfg: func(c *queueConfig) { c.logRQ, c.rnrRetry = 2, 2 },
			wqe: func(p *pair) []byte { return ctrl(prm.OpcodeSend, 0, signaled, 0, data(8, p.lkey, 0)) }},
		{name: "SEND without receive queue", want: prm.SyndromeRnrRetry, noPeer: true, cfg: func(c *queueConfig) { c.rnrRetry = 0 },
			wqe: func(p *pair) []byte { return ctrl(prm.OpcodeSend, 0, signaled, 0, data(8, p.lkey, 0)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachMode(t, "", func(t *testing.T) {
				cfg := defaults()
				if c.cfg != nil {
					c.cfg(&cfg)
				}
				access := c.access
				if access == 0 {
					access = allAccess
				}
				p := newPairOn(t, cfg, "mlx5_0", "mlx5_0", access)
				wqe := c.wqe(p)
				wqe[11] &^= 0x0c // an error CQE comes even for an unsignaled WQE
				index := p.a.post(wqe)
				p.a.post(write(8, p.lkey, 0, p.rkey, 0))
				p.a.ring()
				cqe := p.a.wait()
				requireError(t, cqe, c.want)
				require.Equal(t, uint64(index), cqe.Get(prm.Cqe.WqeCounter))
				requireError(t, p.a.wait(), prm.SyndromeWrFlush)
				require.Equal(t, prm.QpStateErr, p.a.state())
				requireError(t, p.a.do(nop()), prm.SyndromeWrFlush) // posted after the error
				if c.noPeer {
					require.Equal(t, prm.QpStateRts, p.b.state())
				} else {
					require.Equal(t, prm.QpStateErr, p.b.state())
				}
				require.Equal(t, make([]byte, size), p.dst.b, "nothing may land")
			})
		})
	}
}

func TestBadIndexQPNAndDS(t *testing.T) {
	for name, spoil := range map[string]func(w []byte){
		"index":     func(w []byte) { w[2] ^= 1 },
		"qpn":       func(w []byte) { w[6] ^= 1 },
		"ds zero":   func(w []byte) { w[7] = 0 },
		"ds beyond": func(w []byte) { w[7] = 5 }, // two blocks, one rung
		"ds high":   func(w []byte) { w[7] |= 0x40 },
	} {
		t.Run(name, func(t *testing.T) {
			configure(t, "")
			p := newPair(t, defaults())
			w := write(8, p.lkey, 0, p.rkey, 0)
			binary.BigEndian.PutUint32(w[4:], p.a.qpn<<8|uint32(w[7]))
			spoil(w)
			p.a.postRaw(w)
			p.a.ring()
			requireError(t, p.a.wait(), prm.SyndromeLocalQpOp)
			require.Zero(t, p.dst.b[0])
		})
	}
}

// Doorbells: both forms, wrong page, wrong state, ahead of the record, more than the ring has.
func TestDoorbells(t *testing.T) {
	configure(t, "")
	p := newPair(t, defaults())
	index := p.a.post(write(8, p.lkey, 0, p.rkey, 0))
	p.a.record()
	require.NoError(t, softhca.MMIOStore(p.a.d.uar.RegAddr, doorbell(uint32(index)<<8|8, p.a.qpn<<8|3)))
	requireOK(t, p.a.wait(), 0)

	other, err := p.a.d.ctx.AllocUAR(mlx5.UARBlueFlame)
	require.NoError(t, err)
	defer other.Close()
	ignored := softhca.Counters().DoorbellsIgnored
	p.a.post(nop())
	p.a.record()
	require.NoError(t, softhca.MMIOStore(other.RegAddr, doorbell(uint32(p.a.next)<<8, p.a.qpn<<8)))
	p.a.none(5 * time.Millisecond)
	require.NoError(t, softhca.MMIOStore(p.a.d.uar.RegAddr, doorbell(uint32(p.a.next)<<8, (p.a.qpn+1<<14)<<8)))
	require.NoError(t, softhca.MMIOStore(p.a.d.uar.BaseAddr+0x20, 0))
	require.Equal(t, ignored+3, softhca.Counters().DoorbellsIgnored)
	p.a.ringOnly()
	requireOK(t, p.a.wait(), 1)

	// A doorbell before its record executes nothing that the record does not cover.
	ahead := softhca.Counters().DoorbellAheadOfRecord
	p.a.post(nop())
	p.a.ringOnly()
	p.a.none(5 * time.Millisecond)
	require.Equal(t, ahead+1, softhca.Counters().DoorbellAheadOfRecord)
	p.a.ring()
	requireOK(t, p.a.wait(), 2)
	require.Error(t, softhca.MMIOStore(0x1000, 0))

	p.a.next += 65 // the ring has 64
	p.a.ring()
	requireError(t, p.a.wait(), prm.SyndromeLocalQpOp)
}

func TestDoorbellBeforeRTSIsIgnored(t *testing.T) {
	configure(t, "")
	d := openDevice(t, "mlx5_0")
	q := newQueue(d, defaults())
	q.post(nop())
	before := softhca.Counters()
	q.ring()
	require.NoError(t, q.toInit())
	q.ring()
	require.NoError(t, q.toRTR(q.remote()))
	q.ring()
	require.Equal(t, before.DoorbellsIgnored+3, softhca.Counters().DoorbellsIgnored)
	require.NoError(t, q.toRTS())
	q.none(5 * time.Millisecond)
	q.ring()
	requireOK(t, q.wait(), 0)
}

// After 2RST on both sides everything works again, from index 0.
func TestRecovery(t *testing.T) {
	eachMode(t, "", func(t *testing.T) {
		p := newPair(t, defaults())
		requireError(t, p.a.do(write(8, p.lkey, 0, 0xbad00, 0)), prm.SyndromeRemoteAccess)
		for _, q := range []*queue{p.a, p.b} {
			require.NoError(t, q.short(prm.CmdQp2rst))
			require.Equal(t, prm.QpStateRst, q.state())
			q.next = 0
			q.record()
		}
		ra, rb := p.a.remote(), p.b.remote()
		p.a.connect(rb)
		p.b.connect(ra)
		requireOK(t, p.a.do(write(8, p.lkey, 0, p.rkey, 0)), 0)
	})
}

func TestTwoErrFlushes(t *testing.T) {
	configure(t, "drop=1:1000,time_scale=1")
	cfg := defaults()
	cfg.ackTimeout, cfg.logRQ = 0, 3 // never times out
	p := newPair(t, cfg)
	p.a.postReceive(data(8, p.lkey, 0))
	p.a.post(write(8, p.lkey, 0, p.rkey, 0))
	p.a.post(edit(nop(), 11, 0x04)) // first error only
	p.a.post(edit(nop(), 11, 0x04))
	p.a.post(nop())
	p.a.ring()
	p.a.none(5 * time.Millisecond)
	require.NoError(t, p.a.short(prm.CmdQp2err))
	first := p.a.wait()
	requireError(t, first, prm.SyndromeWrFlush)
	last := p.a.wait() // the two in between ask for the first error only
	requireError(t, last, prm.SyndromeWrFlush)
	require.Equal(t, uint64(3), last.Get(prm.Cqe.WqeCounter))
	cqe := p.a.waitRecv()
	require.Equal(t, prm.CqeOpcodeRespErr, prm.CqeOpcode(cqe.Get(prm.Cqe.Opcode)))
	require.Equal(t, prm.SyndromeWrFlush, prm.Syndrome(cqe.Get(prm.ErrCqe.Syndrome)))
}

func TestRetriesThenTransportError(t *testing.T) {
	eachMode(t, ",drop=2:100", func(t *testing.T) {
		cfg := defaults()
		cfg.ackTimeout, cfg.retry = 8, 3 // about 1 ms each
		p := newPair(t, cfg)
		requireOK(t, p.a.do(write(8, p.lkey, 0, p.rkey, 0)), 0)
		start := time.Now()
		requireError(t, p.a.do(write(8, p.lkey, 0, p.rkey, 0)), prm.SyndromeTransportRetry)
		require.GreaterOrEqual(t, time.Since(start), 4*time.Millisecond)
		c, ok := softhca.QPCounters(p.a.qpn)
		require.True(t, ok)
		require.Equal(t, uint64(4), c.Timeouts)
		require.Equal(t, uint64(3), c.Retries)
	})
}

func TestLostRequestIsSentAgain(t *testing.T) {
	configure(t, "drop=1:2")
	cfg := defaults()
	cfg.ackTimeout, cfg.retry = 8, 3
	p := newPair(t, cfg)
	requireOK(t, p.a.do(fetchAdd(5, p.lkey, 0, p.rkey, 0)), 0)
	require.Equal(t, uint64(5), *p.dst.word64(0), "executed exactly once")
}

func TestReceiverNotReadyWaits(t *testing.T) {
	eachMode(t, "", func(t *testing.T) {
		cfg := defaults()
		cfg.logRQ = 2
		p := newPair(t, cfg)
		p.a.post(ctrl(prm.OpcodeSend, 0, signaled, 0, data(8, p.lkey, 0)))
		p.a.ring()
		p.a.none(5 * time.Millisecond)
		p.b.postReceive(data(8, p.lkeyB, 64))
		requireOK(t, p.a.wait(), 0)
		require.Equal(t, p.src.b[:8], p.dst.b[64:72])
	})
}

func TestReceiveErrors(t *testing.T) {
	for _, c := range []struct {
		name          string
		receive       func(p *pair) []byte
		atResp, atReq prm.Syndrome
	}{
		{"too small", func(p *pair) []byte { return data(7, p.lkeyB, 0) }, prm.SyndromeLocalLength, prm.SyndromeRemoteInvReq},
		{"bad lkey", func(p *pair) []byte { return data(8, p.lkeyB+1, 0) }, prm.SyndromeLocalProt, prm.SyndromeRemoteOp},
	} {
		t.Run(c.name, func(t *testing.T) {
			configure(t, "")
			cfg := defaults()
			cfg.logRQ = 2
			p := newPair(t, cfg)
			p.b.postReceive(c.receive(p))
			p.b.postReceive(data(8, p.lkeyB, 0))
			requireError(t, p.a.do(ctrl(prm.OpcodeSend, 0, signaled, 0, data(8, p.lkey, 0))), c.atReq)
			cqe := p.b.waitRecv()
			require.Equal(t, prm.CqeOpcodeRespErr, prm.CqeOpcode(cqe.Get(prm.Cqe.Opcode)))
			require.Equal(t, c.atResp, prm.Syndrome(cqe.Get(prm.ErrCqe.Syndrome)))
			require.Equal(t, prm.SyndromeWrFlush, prm.Syndrome(p.b.waitRecv().Get(prm.ErrCqe.Syndrome)))
		})
	}
}

func TestCompletionQueueOverrun(t *testing.T) {
	configure(t, "")
	cfg := defaults()
	cfg.logCQ, cfg.overrunIgnore = 1, false
	p := newPair(t, cfg)
	for range 3 {
		p.a.post(nop())
	}
	p.a.ring()
	requireOK(t, p.a.wait(), 0)
	requireOK(t, p.a.wait(), 1)
	require.Equal(t, prm.QpStateErr, p.a.state())
	in, err := prm.NewCommand(prm.CmdQueryCq, 16).Set(prm.QueryCqIn.Cqn, uint64(cqnOf(p.a))).Bytes()
	require.NoError(t, err)
	out := prm.NewMailbox(prm.QueryCqOutSize)
	require.NoError(t, p.a.cq.Query(in, out))
	require.Equal(t, prm.CqStatusOverflow, prm.CqStatus(out.Get(prm.QueryCqOut.Cqc.Status)))
	require.Equal(t, uint64(2), out.Get(prm.QueryCqOut.Cqc.ProducerCounter))
	require.Equal(t, uint64(1), softhca.Counters().CQOverruns)
}

func cqnOf(q *queue) uint32 { return uint32(q.query().Get(prm.QueryQpOut.Qpc.CqnSnd)) }
