package platform

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/internal/leak"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/native/mlx5"
)

// pageBytes is the unit of memory that a NIC registers: GPU pages as nvidia-peermem and GDRCopy count them.
const pageBytes = 64 << 10

// Memory is one allocation that kernels can use and that other processes of the host and a NIC can be given.
type Memory struct {
	Addr  uint64  // address for kernels
	Host  uintptr // address for this process' CPUs; 0 when only the GPU can reach it
	Bytes uint64  // size, rounded up to whole pages

	p      *Platform
	gpu    bool
	handle cuda.MemHandle // gpu
	fd     int            // host memory: the memfd, owned
	undo   Undo
}

// NewGPUMemory allocates GPU memory by CUDA's virtual memory management. The memory is really there when it returns,
// and zero. shareable memory can be exported with FD.
func (p *Platform) NewGPUMemory(bytes uint64, shareable bool) (*Memory, error) {
	prop := cuda.MemProp{Device: p.Device, Shareable: shareable, RDMA: p.rdmaVMM}
	unit, err := p.CUDA.MemAllocationGranularity(prop, false)
	if err != nil {
		return nil, err
	}
	size, err := roundUp(bytes, max(unit, pageBytes))
	if err != nil {
		return nil, err
	}
	m := &Memory{p: p, gpu: true, Bytes: size, fd: -1}
	if m.handle, err = p.CUDA.MemCreate(size, prop); err != nil {
		return nil, fmt.Errorf("%d bytes of GPU memory: %w", size, err)
	}
	m.undo.Push(func() error { return p.CUDA.MemRelease(m.handle) })
	if err = m.mapGPU(); err == nil {
		err = p.CUDA.MemsetD8(cuda.DevicePtr(m.Addr), 0, size)
	}
	if err != nil {
		return nil, m.undo.Fail(err)
	}
	m.track("gpu memory")
	return m, nil
}

// ImportGPUMemory maps memory that another process exported; fd stays the caller's.
func (p *Platform) ImportGPUMemory(fd int, bytes uint64) (*Memory, error) {
	m := &Memory{p: p, gpu: true, Bytes: bytes, fd: -1}
	var err error
	if m.handle, err = p.CUDA.MemImportFD(fd); err != nil {
		return nil, err
	}
	m.undo.Push(func() error { return p.CUDA.MemRelease(m.handle) })
	if err = m.mapGPU(); err != nil {
		return nil, m.undo.Fail(err)
	}
	m.track("imported gpu memory")
	return m, nil
}

// mapGPU gives m.handle an address.
func (m *Memory) mapGPU() error {
	d := m.p.CUDA
	addr, err := d.MemAddressReserve(m.Bytes, 0, 0)
	if err != nil {
		return err
	}
	m.undo.Push(func() error { return d.MemAddressFree(addr, m.Bytes) })
	if err = d.MemMap(addr, m.Bytes, 0, m.handle); err != nil {
		return err
	}
	m.undo.Push(func() error { return d.MemUnmap(addr, m.Bytes) })
	if err = d.MemSetAccess(addr, m.Bytes, m.p.Device, cuda.AccessReadWrite); err != nil {
		return err
	}
	m.Addr = uint64(addr)
	if m.p.Soft {
		m.Host = uintptr(addr)
	}
	return nil
}

// NewHostMemory allocates pinned host memory that kernels can use, backed by a memfd so that other processes can map it.
// The software GPU's memory already is just that, so there it is GPU memory.
func (p *Platform) NewHostMemory(bytes uint64) (*Memory, error) {
	if p.Soft {
		return p.NewGPUMemory(bytes, true)
	}
	size, err := roundUp(bytes, pageBytes)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("pgas", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd of %d bytes: %w", size, err)
	}
	m := &Memory{p: p, Bytes: size, fd: fd}
	m.undo.Push(func() error { return unix.Close(fd) })
	// Reserve the pages now: a sparse file would end in SIGBUS at the first touch of a full tmpfs.
	if err = unix.Fallocate(fd, 0, 0, int64(size)); err == nil {
		err = m.mapHost()
	}
	if err != nil {
		return nil, m.undo.Fail(fmt.Errorf("%d bytes of host memory: %w", size, err))
	}
	m.track("host memory")
	return m, nil
}

// ImportHostMemory maps host memory that another process exported; fd stays the caller's.
func (p *Platform) ImportHostMemory(fd int, bytes uint64) (*Memory, error) {
	if p.Soft {
		return p.ImportGPUMemory(fd, bytes)
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	m := &Memory{p: p, Bytes: bytes, fd: own}
	m.undo.Push(func() error { return unix.Close(own) })
	if err = m.mapHost(); err != nil {
		return nil, m.undo.Fail(err)
	}
	m.track("imported host memory")
	return m, nil
}

// FD returns a descriptor for another process to import; the caller closes it.
func (m *Memory) FD() (int, error) {
	if m.gpu {
		return m.p.CUDA.MemExportFD(m.handle)
	}
	return unix.FcntlInt(uintptr(m.fd), unix.F_DUPFD_CLOEXEC, 0)
}

// Close unmaps and frees. No kernel and no NIC may be using the memory.
func (m *Memory) Close() error { return m.undo.Run() }

func (m *Memory) track(kind string) {
	token := leak.Track(kind, fmt.Sprintf("%#x, %d bytes", m.Addr, m.Bytes))
	m.undo.Push(func() error { token.Release(); return nil })
}

// How memory was made known to a NIC.
const (
	ByDmabuf  = "dma-buf"
	ByAddress = "address" // host memory, or GPU memory through nvidia-peermem
)

// RegisterMR registers the memory with the NIC so that WQEs address it from 0 on. It tries a dma-buf first, then the
// address, and returns which one worked.
func (m *Memory) RegisterMR(pd *mlx5.PD, access uint32) (*mlx5.MR, string, error) {
	var first error
	if m.gpu {
		mr, err := m.dmabufMR(pd, access)
		if err == nil {
			return mr, ByDmabuf, nil
		}
		first = err
	}
	mr, err := pd.RegMR(m.nicAddr(), m.Bytes, 0, access)
	if err != nil {
		return nil, "", registerError("MR", m, first, err)
	}
	return mr, ByAddress, nil
}

func (m *Memory) dmabufMR(pd *mlx5.PD, access uint32) (*mlx5.MR, error) {
	fd, err := m.p.CUDA.MemDmaBufFD(cuda.DevicePtr(m.Addr), m.Bytes)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return pd.RegDmabufMR(0, m.Bytes, 0, fd, access)
}

// umemPages allows only 4 KiB pages, so that queues may start at any multiple of 64 bytes (UCX does the same).
const umemPages = 1 << 12

// RegisterUmem registers the memory for queues and doorbell records; ways and result as for RegisterMR.
func (m *Memory) RegisterUmem(ctx *mlx5.Context) (*mlx5.Umem, string, error) {
	in := mlx5.UmemIn{Size: m.Bytes, Access: mlx5.AccessLocalWrite, PageSizes: umemPages}
	var first error
	if m.gpu {
		fd, err := m.p.CUDA.MemDmaBufFD(cuda.DevicePtr(m.Addr), m.Bytes)
		if err == nil {
			defer unix.Close(fd)
			byFD := in
			byFD.Dmabuf, byFD.DmabufFD = true, fd
			var u *mlx5.Umem
			if u, err = ctx.RegUmemEx(byFD); err == nil {
				return u, ByDmabuf, nil
			}
		}
		first = err
	}
	in.Addr = m.nicAddr()
	u, err := ctx.RegUmemEx(in)
	if err != nil {
		return nil, "", registerError("umem", m, first, err)
	}
	return u, ByAddress, nil
}

// nicAddr is the virtual address that the kernel's RDMA layer understands.
func (m *Memory) nicAddr() uintptr {
	if m.gpu {
		return uintptr(m.Addr)
	}
	return m.Host
}

func registerError(what string, m *Memory, dmabuf, address error) error {
	if dmabuf == nil {
		return fmt.Errorf("register %s of %d bytes: by address: %w", what, m.Bytes, address)
	}
	return fmt.Errorf("register %s of %d bytes of GPU memory: by dma-buf: %w; by address: %w "+
		"[load nvidia-peermem, or use the open NVIDIA kernel modules, which export dma-bufs]", what, m.Bytes, dmabuf, address)
}

func roundUp(n, unit uint64) (uint64, error) {
	r := (n + unit - 1) &^ (unit - 1)
	if r < n || r == 0 {
		return 0, fmt.Errorf("%d bytes cannot be rounded up to units of %d", n, unit)
	}
	return r, nil
}
