package table

import "github.com/pgas-go/pgas/internal/layout"

func enums() []layout.Enum {
	return []layout.Enum{
		enumCmd(),
		enumCmdStatus(),
		enumCapType(),
		enumOpcode(),
		enumFenceMode(),
		enumCompletionMode(),
		enumCqeOpcode(),
		enumSyndrome(),
		enumQpState(),
		enumServiceType(),
		enumPmState(),
		enumRqType(),
		enumAtomicMode(),
		enumMtu(),
		enumCqStatus(),
		enumTsFormat(),
		enumPortType(),
		enumRoceVersion(),
		enumAccessMode(),
		enumEvent(),
	}
}

func enumCmd() layout.Enum {
	return layout.Enum{Name: "Cmd", Type: "u16", Doc: "a command opcode (Linux mlx5_ifc.h)", Values: []layout.Const{
		{Name: "QueryHcaCap", Value: 0x100},
		{Name: "QueryAdapter", Value: 0x101},
		{Name: "CreateMkey", Value: 0x200},
		{Name: "QueryMkey", Value: 0x201},
		{Name: "DestroyMkey", Value: 0x202},
		{Name: "QuerySpecialContexts", Value: 0x203},
		{Name: "CreateEq", Value: 0x301},
		{Name: "CreateCq", Value: 0x400},
		{Name: "DestroyCq", Value: 0x401},
		{Name: "QueryCq", Value: 0x402},
		{Name: "ModifyCq", Value: 0x403},
		{Name: "CreateQp", Value: 0x500},
		{Name: "DestroyQp", Value: 0x501},
		{Name: "Rst2initQp", Value: 0x502},
		{Name: "Init2rtrQp", Value: 0x503},
		{Name: "Rtr2rtsQp", Value: 0x504},
		{Name: "Rts2rtsQp", Value: 0x505},
		{Name: "Sqerr2rtsQp", Value: 0x506},
		{Name: "Qp2err", Value: 0x507},
		{Name: "Qp2rst", Value: 0x50a},
		{Name: "QueryQp", Value: 0x50b},
		{Name: "Sqd2rtsQp", Value: 0x50c},
		{Name: "MadIfc", Value: 0x50d},
		{Name: "Init2initQp", Value: 0x50e},
		{Name: "CreateDct", Value: 0x710},
		{Name: "DestroyDct", Value: 0x711},
		{Name: "DrainDct", Value: 0x712},
		{Name: "QueryDct", Value: 0x713},
		{Name: "QueryRoceAddress", Value: 0x760},
		{Name: "SetRoceAddress", Value: 0x761},
		{Name: "QueryHcaVportContext", Value: 0x762},
		{Name: "QueryHcaVportGid", Value: 0x764},
		{Name: "QueryHcaVportPkey", Value: 0x765},
		{Name: "AllocPd", Value: 0x800},
		{Name: "DeallocPd", Value: 0x801},
		{Name: "AllocUar", Value: 0x802},
		{Name: "DeallocUar", Value: 0x803},
		{Name: "Nop", Value: 0x80d},
		{Name: "QueryLag", Value: 0x842},
		{Name: "CreateRmp", Value: 0x90c},
		{Name: "CreateGeneralObject", Value: 0xa00},
		{Name: "CreateUctx", Value: 0xa04},
		{Name: "DestroyUctx", Value: 0xa06},
		{Name: "CreateUmem", Value: 0xa08},
		{Name: "DestroyUmem", Value: 0xa0a},
	}}
}

func enumCmdStatus() layout.Enum {
	return layout.Enum{Name: "CmdStatus", Type: "u8", Doc: "the status of a command (Linux core/cmd.c)", Values: []layout.Const{
		{Name: "Ok", Value: 0},
		{Name: "InternalErr", Value: 1, Doc: "EIO"},
		{Name: "BadOp", Value: 2, Doc: "opcode or op_mod not supported or not allowed; EINVAL"},
		{Name: "BadParam", Value: 3, Doc: "EINVAL"},
		{Name: "BadSysState", Value: 4, Doc: "EIO"},
		{Name: "BadResource", Value: 5, Doc: "number does not exist; EINVAL"},
		{Name: "ResourceBusy", Value: 6, Doc: "EBUSY"},
		{Name: "ExceedLim", Value: 8, Doc: "ENOMEM"},
		{Name: "BadResState", Value: 9, Doc: "EINVAL"},
		{Name: "BadIndex", Value: 0xa, Doc: "EINVAL"},
		{Name: "NoResources", Value: 0xf, Doc: "EAGAIN"},
		{Name: "BadQpState", Value: 0x10, Doc: "illegal transition; EINVAL. That firmware answers this one is UNCONFIRMED"},
		{Name: "BadPacket", Value: 0x30, Doc: "EINVAL"},
		{Name: "BadSize", Value: 0x40, Doc: "outstanding CQEs; EINVAL"},
		{Name: "BadInputLen", Value: 0x50, Doc: "EIO"},
		{Name: "BadOutputLen", Value: 0x51, Doc: "EIO"},
	}}
}

func enumCapType() layout.Enum {
	return layout.Enum{Name: "CapType", Type: "u16", Doc: "a capability group of QUERY_HCA_CAP", Values: []layout.Const{
		{Name: "General", Value: 0},
		{Name: "Odp", Value: 2},
		{Name: "Atomic", Value: 3},
		{Name: "Roce", Value: 4},
		{Name: "General2", Value: 0x20},
	}}
}

func enumOpcode() layout.Enum {
	return layout.Enum{Name: "Opcode", Type: "u8", Doc: "a send WQE opcode (mlx5dv.h, Linux qp.h)", Values: []layout.Const{
		{Name: "Nop", Value: 0},
		{Name: "SendInval", Value: 1},
		{Name: "RdmaWrite", Value: 8},
		{Name: "RdmaWriteImm", Value: 9},
		{Name: "Send", Value: 0xa},
		{Name: "SendImm", Value: 0xb},
		{Name: "Lso", Value: 0xe},
		{Name: "Wait", Value: 0xf},
		{Name: "RdmaRead", Value: 0x10},
		{Name: "AtomicCs", Value: 0x11},
		{Name: "AtomicFa", Value: 0x12},
		{Name: "AtomicMaskedCs", Value: 0x14},
		{Name: "AtomicMaskedFa", Value: 0x15},
		{Name: "SendEn", Value: 0x17},
		{Name: "BindMw", Value: 0x18},
		{Name: "LocalInval", Value: 0x1b},
		{Name: "ConfigCmd", Value: 0x1f},
		{Name: "SetPsv", Value: 0x20},
		{Name: "Dump", Value: 0x23},
		{Name: "Umr", Value: 0x25},
		{Name: "TagMatching", Value: 0x28},
		{Name: "FlowTblAccess", Value: 0x2c},
		{Name: "AccessAso", Value: 0x2d},
		{Name: "Mmo", Value: 0x2f},
	}}
}

func enumFenceMode() layout.Enum {
	return layout.Enum{Name: "FenceMode", Type: "u8", Doc: "what a WQE waits for before it starts", Values: []layout.Const{
		{Name: "None", Value: 0},
		{Name: "Small", Value: 1, Doc: "earlier local operations on keys"},
		{Name: "Fence", Value: 2, Doc: "all earlier READs and ATOMICs of the QP are complete"},
		{Name: "StrongOrdering", Value: 3, Doc: "all earlier WQEs; the exact definition is UNCONFIRMED"},
		{Name: "FenceAndSmall", Value: 4, Doc: "what rdma-core writes for IBV_SEND_FENCE"},
	}}
}

func enumCompletionMode() layout.Enum {
	return layout.Enum{Name: "CompletionMode", Type: "u8", Doc: "when a WQE makes a CQE", Values: []layout.Const{
		{Name: "OnError", Value: 0},
		{Name: "FirstError", Value: 1},
		{Name: "Always", Value: 2, Doc: "mlx5dv.h MLX5_WQE_CTRL_CQ_UPDATE"},
		{Name: "AlwaysAndEvent", Value: 3},
	}}
}

func enumCqeOpcode() layout.Enum {
	return layout.Enum{Name: "CqeOpcode", Type: "u8", Doc: "what a CQE reports", Values: []layout.Const{
		{Name: "Req", Value: 0, Doc: "requester completion"},
		{Name: "RespWrImm", Value: 1, Doc: "responder, WRITE with immediate"},
		{Name: "RespSend", Value: 2},
		{Name: "RespSendImm", Value: 3},
		{Name: "RespSendInv", Value: 4},
		{Name: "ResizeCq", Value: 5},
		{Name: "NoPacket", Value: 6},
		{Name: "SigErr", Value: 0xc},
		{Name: "ReqErr", Value: 0xd, Doc: "requester error"},
		{Name: "RespErr", Value: 0xe, Doc: "responder error"},
		{Name: "Invalid", Value: 0xf, Doc: "never written: initial contents"},
	}}
}

func enumSyndrome() layout.Enum {
	return layout.Enum{Name: "Syndrome", Type: "u8", Doc: "the cause in an error CQE (mlx5dv.h)", Values: []layout.Const{
		{Name: "LocalLength", Value: 1},
		{Name: "LocalQpOp", Value: 2, Doc: "bad opcode or segments"},
		{Name: "LocalProt", Value: 4, Doc: "lkey, PD or range"},
		{Name: "WrFlush", Value: 5, Doc: "flushed after an earlier error"},
		{Name: "MwBind", Value: 6},
		{Name: "BadResp", Value: 0x10},
		{Name: "LocalAccess", Value: 0x11},
		{Name: "RemoteInvReq", Value: 0x12},
		{Name: "RemoteAccess", Value: 0x13, Doc: "rkey, range or permission"},
		{Name: "RemoteOp", Value: 0x14},
		{Name: "TransportRetry", Value: 0x15, Doc: "no answer"},
		{Name: "RnrRetry", Value: 0x16},
		{Name: "RemoteAborted", Value: 0x22},
	}}
}
