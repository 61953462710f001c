package ibgda

import (
	"github.com/pgas-go/pgas/internal/prm"
)

// ring says where a queue lies in a umem, and by what it is rung.
type ring struct {
	umem    uint32
	offset  uint64
	dbrUmem uint32
	dbr     uint64 // offset of the doorbell record
	uarPage uint32
	log     uint32 // log2 of the entries: CQEs, or 64-byte basic blocks
}

// createCQ is a collapsed CQ that ignores overruns: every CQE goes to entry 0 and nobody tells the NIC what was read.
// One entry is enough (UCX does the same).
func createCQ(r ring, eqn uint32) ([]byte, error) {
	l := prm.CreateCqIn
	return prm.NewCommand(prm.CmdCreateCq, prm.CreateCqInSize).
		Set(l.Cqc.DbrUmemValid, 1).
		Set(l.Cqc.Cc, 1).
		Set(l.Cqc.Oi, 1).
		Set(l.Cqc.DbrUmemId, uint64(r.dbrUmem)).
		Set(l.Cqc.LogCqSize, uint64(r.log)).
		Set(l.Cqc.UarPage, uint64(r.uarPage)).
		Set(l.Cqc.CEqn, uint64(eqn)).
		Set(l.Cqc.DbrAddr, r.dbr).
		Set(l.CqUmemOffset, r.offset).
		Set(l.CqUmemId, uint64(r.umem)).
		Set(l.CqUmemValid, 1).
		Bytes()
}

// createQP is an RC queue pair without a receive queue.
func createQP(r ring, pd, cqn, userIndex uint32, ts prm.TsFormat) ([]byte, error) {
	l := prm.CreateQpIn
	return prm.NewCommand(prm.CmdCreateQp, prm.CreateQpInSize).
		Set(l.Qpc.St, uint64(prm.ServiceTypeRc)).
		Set(l.Qpc.PmState, uint64(prm.PmStateMigrated)).
		Set(l.Qpc.Pd, uint64(pd)).
		Set(l.Qpc.LogSqSize, uint64(r.log)).
		Set(l.Qpc.TsFormat, uint64(ts)).
		Set(l.Qpc.UarPage, uint64(r.uarPage)).
		Set(l.Qpc.UserIndex, uint64(userIndex)).
		Set(l.Qpc.CqnSnd, uint64(cqn)).
		Set(l.Qpc.RqType, uint64(prm.RqTypeNone)).
		Set(l.Qpc.DbrAddr, r.dbr).
		Set(l.Qpc.DbrUmemId, uint64(r.dbrUmem)).
		Set(l.Qpc.DbrUmemValid, 1).
		Set(l.WqUmemOffset, r.offset).
		Set(l.WqUmemId, uint64(r.umem)).
		Set(l.WqUmemValid, 1).
		Bytes()
}

func modifyQP(op prm.Cmd, qpn uint32) *prm.Command {
	return prm.NewCommand(op, prm.ModifyQpInSize).Set(prm.ModifyQpIn.Qpn, uint64(qpn))
}

// rst2init opens the queue pair for remote reads, writes and atomics of 4 and 8 bytes.
func rst2init(qpn uint32, port uint8) ([]byte, error) {
	q := prm.ModifyQpIn.Qpc
	return modifyQP(prm.CmdRst2initQp, qpn).
		Set(q.PmState, uint64(prm.PmStateMigrated)).
		Set(q.Rre, 1).Set(q.Rwe, 1).Set(q.Rae, 1).
		Set(q.AtomicMode, uint64(prm.AtomicModeUpTo8b)).
		Set(q.PrimaryAddressPath.VhcaPortNum, uint64(port)).
		Set(q.PrimaryAddressPath.PkeyIndex, 0).
		Bytes()
}

// route is the way to one peer.
type route struct {
	port     uint8
	ethernet bool
	// InfiniBand
	rlid uint16
	sl   uint8
	// RoCE
	gidIndex uint8
	rgid     [16]byte
	rmac     [6]byte
	udpSport uint16 // RoCEv2 only, else 0
	tclass   uint8
	hopLimit uint8
}

// remote is what INIT2RTR needs to know of the other end and of the responder side.
type remote struct {
	qpn, psn  uint32
	mtu       prm.Mtu
	logMsgMax uint32
	logRraMax uint32
	minRnrNak uint32 // 5-bit timer code; 12 is 0.64 ms
}

func init2rtr(qpn uint32, to remote, way route) ([]byte, error) {
	q := prm.ModifyQpIn.Qpc
	p := q.PrimaryAddressPath
	c := modifyQP(prm.CmdInit2rtrQp, qpn).
		Set(q.Mtu, uint64(to.mtu)).
		Set(q.LogMsgMax, uint64(to.logMsgMax)).
		Set(q.RemoteQpn, uint64(to.qpn)).
		Set(q.LogRraMax, uint64(to.logRraMax)).
		Set(q.MinRnrNak, uint64(to.minRnrNak)).
		Set(q.NextRcvPsn, uint64(to.psn)).
		Set(p.VhcaPortNum, uint64(way.port))
	if !way.ethernet {
		return c.Set(p.Rlid, uint64(way.rlid)).Set(p.Sl, uint64(way.sl)).Bytes()
	}
	c.Set(p.SrcAddrIndex, uint64(way.gidIndex)).
		Set(p.HopLimit, uint64(way.hopLimit)).
		Set(p.Tclass, uint64(way.tclass)).
		SetBytes(p.RgidRip, way.rgid[:]).
		Set(p.EthPrio, uint64(way.sl&7)).
		SetBytes(p.Rmac, way.rmac[:])
	if way.udpSport != 0 {
		c.Set(p.Dscp, uint64(way.tclass>>2)).Set(p.UdpSport, uint64(way.udpSport))
	}
	return c.Bytes()
}

// requester is what RTR2RTS sets.
type requester struct {
	psn        uint32
	logSraMax  uint32
	retries    uint32 // 0..7
	rnrRetries uint32 // 7: for ever
	ackTimeout uint32 // 4.096 us * 2^n
}

func rtr2rts(qpn uint32, r requester) ([]byte, error) {
	q := prm.ModifyQpIn.Qpc
	return modifyQP(prm.CmdRtr2rtsQp, qpn).
		Set(q.PrimaryAddressPath.AckTimeout, uint64(r.ackTimeout)).
		Set(q.LogAckReqFreq, 0).
		Set(q.LogSraMax, uint64(r.logSraMax)).
		Set(q.RetryCount, uint64(r.retries)).
		Set(q.RnrRetry, uint64(r.rnrRetries)).
		Set(q.NextSendPsn, uint64(r.psn)).
		Bytes()
}

func toErr(qpn uint32) ([]byte, error) {
	return prm.NewCommand(prm.CmdQp2err, prm.Qp2errInSize).Set(prm.Qp2errIn.Qpn, uint64(qpn)).Bytes()
}

func queryQP(qpn uint32) ([]byte, error) {
	return prm.NewCommand(prm.CmdQueryQp, prm.QueryQpInSize).Set(prm.QueryQpIn.Qpn, uint64(qpn)).Bytes()
}
