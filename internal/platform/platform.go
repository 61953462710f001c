// Package platform opens what a PE runs on: a GPU behind the CUDA driver table and, if wanted, an mlx5 NIC behind the
// DevX table. It is the one place that knows that there are two ways to fill those tables: the vendors' libraries (hw)
// and our software (soft).
package platform

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/pgas-go/pgas/internal/config"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/native/gdr"
	"github.com/pgas-go/pgas/internal/native/mlx5"
)

// Options of Open.
type Options struct {
	Platform config.Platform
	// LocalRank is this PE's number among the PEs of its host: it chooses the GPU and the NIC, counting round.
	LocalRank int
	// LocalPEs is the number of PEs of this host, 0 when unknown: waiters spin less when there are more than cores.
	LocalPEs int
	// SoftGPU and SoftHCA are the specs of the software platform.
	SoftGPU, SoftHCA string
	// NIC asks for a NIC. Without one that works Open still succeeds and says why in Platform.NICError.
	NIC bool
	// Log may be nil.
	Log *zap.Logger
}

// Platform is what one PE runs on. It owns everything in it.
type Platform struct {
	Soft       bool
	CUDA       *cuda.Driver
	Device     cuda.Device
	Ordinal    int
	DeviceName string
	GDR        *gdr.Lib // nil without GDRCopy
	GDRError   error    // why GDR is nil
	MLX5       *mlx5.Lib
	NIC        *NIC  // nil when none was asked for or none works
	NICError   error // why NIC is nil although it was asked for

	rdmaVMM bool // VMM memory may be given to NICs
	undo    Undo
}

// Open opens the platform. A failure at any step frees what the earlier steps made and returns the first cause.
func Open(ctx context.Context, o Options) (*Platform, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open platform: %w", err)
	}
	switch o.Platform {
	case config.PlatformHW:
		return openHW(o)
	case config.PlatformSoft:
		return openSoft(o)
	}
	p, err := openHW(o)
	if err == nil {
		return p, nil
	}
	if !errors.Is(err, errs.ErrNotSupported) {
		return nil, err // hardware is there and broken: do not hide that behind software
	}
	o.Log.Info("using the software platform", zap.Error(err))
	return openSoft(o)
}

// Close frees everything in reverse order. It is idempotent.
func (p *Platform) Close() error { return p.undo.Run() }

// Name is "soft" or "hw".
func (p *Platform) Name() string {
	if p.Soft {
		return string(config.PlatformSoft)
	}
	return string(config.PlatformHW)
}

func openHW(o Options) (*Platform, error) {
	driver, err := cuda.Load()
	if err != nil {
		return nil, err
	}
	p := &Platform{CUDA: driver}
	p.GDR, p.GDRError = gdr.Load()
	if o.NIC {
		p.MLX5, p.NICError = mlx5.Load()
	}
	return p.finish(o)
}

// finish does what both platforms have in common once the tables are filled.
func (p *Platform) finish(o Options) (*Platform, error) {
	if err := p.openGPU(o.LocalRank); err != nil {
		return nil, p.undo.Fail(err)
	}
	if p.MLX5 == nil {
		return p, nil
	}
	p.NIC, p.NICError = openNIC(p.MLX5, o.LocalRank)
	if p.NIC != nil {
		p.undo.Push(p.NIC.Close)
	}
	return p, nil
}

func (p *Platform) openGPU(localRank int) error {
	d := p.CUDA
	if err := d.Init(); err != nil {
		return &errs.UnsupportedError{Feature: "CUDA", Need: "a working driver", Have: err.Error(), Fix: "see nvidia-smi"}
	}
	n, err := d.DeviceCount()
	if err != nil {
		return err
	}
	if n == 0 {
		return &errs.UnsupportedError{Feature: "CUDA", Need: "a GPU", Have: "0 devices", Fix: "set PGAS_PLATFORM=soft"}
	}
	p.Ordinal = localRank % n
	if p.Device, err = d.Device(p.Ordinal); err != nil {
		return err
	}
	if p.DeviceName, err = d.DeviceName(p.Device); err != nil {
		return err
	}
	for _, need := range []struct {
		attr int
		what string
	}{
		{cuda.AttrVirtualMemoryManagementSupported, "virtual memory management (cuMemCreate)"},
		{cuda.AttrHandleTypePosixFileDescriptorSupported, "memory export as file descriptors"},
	} {
		if have, err := d.DeviceAttribute(need.attr, p.Device); err != nil || have == 0 {
			return errors.Join(err, &errs.UnsupportedError{Feature: "GPU " + p.DeviceName, Need: need.what, Have: "none",
				Fix: "use a GPU of compute capability 6.0 or newer with a current driver"})
		}
	}
	rdma, err := d.DeviceAttribute(cuda.AttrGPUDirectRDMAWithCUDAVMMSupported, p.Device)
	if err != nil {
		return err
	}
	p.rdmaVMM = rdma != 0
	primary, err := d.PrimaryCtxRetain(p.Device)
	if err != nil {
		return err
	}
	d.Bind(primary)
	p.undo.Push(func() error {
		d.Bind(0)
		return d.PrimaryCtxRelease(p.Device)
	})
	return nil
}
