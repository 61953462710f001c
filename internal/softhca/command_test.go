package softhca_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/prm"
)

func requireStatus(t testing.TB, err error, want prm.CmdStatus) {
	t.Helper()
	var ce *mlx5.CommandError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, want, prm.CmdStatus(ce.Status), "%v", err)
	require.NotZero(t, ce.Syndrome)
	require.ErrorIs(t, err, syscall.EREMOTEIO)
}

func caps(t *testing.T, d *device, kind prm.CapType) prm.Mailbox {
	t.Helper()
	in, err := prm.NewCommand(prm.CmdQueryHcaCap, 16).Set(prm.QueryHcaCapIn.OpMod, uint64(kind)<<1|1).Bytes()
	require.NoError(t, err)
	out := prm.NewMailbox(prm.QueryHcaCapOutSize)
	require.NoError(t, d.ctx.GeneralCmd(in, out))
	return out
}

func TestCapabilities(t *testing.T) {
	configure(t, "log_max_qp_sz=7,log_max_msg=20")
	d := openDevice(t, "mlx5_0")
	g, general := caps(t, d, prm.CapTypeGeneral), prm.QueryHcaCapOut.General
	require.Equal(t, uint64(7), g.Get(general.LogMaxQpSz))
	require.Equal(t, uint64(20), g.Get(general.LogMaxMsg))
	require.Equal(t, uint64(1), g.Get(general.CqeVersion))
	require.Equal(t, uint64(1), g.Get(general.CqOi))
	a, atomics := caps(t, d, prm.CapTypeAtomic), prm.QueryHcaCapOut.Atomic
	require.Equal(t, uint64(0xf), a.Get(atomics.AtomicOperations))
	require.Equal(t, uint64(0xc), a.Get(atomics.AtomicSizeQp))
	require.Equal(t, uint64(1), a.Get(atomics.AtomicReq8bEndiannessMode))
	require.Equal(t, uint64(4), caps(t, d, prm.CapTypeRoce).Get(prm.QueryHcaCapOut.Roce.RoceAddressTableSize))
	caps(t, d, prm.CapTypeGeneral2)

	in, err := prm.NewCommand(prm.CmdQueryHcaCap, 16).Set(prm.QueryHcaCapIn.OpMod, uint64(prm.CapTypeOdp)<<1).Bytes()
	require.NoError(t, err)
	requireStatus(t, d.ctx.GeneralCmd(in, make([]byte, prm.QueryHcaCapOutSize)), prm.CmdStatusBadParam)
	requireStatus(t, d.ctx.GeneralCmd(in, make([]byte, 100)), prm.CmdStatusBadOutputLen)
	requireStatus(t, d.ctx.GeneralCmd(in[:12], make([]byte, prm.QueryHcaCapOutSize)), prm.CmdStatusBadInputLen)
	// What the kernel does not let through never reaches the firmware.
	for _, op := range []prm.Cmd{prm.CmdAllocUar, prm.CmdCreateCq, prm.CmdCreateUmem, 0xfff} {
		in, err = prm.NewCommand(op, 16).Bytes()
		require.NoError(t, err)
		require.ErrorIs(t, d.ctx.GeneralCmd(in, make([]byte, 16)), syscall.EINVAL)
	}
}

// Reserved bits, foreign numbers, limits, ranges and alignment of CREATE_CQ and CREATE_QP.
func TestCreateRefusals(t *testing.T) {
	configure(t, "log_max_qp_sz=7,log_max_cq_sz=8")
	d, other := openDevice(t, "mlx5_0"), openDevice(t, "mlx5_0")
	mem := newMemory(t, queueSize)
	umem := d.umem(mem)
	foreign := other.umem(mem)
	cq, cqn, err := d.createCQ(umem, 0, cqRecord, 6, defaults())
	require.NoError(t, err)
	defer func() { require.NoError(t, cq.Destroy()) }()
	qp, _, err := d.createQP(umem, cqn, 0, defaults())
	require.NoError(t, err)
	require.ErrorIs(t, cq.Destroy(), syscall.EBUSY, "a queue pair uses it")
	require.ErrorIs(t, umem.Close(), syscall.EBUSY)
	require.ErrorIs(t, d.pd.Close(), syscall.EBUSY)
	defer func() { require.NoError(t, qp.Destroy()) }()

	base := func() *prm.Command {
		c := prm.CreateCqIn.Cqc
		return prm.NewCommand(prm.CmdCreateCq, prm.CreateCqInSize).Set(c.DbrUmemId, uint64(umem.ID)).Set(c.DbrAddr, cqRecord).
			Set(c.UarPage, uint64(d.uar.PageID)).Set(c.CEqn, 7).Set(prm.CreateCqIn.CqUmemId, uint64(umem.ID))
	}
	c := prm.CreateCqIn.Cqc
	for name, x := range map[string]struct {
		edit func(*prm.Command)
		want prm.CmdStatus
	}{
		"reserved bit":     {func(m *prm.Command) { m.In[0x30] = 1 }, prm.CmdStatusBadParam},
		"read-only field":  {func(m *prm.Command) { m.Set(c.ProducerCounter, 1) }, prm.CmdStatusBadParam},
		"128-byte CQEs":    {func(m *prm.Command) { m.Set(c.CqeSz, 1) }, prm.CmdStatusBadParam},
		"event queue":      {func(m *prm.Command) { m.Set(c.CEqn, 8) }, prm.CmdStatusBadResource},
		"size":             {func(m *prm.Command) { m.Set(c.LogCqSize, 9) }, prm.CmdStatusExceedLim},
		"uar":              {func(m *prm.Command) { m.Set(c.UarPage, 1) }, prm.CmdStatusBadResource},
		"uar of another":   {func(m *prm.Command) { m.Set(c.UarPage, uint64(other.uar.PageID)) }, prm.CmdStatusBadResource},
		"umem":             {func(m *prm.Command) { m.Set(prm.CreateCqIn.CqUmemId, 9999) }, prm.CmdStatusBadResource},
		"umem of another":  {func(m *prm.Command) { m.Set(prm.CreateCqIn.CqUmemId, uint64(foreign.ID)) }, prm.CmdStatusBadResource},
		"ring outside":     {func(m *prm.Command) { m.Set(prm.CreateCqIn.CqUmemOffset, queueSize-32) }, prm.CmdStatusBadParam},
		"offset overflows": {func(m *prm.Command) { m.Set(prm.CreateCqIn.CqUmemOffset, ^uint64(63)) }, prm.CmdStatusBadParam},
		"ring misaligned":  {func(m *prm.Command) { m.Set(prm.CreateCqIn.CqUmemOffset, 32) }, prm.CmdStatusBadParam},
		"record outside":   {func(m *prm.Command) { m.Set(c.DbrAddr, queueSize-4) }, prm.CmdStatusBadParam},
		"record odd":       {func(m *prm.Command) { m.Set(c.DbrAddr, 4) }, prm.CmdStatusBadParam},
	} {
		t.Run(name, func(t *testing.T) {
			m := base()
			x.edit(m)
			in, err := m.Bytes()
			require.NoError(t, err)
			_, err = d.ctx.CreateObj(in, make([]byte, 16))
			requireStatus(t, err, x.want)
		})
	}
	q := prm.CreateQpIn.Qpc
	for name, x := range map[string]struct {
		edit func(*prm.Command)
		want prm.CmdStatus
	}{
		"service":      {func(m *prm.Command) { m.Set(q.St, uint64(prm.ServiceTypeUd)) }, prm.CmdStatusBadParam},
		"state":        {func(m *prm.Command) { m.Set(q.State, 3) }, prm.CmdStatusBadParam},
		"shared RQ":    {func(m *prm.Command) { m.Set(q.RqType, uint64(prm.RqTypeShared)) }, prm.CmdStatusBadParam},
		"scatter":      {func(m *prm.Command) { m.Set(q.CsReq, 0x11) }, prm.CmdStatusBadParam},
		"send queue":   {func(m *prm.Command) { m.Set(q.LogSqSize, 8) }, prm.CmdStatusExceedLim},
		"pd":           {func(m *prm.Command) { m.Set(q.Pd, uint64(other.pd.Number)) }, prm.CmdStatusBadResource},
		"cq":           {func(m *prm.Command) { m.Set(q.CqnSnd, uint64(cqn)+1) }, prm.CmdStatusBadResource},
		"input qpn":    {func(m *prm.Command) { m.Set(prm.CreateQpIn.InputQpn, 1) }, prm.CmdStatusBadParam},
		"no DBR mode":  {func(m *prm.Command) { m.Set(q.SendDbrMode, 1) }, prm.CmdStatusBadParam},
		"ring outside": {func(m *prm.Command) { m.Set(prm.CreateQpIn.WqUmemOffset, queueSize-64) }, prm.CmdStatusBadParam},
	} {
		t.Run("qp "+name, func(t *testing.T) {
			m := prm.NewCommand(prm.CmdCreateQp, prm.CreateQpInSize).Set(q.PmState, 3).Set(q.Pd, uint64(d.pd.Number)).
				Set(q.UarPage, uint64(d.uar.PageID)).Set(q.CqnSnd, uint64(cqn)).Set(q.LogSqSize, 1).
				Set(q.RqType, uint64(prm.RqTypeNone)).Set(q.DbrUmemId, uint64(umem.ID)).Set(q.DbrAddr, sqRecord).
				Set(prm.CreateQpIn.WqUmemId, uint64(umem.ID)).Set(prm.CreateQpIn.WqUmemOffset, ringAt)
			x.edit(m)
			in, err := m.Bytes()
			require.NoError(t, err)
			_, err = d.ctx.CreateObj(in, make([]byte, 16))
			requireStatus(t, err, x.want)
		})
	}
}

func TestUmemOffsetsNeedPageSizes(t *testing.T) {
	configure(t, "")
	d := openDevice(t, "mlx5_0")
	mem := newMemory(t, 1<<16)
	u, err := d.ctx.RegUmemEx(mlx5.UmemIn{Size: 1 << 16, Access: mlx5.AccessLocalWrite, Dmabuf: true, DmabufFD: mem.fd})
	require.NoError(t, err)
	defer u.Close()
	_, _, err = d.createCQ(u, 4096, 0, 1, defaults())
	requireStatus(t, err, prm.CmdStatusBadParam)
	readOnly, err := d.ctx.RegUmemEx(mlx5.UmemIn{Size: 1 << 16, PageSizes: 4096, Dmabuf: true, DmabufFD: mem.fd})
	require.NoError(t, err)
	defer readOnly.Close()
	_, _, err = d.createCQ(readOnly, 4096, 0, 1, defaults())
	requireStatus(t, err, prm.CmdStatusBadParam)
}

// Only RST -> INIT -> RTR -> RTS, INIT -> INIT, RTS -> RTS, and from anywhere to ERR and RST.
func TestStateMachine(t *testing.T) {
	configure(t, "")
	d := openDevice(t, "mlx5_0")
	q := newQueue(d, defaults())
	steps := map[string]func() error{
		"init": q.toInit, "rtr": func() error { return q.toRTR(q.remote()) }, "rts": q.toRTS,
		"init2init": func() error {
			return q.modify(prm.CmdInit2initQp, func(c *prm.Command, f prm.QpcLayout) {})
		},
		"rts2rts": func() error {
			return q.modify(prm.CmdRts2rtsQp, func(c *prm.Command, f prm.QpcLayout) {
				c.Set(prm.ModifyQpIn.OptParamMask, 8).Set(f.Rwe, 0)
			})
		},
	}
	for _, s := range []struct {
		enter prm.QpState
		allow []string
	}{
		{prm.QpStateRst, []string{"init"}},
		{prm.QpStateInit, []string{"init2init", "rtr"}},
		{prm.QpStateRtr, []string{"rts"}},
		{prm.QpStateRts, []string{"rts2rts"}},
	} {
		require.Equal(t, s.enter, q.state())
		for name, step := range steps {
			if name != s.allow[0] && name != s.allow[len(s.allow)-1] {
				requireStatus(t, step(), prm.CmdStatusBadQpState)
			}
		}
		for _, name := range s.allow {
			require.NoError(t, steps[name](), name)
		}
	}
	require.Equal(t, uint64(0), q.query().Get(prm.QueryQpOut.Qpc.Rwe), "RTS2RTS took the access bit")
	require.NoError(t, q.short(prm.CmdQp2err))
	require.Equal(t, prm.QpStateErr, q.state())
	requireStatus(t, q.toInit(), prm.CmdStatusBadQpState)
	require.NoError(t, q.short(prm.CmdQp2rst))
	require.NoError(t, q.toInit())
	requireStatus(t, q.modify(prm.CmdInit2rtrQp, func(c *prm.Command, f prm.QpcLayout) { c.Set(f.LogSqSize, 1) }), prm.CmdStatusBadParam)
	requireStatus(t, q.toRTR(remote{GID: [16]byte{}, QPN: 1}), prm.CmdStatusBadParam)
	require.Equal(t, prm.QpStateInit, q.state())
}
