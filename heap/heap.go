// Package heap is the symmetric heap: three segments per PE (device, host and signal memory) in which the same offset
// means the same object on every PE. It owns the memory, maps the segments of the PEs on the same host, registers each
// segment once with the NIC as a zero-based MR, and hands out offsets.
package heap

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/platform"
	"github.com/pgas-go/pgas/internal/wire"
)

// Variables are the environment variables that set the segment sizes, by wire.Segment.
var Variables = [wire.Segments]string{"PGAS_HEAP_SIZE", "PGAS_HOST_HEAP_SIZE", "PGAS_SIGNAL_HEAP_SIZE"}

// Config of Open.
type Config struct {
	// Sizes in bytes, by wire.Segment; equal on all PEs. A segment of 0 bytes has no memory.
	Sizes [wire.Segments]uint64
	// LocalPEs is the number of PEs on this host, which share its memory.
	LocalPEs int
}

// Heap is one PE's part of the symmetric heap.
type Heap struct {
	p     *platform.Platform
	x     bootstrap.Exchanger
	cfg   Config
	seg   [wire.Segments]segment
	peers []peer
	undo  platform.Undo

	mu      sync.Mutex // collective calls, one at a time
	calls   uint64     // collective calls so far: part of each request
	regMu   sync.Mutex
	regions []region
}

type segment struct {
	mem   *platform.Memory
	alloc *Allocator
	mr    *mlx5.MR
}

type peer struct {
	mem  [wire.Segments]*platform.Memory // nil when not mapped
	rkey [wire.Segments]uint32
}

// access of a segment's MR. Never with relaxed ordering: data and the signals that announce it must stay in order.
const access = mlx5.AccessLocalWrite | mlx5.AccessRemoteWrite | mlx5.AccessRemoteRead | mlx5.AccessRemoteAtomic

// Open is collective. It checks that all PEs ask for the same sizes and that the host can hold them, allocates and
// maps, and registers with the NIC if the platform has one. On an error nothing is left; the caller must then abort
// the job, because other PEs may be waiting in here.
func Open(ctx context.Context, p *platform.Platform, x bootstrap.Exchanger, cfg Config) (*Heap, error) {
	h := &Heap{p: p, x: x, cfg: cfg, peers: make([]peer, x.Size())}
	for _, step := range []func(context.Context) error{h.agree, h.allocate, h.mapPeers, h.register, h.exchangeKeys} {
		if err := step(ctx); err != nil {
			return nil, h.undo.Fail(fmt.Errorf("symmetric heap: %w", err))
		}
	}
	return h, nil
}

// Close unmaps, deregisters and frees everything. It does not synchronise: no PE may access the heap any more.
func (h *Heap) Close() error {
	err := h.closeRegions()
	if e := h.undo.Run(); err == nil {
		err = e
	}
	return err
}

func (h *Heap) agree(ctx context.Context) error {
	var mine []byte
	for _, n := range h.cfg.Sizes {
		mine = binary.BigEndian.AppendUint64(mine, n)
	}
	all, err := h.x.AllGather(ctx, mine)
	if err != nil {
		return err
	}
	for s, variable := range Variables {
		values := make([]string, len(all))
		for pe, blob := range all {
			if len(blob) != len(mine) {
				return fmt.Errorf("PE %d sent %d bytes about its sizes, want %d", pe, len(blob), len(mine))
			}
			values[pe] = fmt.Sprintf("%d bytes", binary.BigEndian.Uint64(blob[8*s:]))
		}
		if err := errs.CheckEqual(variable, values); err != nil {
			return err
		}
	}
	return h.checkMemory()
}

func (h *Heap) checkMemory() error {
	inGPU := h.cfg.Sizes[wire.SegmentDevice] + h.cfg.Sizes[wire.SegmentSignal]
	inHost := h.cfg.Sizes[wire.SegmentHost]
	if inGPU < h.cfg.Sizes[wire.SegmentDevice] {
		inGPU = ^uint64(0)
	}
	host, err := hostMemory("/")
	if err != nil {
		return err
	}
	if h.p.Soft {
		// The software GPU's memory is host memory.
		total := inGPU + inHost
		if total < inGPU {
			total = ^uint64(0)
		}
		return checkFits("host memory", total, h.cfg.LocalPEs, host, Variables[wire.SegmentDevice])
	}
	free, _, err := h.p.CUDA.MemGetInfo()
	if err != nil {
		return err
	}
	if err := checkFits("GPU memory", inGPU, 1, free, Variables[wire.SegmentDevice]); err != nil {
		return err
	}
	return checkFits("host memory", inHost, h.cfg.LocalPEs, host, Variables[wire.SegmentHost])
}

func (h *Heap) allocate(context.Context) error {
	for s, size := range h.cfg.Sizes {
		name := wire.Segment(s)
		h.seg[s].alloc = NewAllocator(name.String(), Variables[s], size)
		if size == 0 {
			continue
		}
		var mem *platform.Memory
		var err error
		if name == wire.SegmentHost {
			mem, err = h.p.NewHostMemory(size)
		} else {
			mem, err = h.p.NewGPUMemory(size, true)
		}
		if err != nil {
			return fmt.Errorf("%s segment: %w", name, err)
		}
		h.undo.Push(mem.Close)
		h.seg[s].mem = mem
	}
	return nil
}

// mapPeers exports my segments to the PEs of this host and maps theirs.
func (h *Heap) mapPeers(ctx context.Context) error {
	me := h.x.Rank()
	for s := range h.seg {
		h.peers[me].mem[s] = h.seg[s].mem
	}
	mine, err := h.export()
	defer func() { _ = bootstrap.CloseFDs([][]int{mine}) }()
	if err != nil {
		return err
	}
	theirs, err := bootstrap.ExchangeFDs(ctx, h.x, mine)
	if err != nil {
		return err
	}
	defer func() { _ = bootstrap.CloseFDs(theirs) }()
	for pe, fds := range theirs {
		if fds == nil {
			continue // this PE, or one of another host
		}
		if err := h.importPeer(pe, fds); err != nil {
			return fmt.Errorf("map the segments of PE %d: %w", pe, err)
		}
	}
	return nil
}

func (h *Heap) export() ([]int, error) {
	var fds []int
	for s := range h.seg {
		if h.seg[s].mem == nil {
			continue
		}
		fd, err := h.seg[s].mem.FD()
		if err != nil {
			return fds, fmt.Errorf("export the %s segment: %w", wire.Segment(s), err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func (h *Heap) importPeer(pe int, fds []int) error {
	next := 0
	for s := range h.seg {
		own := h.seg[s].mem
		if own == nil {
			continue
		}
		if next >= len(fds) {
			return fmt.Errorf("%d descriptors came, more are needed", len(fds))
		}
		var mem *platform.Memory
		var err error
		if wire.Segment(s) == wire.SegmentHost {
			mem, err = h.p.ImportHostMemory(fds[next], own.Bytes)
		} else {
			mem, err = h.p.ImportGPUMemory(fds[next], own.Bytes)
		}
		if err != nil {
			return fmt.Errorf("%s segment: %w", wire.Segment(s), err)
		}
		next++
		h.undo.Push(mem.Close)
		h.peers[pe].mem[s] = mem
	}
	return nil
}

func (h *Heap) register(context.Context) error {
	if h.p.NIC == nil {
		return nil
	}
	for s := range h.seg {
		if h.seg[s].mem == nil {
			continue
		}
		mr, _, err := h.seg[s].mem.RegisterMR(h.p.NIC.PD, access)
		if err != nil {
			return fmt.Errorf("%s segment: %w", wire.Segment(s), err)
		}
		h.undo.Push(mr.Close)
		h.seg[s].mr = mr
	}
	return nil
}

func (h *Heap) exchangeKeys(ctx context.Context) error {
	var mine []byte
	for s := range h.seg {
		var key uint32
		if mr := h.seg[s].mr; mr != nil {
			key = mr.RKey
		}
		mine = binary.BigEndian.AppendUint32(mine, key)
	}
	all, err := h.x.AllGather(ctx, mine)
	if err != nil {
		return err
	}
	for pe, blob := range all {
		if len(blob) != len(mine) {
			return fmt.Errorf("PE %d sent %d bytes of keys, want %d", pe, len(blob), len(mine))
		}
		for s := range h.seg {
			h.peers[pe].rkey[s] = binary.BigEndian.Uint32(blob[4*s:])
		}
	}
	return nil
}
