package softhca_test

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/softhca"
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

func TestDevicesAndGIDTables(t *testing.T) {
	configure(t, "devices=4,dev0.name=mlx5_bond,dev0.gids=-/ip2/-,dev0.mtu=1024,dev1.link=ib,dev1.lid=42,dev2.vendor=other,dev3.open_errno=13")
	list, err := lib.Devices()
	require.NoError(t, err)
	require.Equal(t, []mlx5.Device{{Name: "mlx5_bond", MLX5: true}, {Name: "mlx5_1", MLX5: true}, {Name: "mlx5_2"},
		{Name: "mlx5_3", MLX5: true}}, list)
	bond, ib := openDevice(t, "mlx5_bond"), openDevice(t, "mlx5_1")
	_, err = lib.Open("mlx5_2")
	require.ErrorIs(t, err, syscall.EOPNOTSUPP)
	_, err = lib.Open("mlx5_3")
	require.ErrorIs(t, err, syscall.EACCES)
	_, err = lib.Open("mlx5_9")
	require.ErrorContains(t, err, "mlx5_bond")

	port, err := bond.ctx.QueryPort(1)
	require.NoError(t, err)
	require.Equal(t, mlx5.PortAttr{State: mlx5.PortActive, ActiveMTU: 3, GIDEntries: 3, MaxMsgSize: 1 << 30,
		LinkLayer: mlx5.LinkEthernet}, port)
	_, err = bond.ctx.QueryGID(1, 0)
	require.ErrorIs(t, err, syscall.ENODATA)
	gid, err := bond.ctx.QueryGID(1, 1)
	require.NoError(t, err)
	require.Equal(t, mlx5.GIDRoCEv2, gid.Type)
	require.Equal(t, []byte{10: 0xff, 11: 0xff, 12: 10}, gid.Raw[:13])
	_, err = bond.ctx.QueryGID(1, 3)
	require.ErrorIs(t, err, syscall.EINVAL)
	port, err = ib.ctx.QueryPort(1)
	require.NoError(t, err)
	require.Equal(t, uint16(42), port.LID)
}

// InfiniBand: the path goes by LID.
func TestInfiniBand(t *testing.T) {
	configure(t, "devices=2,dev0.link=ib,dev1.link=ib")
	p := newPairOn(t, defaults(), "mlx5_0", "mlx5_1", allAccess)
	requireOK(t, p.a.do(write(100, p.lkey, 0, p.rkey, 0)), 0)
	require.Equal(t, p.src.b[:100], p.dst.b[:100])
}

func TestFaults(t *testing.T) {
	for spec, check := range map[string]func(t *testing.T, d *device){
		"fail=create_qp:2:status=8": func(t *testing.T, d *device) {
			newQueue(d, defaults())
			q := prm.NewCommand(prm.CmdCreateQp, prm.CreateQpInSize)
			in, err := q.Bytes()
			require.NoError(t, err)
			_, err = d.ctx.CreateObj(in, make([]byte, 16))
			requireStatus(t, err, prm.CmdStatusExceedLim)
		},
		"fail=reg_mr:1+:errno=12": func(t *testing.T, d *device) {
			for range 2 {
				_, err := d.pd.RegMR(1, 1, 0, 0)
				require.ErrorIs(t, err, syscall.ENOMEM)
			}
		},
		"no_dmabuf=1": func(t *testing.T, d *device) {
			_, err := d.pd.RegDmabufMR(0, 4096, 0, newMemory(t, 4096).fd, 0)
			require.ErrorIs(t, err, syscall.EOPNOTSUPP)
		},
		"no_uar=bf+nc": func(t *testing.T, d *device) {
			for _, kind := range []uint32{mlx5.UARBlueFlame, mlx5.UARNonCached} {
				_, err := d.ctx.AllocUAR(kind)
				require.ErrorIs(t, err, syscall.EOPNOTSUPP)
			}
		},
		"pinned_limit=64K": func(t *testing.T, d *device) {
			mem := newMemory(t, 1<<17)
			_, err := d.pd.RegDmabufMR(0, 1<<17, 0, mem.fd, 0)
			require.ErrorIs(t, err, syscall.ENOMEM)
			for range 3 { // closing gives the bytes back
				mr, err := d.pd.RegDmabufMR(0, 1<<16, 0, mem.fd, 0)
				require.NoError(t, err)
				require.NoError(t, mr.Close())
			}
		},
		"max_qp=1": func(t *testing.T, d *device) {
			q := newQueue(d, defaults())
			_, _, err := d.createQP(d.umem(q.mem), cqnOf(q), 0, defaults())
			requireStatus(t, err, prm.CmdStatusExceedLim)
		},
	} {
		t.Run(spec, func(t *testing.T) {
			configure(t, spec)
			check(t, openDevice(t, "mlx5_0"))
		})
	}
}

func TestDataPathFaults(t *testing.T) {
	configure(t, "error_wqe=2:19")
	p := newPair(t, defaults())
	requireOK(t, p.a.do(nop()), 0)
	requireError(t, p.a.do(nop()), prm.SyndromeRemoteAccess)

	configure(t, "no_zero_write=1,no_atomics=1,delay_us=3000")
	p = newPair(t, defaults())
	p.a.post(nop())
	p.a.ring()
	p.a.none(1e6)
	requireOK(t, p.a.wait(), 0)
	requireError(t, p.a.do(fetchAdd(1, p.lkey, 0, p.rkey, 0)), prm.SyndromeLocalQpOp)

	configure(t, "port_down=2,time_scale=1000")
	p = newPair(t, defaults())
	requireOK(t, p.a.do(nop()), 0)
	requireError(t, p.a.do(write(8, p.lkey, 0, p.rkey, 0)), prm.SyndromeTransportRetry)
	e, err := p.a.d.ctx.NextAsyncEvent()
	require.NoError(t, err)
	require.Equal(t, mlx5.AsyncEvent{Type: 10, Port: 1}, e)
}

func TestConfigurationIsStrict(t *testing.T) {
	for _, bad := range []string{"x", "mode=fast", "seed=-1", "seed= 1", "seed=1,", "devices=65", "dev1.lid=1", "devx.lid=1",
		"dev0.color=1", "fail=reg_mr:1:status=8", "fail=none:1:errno=1", "fail=create_qp:0:status=1", "pinned_limit=1X",
		"error_wqe=1", "devices=2,dev0.name=a,dev1.name=a", "no_uar=xx", "=", "delay_us=1e3"} {
		require.Error(t, softhca.Configure(bad), bad)
	}
	require.ErrorContains(t, softhca.Configure("dev1.lid=1"), "put devices=N before it")
	require.NoError(t, softhca.Configure("pinned_limit=1G,mode=chaos,seed=0x10"))
}

// Memory registered by address; the same rules as the kernel's.
func TestRegistration(t *testing.T) {
	configure(t, "")
	d := openDevice(t, "mlx5_0")
	mem := newMemory(t, 8192)
	addr := uintptr(ptr(mem))
	mr, err := d.pd.RegMR(addr+100, 1000, 0x7f0000000100, allAccess|mlx5.AccessRelaxedOrdering)
	require.NoError(t, err)
	require.NoError(t, mr.Close())
	again, err := d.pd.RegMR(addr+100, 1000, 0x7f0000000100, allAccess)
	require.NoError(t, err)
	require.NotEqual(t, mr.RKey, again.RKey)
	require.NoError(t, again.Close())
	for _, bad := range []struct {
		addr, n uintptr
		access  uint32
		want    error
	}{
		{addr, 0, 0, syscall.EINVAL}, {addr, 1, mlx5.AccessRemoteWrite, syscall.EINVAL}, {addr, 1, 1 << 10, syscall.EINVAL},
		{4096, 1, 0, syscall.EFAULT}, {0, 1, 0, syscall.EFAULT}, {addr, ^uintptr(0), 0, syscall.EINVAL},
	} {
		_, err := d.pd.RegMR(bad.addr, uint64(bad.n), 1, bad.access)
		require.ErrorIs(t, err, bad.want, "%+v", bad)
	}
}

// Rounds of everything leave descriptors, threads and objects as they were; an unclosed object is counted.
func TestNothingIsLeft(t *testing.T) {
	for _, mode := range modes {
		configure(t, mode)
		var before [2]int
		for round := range 30 {
			t.Run("round", func(t *testing.T) {
				p := newPair(t, defaults())
				requireOK(t, p.a.do(write(8, p.lkey, 0, p.rkey, 0)), 0)
			})
			require.Equal(t, softhca.Objects{}, softhca.LiveObjects())
			runtime.GC()
			now := [2]int{entries(t, "/proc/self/fd"), entries(t, "/proc/self/task")}
			if round == 5 {
				before = now
			}
			if round > 5 {
				require.LessOrEqual(t, now[0], before[0], "descriptors")
				require.LessOrEqual(t, now[1], before[1]+2, "threads") // Go may start one
			}
		}
	}
	ctx, err := lib.Open("mlx5_0")
	require.NoError(t, err)
	_, err = ctx.AllocPD()
	require.NoError(t, err)
	_, err = ctx.AllocUAR(mlx5.UARNonCached)
	require.NoError(t, err)
	leaked := softhca.Counters().ObjectsLeaked
	require.NoError(t, ctx.Close())
	require.Equal(t, leaked+2, softhca.Counters().ObjectsLeaked)
	require.Equal(t, softhca.Objects{}, softhca.LiveObjects())
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	return len(list)
}

// FuzzCommand sends mailboxes of any content and length to every entry. Nothing may crash or be left behind.
func FuzzCommand(f *testing.F) {
	for _, op := range []prm.Cmd{prm.CmdQueryHcaCap, prm.CmdCreateCq, prm.CmdCreateQp, prm.CmdRst2initQp, prm.CmdInit2rtrQp,
		prm.CmdQp2rst, prm.CmdCreateMkey, prm.CmdQueryRoceAddress} {
		in, err := prm.NewCommand(op, prm.CreateQpInSize).Bytes()
		require.NoError(f, err)
		f.Add(in, 16)
		f.Add(in[:16], prm.QueryHcaCapOutSize)
	}
	configure(f, "")
	f.Fuzz(func(t *testing.T, in []byte, outlen int) {
		if outlen < 0 || outlen > 8192 {
			outlen = 16
		}
		d := openDevice(t, "mlx5_0")
		q := newQueue(d, defaults())
		out := make([]byte, outlen)
		for _, err := range []error{d.ctx.GeneralCmd(in, out), q.qp.Modify(in, out), q.qp.Query(in, out), q.cq.Query(in, out)} {
			var ce *mlx5.CommandError
			if errors.As(err, &ce) && ce.Errno == syscall.EREMOTEIO {
				require.NotZero(t, ce.Status)
			}
		}
		if obj, err := d.ctx.CreateObj(in, out); err == nil {
			require.NoError(t, obj.Destroy())
		}
	})
}

// FuzzSQ executes any WQE bytes. Whatever happens, memory outside the MRs stays as it was, and it ends.
func FuzzSQ(f *testing.F) {
	f.Add(write(8, 0, 0, 0, 0), true)
	f.Add(ctrl(prm.OpcodeRdmaWrite, 0, signaled, 0, raddr(0, 0), inline(make([]byte, 100))), false)
	f.Add(fetchAdd(1, 0, 0, 0, 0), true)
	f.Add(ctrl(prm.OpcodeSend, 0, signaled, 0, data(4, 0, 0)), true)
	configure(f, "time_scale=100000")
	f.Fuzz(func(t *testing.T, wqe []byte, keys bool) {
		if len(wqe) < 16 {
			return
		}
		if len(wqe) > 16*63 {
			wqe = wqe[:16*63]
		}
		cfg := defaults()
		cfg.logSQ, cfg.retry, cfg.rnrRetry = 4, 0, 0
		p := newPair(t, cfg)
		around := newMemory(t, 3*4096)
		mr, err := p.b.d.pd.RegDmabufMR(4096, 4096, 4096, around.fd, allAccess)
		require.NoError(t, err)
		defer func() { require.NoError(t, mr.Close()) }()
		w := append([]byte(nil), wqe...)
		if keys && len(w) >= 48 { // reach the parts behind the key checks
			copy(w[24:], []byte{byte(mr.RKey >> 24), byte(mr.RKey >> 16), byte(mr.RKey >> 8), byte(mr.RKey)})
			copy(w[36:], []byte{byte(p.lkey >> 24), byte(p.lkey >> 16), byte(p.lkey >> 8), byte(p.lkey)})
		}
		p.a.post(w)
		p.a.post(nop())
		p.a.ring()
		for ok := true; ok; { // the last CQE is the NOP's, done or flushed
			cqe := p.a.wait()
			ok = uint16(cqe.Get(prm.Cqe.WqeCounter)) != p.a.next-1
		}
		require.Equal(t, make([]byte, 4096), around.b[:4096])
		require.Equal(t, make([]byte, 4096), around.b[8192:])
	})
}
