package table

import "github.com/pgas-go/pgas/internal/layout"

// The enums of context fields. Sources: Linux mlx5_ifc.h and qp.h unless a value says otherwise.

func enumQpState() layout.Enum {
	return layout.Enum{Name: "QpState", Type: "u8", Doc: "qpc.state (Linux mlx5_ifc.h)", Values: []layout.Const{
		{Name: "Rst", Value: 0},
		{Name: "Init", Value: 1},
		{Name: "Rtr", Value: 2},
		{Name: "Rts", Value: 3},
		{Name: "Sqer", Value: 4},
		{Name: "Err", Value: 6},
		{Name: "Sqd", Value: 7, Doc: "Linux qp.h lists SQD as 5"},
		{Name: "Suspended", Value: 9},
	}}
}

func enumServiceType() layout.Enum {
	return layout.Enum{Name: "ServiceType", Type: "u8", Doc: "qpc.st", Values: []layout.Const{
		{Name: "Rc", Value: 0},
		{Name: "Uc", Value: 1},
		{Name: "Ud", Value: 2},
		{Name: "Xrc", Value: 3},
		{Name: "Dci", Value: 5},
		{Name: "Dct", Value: 6},
		{Name: "Qp0", Value: 7},
		{Name: "Qp1", Value: 8},
		{Name: "RawEthernet", Value: 9},
		{Name: "RegUmr", Value: 0xc},
	}}
}

func enumPmState() layout.Enum {
	return layout.Enum{Name: "PmState", Type: "u8", Doc: "qpc.pm_state", Values: []layout.Const{
		{Name: "Armed", Value: 0},
		{Name: "Rearm", Value: 1},
		{Name: "Migrated", Value: 3},
	}}
}

func enumRqType() layout.Enum {
	return layout.Enum{Name: "RqType", Type: "u8", Doc: "qpc.rq_type", Values: []layout.Const{
		{Name: "Own", Value: 0},
		{Name: "Shared", Value: 1, Doc: "SRQ, RMP or XRQ"},
		{Name: "Crq", Value: 2},
		{Name: "None", Value: 3, Doc: "zero-size receive queue"},
	}}
}

func enumAtomicMode() layout.Enum {
	return layout.Enum{Name: "AtomicMode", Type: "u8", Doc: "qpc.atomic_mode", Values: []layout.Const{
		{Name: "None", Value: 0},
		{Name: "IbSpec", Value: 1, Doc: "8 bytes"},
		{Name: "Only8b", Value: 2},
		{Name: "UpTo8b", Value: 3, Doc: "4 and 8 bytes"},
		{Name: "UpTo16b", Value: 4},
		{Name: "UpTo32b", Value: 5},
		{Name: "UpTo64b", Value: 6},
		{Name: "UpTo128b", Value: 7},
		{Name: "UpTo256b", Value: 8},
	}}
}

func enumMtu() layout.Enum {
	return layout.Enum{Name: "Mtu", Type: "u8", Doc: "qpc.mtu", Values: []layout.Const{
		{Name: "Bytes256", Value: 1},
		{Name: "Bytes512", Value: 2},
		{Name: "Bytes1024", Value: 3},
		{Name: "Bytes2048", Value: 4},
		{Name: "Bytes4096", Value: 5},
		{Name: "Bytes8192", Value: 6, Doc: "UCX"},
		{Name: "RawEthernet", Value: 7},
	}}
}

func enumCqStatus() layout.Enum {
	return layout.Enum{Name: "CqStatus", Type: "u8", Doc: "cqc.status", Values: []layout.Const{
		{Name: "Ok", Value: 0},
		{Name: "Overflow", Value: 9},
		{Name: "WriteFailure", Value: 0xa},
	}}
}

func enumTsFormat() layout.Enum {
	return layout.Enum{Name: "TsFormat", Type: "u8", Doc: "qpc.ts_format and, its code points UNCONFIRMED, cqc.cq_timestamp_format", Values: []layout.Const{
		{Name: "FreeRunning", Value: 0},
		{Name: "DefaultFormat", Value: 1},
		{Name: "RealTime", Value: 2},
	}}
}

func enumPortType() layout.Enum {
	return layout.Enum{Name: "PortType", Type: "u8", Doc: "cmd_hca_cap.port_type", Values: []layout.Const{
		{Name: "Ib", Value: 0},
		{Name: "Eth", Value: 1},
	}}
}

func enumRoceVersion() layout.Enum {
	return layout.Enum{Name: "RoceVersion", Type: "u8", Doc: "roce_addr.roce_version", Values: []layout.Const{
		{Name: "V1", Value: 0},
		{Name: "V15", Value: 1},
		{Name: "V2", Value: 2},
	}}
}

func enumAccessMode() layout.Enum {
	return layout.Enum{Name: "AccessMode", Type: "u8", Doc: "mkc.access_mode_1_0 with access_mode_4_2 above it", Values: []layout.Const{
		{Name: "Pa", Value: 0},
		{Name: "Mtt", Value: 1},
		{Name: "Klm", Value: 2},
		{Name: "Ksm", Value: 3},
		{Name: "SwIcm", Value: 4},
		{Name: "Memic", Value: 5},
	}}
}

func enumEvent() layout.Enum {
	return layout.Enum{Name: "Event", Type: "u8", Doc: "an event queue entry type (Linux device.h)", Values: []layout.Const{
		{Name: "Comp", Value: 0},
		{Name: "PathMigrated", Value: 1},
		{Name: "CommEstablished", Value: 2},
		{Name: "SqDrained", Value: 3},
		{Name: "CqError", Value: 4},
		{Name: "WqCatastrophic", Value: 5},
		{Name: "PathMigFailed", Value: 7},
		{Name: "InternalError", Value: 8},
		{Name: "PortChange", Value: 9},
		{Name: "WqInvalidRequest", Value: 0x10},
		{Name: "WqAccessError", Value: 0x11},
		{Name: "SrqCatastrophic", Value: 0x12},
		{Name: "SrqLastWqe", Value: 0x13},
		{Name: "SrqLimit", Value: 0x14},
		{Name: "DctDrained", Value: 0x1c},
		{Name: "DctKeyViolation", Value: 0x1d},
	}}
}
