package mlx5

// #include "calls.h"
import "C"

import "unsafe"

// UAR types, as in rdma-core mlx5dv.h. The dedicated type needs rdma-core 45; EOPNOTSUPP before.
const (
	UARBlueFlame   uint32 = C.PGAS_MLX5_UAR_BF
	UARNonCached   uint32 = C.PGAS_MLX5_UAR_NC
	UARNCDedicated uint32 = 1 << 31
)

// UAR is a doorbell register.
type UAR struct {
	PageID   uint32  // goes into mailboxes
	RegAddr  uintptr // where the 8-byte doorbell is stored
	BaseAddr uintptr // of the 4 KiB page
	lib      *Lib
	u        *C.struct_mlx5dv_devx_uar
}

// AllocUAR gets a doorbell register. UARNonCached returns the same register on every call of one context.
func (c *Context) AllocUAR(kind uint32) (*UAR, error) {
	u, err := C.pgas_mlx5_alloc_uar(c.lib.t, c.c, C.uint32_t(kind))
	if u == nil {
		return nil, sysError("mlx5dv_devx_alloc_uar", err)
	}
	return &UAR{PageID: uint32(u.page_id), RegAddr: uintptr(u.reg_addr), BaseAddr: uintptr(u.base_addr), lib: c.lib, u: u}, nil
}

// Close gives the register back.
func (u *UAR) Close() error {
	C.pgas_mlx5_free_uar(u.lib.t, u.u)
	return nil
}

// QueryEQN returns the event queue number of a completion vector, which CREATE_CQ needs.
func (c *Context) QueryEQN(vector uint32) (uint32, error) {
	var eqn C.uint32_t
	rc := C.pgas_mlx5_query_eqn(c.lib.t, c.c, C.uint32_t(vector), &eqn)
	return uint32(eqn), codeError("mlx5dv_devx_query_eqn", int(rc))
}

// Link layers and the port state in which traffic flows, as in rdma-core verbs.h.
const (
	LinkInfiniBand = C.IBV_LINK_LAYER_INFINIBAND
	LinkEthernet   = C.IBV_LINK_LAYER_ETHERNET
	PortActive     = C.IBV_PORT_ACTIVE
)

// PortAttr is what ibv_query_port says, as far as pgas needs it.
type PortAttr struct {
	State      uint32
	ActiveMTU  uint32 // 1=256 2=512 3=1024 4=2048 5=4096 bytes, as QPC.mtu wants it
	GIDEntries int
	MaxMsgSize uint32 // bytes
	LID        uint16
	LinkLayer  uint8
}

// QueryPort returns the attributes of a port; ports count from 1.
func (c *Context) QueryPort(port uint8) (PortAttr, error) {
	var a C.struct_ibv_port_attr
	if err := codeError("ibv_query_port", int(C.pgas_mlx5_query_port(c.lib.t, c.c, C.uint8_t(port), &a))); err != nil {
		return PortAttr{}, err
	}
	return PortAttr{State: uint32(a.state), ActiveMTU: uint32(a.active_mtu), GIDEntries: int(a.gid_tbl_len),
		MaxMsgSize: uint32(a.max_msg_sz), LID: uint16(a.lid), LinkLayer: uint8(a.link_layer)}, nil
}

// GID types as in rdma-core verbs.h; GIDUnknown where the library is too old to tell.
const (
	GIDInfiniBand uint32 = C.IBV_GID_TYPE_IB
	GIDRoCEv1     uint32 = C.IBV_GID_TYPE_ROCE_V1
	GIDRoCEv2     uint32 = C.IBV_GID_TYPE_ROCE_V2
	GIDUnknown    uint32 = 1<<32 - 1
)

// GID is one entry of a port's GID table.
type GID struct {
	Raw  [16]byte
	Type uint32
}

// QueryGID returns entry index of a port. A hole in the table is a *SysError with ENODATA.
func (c *Context) QueryGID(port uint8, index int) (GID, error) {
	var e C.struct_ibv_gid_entry
	rc := C.pgas_mlx5_query_gid(c.lib.t, c.c, C.uint32_t(port), C.uint32_t(index), &e)
	if err := codeError("ibv_query_gid_ex", int(rc)); err != nil {
		return GID{}, err
	}
	return GID{Raw: *(*[16]byte)(unsafe.Pointer(&e.gid)), Type: uint32(e.gid_type)}, nil
}

// AsyncEvent is an asynchronous event; types as in rdma-core verbs.h.
type AsyncEvent struct {
	Type uint32
	Port int // for port events
}

// AsyncFD returns the descriptor that is readable when NextAsyncEvent has an event. It belongs to the context.
func (c *Context) AsyncFD() int { return int(C.pgas_mlx5_async_fd(c.c)) }

// NextAsyncEvent returns and acknowledges the next event. It blocks unless AsyncFD is non-blocking or readable.
func (c *Context) NextAsyncEvent() (AsyncEvent, error) {
	var e C.struct_ibv_async_event
	var port C.int
	if err := codeError("ibv_get_async_event", int(C.pgas_mlx5_next_event(c.lib.t, c.c, &e, &port))); err != nil {
		return AsyncEvent{}, err
	}
	return AsyncEvent{Type: uint32(e.event_type), Port: int(port)}, nil
}
