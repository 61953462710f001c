package heap

import (
	"fmt"
	"slices"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/wire"
)

// MaxRegions is how many user buffers a PE can have registered at a time: kernels search the table from the front.
const MaxRegions = 64

// A region is an entry of the table of user buffers; size 0 is free.
type region struct {
	base, size uint64
	mr         *mlx5.MR
}

// Register makes [addr, addr+bytes) usable as the local source or target of transfers through the NIC. It is local, not
// collective. addr is memory that stays where it is until Unregister: GPU memory, or host memory that is not Go's. It
// returns the slot in the region table. 0 bytes, or a zero address, need no entry and return -1.
func (h *Heap) Register(addr, bytes uint64) (int, error) {
	if bytes == 0 {
		return -1, nil
	}
	if addr == 0 || addr+bytes < addr {
		return -1, errs.Arg("register", "buffer", fmt.Sprintf("%#x, %d bytes", addr, bytes), "a range of this process")
	}
	h.regMu.Lock()
	defer h.regMu.Unlock()
	slot := slices.IndexFunc(h.regions, func(r region) bool { return r.size == 0 })
	if slot < 0 {
		slot = len(h.regions)
	}
	if slot == MaxRegions {
		return -1, errs.Arg("register", "buffers", len(h.regions)+1, fmt.Sprintf("at most %d at a time", MaxRegions))
	}
	r := region{base: addr, size: bytes}
	if h.p.NIC != nil {
		var err error
		if r.mr, err = h.p.NIC.PD.RegMR(uintptr(addr), bytes, 0, mlx5.AccessLocalWrite); err != nil {
			return -1, fmt.Errorf("register %d bytes at %#x: %w [only memory that can be pinned: not a device's registers]",
				bytes, addr, err)
		}
	}
	if slot == len(h.regions) {
		h.regions = append(h.regions, r)
	} else {
		h.regions[slot] = r
	}
	return slot, nil
}

// Unregister ends a registration; no transfer may be using it. Slot -1, the empty buffer, is fine.
func (h *Heap) Unregister(slot int) error {
	if slot == -1 {
		return nil
	}
	h.regMu.Lock()
	defer h.regMu.Unlock()
	if slot < 0 || slot >= len(h.regions) || h.regions[slot].size == 0 {
		return errs.Arg("unregister", "slot", slot, "a buffer that is registered")
	}
	r := h.regions[slot]
	h.regions[slot] = region{}
	if r.mr == nil {
		return nil
	}
	return r.mr.Close()
}

// Regions returns the table as kernels see it.
func (h *Heap) Regions() []wire.Region {
	h.regMu.Lock()
	defer h.regMu.Unlock()
	out := make([]wire.Region, len(h.regions))
	for i, r := range h.regions {
		out[i].Base, out[i].Size = r.base, r.size
		if r.mr != nil {
			out[i].Lkey = wire.Big(r.mr.LKey)
		}
	}
	return out
}

func (h *Heap) closeRegions() error {
	h.regMu.Lock()
	defer h.regMu.Unlock()
	var first error
	for _, r := range h.regions {
		if r.mr == nil {
			continue
		}
		if err := r.mr.Close(); err != nil && first == nil {
			first = err
		}
	}
	h.regions = nil
	return first
}
