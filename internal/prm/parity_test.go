package prm

import (
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mlx5dvFields names our fields that make up each member of rdma-core's structs.
var mlx5dvFields = map[string][]Field{
	"mlx5_wqe_ctrl_seg opmod_idx_opcode":      {CtrlSeg.Opmod, CtrlSeg.WqeIndex, CtrlSeg.Opcode},
	"mlx5_wqe_ctrl_seg qpn_ds":                {CtrlSeg.Qpn, CtrlSeg.Ds},
	"mlx5_wqe_ctrl_seg signature":             {CtrlSeg.Signature},
	"mlx5_wqe_ctrl_seg dci_stream_channel_id": {CtrlSeg.DciStream},
	"mlx5_wqe_ctrl_seg fm_ce_se":              {CtrlSeg.FmCeSe},
	"mlx5_wqe_ctrl_seg imm":                   {CtrlSeg.Imm},
	"mlx5_wqe_raddr_seg raddr":                {RaddrSeg.Raddr},
	"mlx5_wqe_raddr_seg rkey":                 {RaddrSeg.Rkey},
	"mlx5_wqe_data_seg byte_count":            {DataSeg.InlineFlag, DataSeg.ByteCount},
	"mlx5_wqe_data_seg lkey":                  {DataSeg.Lkey},
	"mlx5_wqe_data_seg addr":                  {DataSeg.Addr},
	"mlx5_wqe_inl_data_seg byte_count":        {InlineSeg.InlineFlag, InlineSeg.ByteCount},
	"mlx5_wqe_atomic_seg swap_add":            {AtomicSeg.SwapAdd},
	"mlx5_wqe_atomic_seg compare":             {AtomicSeg.Compare},
	"mlx5_cqe64 wqe_id":                       {Cqe.WqeId},
	"mlx5_cqe64 ml_path":                      {Cqe.MlPath},
	"mlx5_cqe64 slid":                         {Cqe.Slid},
	"mlx5_cqe64 flags_rqpn":                   {Cqe.FlagsRqpn},
	"mlx5_cqe64 srqn_uidx":                    {Cqe.SrqnUidx},
	"mlx5_cqe64 imm_inval_pkey":               {Cqe.Imm},
	"mlx5_cqe64 byte_cnt":                     {Cqe.ByteCnt},
	"mlx5_cqe64 timestamp":                    {Cqe.Timestamp},
	"mlx5_cqe64 sop_drop_qpn":                 {Cqe.SendOpcode, Cqe.Qpn},
	"mlx5_cqe64 wqe_counter":                  {Cqe.WqeCounter},
	"mlx5_cqe64 signature":                    {Cqe.Signature},
	"mlx5_cqe64 op_own":                       {Cqe.Opcode, Cqe.Format, Cqe.Solicited, Cqe.Owner},
	"mlx5_err_cqe srqn":                       {ErrCqe.SrqnUidx},
	"mlx5_err_cqe vendor_err_synd":            {ErrCqe.VendorErrSynd},
	"mlx5_err_cqe syndrome":                   {ErrCqe.Syndrome},
	"mlx5_err_cqe s_wqe_opcode_qpn":           {ErrCqe.SendOpcode, ErrCqe.Qpn},
	"mlx5_err_cqe wqe_counter":                {ErrCqe.WqeCounter},
	"mlx5_err_cqe signature":                  {ErrCqe.Signature},
	"mlx5_err_cqe op_own":                     {ErrCqe.OpOwn},
}

// in moves a code to the place that it has in the byte fm_ce_se.
func in(f Field, v uint64) uint64 {
	m := NewMailbox(CtrlSegSize)
	if err := m.Set(f, v); err != nil {
		panic(err)
	}
	return m.Get(CtrlSeg.FmCeSe)
}

var mlx5dvValues = map[string]uint64{
	"MLX5_OPCODE_NOP": uint64(OpcodeNop), "MLX5_OPCODE_SEND_INVAL": uint64(OpcodeSendInval),
	"MLX5_OPCODE_RDMA_WRITE": uint64(OpcodeRdmaWrite), "MLX5_OPCODE_RDMA_WRITE_IMM": uint64(OpcodeRdmaWriteImm),
	"MLX5_OPCODE_SEND": uint64(OpcodeSend), "MLX5_OPCODE_SEND_IMM": uint64(OpcodeSendImm),
	"MLX5_OPCODE_RDMA_READ": uint64(OpcodeRdmaRead),
	"MLX5_OPCODE_ATOMIC_CS": uint64(OpcodeAtomicCs), "MLX5_OPCODE_ATOMIC_FA": uint64(OpcodeAtomicFa),
	"MLX5_OPCODE_ATOMIC_MASKED_CS": uint64(OpcodeAtomicMaskedCs),
	"MLX5_OPCODE_ATOMIC_MASKED_FA": uint64(OpcodeAtomicMaskedFa),
	"MLX5_OPCODE_LOCAL_INVAL":      uint64(OpcodeLocalInval), "MLX5_OPCODE_UMR": uint64(OpcodeUmr),

	"MLX5_CQE_REQ": uint64(CqeOpcodeReq), "MLX5_CQE_RESP_WR_IMM": uint64(CqeOpcodeRespWrImm),
	"MLX5_CQE_RESP_SEND": uint64(CqeOpcodeRespSend), "MLX5_CQE_RESP_SEND_IMM": uint64(CqeOpcodeRespSendImm),
	"MLX5_CQE_RESP_SEND_INV": uint64(CqeOpcodeRespSendInv), "MLX5_CQE_RESIZE_CQ": uint64(CqeOpcodeResizeCq),
	"MLX5_CQE_NO_PACKET": uint64(CqeOpcodeNoPacket), "MLX5_CQE_SIG_ERR": uint64(CqeOpcodeSigErr),
	"MLX5_CQE_REQ_ERR": uint64(CqeOpcodeReqErr), "MLX5_CQE_RESP_ERR": uint64(CqeOpcodeRespErr),
	"MLX5_CQE_INVALID": uint64(CqeOpcodeInvalid),

	"MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR":        uint64(SyndromeLocalLength),
	"MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR":         uint64(SyndromeLocalQpOp),
	"MLX5_CQE_SYNDROME_LOCAL_PROT_ERR":          uint64(SyndromeLocalProt),
	"MLX5_CQE_SYNDROME_WR_FLUSH_ERR":            uint64(SyndromeWrFlush),
	"MLX5_CQE_SYNDROME_MW_BIND_ERR":             uint64(SyndromeMwBind),
	"MLX5_CQE_SYNDROME_BAD_RESP_ERR":            uint64(SyndromeBadResp),
	"MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR":        uint64(SyndromeLocalAccess),
	"MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR":    uint64(SyndromeRemoteInvReq),
	"MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR":       uint64(SyndromeRemoteAccess),
	"MLX5_CQE_SYNDROME_REMOTE_OP_ERR":           uint64(SyndromeRemoteOp),
	"MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR": uint64(SyndromeTransportRetry),
	"MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR":       uint64(SyndromeRnrRetry),
	"MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR":      uint64(SyndromeRemoteAborted),

	"MLX5_WQE_CTRL_CQ_UPDATE":             in(CtrlSeg.Completion, uint64(CompletionModeAlways)),
	"MLX5_WQE_CTRL_SOLICITED":             in(CtrlSeg.Solicited, 1),
	"MLX5_WQE_CTRL_FENCE":                 in(CtrlSeg.Fence, uint64(FenceModeFenceAndSmall)),
	"MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE": in(CtrlSeg.Fence, uint64(FenceModeSmall)),
	"MLX5_SEND_WQE_BB":                    BbBytes, "MLX5_INLINE_SEG": InlineFlag, "MLX5_INVALID_LKEY": InvalidLkey,
	"MLX5_RCV_DBR": uint64(QpDbr.RecvCounter.Off / 32), "MLX5_SND_DBR": uint64(QpDbr.SendCounter.Off / 32),
	"MLX5_CQ_DOORBELL": UarCqArmOffset, "MLX5_CQ_DB_REQ_NOT_SOL": 1 << (31 - CqDbr.ArmSolicited.Off%32),
}

// TestMlx5dvParity compares the table with the installed mlx5dv.h.
func TestMlx5dvParity(t *testing.T) {
	if _, err := os.Stat("/usr/include/infiniband/mlx5dv.h"); err != nil {
		t.Skipf("rdma-core's mlx5dv.h is not installed: %v [install libibverbs-dev]", err)
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("no C compiler: %v [install gcc]", err)
	}
	_, err = os.ReadFile("testdata/mlx5dv.c") // so that `go test` reruns this when the file changes
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "mlx5dv")
	out, err := exec.Command(cc, "-Wall", "-Werror", "testdata/mlx5dv.c", "-o", program).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program).Output()
	require.NoError(t, err)

	members, values := 0, 0
	for line := range strings.Lines(string(out)) {
		w := strings.Fields(line)
		switch w[0] {
		case "member":
			checkMember(t, w)
			members++
		case "value":
			v, err := strconv.ParseUint(w[2], 10, 64)
			require.NoError(t, err)
			ours, ok := mlx5dvValues[w[1]]
			require.True(t, ok, w[1])
			require.Equal(t, v, ours, w[1])
			values++
		case "bytes":
			checkWrite(t, w[2])
		}
	}
	require.Equal(t, len(mlx5dvFields), members)
	require.Equal(t, len(mlx5dvValues), values)
}

// checkMember wants our fields to begin and end where the member does.
func checkMember(t *testing.T, w []string) {
	t.Helper()
	off, err := strconv.Atoi(w[3])
	require.NoError(t, err)
	size, err := strconv.Atoi(w[4])
	require.NoError(t, err)
	fields := mlx5dvFields[w[1]+" "+w[2]]
	require.NotEmpty(t, fields, "%s.%s", w[1], w[2])
	first, end := fields[0].Off, uint32(0)
	for _, f := range fields {
		first, end = min(first, f.Off), max(end, f.Off+f.Width)
	}
	require.Equal(t, uint32(off*8), first, "%s.%s", w[1], w[2])
	require.Equal(t, uint32((off+size)*8), end, "%s.%s", w[1], w[2])
}

// checkWrite compares a WQE that the header's own inline functions filled.
func checkWrite(t *testing.T, text string) {
	t.Helper()
	b, err := hex.DecodeString(text)
	require.NoError(t, err)
	want := Wqe{
		Opcode: OpcodeRdmaWrite, Index: 0xfffe, Qpn: 0x1234, Completion: CompletionModeAlways,
		Remote: &Remote{Address: 0x7f0011223344, Rkey: 0xaabbcc01},
		Local:  []Local{{Bytes: 4096, Lkey: 0x11223301, Address: 0x7e0000001000}},
	}
	got, err := DecodeWqe(b)
	require.NoError(t, err)
	require.Equal(t, want, got)
	encoded, err := want.Encode()
	require.NoError(t, err)
	require.Equal(t, b, encoded)
}
