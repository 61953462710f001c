package softhca_test

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/softhca"
)

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
	rung := time.Now()
	p.a.ring()
	requireOK(t, p.a.wait(), 0)
	require.GreaterOrEqual(t, time.Since(rung), 3*time.Millisecond)
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
