package main

import (
	"context"
	"embed"
	"fmt"

	"github.com/pgas-go/pgas/pgas"
)

//go:embed perf.cu
var kernels embed.FS

// scopeNames are the groups of the message rate, numbered as in perf.cu.
var scopeNames = []string{"thread", "warp", "block"}

// putThreads are the sizes of the block that puts a large range.
var putThreads = []int{1, 32}

// Operations in one batch.
const (
	pingBatch     = 32
	exchangeBatch = 32
	smallBatch    = 16
	largeBatch    = 4
	launchBatch   = 4
	rateThreads   = 64
)

// Batches in the full run.
const (
	pingBatches     = 1000
	exchangeBatches = 200
	smallBatches    = 200
	largeBatches    = 20
	rateBatches     = 200
	launchBatches   = 100
	hostBatches     = 300
)

// A rig is one PE's side of the device figures.
type rig struct {
	w         *pgas.World
	s         settings
	m         *pgas.Module
	box       pgas.Slice[uint64]
	src, dst  pgas.Slice[byte]
	ns        pgas.Slice[uint64]
	failed    pgas.Slice[uint32]
	flags     pgas.Signals
	pings     uint64 // rounds so far, which the flags hold
	exchanges uint64
	turns     uint64
}

// device measures kernels. With two PEs all figures are taken, with more the neighbour exchange.
func device(ctx context.Context, w *pgas.World, s settings) error {
	b, err := newRig(ctx, w, s)
	if err != nil {
		return err
	}
	for range s.repeats {
		if w.NPEs() == 2 {
			if err := b.pair(ctx); err != nil {
				return err
			}
		}
		if err := b.together(ctx, "exchange", exchangeBatches, exchangeBatch, 1, &b.exchanges); err != nil {
			return err
		}
	}
	return nil
}

func newRig(ctx context.Context, w *pgas.World, s settings) (*rig, error) {
	b := &rig{w: w, s: s}
	var err error
	if b.m, err = w.Load(ctx, kernels, "perf.cu"); err != nil {
		return nil, err
	}
	if b.box, err = pgas.Alloc[uint64](w, 8); err != nil {
		return nil, err
	}
	if b.src, err = pgas.Alloc[byte](w, large); err != nil {
		return nil, err
	}
	if b.dst, err = pgas.Alloc[byte](w, large); err != nil {
		return nil, err
	}
	if b.ns, err = pgas.Alloc[uint64](w, pingBatches); err != nil {
		return nil, err
	}
	if b.failed, err = pgas.Alloc[uint32](w, 1); err != nil {
		return nil, err
	}
	if b.flags, err = pgas.AllocSignals(w, 3); err != nil {
		return nil, err
	}
	// Memory that was never written is one shared page of zeros: fast to read, and not what programs copy.
	full := make([]byte, large)
	for i := range full {
		full[i] = byte(i * 7)
	}
	if err := pgas.CopyIn(b.src, full); err != nil {
		return nil, err
	}
	return b, pgas.CopyIn(b.dst, full)
}

// pair takes the figures of two PEs.
func (b *rig) pair(ctx context.Context) error {
	if err := b.together(ctx, "ping_pong", pingBatches, pingBatch, 2, &b.pings); err != nil {
		return err
	}
	if err := b.w.Barrier(ctx); err != nil {
		return err
	}
	// PE 1 is a passive target, as in the host figures: one that slept in a wait would be woken by every put.
	b.turns++
	done := b.flags.At(2)
	if b.w.PE() != 0 {
		return lookNowAndThen(b.w, done, b.turns)
	}
	if err := b.alone(ctx); err != nil {
		return err
	}
	return pgas.Signal(ctx, done, pgas.Set(b.turns), 1)
}

// alone takes the figures in which only PE 0 is at work.
func (b *rig) alone(ctx context.Context) error {
	if err := b.launches(ctx); err != nil {
		return err
	}
	for _, threads := range putThreads {
		if err := b.put(ctx, "put_64K", threads, small, smallBatch, b.s.batches(smallBatches)); err != nil {
			return err
		}
		if err := b.put(ctx, "put_4M", threads, large, largeBatch, b.s.batches(largeBatches)); err != nil {
			return err
		}
	}
	for scope := range scopeNames {
		if err := b.rate(ctx, uint32(scope)); err != nil {
			return err
		}
	}
	return nil
}

// launches times an empty kernel on PE 0.
func (b *rig) launches(ctx context.Context) error {
	k, err := b.m.Kernel("nothing")
	if err != nil {
		return err
	}
	ns, err := measure(b.s.batches(launchBatches), launchBatch, func() error {
		for range launchBatch {
			if err := k.Launch(ctx, pgas.Grid{Blocks: 1, Threads: 1}); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		report("launch", ns)
	}
	return err
}

// together runs a kernel in which all PEs take part. ways is 2 when an operation goes there and back.
func (b *rig) together(ctx context.Context, kernel string, full, batch, ways int, rounds *uint64) error {
	if err := b.w.Barrier(ctx); err != nil {
		return err
	}
	batches := b.s.batches(full)
	flag := b.flags.At(ways - 1)
	err := b.launch(ctx, kernel, 1, b.w.Device(), b.box, flag, *rounds, uint32(batches), uint32(batch), b.ns, b.failed)
	if err != nil {
		return err
	}
	*rounds += uint64((batches + 1) * batch)
	name := kernel
	if ways == 2 {
		name = "latency"
	}
	return b.report(name, batches, batch*ways)
}

// put measures bandwidth from PE 0 to PE 1, by a block of so many threads.
func (b *rig) put(ctx context.Context, name string, threads, bytes, batch, batches int) error {
	err := b.launch(ctx, "bandwidth", threads, b.w.Device(), b.dst, b.src, uint64(bytes), uint32(batches), uint32(batch), b.ns, b.failed)
	if err != nil {
		return err
	}
	return b.report(fmt.Sprintf("%s_%d", name, threads), batches, batch)
}

// rate measures messages of 8 bytes from PE 0 to PE 1.
func (b *rig) rate(ctx context.Context, scope uint32) error {
	groups := []int{rateThreads, rateThreads / 32, 1}[scope]
	size := []int{512, 64, 64}[scope] // messages in a batch: short enough to be seldom preempted
	batches := b.s.batches(rateBatches)
	err := b.launch(ctx, "message_rate", rateThreads, b.w.Device(), scope, b.dst, b.src, uint32(batches), uint32(size/groups), b.ns, b.failed)
	if err != nil {
		return err
	}
	return b.report("rate_"+scopeNames[scope], batches, size)
}

// launch runs a kernel of one block and checks the status that it left.
func (b *rig) launch(ctx context.Context, kernel string, threads int, args ...any) error {
	k, err := b.m.Kernel(kernel)
	if err != nil {
		return err
	}
	if err := k.Launch(ctx, pgas.Grid{Blocks: 1, Threads: threads}, args...); err != nil {
		return err
	}
	var failed [1]uint32
	if err := pgas.CopyOut(failed[:], b.failed); err != nil {
		return err
	}
	if failed[0] != 0 {
		return fmt.Errorf("%s: a pgas call returned status %d", kernel, failed[0])
	}
	return nil
}

// report prints what the kernel on PE 0 has timed: whole batches.
func (b *rig) report(name string, batches, size int) error {
	if b.w.PE() != 0 {
		return nil
	}
	raw := make([]uint64, batches)
	if err := pgas.CopyOut(raw, b.ns); err != nil {
		return err
	}
	ns := make([]float64, batches)
	for i, t := range raw {
		ns[i] = float64(t) / float64(size)
	}
	report(name, ns)
	return nil
}
