package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/pgas-go/pgas/pgas"
)

const (
	opPut uint32 = iota
	opPutNBI
	opGet
	opGetNBI
	opPutSignal
	opPutSignalNBI
	opElements
)

var opNames = []string{"put", "put_nbi", "get", "get_nbi", "put_signal", "put_signal_nbi", "elements"}

const (
	scopeThread uint32 = iota
	scopeWarp
	scopeBlock
)

var scopeNames = []string{"thread", "warp", "block"}

var sizes = []int{0, 1, 3, 8, 16, 29, 4095, 65537, 4 << 20}

// Source and destination offsets, in bytes.
var offsets = [][2]int{{0, 0}, {1, 0}, {0, 3}, {5, 13}}

const guard = 64 // canary bytes on both sides

// A rig is one PE's side of the matrix.
type rig struct {
	w              *pgas.World
	rma, wait      *pgas.Kernel
	src, dst       pgas.Slice[byte]
	result, wrong  pgas.Slice[uint32]
	signals        pgas.Signals
	round          uint64 // monotonic; also seeds patterns
	added          uint64 // what the left neighbour has added to my word so far
	srcBuf, dstBuf []byte
	cases          int
}

func newRig(ctx context.Context) (*rig, error) {
	w, err := pgas.Init(ctx, pgas.Options{HeapSize: 24 << 20, Contexts: 2})
	if err != nil {
		return nil, err
	}
	r := &rig{w: w}
	m, err := w.Load(ctx, source, "conformance.cu")
	if err != nil {
		return nil, err
	}
	if r.rma, err = m.Kernel("rma"); err != nil {
		return nil, err
	}
	if r.wait, err = m.Kernel("wait_and_check"); err != nil {
		return nil, err
	}
	size := sizes[len(sizes)-1] + 2*guard + 64
	if r.src, err = pgas.Alloc[byte](w, size); err != nil {
		return nil, err
	}
	if r.dst, err = pgas.Alloc[byte](w, size); err != nil {
		return nil, err
	}
	if r.result, err = pgas.Alloc[uint32](w, 1); err != nil {
		return nil, err
	}
	if r.wrong, err = pgas.Alloc[uint32](w, 1); err != nil {
		return nil, err
	}
	r.signals, err = pgas.AllocSignals(w, 4)
	r.srcBuf, r.dstBuf = make([]byte, size), make([]byte, size)
	return r, err
}

func matrix(ctx context.Context, args []string) error {
	ctx, cancel := within(ctx)
	defer cancel()
	r, err := newRig(ctx)
	if err != nil {
		return err
	}
	short := args[0] == "true"
	for _, n := range sizes {
		for _, off := range offsets {
			for op := opPut; op <= opElements; op++ {
				for scope := scopeThread; scope <= scopeBlock; scope++ {
					if skip(n, off, op, scope, short) {
						continue
					}
					if err := r.one(ctx, op, scope, n, off); err != nil {
						return fmt.Errorf("%s %s, %d bytes, offsets %v, round %d: %w", opNames[op], scopeNames[scope], n, off, r.round, err)
					}
					r.cases++
				}
			}
		}
	}
	if r.w.PE() == 0 {
		fmt.Printf("%d cases on %s, %d PEs\n", r.cases, r.w.Path(r.w.Next()), r.w.NPEs())
	}
	return r.w.Close()
}

// skip leaves out what repeats itself: elements have no scope, and large sizes need not see every offset.
func skip(n int, off [2]int, op, scope uint32, short bool) bool {
	if op == opElements && (scope != scopeThread || n > 4095) {
		return true
	}
	large := n > 65537
	return large && off != offsets[3] && (short || off != offsets[0])
}

// pattern is what PE `pe` holds in this round; the kernel knows the formula too.
func pattern(seed uint64, i int) byte { return byte((uint64(i) + seed) * 0x9e3779b97f4a7c15 >> 56) }

func (r *rig) seed(pe int) uint64 { return r.round*1000 + uint64(pe) }

// one runs one case on all PEs: everybody acts on its right neighbour and checks what its left one did (or, for gets,
// the reverse).
func (r *rig) one(ctx context.Context, op, scope uint32, n int, off [2]int) error {
	r.round++
	w := r.w
	for i := range r.dstBuf[:n+2*guard+32] {
		r.srcBuf[i], r.dstBuf[i] = 0xee, 0xdd
	}
	from := guard + off[0]
	to := guard + off[1]
	for i := range n {
		r.srcBuf[from+i] = pattern(r.seed(w.PE()), i)
	}
	span := n + 2*guard + 32
	if err := errors.Join(pgas.CopyIn(r.src.Slice(0, span), r.srcBuf[:span]), pgas.CopyIn(r.dst.Slice(0, span), r.dstBuf[:span]),
		pgas.CopyIn(r.result, []uint32{0}), pgas.CopyIn(r.wrong, []uint32{0})); err != nil {
		return err
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	if err := r.launch(ctx, op, scope, n, from, to); err != nil {
		return err
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	return r.check(n, to, span)
}

// shape returns the launch and the number of groups that signal.
func shape(scope uint32, n int) (pgas.Grid, uint64) {
	g := pgas.Grid{Blocks: 2, Threads: 64}
	if n > 1<<20 {
		g.Threads = 32
	}
	switch scope {
	case scopeThread:
		return g, uint64(g.Blocks * g.Threads)
	case scopeWarp:
		return g, uint64(g.Blocks * g.Threads / 32)
	}
	return g, uint64(g.Blocks)
}

func (r *rig) launch(ctx context.Context, op, scope uint32, n, from, to int) error {
	w := r.w
	g, groups := shape(scope, n)
	add, value := uint32(1), uint64(1)
	if r.round%2 == 0 { // a set needs one signaller: one group carries everything
		add, value, groups = 0, r.round<<20, 1
		g.Blocks = 1
		if scope == scopeThread {
			g.Threads = 1
		} else if scope == scopeWarp {
			g.Threads = 32
		}
	}
	sig := r.signals.At(int(add))
	err := r.rma.Launch(ctx, g, w.Device(), uint32(r.round%2), op, scope, r.dst.Slice(to, to+n), r.src.Slice(from, from+n), uint64(n),
		uint32(w.Next()), uint32(w.Prev()), sig, add, value, r.result)
	if err != nil {
		return err
	}
	if op == opPutSignal || op == opPutSignalNBI {
		want := value
		if add == 1 {
			r.added += groups
			want = r.added
		}
		if err := r.wait.Launch(ctx, pgas.Grid{Blocks: 1, Threads: 32}, w.Device(), sig, want, r.dst.Slice(to, to+n), uint64(n),
			r.seed(w.Prev()), r.wrong, r.result); err != nil {
			return err
		}
	}
	var status, wrong [1]uint32
	if err := errors.Join(pgas.CopyOut(status[:], r.result), pgas.CopyOut(wrong[:], r.wrong)); err != nil {
		return err
	}
	if status[0] != 0 || wrong[0] != 0 {
		return fmt.Errorf("device status %d, %d bytes not visible after the signal", status[0], wrong[0])
	}
	return nil
}

func (r *rig) check(n, to, span int) error {
	w := r.w
	for i := range n {
		// Puts came from the left neighbour, and gets (and the odd bytes of elements) read from it.
		r.dstBuf[to+i] = pattern(r.seed(w.Prev()), i)
	}
	got := make([]byte, span)
	if err := pgas.CopyOut(got, r.dst.Slice(0, span)); err != nil {
		return err
	}
	if bytes.Equal(got, r.dstBuf[:span]) {
		return nil
	}
	var where []string
	for i := range got {
		if got[i] != r.dstBuf[i] && len(where) < 8 {
			where = append(where, fmt.Sprintf("%d: %#x, want %#x", i-to, got[i], r.dstBuf[i]))
		}
	}
	return fmt.Errorf("wrong bytes (negative or above %d: outside the target): %s", n-1, strings.Join(where, "; "))
}

func availableBytes(t *testing.T) uint64 {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) > 1 && f[0] == "MemAvailable:" {
			kib, _ := strconv.ParseUint(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
