package platform

import (
	"context"
	"fmt"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/native/mlx5"
)

// A Finding is what a probe found about one feature of the machine.
type Finding struct {
	Feature string
	OK      bool
	Detail  string // what was found, when OK
	Err     error  // why not, when not OK: an *errs.UnsupportedError wherever there is a remedy
}

// Probe opens the platform, tries every feature that the paths depend on, and closes everything again. It never fails:
// what does not work is a Finding. o.NIC is taken as set.
func Probe(ctx context.Context, o Options) []Finding {
	o.NIC = true
	p, err := Open(ctx, o)
	if err != nil {
		return []Finding{{Feature: "platform", Err: err}}
	}
	f := &findings{}
	f.add("platform", nil, "%s", p.Name())
	f.add("GPU", nil, "%s (device %d)", p.DeviceName, p.Ordinal)
	p.probeGPU(f)
	p.probeNIC(f)
	if err := p.Close(); err != nil {
		f.add("close", err, "")
	}
	return f.all
}

type findings struct{ all []Finding }

func (f *findings) add(feature string, err error, detail string, args ...any) {
	if err != nil {
		f.all = append(f.all, Finding{Feature: feature, Err: err})
		return
	}
	f.all = append(f.all, Finding{Feature: feature, OK: true, Detail: fmt.Sprintf(detail, args...)})
}

func (p *Platform) probeGPU(f *findings) {
	mem, err := p.NewGPUMemory(pageBytes, true)
	f.add("GPU memory for peers (VMM)", err, "cuMemCreate with descriptors")
	if err == nil {
		var fd int
		if fd, err = p.CUDA.MemDmaBufFD(cuda.DevicePtr(mem.Addr), mem.Bytes); err == nil {
			closeFD(fd)
		} else {
			err = &errs.UnsupportedError{Feature: "dma-buf of GPU memory", Need: "cuMemGetHandleForAddressRange", Have: err.Error(),
				Fix: "use the open NVIDIA kernel modules, or load nvidia-peermem"}
		}
		f.add("dma-buf of GPU memory", err, "exported")
		_ = mem.Close()
	}
	if p.GDR == nil {
		f.add("GDRCopy", p.GDRError, "")
	} else {
		f.add("GDRCopy", nil, "%s", p.GDR.Version())
	}
}

func (p *Platform) probeNIC(f *findings) {
	if p.NIC == nil {
		f.add("mlx5 NIC", p.NICError, "")
		return
	}
	n := p.NIC
	f.add("mlx5 NIC", nil, "%s port %d, %s", n.Name, n.Port.Number, n.Port.describe())
	missing := n.Caps.Check(n.Name)
	for _, err := range missing {
		f.add("NIC capabilities", err, "")
	}
	if missing == nil {
		f.add("NIC capabilities", nil, "up to %d queue pairs of %d basic blocks, messages of %d bytes, masked 8-byte atomics",
			uint64(1)<<n.Caps.LogMaxQP, 1<<n.Caps.LogMaxQPSize, uint64(1)<<n.Caps.LogMaxMsg)
	}
	p.probeNICMemory(f)
	err := p.probeDoorbell()
	f.add("doorbell page in the GPU", err, "cuMemHostRegister with IOMEMORY")
}

func (n *Port) describe() string {
	if n.Ethernet {
		return fmt.Sprintf("RoCE, GID %d, mtu %s", n.GIDIndex, n.MTU)
	}
	return fmt.Sprintf("InfiniBand, LID %d, mtu %s", n.LID, n.MTU)
}

// probeNICMemory finds out how the NIC can be given GPU memory.
func (p *Platform) probeNICMemory(f *findings) {
	mem, err := p.NewGPUMemory(pageBytes, false)
	if err != nil {
		f.add("GPU memory for the NIC", err, "")
		return
	}
	defer mem.Close()
	mr, how, err := mem.RegisterMR(p.NIC.PD, mlx5.AccessLocalWrite)
	if err == nil {
		err = mr.Close()
	}
	f.add("GPU memory for the NIC", err, "by %s", how)
	umem, how, err := mem.RegisterUmem(p.NIC.Ctx)
	if err == nil {
		err = umem.Close()
	}
	f.add("queues in GPU memory", err, "by %s", how)
}
