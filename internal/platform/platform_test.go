package platform

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/config"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/leak"
	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/softgpu"
	"github.com/pgas-go/pgas/internal/softhca"
)

func soft(o Options) (*Platform, error) {
	o.Platform = config.PlatformSoft
	return Open(context.Background(), o)
}

func requireNothing(t *testing.T) {
	t.Helper()
	require.Zero(t, softgpu.GetUsage().Bytes)
	require.Equal(t, softhca.Objects{}, softhca.LiveObjects())
}

func TestUndo(t *testing.T) {
	var order []int
	var u Undo
	for i := range 3 {
		u.Push(func() error { order = append(order, i); return map[int]error{1: errors.New("one")}[i] })
	}
	first := errors.New("the cause")
	require.Equal(t, first, u.Fail(first), "clean-up errors do not hide the cause")
	require.Equal(t, []int{2, 1, 0}, order)
	require.NoError(t, u.Run(), "nothing is undone twice")
	u.Push(func() error { return errors.New("last") })
	require.EqualError(t, u.Run(), "last")
}

func TestMemory(t *testing.T) {
	leak.Check(t)
	p, err := soft(Options{NIC: true})
	require.NoError(t, err)
	require.NoError(t, p.NICError)
	require.Equal(t, "soft", p.Name())
	for name, alloc := range map[string]func() (*Memory, error){
		"gpu":  func() (*Memory, error) { return p.NewGPUMemory(100000, true) },
		"host": func() (*Memory, error) { return p.NewHostMemory(100000) },
	} {
		m, err := alloc()
		require.NoError(t, err, name)
		require.GreaterOrEqual(t, m.Bytes, uint64(131072))
		require.Zero(t, m.Bytes%pageBytes)
		bytes := SliceAt[byte](m.Host, int(m.Bytes))
		require.Equal(t, make([]byte, m.Bytes), bytes, "memory is zero")
		bytes[99999] = 7

		fd, err := m.FD()
		require.NoError(t, err)
		twin, err := p.ImportGPUMemory(fd, m.Bytes)
		require.NoError(t, err)
		closeFD(fd)
		require.NotEqual(t, m.Addr, twin.Addr)
		require.Equal(t, byte(7), *At[byte](twin.Host + 99999))
		require.NoError(t, twin.Close())

		mr, how, err := m.RegisterMR(p.NIC.PD, mlx5.AccessLocalWrite)
		require.NoError(t, err)
		require.Equal(t, ByDmabuf, how)
		require.NoError(t, mr.Close())
		umem, how, err := m.RegisterUmem(p.NIC.Ctx)
		require.NoError(t, err)
		require.Equal(t, ByDmabuf, how)
		require.NoError(t, umem.Close())
		require.NoError(t, m.Close())
		require.NoError(t, m.Close())
	}
	_, err = p.NewGPUMemory(^uint64(0), true)
	require.ErrorContains(t, err, "cannot be rounded up")
	_, err = p.NewGPUMemory(0, true)
	require.Error(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	requireNothing(t)
}

// Without dma-bufs memory is registered by address; without either the error has both reasons and the remedy.
func TestRegistrationFallsBack(t *testing.T) {
	p, err := soft(Options{NIC: true, SoftHCA: "no_dmabuf=1"})
	require.NoError(t, err)
	m, err := p.NewGPUMemory(1, false)
	require.NoError(t, err)
	mr, how, err := m.RegisterMR(p.NIC.PD, mlx5.AccessLocalWrite)
	require.NoError(t, err)
	require.Equal(t, ByAddress, how)
	require.NoError(t, mr.Close())
	require.NoError(t, m.Close())
	require.NoError(t, p.Close())

	p, err = soft(Options{NIC: true, SoftHCA: "no_dmabuf=1,fail=reg_mr:1+:errno=14,fail=umem_reg:1+:errno=14"})
	require.NoError(t, err)
	m, err = p.NewGPUMemory(1, false)
	require.NoError(t, err)
	_, _, err = m.RegisterMR(p.NIC.PD, mlx5.AccessLocalWrite)
	require.ErrorContains(t, err, "by dma-buf: ")
	require.ErrorContains(t, err, "; by address: ")
	require.ErrorContains(t, err, "[load nvidia-peermem")
	_, _, err = m.RegisterUmem(p.NIC.Ctx)
	require.ErrorContains(t, err, "register umem")
	require.NoError(t, m.Close())
	require.NoError(t, p.Close())
	requireNothing(t)
}

func TestOpenTwiceInOneProcess(t *testing.T) {
	a, err := soft(Options{SoftGPU: "mem=1G"})
	require.NoError(t, err)
	require.False(t, a.Crowded())
	b, err := soft(Options{SoftGPU: "mem=1G"})
	require.NoError(t, err)
	require.True(t, b.Crowded())
	_, err = soft(Options{SoftGPU: "mem=2G"})
	require.ErrorContains(t, err, `another World of this process uses "mem=1G"`)
	require.NoError(t, errors.Join(a.Close(), b.Close()))
	c, err := soft(Options{SoftGPU: "mem=2G"})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	requireNothing(t)
}

func TestOpenRefuses(t *testing.T) {
	_, err := soft(Options{SoftGPU: "nonsense=1"})
	require.ErrorContains(t, err, "PGAS_SOFT_GPU")
	_, err = soft(Options{SoftGPU: "vmm=0"})
	require.ErrorIs(t, err, errs.ErrNotSupported)
	require.ErrorContains(t, err, "virtual memory management")
	_, err = soft(Options{NIC: true, SoftHCA: "nonsense=1"})
	require.ErrorContains(t, err, "PGAS_SOFT_HCA")
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Open(gone, Options{Platform: config.PlatformSoft})
	require.ErrorIs(t, err, context.Canceled)
	requireNothing(t)
}

func TestProbe(t *testing.T) {
	find := func(all []Finding, feature string) Finding {
		for _, f := range all {
			if f.Feature == feature {
				return f
			}
		}
		t.Fatalf("no finding about %q in %v", feature, all)
		return Finding{}
	}
	all := Probe(context.Background(), Options{Platform: config.PlatformSoft})
	for _, f := range all {
		require.True(t, f.OK, "%s: %v", f.Feature, f.Err)
		require.NotEmpty(t, f.Detail)
	}
	require.Equal(t, "soft", find(all, "platform").Detail)
	require.Contains(t, find(all, "NIC capabilities").Detail, "masked 8-byte atomics")

	all = Probe(context.Background(), Options{Platform: config.PlatformSoft, SoftGPU: "dmabuf=0", SoftHCA: "no_atomics=1"})
	for _, feature := range []string{"dma-buf of GPU memory", "NIC capabilities"} {
		f := find(all, feature)
		require.False(t, f.OK, feature)
		var missing *errs.UnsupportedError
		require.ErrorAs(t, f.Err, &missing)
		require.NotEmpty(t, missing.Fix)
	}
	require.Contains(t, find(all, "queues in GPU memory").Detail, ByAddress)
	all = Probe(context.Background(), Options{Platform: config.PlatformSoft, SoftHCA: "devices=0"})
	require.False(t, find(all, "mlx5 NIC").OK)
	requireNothing(t)
}

func TestCapsCheck(t *testing.T) {
	good := Caps{RC: true, CqOI: true, Atomic: true, AtomicOps: 15, AtomicSizes: 12, AtomicEndian: 1, MaxWQE: 1024, LogMaxMsg: 30, LogMaxQPSize: 15}
	require.Empty(t, good.Check("mlx5_0"))
	require.NoError(t, good.CheckDepth(32768))
	require.ErrorContains(t, Caps{LogMaxQPSize: 6}.CheckDepth(128), "have at most 64 (lower PGAS_QUEUE_DEPTH)")
	require.Len(t, Caps{}.Check("mlx5_0"), 7)
	bad := good
	bad.AtomicEndian = 0
	require.EqualError(t, errors.Join(bad.Check("mlx5_0")...), "ibgda on mlx5_0: not supported: need 8-byte atomics on host-order memory "+
		"(endianness mode 1), have mode 0 (load the mlx5 driver of a current kernel, which turns it on)")
	bad = good
	bad.AtomicOps = prm.AtomicOpCs | prm.AtomicOpFa
	require.ErrorContains(t, errors.Join(bad.Check("x")...), "need masked atomics, have atomic operations 0x3")
}

func TestGIDRank(t *testing.T) {
	mapped := [16]byte{10: 0xff, 11: 0xff, 12: 10}
	require.Zero(t, gidRank(mlx5.GID{Type: mlx5.GIDRoCEv2}))
	v4 := gidRank(mlx5.GID{Raw: mapped, Type: mlx5.GIDRoCEv2})
	v6 := gidRank(mlx5.GID{Raw: [16]byte{0: 0x20}, Type: mlx5.GIDRoCEv2})
	local := gidRank(mlx5.GID{Raw: [16]byte{0xfe, 0x80, 15: 1}, Type: mlx5.GIDRoCEv2})
	v1 := gidRank(mlx5.GID{Raw: mapped, Type: mlx5.GIDRoCEv1})
	require.IsDecreasing(t, []int{v4, v6, local, v1, 0})
}
