package ibgda

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"go.uber.org/zap"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/platform"
	"github.com/pgas-go/pgas/internal/wire"
)

// Config of Open.
type Config struct {
	Contexts int // for kernels; the host gets one more
	Depth    int // basic blocks per send queue, a power of two
	Timeout  time.Duration
	Log      *zap.Logger // may be nil
}

// Net is this PE's queues: one per (context, PE) for kernels and one per PE for the host.
type Net struct {
	p    *platform.Platform
	nic  *platform.NIC
	x    bootstrap.Exchanger
	cfg  Config
	uars *uarSource

	kernel, host *group
	undo         platform.Undo
}

// Open is collective. It creates and connects every queue. The platform must have a NIC. On an error nothing is left;
// the caller must then abort the job, because other PEs may be waiting in here.
func Open(ctx context.Context, p *platform.Platform, x bootstrap.Exchanger, cfg Config) (*Net, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	n := &Net{p: p, nic: p.NIC, x: x, cfg: cfg}
	if err := n.check(); err != nil {
		return nil, err
	}
	n.uars = newUARSource(p)
	n.undo.Push(n.uars.close)
	for _, step := range []func(context.Context) error{n.createGroups, n.connect, n.describe} {
		if err := step(ctx); err != nil {
			return nil, n.undo.Fail(fmt.Errorf("ibgda: %w", err))
		}
	}
	if n.kernel.onHost != nil {
		cfg.Log.Warn("send queues are in host memory", zap.Error(n.kernel.onHost))
	}
	return n, nil
}

// check refuses what the device cannot do before anything is created.
func (n *Net) check() error {
	d := n.cfg.Depth
	if d < wire.MinQueueDepth || d > wire.MaxQueueDepth || d&(d-1) != 0 {
		return errs.Arg("ibgda", "queue depth", d, fmt.Sprintf("a power of two in %d..%d", wire.MinQueueDepth, wire.MaxQueueDepth))
	}
	if n.cfg.Contexts < 1 {
		return errs.Arg("ibgda", "contexts", n.cfg.Contexts, "at least 1")
	}
	missing := n.nic.Caps.Check(n.nic.Name)
	if err := n.nic.Caps.CheckDepth(d); err != nil {
		missing = append(missing, err)
	}
	for _, limit := range []struct {
		what string
		log  uint32
	}{{"queue pairs", n.nic.Caps.LogMaxQP}, {"completion queues", n.nic.Caps.LogMaxCQ}} {
		need := (n.cfg.Contexts + 1) * n.x.Size()
		if uint64(need) > uint64(1)<<limit.log {
			missing = append(missing, &errs.UnsupportedError{Feature: "ibgda on " + n.nic.Name,
				Need: fmt.Sprintf("%d %s ((%d contexts + 1) x %d PEs)", need, limit.what, n.cfg.Contexts, n.x.Size()),
				Have: fmt.Sprint(uint64(1) << limit.log), Fix: "lower PGAS_CONTEXTS"})
		}
	}
	return errors.Join(missing...)
}

func (n *Net) createGroups(context.Context) error {
	eqn, err := n.nic.Ctx.QueryEQN(0)
	if err != nil {
		return err
	}
	if n.kernel, err = n.makeGroup(n.cfg.Contexts, true, eqn, 0); err != nil {
		return err
	}
	// The CPU cannot reach real GPU memory; the software GPU's it can, and that keeps the NIC's path the same.
	n.host, err = n.makeGroup(1, n.p.Soft, eqn, uint32(n.kernel.lay.count))
	return err
}

func (n *Net) makeGroup(contexts int, gpu bool, eqn, firstIndex uint32) (*group, error) {
	g, err := newGroup(n.p, contexts, n.x.Size(), n.cfg.Depth, gpu)
	if err != nil {
		return nil, err
	}
	n.undo.Push(g.undo.Run)
	byGPU := gpu && firstIndex == 0
	for range contexts {
		db, err := n.uars.get(byGPU)
		if err != nil {
			return nil, err
		}
		g.uars = append(g.uars, db)
	}
	return g, g.create(eqn, firstIndex)
}

func (n *Net) describe(context.Context) error {
	maxMsg := uint32(1) << min(30, n.nic.Caps.LogMaxMsg)
	if m := n.nic.Port.MaxMsg; m != 0 {
		// Kernels split with shifts, so it is a power of two.
		maxMsg = min(maxMsg, 1<<(bits.Len32(m)-1))
	}
	return errors.Join(n.kernel.describe(n.p, maxMsg), n.host.describe(n.p, maxMsg))
}

// KernelQueues is the address, for kernels, of wire.Queue[contexts][PEs].
func (n *Net) KernelQueues() uint64 { return n.kernel.table.Addr }

// HostQueues is the address, for CPUs of this process, of wire.Queue[1][PEs].
func (n *Net) HostQueues() uintptr { return n.host.table.Host }

// RingsInGPU reports whether the kernels' rings are in GPU memory.
func (n *Net) RingsInGPU() bool { return n.kernel.onHost == nil }

// Describe says in one line what the queues are.
func (n *Net) Describe() string {
	where := "GPU memory"
	if !n.RingsInGPU() {
		where = "host memory"
	}
	return fmt.Sprintf("%s port %d, %d contexts, depth %d, rings in %s by %s", n.nic.Name, n.nic.Port.Number, n.cfg.Contexts,
		n.cfg.Depth, where, n.kernel.how)
}

// Close stops and destroys every queue and frees its memory, in the reverse order of creation. No kernel and no engine
// may be using them.
func (n *Net) Close() error { return n.undo.Run() }
