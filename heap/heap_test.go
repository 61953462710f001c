package heap

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/bootstrap/tcp"
	"github.com/pgas-go/pgas/internal/config"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/leak"
	"github.com/pgas-go/pgas/internal/platform"
	"github.com/pgas-go/pgas/internal/softhca"
	"github.com/pgas-go/pgas/internal/wire"
)

var sizes = [wire.Segments]uint64{1 << 20, 1 << 16, 1 << 12}

func open(t *testing.T, x bootstrap.Exchanger, nic bool, cfg Config) (*Heap, func()) {
	p, err := platform.Open(t.Context(), platform.Options{Platform: config.PlatformSoft, NIC: nic})
	require.NoError(t, err)
	h, err := Open(t.Context(), p, x, cfg)
	require.NoError(t, err)
	return h, func() {
		require.NoError(t, h.Close())
		require.NoError(t, p.Close())
	}
}

func TestSegments(t *testing.T) {
	leak.Check(t)
	h, done := open(t, bootstrap.Single(), true, Config{Sizes: sizes, LocalPEs: 1})
	keys := map[uint32]bool{}
	for s := range wire.Segment(wire.Segments) {
		require.Equal(t, sizes[s], h.Size(s))
		require.NotZero(t, h.Base(s))
		require.Equal(t, h.Base(s), h.Peer(0, s))
		require.Equal(t, uintptr(h.Base(s)), h.Host(0, s))
		require.NotZero(t, h.LKey(s))
		require.NotZero(t, h.RKey(0, s))
		keys[h.RKey(0, s)] = true
	}
	require.Len(t, keys, 3, "one MR per segment")
	require.Equal(t, uint32(3), softhca.LiveObjects().MKeys)
	require.True(t, h.Mapped(0))
	done()
	require.Equal(t, softhca.Objects{}, softhca.LiveObjects())
}

func TestLocate(t *testing.T) {
	h, done := open(t, bootstrap.Single(), false, Config{Sizes: [wire.Segments]uint64{1 << 20, 0, 1 << 12}, LocalPEs: 1})
	defer done()
	require.Zero(t, h.Base(wire.SegmentHost), "an empty segment has no memory")
	require.Zero(t, h.LKey(wire.SegmentDevice), "no NIC, no key")
	base, sig := h.Base(wire.SegmentDevice), h.Base(wire.SegmentSignal)
	for _, c := range []struct {
		addr, n uint64
		seg     wire.Segment
		off     uint64
		refused string
	}{
		{base, 1 << 20, wire.SegmentDevice, 0, ""},
		{base + 7, 1, wire.SegmentDevice, 7, ""},
		{base + 1<<20, 0, wire.SegmentDevice, 1 << 20, ""},
		{sig + 64, 8, wire.SegmentSignal, 64, ""},
		{base + 1, 1 << 20, 0, 0, "length is 1048576, want at most 1048575: offset 1 of the device segment of 1048576 bytes"},
		{base, math.MaxUint64, 0, 0, "want at most 1048576"},
		{base - 1, 1, 0, 0, "an address in the symmetric heap of this PE (device 0x"},
		{0, 0, 0, 0, "address is 0x0"},
	} {
		seg, off, err := h.Locate("put", c.addr, c.n)
		if c.refused != "" {
			require.ErrorIs(t, err, errs.ErrInvalid)
			require.ErrorContains(t, err, c.refused)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.seg, seg)
		require.Equal(t, c.off, off)
	}
}

// A long random sequence of calls keeps the offsets of all PEs equal.
func TestOffsetsStayEqual(t *testing.T) {
	const pes, calls = 3, 400
	root := fmt.Sprintf("unix:@pgas-heap-%x", rand.Uint64())
	traces := make([][]uint64, pes)
	var all sync.WaitGroup
	for pe := range pes {
		all.Go(func() {
			x, err := tcp.Connect(t.Context(), tcp.Options{Rank: pe, Size: pes, Root: root})
			if err != nil {
				t.Error(err)
				return
			}
			defer x.Close()
			h, done := open(t, x, false, Config{Sizes: sizes, LocalPEs: pes})
			traces[pe] = randomCalls(t, h, calls)
			if err := x.Barrier(t.Context()); err != nil {
				t.Error(err)
			}
			done()
		})
	}
	all.Wait()
	require.Len(t, traces[0], calls)
	for pe := range pes {
		require.Equal(t, traces[0], traces[pe])
	}
}

// randomCalls makes the same calls on every PE and returns what they gave.
func randomCalls(t *testing.T, h *Heap, calls int) []uint64 {
	r := rand.New(rand.NewPCG(1, 2))
	type blk struct{ off, bytes uint64 }
	var live []blk
	var trace []uint64
	for range calls {
		if len(live) > 0 && r.IntN(5) < 2 {
			i := r.IntN(len(live))
			if err := h.Free(context.Background(), wire.SegmentDevice, live[i].off, live[i].bytes, nil); err != nil {
				t.Error(err)
			}
			trace = append(trace, live[i].off)
			live = append(live[:i], live[i+1:]...)
			continue
		}
		bytes := r.Uint64N(40000)
		off, err := h.Alloc(context.Background(), Request{Segment: wire.SegmentDevice, Bytes: bytes, Align: 1 << r.IntN(13), What: "x"})
		if err != nil {
			trace = append(trace, math.MaxUint64)
			continue
		}
		live = append(live, blk{off, bytes})
		trace = append(trace, off)
	}
	return trace
}
