package softgpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/native/cuda"
)

func TestCallsNeedInitAndContext(t *testing.T) {
	d := Driver()
	require.NoError(t, d.Init())
	_, err := d.MemAlloc(64)
	require.Equal(t, cuda.ErrInvalidContext, cuda.Code(err))
	require.Equal(t, cuda.ErrInvalidContext, cuda.Code(d.PrimaryCtxRelease(0)), "never retained")
	ctx, err := d.PrimaryCtxRetain(0)
	require.NoError(t, err)
	_, err = d.MemAlloc(64)
	require.Equal(t, cuda.ErrInvalidContext, cuda.Code(err), "retained, not current")
	d.Bind(ctx)
	p, err := d.MemAlloc(64)
	require.NoError(t, err)
	require.NoError(t, d.MemFree(p))
	d.Bind(0)
	require.NoError(t, d.PrimaryCtxRelease(0))
	require.Equal(t, Usage{}, GetUsage())
	_, err = d.MemAlloc(64)
	require.Equal(t, cuda.ErrInvalidContext, cuda.Code(err), "released")
}

func TestDeviceDescription(t *testing.T) {
	require.NoError(t, Configure("name=small,sms=3,mem=1G,cc=80,pci=7"))
	defer func() { require.NoError(t, Configure("")) }()
	d := Driver()
	require.NoError(t, d.Init())
	n, err := d.DeviceCount()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = d.Device(1)
	require.Equal(t, cuda.ErrInvalidDevice, cuda.Code(err))
	name, err := d.DeviceName(0)
	require.NoError(t, err)
	require.Equal(t, "small", name)
	bus, err := d.DevicePCIBusID(0)
	require.NoError(t, err)
	require.Equal(t, "0000:00:07.0", bus)
	for attr, want := range map[int]int{cuda.AttrMultiprocessorCount: 3, cuda.AttrComputeCapabilityMajor: 8,
		cuda.AttrWarpSize: 32, cuda.AttrMaxThreadsPerBlock: 1024} {
		v, err := d.DeviceAttribute(attr, 0)
		require.NoError(t, err)
		require.Equal(t, want, v, "attribute %d", attr)
	}
	total, err := d.DeviceTotalMem(0)
	require.NoError(t, err)
	require.EqualValues(t, 1<<30, total)
}
