package table

import "github.com/pgas-go/pgas/internal/layout"

// workQueues are the segments of send WQEs.
func workQueues() []layout.BitStruct {
	return []layout.BitStruct{
		{Name: "CtrlSeg", Size: 16, Doc: "the control segment, first in every WQE", Fields: []layout.BitField{
			f("opmod", "0x00:31..24", "HKNDUP", "0, or OpmodMasked32/64"),
			f("wqe_index", "0x00:23..8", "HKNDUP", "16-bit BB counter"),
			f("opcode", "0x00:7..0", "HKNDUP", "an Opcode"),
			f("qpn", "0x04:31..8", "HKNDUP", ""),
			f("ds", "0x04:5..0", "HKNDUP", "16-byte units of the WQE"),
			f("signature", "0x08:31..24", "HKNDUP", "0 unless wq_signature"),
			f("dci_stream", "0x08:23..8", "HK", "DCI stream channel"),
			f("fence", "0x08:7..5", "HKNDUP", "a FenceMode"),
			f("completion", "0x08:3..2", "HKNDUP", "a CompletionMode"),
			f("solicited", "0x08:1", "HKNDUP", ""),
			alias(f("fm_ce_se", "0x08:7..0", "HKNDUP", "fence, completion and solicited together")),
			f("imm", "0x0c:31..0", "HKNDUP", "immediate, in network order; rkey to invalidate; UMR key"),
		}},
		{Name: "RaddrSeg", Size: 16, Doc: "the remote address segment", Fields: []layout.BitField{
			f("raddr", "0x00:64", "HKNDUP", ""),
			f("rkey", "0x08:31..0", "HKNDUP", ""),
		}},
		{Name: "DataSeg", Size: 16, Doc: "a data pointer segment", Fields: []layout.BitField{
			f("byte_count", "0x00:30..0", "HKNDUP", "never write 0: its meaning is UNCONFIRMED"),
			f("inline_flag", "0x00:31", "HKNDUP", "0"),
			f("lkey", "0x04:31..0", "HKNDUP", ""),
			f("addr", "0x08:64", "HKNDUP", ""),
		}},
		{Name: "InlineSeg", Size: 4, Doc: "the header of inline data; the bytes follow, padded to 16", Fields: []layout.BitField{
			f("inline_flag", "0x00:31", "HKNDUP", "1"),
			f("byte_count", "0x00:9..0", "K", "the kernel masks the length with 0x3ff"),
		}},
		{Name: "AtomicSeg", Size: 16, Doc: "the operands of ATOMIC_CS and ATOMIC_FA", Fields: []layout.BitField{
			f("swap_add", "0x00:64", "HKNDUP", ""),
			f("compare", "0x08:64", "HKNDUP", "0 for ATOMIC_FA"),
		}},
		{Name: "MaskedCs32Seg", Size: 16, Doc: "the operands of a 4-byte ATOMIC_MASKED_CS", Fields: []layout.BitField{
			f("swap", "0x00:31..0", "NU", ""),
			f("compare", "0x04:31..0", "NU", ""),
			f("swap_mask", "0x08:31..0", "NU", ""),
			f("compare_mask", "0x0c:31..0", "NU", ""),
		}},
		{Name: "MaskedFa32Seg", Size: 16, Doc: "the operands of a 4-byte ATOMIC_MASKED_FA", Fields: []layout.BitField{
			f("add", "0x00:31..0", "NU", ""),
			f("boundary", "0x04:31..0", "NU", ""),
		}},
		{Name: "MaskedCs64Seg", Size: 16, Doc: "the first operands of an 8-byte ATOMIC_MASKED_CS", Fields: []layout.BitField{
			f("swap", "0x00:64", "NU", ""),
			f("compare", "0x08:64", "NU", ""),
		}},
		{Name: "MaskedCs64MaskSeg", Size: 16, Doc: "the second operands of an 8-byte ATOMIC_MASKED_CS", Fields: []layout.BitField{
			f("swap_mask", "0x00:64", "NU", ""),
			f("compare_mask", "0x08:64", "NU", ""),
		}},
		{Name: "MaskedFa64Seg", Size: 16, Doc: "the operands of an 8-byte ATOMIC_MASKED_FA", Fields: []layout.BitField{
			f("add", "0x00:64", "NU", ""),
			f("boundary", "0x08:64", "NU", ""),
		}},
		{Name: "WaitSeg", Size: 16, Doc: "what a WAIT waits for", Fields: []layout.BitField{
			f("max_index", "0x08:31..0", "D", ""),
			f("cqn", "0x0c:31..0", "D", ""),
		}},
	}
}

// doorbells are doorbell values and doorbell records.
func doorbells() []layout.BitStruct {
	return []layout.BitStruct{
		{Name: "Doorbell", Size: 8, Doc: "the value stored in a doorbell register; shaped like the start of a control segment", Fields: []layout.BitField{
			f("wqe_index", "0x00:23..8", "RKNDUA", "form 1: index of the last WQE; form 2: next free index"),
			f("opcode", "0x00:7..0", "RKNDUA", "form 2: 0"),
			f("qpn", "0x04:31..8", "RKNDUA", ""),
			f("ds", "0x04:5..0", "RKNDUA", "form 2: 0"),
		}},
		{Name: "QpDbr", Size: 8, Doc: "the doorbell record of a QP", Fields: []layout.BitField{
			f("recv_counter", "0x00:15..0", "RKNDUA", "next free receive WQE"),
			f("send_counter", "0x04:15..0", "RKNDUA", "next free BB"),
		}},
		{Name: "CqDbr", Size: 8, Doc: "the doorbell record of a CQ", Fields: []layout.BitField{
			f("set_ci", "0x00:23..0", "KR", "consumer index"),
			f("arm_sn", "0x04:29..28", "KR", "arm sequence"),
			f("arm_solicited", "0x04:24", "KR", "1: solicited completions only"),
			f("arm_ci", "0x04:23..0", "KR", "consumer index"),
		}},
	}
}

// completions are the two shapes of a 64-byte CQE.
func completions() []layout.BitStruct {
	return []layout.BitStruct{
		{Name: "Cqe", Size: 64, Doc: "a completion", Fields: []layout.BitField{
			f("wqe_id", "0x00:15..0", "HKNDUP", ""),
			f("ml_path", "0x10:23..16", "HKNDUP", ""),
			f("slid", "0x14:15..0", "HKNDUP", "responder"),
			f("flags_rqpn", "0x18:31..0", "HKNDUP", "responder"),
			f("srqn_uidx", "0x20:31..0", "HKNDUP", "cqe_version 1: user_index"),
			f("imm", "0x24:31..0", "HKNDUP", "immediate, invalidated key or P_Key"),
			f("byte_cnt", "0x2c:31..0", "HKNDUP", "READ: bytes read; receive: bytes received"),
			f("timestamp", "0x30:64", "HKNDUP", ""),
			f("send_opcode", "0x38:31..24", "HKNDUP", "Opcode of the WQE"),
			f("qpn", "0x38:23..0", "HKNDUP", ""),
			f("wqe_counter", "0x3c:31..16", "HKNDUP", "index of the first BB of the WQE"),
			f("signature", "0x3c:15..8", "HKNDUP", ""),
			f("opcode", "0x3c:7..4", "HKNDUP", "a CqeOpcode"),
			f("format", "0x3c:3..2", "HKNDUP", "1: 32 bytes inline; 2: 64 bytes inline; 3: compressed"),
			f("solicited", "0x3c:1", "HKNDUP", ""),
			f("owner", "0x3c:0", "HKNDUP", "its value in collapsed mode is UNCONFIRMED"),
			alias(f("op_own", "0x3c:7..0", "HKNDUP", "opcode, format, solicited and owner together")),
		}},
		{Name: "ErrCqe", Size: 64, Doc: "an error completion: opcode ReqErr or RespErr", Fields: []layout.BitField{
			f("srqn_uidx", "0x20:31..0", "HKNDUP", "cqe_version 1: user_index"),
			f("byte_cnt", "0x2c:31..0", "P", ""),
			f("hw_err_synd", "0x34:31..24", "HKNDUP", ""),
			f("hw_synd_type", "0x34:23..16", "HKNDUP", ""),
			f("vendor_err_synd", "0x34:15..8", "HKNDUP", "mostly private"),
			f("syndrome", "0x34:7..0", "HKNDUP", "a Syndrome"),
			f("send_opcode", "0x38:31..24", "HKNDUP", "Opcode of the WQE"),
			f("qpn", "0x38:23..0", "HKNDUP", ""),
			f("wqe_counter", "0x3c:31..16", "HKNDUP", "index of the first BB of the WQE"),
			f("signature", "0x3c:15..8", "HKNDUP", ""),
			f("opcode", "0x3c:7..4", "HKNDUP", "a CqeOpcode"),
			f("format", "0x3c:3..2", "HKNDUP", "1: 32 bytes inline; 2: 64 bytes inline; 3: compressed"),
			f("solicited", "0x3c:1", "HKNDUP", ""),
			f("owner", "0x3c:0", "HKNDUP", "its value in collapsed mode is UNCONFIRMED"),
			alias(f("op_own", "0x3c:7..0", "HKNDUP", "opcode, format, solicited and owner together")),
		}},
	}
}
