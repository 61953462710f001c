package golden

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/prm"
)

func vectors(t *testing.T) map[string][]byte {
	t.Helper()
	v, err := Mlx5()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(v), 44)
	return v
}

func TestMailboxes(t *testing.T) {
	cq := prm.CreateCqIn
	qp := prm.CreateQpIn
	mod := prm.ModifyQpIn
	path := mod.Qpc.PrimaryAddressPath
	gid := netip.MustParseAddr("::ffff:10.0.0.2").As16()
	init2rtr := func(mtu prm.Mtu) *prm.Command {
		return prm.NewCommand(prm.CmdInit2rtrQp, prm.ModifyQpInSize).Set(mod.Qpn, 0x1234).
			Set(mod.Qpc.Mtu, uint64(mtu)).Set(mod.Qpc.LogMsgMax, prm.LogMsgMax).Set(mod.Qpc.RemoteQpn, 0x5678).
			Set(mod.Qpc.MinRnrNak, 12).Set(mod.Qpc.LogRraMax, 4).Set(mod.Qpc.NextRcvPsn, 0x111)
	}
	commands := map[string]*prm.Command{
		"create_cq": prm.NewCommand(prm.CmdCreateCq, prm.CreateCqInSize).
			Set(cq.CqUmemId, 0x21).Set(cq.CqUmemOffset, 0x2000).Set(cq.CqUmemValid, 1).
			Set(cq.Cqc.Cc, 1).Set(cq.Cqc.Oi, 1).Set(cq.Cqc.DbrUmemValid, 1).Set(cq.Cqc.DbrUmemId, 0x21).
			Set(cq.Cqc.DbrAddr, 0x3000).Set(cq.Cqc.LogCqSize, 10).Set(cq.Cqc.UarPage, 0x345).
			Set(cq.Cqc.CEqn, 7).Set(cq.Cqc.LogPageSize, 4),
		"create_qp": prm.NewCommand(prm.CmdCreateQp, prm.CreateQpInSize).
			Set(qp.WqUmemId, 0x22).Set(qp.WqUmemOffset, 0x10000).Set(qp.WqUmemValid, 1).
			Set(qp.Qpc.St, uint64(prm.ServiceTypeRc)).Set(qp.Qpc.PmState, uint64(prm.PmStateMigrated)).
			Set(qp.Qpc.Pd, 0x1b).Set(qp.Qpc.UarPage, 0x346).Set(qp.Qpc.UserIndex, 5).Set(qp.Qpc.CqnSnd, 0x401).
			Set(qp.Qpc.LogSqSize, 10).Set(qp.Qpc.RqType, uint64(prm.RqTypeNone)).
			Set(qp.Qpc.TsFormat, uint64(prm.TsFormatDefaultFormat)).Set(qp.Qpc.DbrUmemValid, 1).
			Set(qp.Qpc.DbrUmemId, 0x22).Set(qp.Qpc.DbrAddr, 0x20000),
		"rst2init": prm.NewCommand(prm.CmdRst2initQp, prm.ModifyQpInSize).Set(mod.Qpn, 0x1234).
			Set(mod.Qpc.PmState, uint64(prm.PmStateMigrated)).Set(mod.Qpc.Rre, 1).Set(mod.Qpc.Rwe, 1).Set(mod.Qpc.Rae, 1).
			Set(mod.Qpc.AtomicMode, uint64(prm.AtomicModeUpTo8b)).Set(path.VhcaPortNum, 1).Set(path.PkeyIndex, 0),
		"init2rtr_ib": init2rtr(prm.MtuBytes4096).Set(path.Rlid, 0x2a).Set(path.Sl, 2),
		"init2rtr_roce": init2rtr(prm.MtuBytes1024).Set(path.SrcAddrIndex, 3).Set(path.HopLimit, 64).
			Set(path.Tclass, 0x68).Set(path.Dscp, 0x1a).Set(path.UdpSport, 0xc123).Set(path.EthPrio, 3).
			SetBytes(path.Rmac, []byte{0x0c, 0x42, 0xa1, 0xb2, 0xc3, 0xd4}).SetBytes(path.RgidRip, gid[:]),
		"rtr2rts": prm.NewCommand(prm.CmdRtr2rtsQp, prm.ModifyQpInSize).Set(mod.Qpn, 0x1234).
			Set(mod.Qpc.LogAckReqFreq, 0).Set(mod.Qpc.LogSraMax, 4).Set(mod.Qpc.NextSendPsn, 0x222).
			Set(mod.Qpc.RetryCount, 7).Set(mod.Qpc.RnrRetry, 7).Set(path.AckTimeout, 20),
	}
	for name, right := range map[string]prm.Field{"rre": mod.Qpc.Rre, "rwe": mod.Qpc.Rwe, "rae": mod.Qpc.Rae} {
		commands["rst2init_"+name] = prm.NewCommand(prm.CmdRst2initQp, prm.ModifyQpInSize).Set(mod.Qpn, 0x1234).Set(right, 1)
	}
	want := vectors(t)
	for name, c := range commands {
		got, err := c.Bytes()
		require.NoError(t, err, name)
		require.Equal(t, want[name], got, name)
	}
}

// wqes builds every WQE vector.
func wqes() map[string]prm.Wqe {
	base := prm.Wqe{Qpn: 0x1234, Completion: prm.CompletionModeAlways}
	make1 := func(op prm.Opcode, index uint16, change func(*prm.Wqe)) prm.Wqe {
		w := base
		w.Opcode, w.Index = op, index
		change(&w)
		return w
	}
	remote := func(low uint64) *prm.Remote { return &prm.Remote{Address: 0x7f0011220000 + low, Rkey: 0xaabbcc01} }
	local := func(n uint32) []prm.Local { return []prm.Local{{Bytes: n, Lkey: 0x11223301, Address: 0x7e0000001000}} }
	atomic := func(opmod uint8, n uint32, a prm.Atomic) func(*prm.Wqe) {
		return func(w *prm.Wqe) { w.Opmod, w.Remote, w.Atomic, w.Local = opmod, remote(0x3340), &a, local(n) }
	}
	cs8 := atomic(prm.OpmodMasked64, 8, prm.Atomic{Operand: 0xaa, Compare: 0xbb, SwapMask: 0xff, CompareMask: ^uint64(0)})
	all := map[string]prm.Wqe{
		"write": make1(prm.OpcodeRdmaWrite, 5, func(w *prm.Wqe) { w.Remote, w.Local = remote(0x3344), local(4096) }),
		"write_inline": make1(prm.OpcodeRdmaWrite, 6, func(w *prm.Wqe) {
			w.Completion, w.Remote = prm.CompletionModeOnError, remote(0x3344)
			w.Local = []prm.Local{{Inline: []byte{0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}}}
		}),
		"read": make1(prm.OpcodeRdmaRead, 7, func(w *prm.Wqe) { w.Remote, w.Local = remote(0x3344), local(64) }),
		"atomic_cs": make1(prm.OpcodeAtomicCs, 8,
			atomic(0, 8, prm.Atomic{Operand: 0x0102030405060708, Compare: 0x1112131415161718})),
		"atomic_fa":        make1(prm.OpcodeAtomicFa, 9, atomic(0, 8, prm.Atomic{Operand: 1})),
		"masked_fa_4":      make1(prm.OpcodeAtomicMaskedFa, 10, atomic(prm.OpmodMasked32, 4, prm.Atomic{Operand: 1})),
		"masked_cs_8":      make1(prm.OpcodeAtomicMaskedCs, 11, cs8),
		"masked_cs_8_fffe": make1(prm.OpcodeAtomicMaskedCs, 0xfffe, cs8),
		"masked_cs_8_ffff": make1(prm.OpcodeAtomicMaskedCs, 0xffff, cs8),
		"masked_fa_8": make1(prm.OpcodeAtomicMaskedFa, 12,
			atomic(prm.OpmodMasked64, 8, prm.Atomic{Operand: 1, Boundary: 1 << 63})),
		"masked_cs_4": make1(prm.OpcodeAtomicMaskedCs, 15,
			atomic(prm.OpmodMasked32, 4, prm.Atomic{Operand: 1, Compare: 2, SwapMask: 3, CompareMask: 4})),
		"write_imm": make1(prm.OpcodeRdmaWriteImm, 16, func(w *prm.Wqe) {
			w.Imm, w.Remote = 0xdeadbeef, remote(0x3344)
			w.Local = []prm.Local{{Inline: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}}
		}),
		"nop":  make1(prm.OpcodeNop, 13, func(*prm.Wqe) {}),
		"dump": make1(prm.OpcodeDump, 14, func(w *prm.Wqe) { w.Fence, w.Local = prm.FenceModeFence, local(1) }),
	}
	for name, index := range wraps {
		all["nop_"+name] = make1(prm.OpcodeNop, uint16(index), func(*prm.Wqe) {})
	}
	return all
}

// wraps are 64-bit software indices around 2^16 and 2^32.
var wraps = map[string]uint64{
	"fffe": 0xfffe, "ffff": 0xffff, "10000": 0x10000, "ffffffff": 0xffffffff, "100000000": 0x100000000,
}

func TestWqes(t *testing.T) {
	want := vectors(t)
	for name, w := range wqes() {
		got, err := w.Encode()
		require.NoError(t, err, name)
		require.Equal(t, want[name], got, name)
		back, err := prm.DecodeWqe(want[name])
		require.NoError(t, err, name)
		require.Equal(t, w, back, name)
		require.Len(t, want[name], back.Bbs()*prm.BbBytes, name)
	}
}

// TestWqeWrapsInRing puts the 2-BB WQE on the last BB of a ring, so that its second half lies at the start.
func TestWqeWrapsInRing(t *testing.T) {
	want := vectors(t)["masked_cs_8_ffff"]
	ring := make([]byte, 4*prm.BbBytes)
	copy(ring[3*prm.BbBytes:], want[:prm.BbBytes])
	copy(ring, want[prm.BbBytes:])
	got, err := prm.RingWqe(ring, 0xffff)
	require.NoError(t, err)
	w, err := prm.DecodeWqe(got)
	require.NoError(t, err)
	require.Equal(t, wqes()["masked_cs_8_ffff"], w)
	require.Equal(t, uint16(1), w.Index+uint16(w.Bbs()), "the next index is past the wrap")
}

func TestCompletions(t *testing.T) {
	ok := prm.Completion{Opcode: prm.CqeOpcodeReq, SendOpcode: prm.OpcodeRdmaWrite, Qpn: 0x1234, UserIndex: 5, WqeCounter: 5}
	bad := ok
	bad.Opcode, bad.Syndrome, bad.VendorSyndrome = prm.CqeOpcodeReqErr, prm.SyndromeRemoteAccess, 0x88
	want := vectors(t)
	for name, c := range map[string]prm.Completion{"cqe_success": ok, "cqe_error": bad} {
		got, err := c.Encode()
		require.NoError(t, err)
		require.Equal(t, want[name], got, name)
		back, err := prm.DecodeCqe(want[name])
		require.NoError(t, err)
		require.Equal(t, c, back, name)
	}
	require.Contains(t, bad.String(), "syndrome remote_access (0x13) vendor 0x88")
}

func TestDoorbells(t *testing.T) {
	want := vectors(t)
	form1 := prm.DoorbellValue{Index: 5, Opcode: prm.OpcodeRdmaWrite, Qpn: 0x1234, Ds: 3}
	form2 := prm.DoorbellValue{Index: 6, Qpn: 0x1234}
	require.Equal(t, form1.Next(), form2.Next())
	all := map[string]prm.DoorbellValue{"doorbell_form1": form1, "doorbell_form2": form2}
	for name, index := range wraps {
		all["doorbell_"+name] = prm.DoorbellValue{Index: uint16(index + 1), Qpn: 0x1234}
		dbr := prm.NewMailbox(prm.QpDbrSize)
		require.NoError(t, dbr.Set(prm.QpDbr.SendCounter, (index+1)&prm.QpDbr.SendCounter.Max()))
		require.Equal(t, want["qp_dbr_"+name], []byte(dbr), name)
	}
	for name, d := range all {
		got, err := d.Encode()
		require.NoError(t, err)
		require.Equal(t, want[name], got, name)
		back, err := prm.DecodeDoorbell(want[name])
		require.NoError(t, err)
		require.Equal(t, d, back, name)
	}
	qp, cq := prm.NewMailbox(prm.QpDbrSize), prm.NewMailbox(prm.CqDbrSize)
	require.NoError(t, qp.Set(prm.QpDbr.SendCounter, 6))
	require.NoError(t, cq.Set(prm.CqDbr.SetCi, 1))
	require.Equal(t, want["qp_dbr"], []byte(qp))
	require.Equal(t, want["cq_dbr"], []byte(cq))
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"a", "a x", "a 8\na 8", "a 4 04:1", "a 8 zz:1", "a 8 00:xyz", "+ 00:1"} {
		_, err := parse(text)
		require.Error(t, err, text)
	}
}
