package mlx5

// #include "calls.h"
import "C"

// Access flags of MRs and umems, as in rdma-core verbs.h.
const (
	AccessLocalWrite      = 1 << 0
	AccessRemoteWrite     = 1 << 1
	AccessRemoteRead      = 1 << 2
	AccessRemoteAtomic    = 1 << 3
	AccessRelaxedOrdering = 1 << 20
)

// PD is a protection domain.
type PD struct {
	Number uint32 // goes into mailboxes
	lib    *Lib
	pd     *C.struct_ibv_pd
}

// AllocPD makes a protection domain of this context.
func (c *Context) AllocPD() (*PD, error) {
	var number C.uint32_t
	pd, err := C.pgas_mlx5_alloc_pd(c.lib.t, c.c, &number)
	if pd == nil {
		return nil, sysError("ibv_alloc_pd", err)
	}
	return &PD{Number: uint32(number), lib: c.lib, pd: pd}, nil
}

// Close frees the domain; EBUSY while MRs or QPs use it.
func (p *PD) Close() error {
	return codeError("ibv_dealloc_pd", int(C.pgas_mlx5_dealloc_pd(p.lib.t, p.pd)))
}

// MR is registered memory.
type MR struct {
	LKey, RKey uint32
	lib        *Lib
	mr         *C.struct_ibv_mr
}

// RegMR registers length bytes at addr (host memory, or GPU memory where the kernel has peer memory support) so that
// WQEs address them from iova on; iova 0 makes the address an offset.
func (p *PD) RegMR(addr uintptr, length, iova uint64, access uint32) (*MR, error) {
	mr, err := C.pgas_mlx5_reg_mr(p.lib.t, p.pd, C.uintptr_t(addr), C.size_t(length), C.uint64_t(iova), C.uint(access))
	return p.wrapMR("ibv_reg_mr_iova2", mr, err)
}

// RegDmabufMR registers length bytes from offset of the dma-buf fd. The caller may close fd afterwards.
func (p *PD) RegDmabufMR(offset, length, iova uint64, fd int, access uint32) (*MR, error) {
	mr, err := C.pgas_mlx5_reg_dmabuf_mr(p.lib.t, p.pd, C.uint64_t(offset), C.size_t(length), C.uint64_t(iova), C.int(fd),
		C.int(access))
	return p.wrapMR("ibv_reg_dmabuf_mr", mr, err)
}

func (p *PD) wrapMR(op string, mr *C.struct_ibv_mr, err error) (*MR, error) {
	if mr == nil {
		return nil, sysError(op, err)
	}
	return &MR{LKey: uint32(mr.lkey), RKey: uint32(mr.rkey), lib: p.lib, mr: mr}, nil
}

// Close deregisters the memory: when it returns, no NIC touches it through this MR any more.
func (m *MR) Close() error {
	return codeError("ibv_dereg_mr", int(C.pgas_mlx5_dereg_mr(m.lib.t, m.mr)))
}

// Umem is memory registered for queues and doorbell records.
type Umem struct {
	ID  uint32 // goes into mailboxes
	lib *Lib
	m   *C.struct_mlx5dv_devx_umem
}

// RegUmem registers memory at addr. Offsets into it must then be 0; see RegUmemEx.
func (c *Context) RegUmem(addr uintptr, size uint64, access uint32) (*Umem, error) {
	m, err := C.pgas_mlx5_umem_reg(c.lib.t, c.c, C.uintptr_t(addr), C.size_t(size), C.uint32_t(access))
	return c.wrapUmem("mlx5dv_devx_umem_reg", m, err)
}

// UmemIn are the arguments of RegUmemEx.
type UmemIn struct {
	Addr      uintptr // virtual address, or the offset in the dma-buf
	Size      uint64  // bytes
	Access    uint32
	PageSizes uint64 // bit n allows pages of 2^n bytes; needed when a command uses a non-zero offset in the umem
	Dmabuf    bool   // memory is that of DmabufFD, which may be closed afterwards
	DmabufFD  int
}

// RegUmemEx registers memory by address or by dma-buf. EOPNOTSUPP before rdma-core 35.
func (c *Context) RegUmemEx(in UmemIn) (*Umem, error) {
	dmabuf := C.int(0)
	if in.Dmabuf {
		dmabuf = 1
	}
	m, err := C.pgas_mlx5_umem_reg_ex(c.lib.t, c.c, C.uintptr_t(in.Addr), C.size_t(in.Size), C.uint32_t(in.Access),
		C.uint64_t(in.PageSizes), dmabuf, C.int(in.DmabufFD))
	return c.wrapUmem("mlx5dv_devx_umem_reg_ex", m, err)
}

func (c *Context) wrapUmem(op string, m *C.struct_mlx5dv_devx_umem, err error) (*Umem, error) {
	if m == nil {
		return nil, sysError(op, err)
	}
	return &Umem{ID: uint32(m.umem_id), lib: c.lib, m: m}, nil
}

// Close deregisters the memory; EBUSY while a queue lies in it.
func (u *Umem) Close() error {
	return codeError("mlx5dv_devx_umem_dereg", int(C.pgas_mlx5_umem_dereg(u.lib.t, u.m)))
}
