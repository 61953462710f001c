package platform

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/internal/native/cuda"
)

// mapHost maps m.fd and pins it for the GPU.
func (m *Memory) mapHost() error {
	at, err := unix.MmapPtr(m.fd, 0, nil, uintptr(m.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	m.undo.Push(func() error { return unix.MunmapPtr(at, uintptr(m.Bytes)) })
	d := m.p.CUDA
	if err = d.MemHostRegister(at, m.Bytes, cuda.HostRegisterPortable|cuda.HostRegisterDevicemap); err != nil {
		return err
	}
	m.undo.Push(func() error { return d.MemHostUnregister(at) })
	addr, err := d.MemHostGetDevicePointer(at)
	if err != nil {
		return err
	}
	m.Addr, m.Host = uint64(addr), uintptr(at)
	return nil
}

// At returns a pointer to memory that is mapped here and that Go does not own: what Memory.Host and UAR addresses name.
func At[T any](addr uintptr) *T { return *(**T)(unsafe.Pointer(&addr)) }

// SliceAt is At for n values.
func SliceAt[T any](addr uintptr, n int) []T { return unsafe.Slice(At[T](addr), n) }
