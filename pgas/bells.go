package pgas

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/bootstrap"
)

const bellBytes = 4096

// shareBells maps the bells of the PEs on this host: whoever changes a PE's memory wakes its sleepers. Hardware has no
// sleepers and no bells. The result has one address per PE, 0 for none.
func (w *World) shareBells(ctx context.Context) ([]uintptr, error) {
	bells := make([]uintptr, w.npes)
	if !w.plat.Soft {
		return bells, nil
	}
	w.bell = w.plat.Bell()
	bells[w.pe] = w.bell
	all, err := bootstrap.ExchangeFDs(ctx, w.x, []int{w.plat.BellFD()})
	if err != nil {
		return nil, err
	}
	defer func() { _ = bootstrap.CloseFDs(all) }()
	for pe, fds := range all {
		if len(fds) == 0 {
			continue // this PE, or one of another host
		}
		at, err := unix.MmapPtr(fds[0], 0, nil, bellBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return nil, fmt.Errorf("map the bell of PE %d: %w", pe, err)
		}
		w.undo.Push(func() error { return unix.MunmapPtr(at, bellBytes) })
		bells[pe] = uintptr(at)
	}
	return bells, nil
}
