package pgas

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/pgas-go/pgas/internal/platform"
	"github.com/pgas-go/pgas/internal/wire"
	"github.com/pgas-go/pgas/signal"
)

// Put copies src to the first len(src) elements of dst on PE pe and returns when src may be reused; the data may still
// be under way. Order and completion: see Fence, Quiet and PutSignal. An empty src is legal.
//
// On the p2p path it is a memory copy, and one aligned element of up to 8 bytes arrives whole. On ibgda it blocks when
// the queue is full, until the deadline of ctx or Options.Timeout.
//
// Errors: ArgError (nothing was sent), CompletionError of an earlier operation on the queue, TimeoutError,
// PeerLostError, AbortError, ErrClosed, all in an OpError.
func Put[T any](ctx context.Context, dst Slice[T], src []T, pe int) error {
	// Written out here and below: another call would be a tenth of the time.
	if dst.n > 0 && len(src) == 1 && unsafe.Sizeof(src[0]) == 8 && dst.b.put8(dst.off, word(src), pe) {
		return nil
	}
	return transfer(ctx, opPut, dst, src, pe)
}

// PutNBI starts a Put and returns at once where the path allows it. Go memory is copied before it returns, so src may be
// reused as after Put; the call differs in that it never waits for the network. Quiet completes it.
func PutNBI[T any](ctx context.Context, dst Slice[T], src []T, pe int) error {
	if dst.n > 0 && len(src) == 1 && unsafe.Sizeof(src[0]) == 8 && dst.b.put8(dst.off, word(src), pe) {
		return nil
	}
	return transfer(ctx, opPutNBI, dst, src, pe)
}

// Get copies the first len(dst) elements of src on PE pe to dst and returns when they are there. Errors as for Put.
func Get[T any](ctx context.Context, dst []T, src Slice[T], pe int) error {
	return transfer(ctx, opGet, src, dst, pe)
}

// word is the first element of src, which has 8 bytes.
func word[T any](src []T) uint64 { return *(*uint64)(unsafe.Pointer(unsafe.SliceData(src))) }

// put8 is the fast path: one aligned 8-byte store to a PE whose memory CPUs reach. It reports false when any check
// fails, for the slow path to find out which.
func (b *block) put8(off, value uint64, pe int) bool {
	p := b.pin(off, pe)
	if p == nil {
		return false
	}
	*platform.At[uint64](p.base[b.seg] + uintptr(off)) = value
	b.w.leave() // also the fence between the store and the look at the bell
	signal.Ring(p.bell)
	return true
}

// fetchAdd8 is the fast path of FetchAdd, as put8 is of Put.
func (b *block) fetchAdd8(off, value uint64, pe int) (old uint64, done bool) {
	p := b.pin(off, pe)
	if p == nil {
		return 0, false
	}
	if b.w.mixed {
		b.w.leave()
		return 0, false
	}
	old = signal.FetchAdd(p.base[b.seg]+uintptr(off), value)
	b.w.leave()
	signal.Ring(p.bell)
	return old, true
}

// pin enters the World and returns how to reach an aligned word of live memory on a PE; the caller must leave. It returns
// nil, and has not entered, when a check fails or the PE's memory is not reached directly.
func (b *block) pin(off uint64, pe int) *peerView {
	if b == nil || b.w == nil || uint(pe) >= uint(len(b.w.peers)) {
		return nil
	}
	w := b.w
	w.inflight.Add(1)
	p := &w.peers[pe]
	if p.direct && off&7 == 0 && w.state.Load() == stateOpen && !b.freed.Load() {
		return p
	}
	w.leave()
	return nil
}

type opKind struct {
	name, symmetric, local string
	get, nbi               bool
}

var (
	opPut    = &opKind{name: "put", symmetric: "dst", local: "src"}
	opPutNBI = &opKind{name: "put_nbi", symmetric: "dst", local: "src", nbi: true}
	opGet    = &opKind{name: "get", symmetric: "src", local: "dst", get: true}
)

// transfer moves len(local) elements between local memory and the start of sym on a PE.
func transfer[T any](ctx context.Context, op *opKind, sym Slice[T], local []T, pe int) error {
	w, err := start(op.name, op.symmetric, sym.b, pe)
	if err != nil {
		return err
	}
	defer w.leave()
	if len(local) > sym.n {
		return w.failed(op.name, pe, tooLong(op, len(local), sym.n))
	}
	n := uint64(len(local)) * elemSize[T]()
	if n == 0 {
		return nil
	}
	return w.move(ctx, op, sym.b.seg, sym.off, unsafe.Pointer(unsafe.SliceData(local)), n, pe)
}

// move is transfer for bytes that were checked.
func (w *World) move(ctx context.Context, op *opKind, seg wire.Segment, off uint64, local unsafe.Pointer, n uint64, pe int) error {
	p := &w.peers[pe]
	if p.direct {
		far := unsafe.Slice(platform.At[byte](p.base[seg]+uintptr(off)), n)
		near := unsafe.Slice((*byte)(local), n)
		if op.get {
			copyWhole(near, far)
			return nil
		}
		copyWhole(far, near)
		w.wake(p)
		return nil
	}
	if w.eng == nil {
		return w.moveByCopy(op, seg, off, unsafe.Slice((*byte)(local), n), pe)
	}
	timeout, err := w.timeout(ctx)
	if err != nil {
		return w.failed(op.name, pe, err)
	}
	addr := w.base[seg] + off
	var s wire.Status
	switch {
	case op.get:
		s = w.eng.Get(local, addr, n, uint32(pe), timeout)
	case op.nbi:
		s = w.eng.PutNBI(addr, local, n, uint32(pe), timeout)
	default:
		s = w.eng.Put(addr, local, n, uint32(pe), timeout)
	}
	return w.result(ctx, op.name, pe, s, timeout)
}

// copyWhole copies; one aligned element of 8 or 4 bytes is moved by one load and one store, so that a PE that looks at
// it never sees half of it.
func copyWhole(dst, src []byte) {
	d, s := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	both := uintptr(d) | uintptr(s)
	switch {
	case len(dst) == 8 && both&7 == 0:
		atomic.StoreUint64((*uint64)(d), atomic.LoadUint64((*uint64)(s)))
	case len(dst) == 4 && both&3 == 0:
		atomic.StoreUint32((*uint32)(d), atomic.LoadUint32((*uint32)(s)))
	default:
		copy(dst, src)
	}
}

// wake tells a PE that something in its memory changed. The atomic orders the change before the look at the bell.
func (w *World) wake(p *peerView) {
	w.inflight.Add(0)
	signal.Ring(p.bell)
}

// PutSignal is Put followed, in order, by an update of the signal word sig on the same PE: whoever sees the new value by
// an acquiring wait sees the data. An empty src only signals. Errors as for Put.
func PutSignal[T any](ctx context.Context, dst Slice[T], src []T, sig SignalWord, u Update, pe int) error {
	w, err := start("put_signal", "dst", dst.b, pe)
	if err != nil {
		return err
	}
	defer w.leave()
	if err := w.checkSignal("put_signal", sig, u); err != nil {
		return w.failed("put_signal", pe, err)
	}
	if len(src) > dst.n {
		return w.failed("put_signal", pe, tooLong(opPut, len(src), dst.n))
	}
	n := uint64(len(src)) * elemSize[T]()
	p := &w.peers[pe]
	if (p.direct && !w.mixed) || w.eng == nil {
		if n > 0 {
			if err := w.move(ctx, opPut, dst.b.seg, dst.off, unsafe.Pointer(unsafe.SliceData(src)), n, pe); err != nil {
				return err
			}
		}
		return w.signalNow(ctx, "put_signal", sig, u, pe)
	}
	timeout, err := w.timeout(ctx)
	if err != nil {
		return w.failed("put_signal", pe, err)
	}
	var local unsafe.Pointer
	if n > 0 {
		local = unsafe.Pointer(unsafe.SliceData(src))
	}
	s := w.eng.PutSignal(w.base[dst.b.seg]+dst.off, local, n, w.base[wire.SegmentSignal]+sig.off, u.Op == signal.Add, u.Value,
		uint32(pe), timeout)
	return w.result(ctx, "put_signal", pe, s, timeout)
}
