package platform

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/kernel"
)

// Hardware is described by what its driver says. The software GPU's driver stands in for one; it would refuse a cubin.
func TestKernelsForHardware(t *testing.T) {
	p, err := soft(Options{SoftGPU: "cc=90"})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	files := fstest.MapFS{"a.cu": {Data: []byte("extern \"C\" __global__ void k() {}\n")}}
	spec, err := p.KernelSpec(files, "a.cu", t.TempDir())
	require.NoError(t, err)
	require.NotNil(t, spec.SIMT)
	require.Zero(t, spec.GPU)

	p.Soft = false
	spec, err = p.KernelSpec(files, "a.cu", t.TempDir())
	require.NoError(t, err)
	version, err := p.CUDA.DriverVersion()
	require.NoError(t, err)
	require.Nil(t, spec.SIMT)
	require.Equal(t, kernel.GPU{Major: 9, Minor: 0, Driver: version}, spec.GPU)

	spec.NVRTC = "/no/such/libnvrtc.so"
	_, err = kernel.Build(t.Context(), spec)
	require.ErrorIs(t, err, errs.ErrNotSupported)
}
