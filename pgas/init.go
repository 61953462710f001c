package pgas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/heap"
	"github.com/pgas-go/pgas/ibgda"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/platform"
	"github.com/pgas-go/pgas/internal/wire"
)

// Init is collective: every process of the job calls it and becomes a PE. It finds the other PEs, opens the platform,
// reserves the symmetric heap, and connects to every PE. It returns when all PEs are ready, or with the first cause on
// all PEs; after an error nothing is left of it and it may be called again.
//
// ctx bounds Init only; without a deadline Options.BootTimeout does.
func Init(ctx context.Context, o Options) (*World, error) {
	cfg, err := o.config()
	if err != nil {
		o.refuse(ctx, err)
		return nil, err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cfg.BootTimeout)
		defer cancel()
	}
	w := &World{cfg: cfg, log: o.logger(cfg), done: make(chan struct{}), closing: make(chan struct{})}
	w.state.Store(stateOpen)
	for _, warning := range cfg.Warnings {
		w.log.Warn(warning)
	}
	if w.x, err = connect(ctx, &o, cfg, w.log); err != nil {
		return nil, fmt.Errorf("init: %w", err)
	}
	w.undo.Push(w.x.Close)
	w.pe, w.npes = w.x.Rank(), w.x.Size()
	if err = w.build(ctx); err != nil {
		err = w.firstCause(err)
		w.x.Abort(err)
		close(w.closing)
		w.watcher.Wait()
		return nil, w.undo.Fail(fmt.Errorf("init: %w", err))
	}
	w.log.Info("pgas is ready", zap.Int("pe", w.pe), zap.Int("npes", w.npes), zap.String("platform", w.plat.Name()),
		zap.String("gpu", w.plat.DeviceName))
	return w, nil
}

// firstCause prefers what ended the job over its echo in this PE's step.
func (w *World) firstCause(err error) error {
	if cause := w.x.Cause(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (seen here as: %v)", cause, err)
	}
	return err
}

// build makes everything in order; Undo takes it down again.
func (w *World) build(ctx context.Context) error {
	if err := w.agree(ctx); err != nil {
		return err
	}
	hosts, err := bootstrap.Locate(ctx, w.x)
	if err != nil {
		return err
	}
	if err := w.openPlatform(ctx, hosts); err != nil {
		return err
	}
	sizes := [wire.Segments]uint64{uint64(w.cfg.HeapSize), uint64(w.cfg.HostHeapSize), uint64(w.cfg.SignalHeapSize)}
	w.heap, err = heap.Open(ctx, w.plat, w.x, heap.Config{Sizes: sizes, LocalPEs: len(hosts.Local)})
	if err != nil {
		return err
	}
	w.undo.Push(w.heap.Close)
	bells, err := w.shareBells(ctx)
	if err != nil {
		return err
	}
	if err := w.choosePaths(bells); err != nil {
		return err
	}
	if err := w.openNet(ctx); err != nil {
		return err
	}
	if err := w.publish(); err != nil {
		return err
	}
	if err := w.openEngine(); err != nil {
		return err
	}
	if err := w.barrier.open(ctx, w); err != nil {
		return err
	}
	w.undo.Push(w.modules.closeAll)
	w.watch()
	return w.x.Barrier(ctx)
}

// settings are what must be equal on all PEs.
type settings struct {
	Layout   string
	Platform string
	Path     string
	Contexts int
	Depth    int
	Timeout  string
}

// agree is collective: PEs with other settings would hang in each other's calls, so they are refused here.
func (w *World) agree(ctx context.Context) error {
	mine := settings{Layout: fmt.Sprintf("%#x", wire.LayoutHash), Platform: string(w.cfg.Platform), Path: string(w.cfg.Path),
		Contexts: w.cfg.Contexts, Depth: w.cfg.QueueDepth, Timeout: w.cfg.Timeout.String()}
	all, err := gather(ctx, w.x, mine)
	if err != nil {
		return err
	}
	for _, s := range []struct {
		what string
		of   func(settings) string
	}{
		{"version (layout hash)", func(s settings) string { return s.Layout }},
		{"PGAS_PLATFORM", func(s settings) string { return s.Platform }},
		{"PGAS_PATH", func(s settings) string { return s.Path }},
		{"PGAS_CONTEXTS", func(s settings) string { return fmt.Sprint(s.Contexts) }},
		{"PGAS_QUEUE_DEPTH", func(s settings) string { return fmt.Sprint(s.Depth) }},
		{"PGAS_TIMEOUT", func(s settings) string { return s.Timeout }},
	} {
		values := make([]string, len(all))
		for pe := range all {
			values[pe] = s.of(all[pe])
		}
		if err := errs.CheckEqual(s.what, values); err != nil {
			return err
		}
	}
	return nil
}

// gather is AllGather of one JSON value per PE.
func gather[T any](ctx context.Context, x bootstrap.Exchanger, mine T) ([]T, error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	blobs, err := x.AllGather(ctx, text)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(blobs))
	for pe, blob := range blobs {
		if err := json.Unmarshal(blob, &all[pe]); err != nil {
			return nil, fmt.Errorf("PE %d: %w", pe, err)
		}
	}
	return all, nil
}

func (w *World) openPlatform(ctx context.Context, hosts *bootstrap.Hosts) error {
	var err error
	w.plat, err = platform.Open(ctx, platform.Options{Platform: w.cfg.Platform, LocalRank: hosts.LocalRank, LocalPEs: len(hosts.Local),
		SoftGPU: w.cfg.SoftGPU, SoftHCA: w.cfg.SoftHCA, NIC: ibgda.NeedsNIC(w.cfg.Path, w.npes, len(hosts.Local)), Log: w.log})
	if err != nil {
		return err
	}
	w.undo.Push(w.plat.Close)
	all, err := gather(ctx, w.x, w.plat.Name())
	if err != nil {
		return err
	}
	return errs.CheckEqual("platform", all)
}

// choosePaths fixes how every PE is reached.
func (w *World) choosePaths(bells []uintptr) error {
	mapped := make([]bool, w.npes)
	for pe := range mapped {
		mapped[pe] = w.heap.Mapped(pe)
	}
	noNIC := w.plat.NICError
	if w.plat.NIC == nil && noNIC == nil {
		noNIC = &errs.UnsupportedError{Feature: "ibgda", Need: "a NIC", Have: "none was opened"}
	}
	paths, reason, err := ibgda.Choose(w.cfg.Path, mapped, noNIC)
	if err != nil {
		return err
	}
	w.log.Info("paths", zap.Int("pe", w.pe), zap.String("choice", reason))
	w.peers = make([]peerView, w.npes)
	for pe := range w.peers {
		v := &w.peers[pe]
		v.path, v.bell = paths[pe], bells[pe]
		w.mixed = w.mixed || paths[pe] != paths[0]
		reachable := true
		for s := range wire.Segment(wire.Segments) {
			v.addr[s], v.base[s] = w.heap.Peer(pe, s), w.heap.Host(pe, s)
			reachable = reachable && (v.base[s] != 0 || w.heap.Size(s) == 0)
		}
		v.direct = v.path == wire.PathP2p && reachable
	}
	for s := range wire.Segment(wire.Segments) {
		w.base[s] = w.heap.Base(s)
	}
	return nil
}

// usesNet says whether any PE is reached through a NIC. It is the same on all PEs: either all are on one host or none
// reaches all by p2p.
func (w *World) usesNet() bool {
	for pe := range w.peers {
		if w.peers[pe].path == wire.PathIbgda {
			return true
		}
	}
	return false
}

func (w *World) openNet(ctx context.Context) error {
	if !w.usesNet() {
		return nil
	}
	net, err := ibgda.Open(ctx, w.plat, w.x, ibgda.Config{Contexts: w.cfg.Contexts, Depth: w.cfg.QueueDepth,
		Timeout: w.cfg.Timeout, Log: w.log})
	if err != nil {
		return err
	}
	w.undo.Push(net.Close)
	w.net = net
	w.log.Info("queues", zap.Int("pe", w.pe), zap.String("ibgda", net.Describe()))
	return nil
}
