package platform

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pgas-go/pgas/internal/softgpu"
)

// openSoft fills the tables with the software GPU and the software HCA and lets them use each other: doorbell stores
// reach the HCA, and the HCA maps the GPU's memory.
func openSoft(o Options) (*Platform, error) {
	spec := o.SoftGPU
	if o.LocalPEs > 0 && !strings.Contains(spec, "local_pes=") {
		spec = strings.TrimPrefix(fmt.Sprintf("%s,local_pes=%d", spec, o.LocalPEs), ",")
	}
	p := &Platform{Soft: true, CUDA: softgpu.Driver(), GDR: softgpu.GDR()}
	if err := gpuUse.acquire(spec, softgpu.Configure); err != nil {
		return nil, fmt.Errorf("PGAS_SOFT_GPU: %w", err)
	}
	p.undo.Push(gpuUse.release)
	if o.NIC {
		if err := p.openSoftHCA(o.SoftHCA); err != nil {
			return nil, p.undo.Fail(fmt.Errorf("PGAS_SOFT_HCA: %w", err))
		}
	}
	return p.finish(o)
}

// use counts the Platforms of this process that share a piece of the software platform: it is configured for the first
// one, and the others must want the same.
type use struct {
	mu    sync.Mutex
	count atomic.Int32
	spec  string
}

var gpuUse, hcaUse use

// Crowded reports whether several PEs of the software platform live in this process, as in tests.
func (p *Platform) Crowded() bool { return p.Soft && gpuUse.count.Load() > 1 }

func (u *use) acquire(spec string, configure func(string) error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count.Load() == 0 {
		if err := configure(spec); err != nil {
			return err
		}
		u.spec = spec
	}
	if u.spec != spec {
		return fmt.Errorf("%q: another World of this process uses %q", spec, u.spec)
	}
	u.count.Add(1)
	return nil
}

func (u *use) release() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count.Add(-1)
	return nil
}

// Bell returns the address of this process' bell (wire.Bell), 0 on hardware. Waiters of this PE sleep on it.
func (p *Platform) Bell() uintptr {
	if !p.Soft {
		return 0
	}
	return uintptr(softgpu.Bell())
}

// BellFD returns the descriptor of the bell for other processes, which stays the platform's; -1 on hardware.
func (p *Platform) BellFD() int {
	if !p.Soft {
		return -1
	}
	return softgpu.BellFD()
}

// GPUReport returns and forgets what the software GPU saw go wrong in kernels; "" on hardware.
func (p *Platform) GPUReport() string {
	if !p.Soft {
		return ""
	}
	report := strings.TrimSpace(softgpu.LastReport())
	softgpu.ClearReport()
	return report
}

// CPUHooks are C functions by which CPU code acts like a lane of the platform's GPU; all nil on hardware.
type CPUHooks struct {
	Doorbell unsafe.Pointer // void (*)(volatile void*, uint64_t): an 8-byte store to a doorbell register
	Pause    unsafe.Pointer // void (*)(void): a waiter found nothing
	Notify   unsafe.Pointer // void (*)(void): this PE's memory changed
	RingBell unsafe.Pointer // void (*)(void*): a peer's memory changed
}

// CPUHooks returns the functions of this platform.
func (p *Platform) CPUHooks() CPUHooks {
	if !p.Soft {
		return CPUHooks{}
	}
	f := softgpu.CFunctions()
	return CPUHooks{Doorbell: f.MMIOStore, Pause: f.Pause, Notify: f.Notify, RingBell: f.RingBell}
}
