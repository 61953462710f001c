package pgas

import (
	"encoding/binary"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/wire"
	"github.com/pgas-go/pgas/signal"
)

// Without a NIC, memory that CPUs cannot load and store is reached by copies of the CUDA driver. They are complete when
// they return, so order needs nothing more.

func (w *World) moveByCopy(op *opKind, seg wire.Segment, off uint64, local []byte, pe int) error {
	at := cuda.DevicePtr(w.peers[pe].addr[seg] + off)
	var err error
	if op.get {
		err = w.plat.CUDA.MemcpyDtoH(local, at)
	} else {
		err = w.plat.CUDA.MemcpyHtoD(at, local)
	}
	if err != nil {
		return w.failed(op.name, pe, err)
	}
	return nil
}

func (w *World) signalByCopy(op string, sig SignalWord, u Update, pe int) error {
	if u.Op == signal.Add {
		// A read and a write would not be one step, and a copy is no atomic.
		return w.failed(op, pe, &errs.UnsupportedError{Feature: "adding to a signal from the host", Need: "a NIC, or memory that CPUs reach",
			Have: "GPU memory by p2p", Fix: "use Set, signal from a kernel, or set PGAS_PATH=ibgda"})
	}
	at := cuda.DevicePtr(w.peers[pe].addr[wire.SegmentSignal] + sig.off)
	if err := w.plat.CUDA.MemcpyHtoD(at, binary.NativeEndian.AppendUint64(nil, u.Value)); err != nil {
		return w.failed(op, pe, err)
	}
	return nil
}

// CopyIn copies src to this PE's own memory of dst, from its start. It is local; other PEs and kernels see the data once
// it has returned and they are told, by a signal or a barrier.
func CopyIn[T any](dst Slice[T], src []T) error { return copyOwn("copy_in", dst, src, false) }

// CopyOut copies this PE's own memory of src, from its start, to dst.
func CopyOut[T any](dst []T, src Slice[T]) error { return copyOwn("copy_out", src, dst, true) }

func copyOwn[T any](op string, s Slice[T], local []T, out bool) error {
	w, err := start(op, "slice", s.b, 0)
	if err != nil {
		return err
	}
	defer w.leave()
	if len(local) > s.n {
		return w.failed(op, NoPE, tooLong(&opKind{name: op, local: "the Go slice", symmetric: "the symmetric slice"}, len(local), s.n))
	}
	if len(local) == 0 {
		return nil
	}
	at := cuda.DevicePtr(w.base[s.b.seg] + s.off)
	if out {
		err = w.plat.CUDA.MemcpyDtoH(asBytes(local), at)
	} else {
		err = w.plat.CUDA.MemcpyHtoD(at, asBytes(local))
	}
	if err != nil {
		return w.failed(op, NoPE, err)
	}
	return nil
}
