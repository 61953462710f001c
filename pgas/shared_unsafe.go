package pgas

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/pgas-go/pgas/heap"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/platform"
	"github.com/pgas-go/pgas/internal/wire"
	"github.com/pgas-go/pgas/signal"
)

// shared is the memory through which this process, its kernels and the engine tell each other things. Part of it is host
// memory that everybody sees; what kernels only read is in GPU memory.
type shared struct {
	control *wire.Control      // what the host tells waits
	device  *wire.StatusRecord // first error of a kernel
	host    *wire.StatusRecord // first error of the engine
	world   *wire.World        // the engine's view of the job
	peers   []wire.Peer        // of the engine
	regions []wire.Region      // of the engine
	bell    uintptr

	cuda     *cuda.Driver
	hostMem  *platform.Memory
	gpuMem   *platform.Memory // wire.World, Peer[n], Region[MaxRegions]
	gpuWorld wire.World       // what was written there
}

// Offsets in the host memory.
const (
	atControl = 0
	atDevice  = 128
	atHost    = 256
	atWorld   = 512
	atRegions = 1024
	atPeers   = atRegions + heap.MaxRegions*unsafe.Sizeof(wire.Region{})
)

// Offsets in the GPU memory.
const (
	gpuRegions = 256
	gpuPeers   = (gpuRegions + heap.MaxRegions*unsafe.Sizeof(wire.Region{}) + 63) &^ 63
)

// newShared allocates the memory for n PEs. Undo frees it.
func newShared(p *platform.Platform, n int, bell uintptr, undo *platform.Undo) (*shared, error) {
	s := &shared{cuda: p.CUDA, bell: bell}
	var err error
	peerBytes := uintptr(n) * unsafe.Sizeof(wire.Peer{})
	if s.hostMem, err = p.NewHostMemory(uint64(hostPeersAt() + peerBytes)); err != nil {
		return nil, err
	}
	undo.Push(s.hostMem.Close)
	if s.gpuMem, err = p.NewGPUMemory(uint64(gpuPeers+peerBytes), false); err != nil {
		return nil, err
	}
	undo.Push(s.gpuMem.Close)
	at := s.hostMem.Host
	s.control = platform.At[wire.Control](at + atControl)
	s.device = platform.At[wire.StatusRecord](at + atDevice)
	s.host = platform.At[wire.StatusRecord](at + atHost)
	s.world = platform.At[wire.World](at + atWorld)
	s.regions = platform.SliceAt[wire.Region](at+atRegions, heap.MaxRegions)
	s.peers = platform.SliceAt[wire.Peer](at+hostPeersAt(), n)
	return s, nil
}

func hostPeersAt() uintptr { return (atPeers + 63) &^ 63 }

// deviceWorld is the address that kernels get.
func (s *shared) deviceWorld() uint64 { return s.gpuMem.Addr }

// publish writes what kernels know of the job. common is equal for kernels and engine; queues and peers differ.
func (s *shared) publish(common wire.World, peers []wire.Peer, queues uint64) error {
	s.gpuWorld = common
	w := &s.gpuWorld
	w.Peers, w.Regions = s.gpuMem.Addr+uint64(gpuPeers), s.gpuMem.Addr+gpuRegions
	w.Queues = queues
	w.Status, w.Control = s.hostMem.Addr+atDevice, s.hostMem.Addr+atControl
	if err := s.cuda.MemcpyHtoD(cuda.DevicePtr(w.Peers), asBytes(peers)); err != nil {
		return err
	}
	return s.cuda.MemcpyHtoD(cuda.DevicePtr(s.gpuMem.Addr), asBytes([]wire.World{*w}))
}

// publishHost writes what the engine knows of the job.
func (s *shared) publishHost(common wire.World, peers []wire.Peer, queues uintptr) {
	copy(s.peers, peers)
	*s.world = common
	s.world.NContexts = 1
	s.world.Peers = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s.peers))))
	s.world.Regions = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s.regions))))
	s.world.Queues = uint64(queues)
	s.world.Status = uint64(uintptr(unsafe.Pointer(s.host)))
	s.world.Control = uint64(uintptr(unsafe.Pointer(s.control)))
}

// setRegions updates the table of user buffers: entries first, then their number, because kernels may be looking.
func (s *shared) setRegions(table []wire.Region) error {
	copy(s.regions, table)
	atomic.StoreUint32(&s.world.NRegions, uint32(len(table)))
	if err := s.cuda.MemcpyHtoD(cuda.DevicePtr(s.gpuMem.Addr+gpuRegions), asBytes(table)); err != nil {
		return err
	}
	s.gpuWorld.NRegions = uint32(len(table))
	at := s.gpuMem.Addr + uint64(unsafe.Offsetof(s.gpuWorld.NRegions))
	return s.cuda.MemcpyHtoD(cuda.DevicePtr(at), asBytes([]uint32{s.gpuWorld.NRegions}))
}

// stop ends every wait of this PE's kernels and of its engine.
func (s *shared) stop(cause error) {
	status, pe := wire.StatusAborted, uint32(0)
	var lost *errs.PeerLostError
	var abort *errs.AbortError
	switch {
	case errors.As(cause, &lost):
		status, pe = wire.StatusPeerLost, uint32(lost.PE)
	case errors.As(cause, &abort):
		pe = uint32(abort.PE)
	}
	atomic.StoreUint32(&s.control.AbortPe, pe)
	atomic.StoreUint32(&s.control.Abort, uint32(status))
	signal.Ring(s.bell)
}

// take returns and clears a record that is complete.
func take(r *wire.StatusRecord) (wire.StatusRecord, bool) {
	if !atomic.CompareAndSwapUint32(&r.State, 2, 3) { // 3: being taken
		return wire.StatusRecord{}, false
	}
	got := *r
	atomic.StoreUint32(&r.State, 0)
	return got, true
}

// asBytes views values as the bytes that a copy moves.
func asBytes[T any](v []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(zero)))
}
