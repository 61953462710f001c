package platform

import (
	"unsafe"

	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/softgpu"
	"github.com/pgas-go/pgas/internal/softhca"
)

// hcaHooks is softhca_hooks of softhca.h: what the software GPU lends to the software HCA.
type hcaHooks struct {
	mmioRegister, mmioUnregister, exportRange, bellFD unsafe.Pointer
}

// openSoftHCA fills the DevX table and introduces the software HCA to the software GPU.
func (p *Platform) openSoftHCA(spec string) error {
	if err := hcaUse.acquire(spec, softhca.Configure); err != nil {
		return err
	}
	p.undo.Push(hcaUse.release)
	f := softgpu.CFunctions()
	softhca.SetHooks(unsafe.Pointer(&hcaHooks{f.MMIORegister, f.MMIOUnregister, f.ExportRange, f.BellFD}))
	p.MLX5 = mlx5.FromTable(softhca.Table())
	return nil
}
