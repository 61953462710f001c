package ibgda

import (
	"errors"
	"syscall"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/platform"
)

// uarKinds in order of preference: a register of its own, the shared non-cached one, a write-combining one.
var uarKinds = []uint32{mlx5.UARNCDedicated, mlx5.UARNonCached, mlx5.UARBlueFlame}

// uarSource hands out doorbell registers and maps their pages into the GPU, each page once.
type uarSource struct {
	p     *platform.Platform
	kinds []uint32 // those that may still work
	pages map[uintptr]cuda.DevicePtr
	undo  platform.Undo
}

func newUARSource(p *platform.Platform) *uarSource {
	return &uarSource{p: p, kinds: uarKinds, pages: map[uintptr]cuda.DevicePtr{}}
}

func (s *uarSource) close() error { return s.undo.Run() }

// get returns a doorbell register; gpu says who will ring it.
func (s *uarSource) get(gpu bool) (doorbell, error) {
	uar, err := s.alloc()
	if err != nil {
		return doorbell{}, err
	}
	s.undo.Push(uar.Close)
	if !gpu {
		return doorbell{page: uar.PageID, addr: uint64(uar.RegAddr)}, nil
	}
	page := uar.BaseAddr
	at, mapped := s.pages[page]
	if !mapped {
		var unmap func() error
		if at, unmap, err = s.p.MapDoorbellPage(page); err != nil {
			return doorbell{}, err
		}
		s.undo.Push(unmap)
		s.pages[page] = at
	}
	return doorbell{page: uar.PageID, addr: uint64(at) + uint64(uar.RegAddr-page)}, nil
}

func (s *uarSource) alloc() (*mlx5.UAR, error) {
	var all error
	for len(s.kinds) > 0 {
		uar, err := s.p.NIC.Ctx.AllocUAR(s.kinds[0])
		if err == nil {
			return uar, nil
		}
		all = errors.Join(all, err)
		if !errors.Is(err, syscall.EOPNOTSUPP) && !errors.Is(err, syscall.EINVAL) {
			break // the kind exists, there is just no more: another kind would not help
		}
		s.kinds = s.kinds[1:]
	}
	return nil, &errs.UnsupportedError{Feature: "ibgda on " + s.p.NIC.Name, Need: "a doorbell register (UAR)",
		Have: all.Error(), Fix: "lower PGAS_CONTEXTS, or raise PF_LOG_BAR_SIZE with mlxconfig"}
}
