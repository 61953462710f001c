package pgas

import (
	"unsafe"

	"github.com/pgas-go/pgas/internal/wire"
	"github.com/pgas-go/pgas/proxy/engine"
)

// publish describes the job to kernels and to the engine.
func (w *World) publish() error {
	var err error
	if w.shared, err = newShared(w.plat, w.npes, w.bell, &w.undo); err != nil {
		return err
	}
	common := wire.World{LayoutHash: wire.LayoutHash, MyPe: uint32(w.pe), NPes: uint32(w.npes), NContexts: uint32(w.cfg.Contexts),
		TimeoutNs: uint64(w.cfg.Timeout), Bell: uint64(w.bell)}
	if w.mixed {
		common.Flags |= wire.FlagMixedPaths
	}
	for s := range wire.Segment(wire.Segments) {
		common.Seg[s].Base, common.Seg[s].Size = w.base[s], w.heap.Size(s)
		common.Seg[s].Lkey = wire.Big(w.heap.LKey(s))
	}
	kernel, host := make([]wire.Peer, w.npes), make([]wire.Peer, w.npes)
	for pe := range w.peers {
		v := &w.peers[pe]
		p := wire.Peer{Path: v.path, Bell: uint64(v.bell)}
		for s := range wire.Segment(wire.Segments) {
			p.Rkey[s] = wire.Big(w.heap.RKey(pe, s))
		}
		kernel[pe], host[pe] = p, p
		for s := range v.addr {
			kernel[pe].Map[s], host[pe].Map[s] = v.addr[s], uint64(v.base[s])
		}
		if !v.direct && w.net != nil {
			host[pe].Path = wire.PathIbgda // what CPUs cannot load and store they reach through the NIC
		}
	}
	var queues uint64
	if w.net != nil {
		queues = w.net.KernelQueues()
		w.shared.publishHost(common, host, w.net.HostQueues())
		// Sources in the host segment need system-scope fences wherever the rings are.
		if !w.plat.Soft && w.net.RingsInGPU() && w.heap.Size(wire.SegmentHost) == 0 {
			common.QueueScope = 1
		}
	}
	return w.shared.publish(common, kernel, queues)
}

// stageBytes is the memory through which the engine moves data that the NIC does not know.
const stageBytes = 1 << 20

// openEngine starts host-initiated operations for PEs that are reached through the NIC.
func (w *World) openEngine() error {
	if w.net == nil {
		return nil
	}
	stage, err := w.plat.NewHostMemory(stageBytes)
	if err != nil {
		return err
	}
	w.undo.Push(stage.Close)
	slot, err := w.heap.Register(uint64(stage.Host), stageBytes)
	if err != nil {
		return err
	}
	w.undo.Push(func() error { return w.heap.Unregister(slot) })
	if err := w.shared.setRegions(w.heap.Regions()); err != nil {
		return err
	}
	hooks := w.plat.CPUHooks()
	engine.SetHooks(engine.Hooks{Doorbell: hooks.Doorbell, Pause: hooks.Pause, Notify: hooks.Notify, RingBell: hooks.RingBell})
	w.eng, err = engine.New(unsafe.Pointer(w.shared.world), pointerAt(stage.Host), stageBytes)
	if err != nil {
		return err
	}
	w.undo.Push(func() error { w.eng.Close(); return nil })
	return nil
}

// RegisterBuffer makes host or GPU memory that is not Go's usable as local source or target of transfers through the
// NIC, by its address, in kernels. It is local, not collective, and valid until the returned function is called; no
// transfer may then be using it. 0 bytes, or address 0 with 0 bytes, register nothing and are no error.
//
// Go memory needs no registration: Put and Get take it as it is.
func (w *World) RegisterBuffer(addr uint64, bytes uint64) (unregister func() error, err error) {
	if err := w.enter("register buffer"); err != nil {
		return nil, err
	}
	defer w.leave()
	slot, err := w.heap.Register(addr, bytes)
	if err == nil {
		err = w.shared.setRegions(w.heap.Regions())
	}
	if err != nil {
		return nil, w.failed("register buffer", NoPE, err)
	}
	return func() error {
		if err := w.enter("unregister buffer"); err != nil {
			return err
		}
		defer w.leave()
		if err := w.heap.Unregister(slot); err != nil {
			return w.failed("unregister buffer", NoPE, err)
		}
		return w.shared.setRegions(w.heap.Regions())
	}, nil
}

// pointerAt makes a pointer to mapped memory that Go does not own.
func pointerAt(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }
