package ibgda

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"syscall"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/leak"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/platform"
	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/wire"
)

// line is the stride of what different agents write: a cache line.
const line = 64

// queueBytes and sinkBytes are what one queue takes in the table and in the sink.
const (
	queueBytes = 256
	sinkBytes  = wire.SinkSlots * 8
)

// layout says where the parts of count queues lie in their umem.
type layout struct {
	count, depth uint64
}

func (l layout) sq(i uint64) uint64    { return i * l.depth * prm.BbBytes }
func (l layout) cqe(i uint64) uint64   { return l.sq(l.count) + i*line }
func (l layout) qpDbr(i uint64) uint64 { return l.cqe(l.count) + i*line }
func (l layout) cqDbr(i uint64) uint64 { return l.qpDbr(l.count) + i*line }
func (l layout) bytes() uint64         { return l.cqDbr(l.count) }

// endpoint is one end of a connection.
type endpoint struct {
	qp, cq *mlx5.Obj
	qpn    uint32
	cqn    uint32
	psn    uint32 // first packet sequence number that this end sends
}

// group is a set of contexts whose queues lie in the same memory: those of the kernels, or that of the host.
type group struct {
	nic      *platform.NIC
	contexts int
	pes      int
	lay      layout

	rings  *platform.Memory // SQs, CQEs, doorbell records: the umem
	sink   *platform.Memory // landing slots of atomics' old values
	table  *platform.Memory // wire.Queue[contexts][pes]
	umem   *mlx5.Umem
	how    string // how rings were registered
	onHost error  // why the rings are in host memory although GPU memory was wanted
	sinkMR *mlx5.MR
	uars   []doorbell // by context
	ends   []endpoint // [context][pe]
	undo   platform.Undo
}

// doorbell is a UAR register and how the poster addresses it.
type doorbell struct {
	page uint32
	addr uint64
}

// newGroup allocates and registers memory for contexts x pes queues. gpu asks for GPU memory.
func newGroup(p *platform.Platform, contexts, pes, depth int, gpu bool) (*group, error) {
	n := uint64(contexts) * uint64(pes)
	g := &group{nic: p.NIC, contexts: contexts, pes: pes, lay: layout{n, uint64(depth)}, ends: make([]endpoint, n)}
	alloc := p.NewHostMemory
	if gpu {
		alloc = func(bytes uint64) (*platform.Memory, error) { return p.NewGPUMemory(bytes, false) }
	}
	if err := g.makeRings(p, alloc, gpu); err != nil {
		return nil, g.undo.Fail(err)
	}
	var err error
	if g.sink, err = g.own(alloc(n * sinkBytes)); err != nil {
		return nil, g.undo.Fail(err)
	}
	if g.sinkMR, _, err = g.sink.RegisterMR(g.nic.PD, mlx5.AccessLocalWrite); err != nil {
		return nil, g.undo.Fail(err)
	}
	g.undo.Push(g.sinkMR.Close)
	if g.table, err = g.own(alloc(n * queueBytes)); err != nil {
		return nil, g.undo.Fail(err)
	}
	return g, nil
}

func (g *group) own(m *platform.Memory, err error) (*platform.Memory, error) {
	if err == nil {
		g.undo.Push(m.Close)
	}
	return m, err
}

// makeRings allocates the rings and makes them a umem. Where the NIC cannot be given GPU memory they go to host memory.
func (g *group) makeRings(p *platform.Platform, alloc func(uint64) (*platform.Memory, error), gpu bool) error {
	rings, err := alloc(g.lay.bytes())
	if err != nil {
		return err
	}
	umem, how, err := rings.RegisterUmem(g.nic.Ctx)
	if err != nil {
		_ = rings.Close()
		if !gpu {
			return err
		}
		g.onHost = err
		return g.makeRings(p, p.NewHostMemory, false)
	}
	g.rings, g.umem, g.how = rings, umem, how
	g.undo.Push(rings.Close)
	g.undo.Push(umem.Close)
	// "Nothing completed yet": opcode invalid in every CQE. The rest of the memory is zero already.
	return p.CUDA.MemsetD8(cuda.DevicePtr(rings.Addr+g.lay.cqe(0)), 0xff, g.lay.count*line)
}

// create makes the CQ and the QP of every queue. uars has one doorbell per context.
func (g *group) create(eqn uint32, firstIndex uint32) error {
	for i := range g.ends {
		if err := g.createEnd(uint64(i), eqn, firstIndex+uint32(i)); err != nil {
			return fmt.Errorf("context %d, PE %d: %w", i/g.pes, i%g.pes, err)
		}
	}
	return nil
}

func (g *group) createEnd(i uint64, eqn, userIndex uint32) error {
	e := &g.ends[i]
	page := g.uars[int(i)/g.pes].page
	in, err := createCQ(ring{umem: g.umem.ID, offset: g.lay.cqe(i), dbrUmem: g.umem.ID, dbr: g.lay.cqDbr(i), uarPage: page}, eqn)
	if err != nil {
		return err
	}
	out := prm.NewMailbox(prm.CreateCqOutSize)
	if e.cq, err = g.nic.Ctx.CreateObj(in, out); err != nil {
		return g.limit("completion queues", i, err)
	}
	g.undo.Push(e.cq.Destroy)
	e.cqn = uint32(out.Get(prm.CreateCqOut.Cqn))
	where := ring{umem: g.umem.ID, offset: g.lay.sq(i), dbrUmem: g.umem.ID, dbr: g.lay.qpDbr(i), uarPage: page,
		log: uint32(bits.Len64(g.lay.depth) - 1)}
	if in, err = createQP(where, g.nic.PD.Number, e.cqn, userIndex, g.nic.Caps.TsFormat); err != nil {
		return err
	}
	out = prm.NewMailbox(prm.CreateQpOutSize)
	if e.qp, err = g.nic.Ctx.CreateObj(in, out); err != nil {
		return g.limit("queue pairs", i, err)
	}
	e.qpn = uint32(out.Get(prm.CreateQpOut.Qpn))
	e.psn = rand.Uint32N(1 << 24)
	token := leak.Track("qp", fmt.Sprintf("%#x (context %d, PE %d)", e.qpn, int(i)/g.pes, int(i)%g.pes))
	g.undo.Push(func() error { token.Release(); return e.destroyQP() })
	return nil
}

// destroyQP stops the queue pair first, so that the NIC no longer touches the ring when the memory goes.
func (e *endpoint) destroyQP() error {
	in, err := toErr(e.qpn)
	if err == nil {
		err = e.qp.Modify(in, prm.NewMailbox(prm.CmdOutSize))
	}
	return errors.Join(err, e.qp.Destroy())
}

// limit turns a refusal for lack of room into an error that says what was wanted.
func (g *group) limit(what string, have uint64, err error) error {
	var cmd *mlx5.CommandError
	full := errors.Is(err, syscall.ENOMEM)
	if errors.As(err, &cmd) {
		full = full || prm.CmdStatus(cmd.Status) == prm.CmdStatusExceedLim || prm.CmdStatus(cmd.Status) == prm.CmdStatusNoResources
	}
	if !full {
		return err
	}
	return &errs.UnsupportedError{
		Feature: "ibgda on " + g.nic.Name,
		Need:    fmt.Sprintf("%d %s (%d contexts x %d PEs, and those of the host)", g.lay.count, what, g.contexts, g.pes),
		Have:    fmt.Sprintf("%d, then %v", have, err),
		Fix:     "lower PGAS_CONTEXTS, or run fewer PEs per NIC",
	}
}

// describe writes the wire.Queue table. maxMsg is in bytes.
func (g *group) describe(p *platform.Platform, maxMsg uint32) error {
	queues := make([]wire.Queue, len(g.ends))
	for i := range queues {
		n := uint64(i)
		q := &queues[i]
		q.Sq, q.Cqe, q.Dbr = g.rings.Addr+g.lay.sq(n), g.rings.Addr+g.lay.cqe(n), g.rings.Addr+g.lay.qpDbr(n)
		q.Db = g.uars[i/g.pes].addr
		q.Qpn, q.Depth = g.ends[i].qpn, uint32(g.lay.depth)
		q.Sink, q.SinkMap = n*sinkBytes, g.sink.Addr+n*sinkBytes
		q.SinkLkey, q.MaxMsg = wire.Big(g.sinkMR.LKey), maxMsg
	}
	return p.CUDA.MemcpyHtoD(cuda.DevicePtr(g.table.Addr), bytesOf(queues))
}
