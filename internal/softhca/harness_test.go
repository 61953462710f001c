package softhca_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/softhca"
)

// The harness plays the driver: it builds mailboxes with internal/prm, posts raw WQE bytes and reads raw CQE bytes.

const allAccess = mlx5.AccessLocalWrite | mlx5.AccessRemoteWrite | mlx5.AccessRemoteRead | mlx5.AccessRemoteAtomic

var lib = mlx5.FromTable(softhca.Table())

func configure(t testing.TB, spec string) {
	t.Helper()
	require.NoError(t, softhca.Configure(spec))
}

// memory is a shared memfd, what GPU memory is on the software platform.
type memory struct {
	fd int
	b  []byte
}

func newMemory(t testing.TB, size int) *memory {
	t.Helper()
	fd, err := unix.MemfdCreate("softhca-test", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(fd, int64(size)))
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	m := &memory{fd: fd, b: b}
	t.Cleanup(func() {
		_ = unix.Munmap(m.b)
		_ = unix.Close(m.fd)
	})
	return m
}

func (m *memory) word32(off int) *uint32 { return (*uint32)(unsafe.Pointer(&m.b[off])) }
func (m *memory) word64(off int) *uint64 { return (*uint64)(unsafe.Pointer(&m.b[off])) }

// device is one opened context with a PD and a UAR.
type device struct {
	t   testing.TB
	ctx *mlx5.Context
	pd  *mlx5.PD
	uar *mlx5.UAR
}

func openDevice(t testing.TB, name string) *device {
	t.Helper()
	ctx, err := lib.Open(name)
	require.NoError(t, err)
	d := &device{t: t, ctx: ctx}
	t.Cleanup(func() { require.NoError(t, ctx.Close()) })
	d.pd, err = ctx.AllocPD()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.pd.Close()) })
	d.uar, err = ctx.AllocUAR(mlx5.UARNCDedicated)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.uar.Close()) })
	return d
}

func (d *device) umem(m *memory) *mlx5.Umem {
	d.t.Helper()
	u, err := d.ctx.RegUmemEx(mlx5.UmemIn{Size: uint64(len(m.b)), Access: mlx5.AccessLocalWrite, PageSizes: ^uint64(4095),
		Dmabuf: true, DmabufFD: m.fd})
	require.NoError(d.t, err)
	d.t.Cleanup(func() { require.NoError(d.t, u.Close()) })
	return u
}

// mr registers all of m, zero-based.
func (d *device) mr(m *memory, access uint32) *mlx5.MR {
	d.t.Helper()
	mr, err := d.pd.RegDmabufMR(0, uint64(len(m.b)), 0, m.fd, access)
	require.NoError(d.t, err)
	d.t.Cleanup(func() { require.NoError(d.t, mr.Close()) })
	return mr
}

type queueConfig struct {
	logSQ, logCQ    uint64
	collapsed       bool
	overrunIgnore   bool
	logRQ           int // 0: no receive queue
	retry, rnrRetry uint64
	ackTimeout      uint64
	logMsg          uint64
	atomicMode      uint64
	noRead          bool
	noWrite         bool
	noAtomic        bool
	logSRA          uint64
}

func defaults() queueConfig {
	return queueConfig{logSQ: 6, logCQ: 6, overrunIgnore: true, retry: 7, rnrRetry: 7, ackTimeout: 14, logMsg: 30,
		atomicMode: uint64(prm.AtomicModeUpTo8b), logSRA: 4}
}

const (
	sendCQAt  = 0
	recvCQAt  = 0x20000
	sqRecord  = 0x40000
	cqRecord  = 0x40040
	rcqRecord = 0x40080
	ringAt    = 0x50000
	queueSize = 0x50000 + 64<<15
	rqStride  = 64
)

// queue is an RC queue pair with its memory.
type queue struct {
	d        *device
	cfg      queueConfig
	mem      *memory
	cq, rcq  *mlx5.Obj
	qp       *mlx5.Obj
	qpn      uint32
	sqAt     int
	next     uint16
	seen     uint32 // CQEs consumed
	recvSeen uint32
	recvNext uint16
	psn      uint32
}

func (d *device) createCQ(umem *mlx5.Umem, at, record uint64, logSize uint64, cfg queueConfig) (*mlx5.Obj, uint32, error) {
	eqn, err := d.ctx.QueryEQN(0)
	require.NoError(d.t, err)
	c := prm.CreateCqIn.Cqc
	in, err := prm.NewCommand(prm.CmdCreateCq, prm.CreateCqInSize).
		Set(c.Cc, b2u(cfg.collapsed)).Set(c.Oi, b2u(cfg.overrunIgnore)).Set(c.DbrUmemValid, 1).
		Set(c.DbrUmemId, uint64(umem.ID)).Set(c.DbrAddr, record).Set(c.LogCqSize, logSize).
		Set(c.UarPage, uint64(d.uar.PageID)).Set(c.CEqn, uint64(eqn)).
		Set(prm.CreateCqIn.CqUmemOffset, at).Set(prm.CreateCqIn.CqUmemId, uint64(umem.ID)).
		Set(prm.CreateCqIn.CqUmemValid, 1).Bytes()
	require.NoError(d.t, err)
	out := make([]byte, prm.CreateCqOutSize)
	obj, err := d.ctx.CreateObj(in, out)
	return obj, uint32(prm.Mailbox(out).Get(prm.CreateCqOut.Cqn)), err
}

func (d *device) createQP(umem *mlx5.Umem, cqn, rcqn uint32, cfg queueConfig) (*mlx5.Obj, uint32, error) {
	q := prm.CreateQpIn.Qpc
	cmd := prm.NewCommand(prm.CmdCreateQp, prm.CreateQpInSize).
		Set(q.PmState, uint64(prm.PmStateMigrated)).Set(q.Pd, uint64(d.pd.Number)).Set(q.UarPage, uint64(d.uar.PageID)).
		Set(q.UserIndex, 5).Set(q.CqnSnd, uint64(cqn)).Set(q.LogSqSize, cfg.logSQ).
		Set(q.RqType, uint64(prm.RqTypeNone)).Set(q.DbrUmemValid, 1).Set(q.DbrUmemId, uint64(umem.ID)).
		Set(q.DbrAddr, sqRecord).Set(prm.CreateQpIn.WqUmemOffset, ringAt).
		Set(prm.CreateQpIn.WqUmemId, uint64(umem.ID)).Set(prm.CreateQpIn.WqUmemValid, 1)
	if cfg.logRQ > 0 {
		cmd.Set(q.RqType, uint64(prm.RqTypeOwn)).Set(q.LogRqSize, uint64(cfg.logRQ)).Set(q.LogRqStride, 2).
			Set(q.CqnRcv, uint64(rcqn))
	}
	in, err := cmd.Bytes()
	require.NoError(d.t, err)
	out := make([]byte, prm.CreateQpOutSize)
	obj, err := d.ctx.CreateObj(in, out)
	return obj, uint32(prm.Mailbox(out).Get(prm.CreateQpOut.Qpn)), err
}

func newQueue(d *device, cfg queueConfig) *queue {
	d.t.Helper()
	q := &queue{d: d, cfg: cfg, mem: newMemory(d.t, queueSize), sqAt: ringAt, psn: rand.Uint32() & 0xffffff}
	for i := range q.mem.b[:sqRecord] {
		q.mem.b[i] = 0xff
	}
	umem := d.umem(q.mem)
	var cqn, rcqn uint32
	var err error
	q.cq, cqn, err = d.createCQ(umem, sendCQAt, cqRecord, cfg.logCQ, cfg)
	require.NoError(d.t, err)
	d.t.Cleanup(func() { require.NoError(d.t, q.cq.Destroy()) })
	if cfg.logRQ > 0 {
		rc := cfg
		rc.collapsed = false
		q.rcq, rcqn, err = d.createCQ(umem, recvCQAt, rcqRecord, 8, rc)
		require.NoError(d.t, err)
		d.t.Cleanup(func() { require.NoError(d.t, q.rcq.Destroy()) })
		q.sqAt += rqStride << cfg.logRQ
	}
	q.qp, q.qpn, err = d.createQP(umem, cqn, rcqn, cfg)
	require.NoError(d.t, err)
	d.t.Cleanup(func() { require.NoError(d.t, q.qp.Destroy()) })
	return q
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// remote is what the peer must know of a queue.
type remote struct {
	GID  [16]byte
	LID  uint16
	QPN  uint32
	PSN  uint32
	RKey uint32
}

func (q *queue) remote() remote {
	q.d.t.Helper()
	port, err := q.d.ctx.QueryPort(1)
	require.NoError(q.d.t, err)
	r := remote{QPN: q.qpn, PSN: q.psn, LID: port.LID}
	if port.LinkLayer == mlx5.LinkEthernet {
		gid, err := q.d.ctx.QueryGID(1, 3)
		require.NoError(q.d.t, err)
		r.GID = gid.Raw
	}
	return r
}

func (q *queue) modify(op prm.Cmd, build func(c *prm.Command, f prm.QpcLayout)) error {
	cmd := prm.NewCommand(op, prm.ModifyQpInSize).Set(prm.ModifyQpIn.Qpn, uint64(q.qpn))
	build(cmd, prm.ModifyQpIn.Qpc)
	in, err := cmd.Bytes()
	require.NoError(q.d.t, err)
	return q.qp.Modify(in, make([]byte, prm.ModifyQpOutSize))
}

func (q *queue) short(op prm.Cmd) error {
	in, err := prm.NewCommand(op, prm.Qp2errInSize).Set(prm.Qp2errIn.Qpn, uint64(q.qpn)).Bytes()
	require.NoError(q.d.t, err)
	return q.qp.Modify(in, make([]byte, 16))
}

func (q *queue) toInit() error {
	return q.modify(prm.CmdRst2initQp, func(c *prm.Command, f prm.QpcLayout) {
		c.Set(f.PmState, uint64(prm.PmStateMigrated)).Set(f.Rre, b2u(!q.cfg.noRead)).Set(f.Rwe, b2u(!q.cfg.noWrite)).
			Set(f.Rae, b2u(!q.cfg.noAtomic)).Set(f.AtomicMode, q.cfg.atomicMode).Set(f.PrimaryAddressPath.VhcaPortNum, 1)
	})
}

func (q *queue) toRTR(to remote) error {
	return q.modify(prm.CmdInit2rtrQp, func(c *prm.Command, f prm.QpcLayout) {
		c.Set(f.Mtu, 3).Set(f.LogMsgMax, q.cfg.logMsg).Set(f.RemoteQpn, uint64(to.QPN)).Set(f.NextRcvPsn, uint64(to.PSN)).
			Set(f.LogRraMax, 4).Set(f.MinRnrNak, 1)
		p := f.PrimaryAddressPath
		c.Set(p.VhcaPortNum, 1)
		if to.GID == ([16]byte{}) {
			c.Set(p.Rlid, uint64(to.LID))
			return
		}
		c.Set(p.SrcAddrIndex, 3).Set(p.HopLimit, 64).Set(p.UdpSport, 0xc123).SetBytes(p.RgidRip, to.GID[:])
	})
}

func (q *queue) toRTS() error {
	return q.modify(prm.CmdRtr2rtsQp, func(c *prm.Command, f prm.QpcLayout) {
		c.Set(f.NextSendPsn, uint64(q.psn)).Set(f.LogSraMax, q.cfg.logSRA).Set(f.RetryCount, q.cfg.retry).
			Set(f.RnrRetry, q.cfg.rnrRetry).Set(f.PrimaryAddressPath.AckTimeout, q.cfg.ackTimeout)
	})
}

func (q *queue) connect(to remote) {
	q.d.t.Helper()
	require.NoError(q.d.t, q.toInit())
	require.NoError(q.d.t, q.toRTR(to))
	require.NoError(q.d.t, q.toRTS())
}

func (q *queue) query() prm.Mailbox {
	q.d.t.Helper()
	in, err := prm.NewCommand(prm.CmdQueryQp, 16).Set(prm.QueryQpIn.Qpn, uint64(q.qpn)).Bytes()
	require.NoError(q.d.t, err)
	out := make([]byte, prm.QueryQpOutSize)
	require.NoError(q.d.t, q.qp.Query(in, out))
	return out
}

func (q *queue) state() prm.QpState { return prm.QpState(q.query().Get(prm.QueryQpOut.Qpc.State)) }

// pair is two connected queues of one process.
type pair struct {
	a, b         *queue
	src, dst     *memory
	lkey, rkey   uint32
	lkeyB, rkeyA uint32
}

const pairMemory = 1 << 20

func newPair(t testing.TB, cfg queueConfig) *pair {
	t.Helper()
	return newPairOn(t, cfg, "mlx5_0", "mlx5_0", allAccess)
}

func newPairOn(t testing.TB, cfg queueConfig, devA, devB string, access uint32) *pair {
	t.Helper()
	a, b := openDevice(t, devA), openDevice(t, devB)
	p := &pair{src: newMemory(t, pairMemory), dst: newMemory(t, pairMemory)}
	mrA, mrB := a.mr(p.src, access), b.mr(p.dst, access)
	p.lkey, p.rkeyA, p.rkey, p.lkeyB = mrA.LKey, mrA.RKey, mrB.RKey, mrB.LKey
	p.a, p.b = newQueue(a, cfg), newQueue(b, cfg)
	ra, rb := p.a.remote(), p.b.remote()
	p.a.connect(rb)
	p.b.connect(ra)
	for i := range p.src.b {
		p.src.b[i] = byte(i*7 + i>>8)
	}
	return p
}
