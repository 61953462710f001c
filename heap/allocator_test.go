package heap

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pgas-go/pgas/internal/errs"
)

func TestAllocatorBestFit(t *testing.T) {
	a := NewAllocator("device", "PGAS_HEAP_SIZE", 4096)
	first, err := a.Alloc(1024, 0)
	require.NoError(t, err)
	hole, err := a.Alloc(256, 0)
	require.NoError(t, err)
	_, err = a.Alloc(1024, 0)
	require.NoError(t, err)
	require.NoError(t, a.Free(first))
	require.NoError(t, a.Free(hole))
	require.Equal(t, Stats{Total: 4096, Free: 3072, Largest: 1792, Blocks: 1}, a.Stats())

	off, err := a.Alloc(1000, 0)
	require.NoError(t, err)
	require.Equal(t, uint64(0), off, "the smaller hole (1280) is the best fit, not the tail (1792)")
	size, ok := a.SizeOf(off)
	require.True(t, ok)
	require.Equal(t, uint64(1024), size)
}

func TestAllocatorFull(t *testing.T) {
	a := NewAllocator("device", "PGAS_HEAP_SIZE", 4096)
	_, err := a.Alloc(4097, 0)
	require.ErrorIs(t, err, errs.ErrHeapFull)
	var full *FullError
	require.ErrorAs(t, err, &full)
	require.Equal(t, FullError{Segment: "device", Asked: 4097, Align: 256, Free: 4096, Largest: 4096, Total: 4096,
		Variable: "PGAS_HEAP_SIZE"}, *full)
	require.EqualError(t, err, "alloc: device segment is full: asked 4097 bytes, free 4096, largest free block 4096, "+
		"total 4096: no free block is that large [raise PGAS_HEAP_SIZE]")

	for _, size := range []uint64{math.MaxUint64, math.MaxUint64 - 63, 1 << 63} {
		_, err = a.Alloc(size, 0)
		require.ErrorIs(t, err, errs.ErrHeapFull, "%d", size)
	}
	_, err = a.Alloc(64, 0)
	require.NoError(t, err)
	_, err = a.Alloc(64, 1<<63)
	require.ErrorIs(t, err, errs.ErrHeapFull)
	require.ErrorContains(t, err, "alignment 9223372036854775808")
	require.Equal(t, uint64(4032), a.Stats().Free, "refused calls take nothing")
}

func TestAllocatorArguments(t *testing.T) {
	a := NewAllocator("device", "V", 4096)
	_, err := a.Alloc(8, 24)
	require.EqualError(t, err, "alloc: alignment is 24, want a power of two")
	_, err = a.Alloc(0, 0)
	require.ErrorContains(t, err, "size is 0, want at least 1 byte")
	require.Equal(t, uint64(0), NewAllocator("signal", "V", 63).Stats().Free)
	_, err = NewAllocator("signal", "V", 0).Alloc(1, 0)
	require.ErrorIs(t, err, errs.ErrHeapFull)
}

func TestAllocatorBadFree(t *testing.T) {
	a := NewAllocator("device", "V", 4096)
	_, err := a.Alloc(512, 0)
	require.NoError(t, err)
	off, err := a.Alloc(512, 0)
	require.NoError(t, err)
	require.Equal(t, uint64(512), off)
	require.NoError(t, a.Free(off))

	for _, c := range []struct {
		off  uint64
		want string
	}{
		{512, "free: offset 512 of the device segment is not an allocated block: that memory is free (freed before, or never allocated)"},
		{8, "free: offset 8 of the device segment is not an allocated block: it is 8 bytes into the block at 0 of 512 bytes"},
		{4096, "free: offset 4096 of the device segment is not an allocated block: it is outside the segment of 4096 bytes"},
	} {
		err := a.Free(c.off)
		require.ErrorIs(t, err, errs.ErrInvalid)
		require.EqualError(t, err, c.want)
	}
	require.Equal(t, uint64(3584), a.Stats().Free)
}

// checkInvariants compares the allocator with what its caller holds: blocks do not overlap each other or a free
// extent, and everything is accounted for.
func checkInvariants(t require.TestingT, a *Allocator, held map[uint64]uint64) {
	owner := map[uint64]string{}
	claim := func(off, size uint64, who string) {
		for q := off; q < off+size; q += Quantum {
			if other, taken := owner[q]; taken {
				require.Fail(t, "overlap", "%s at %d overlaps %s", who, q, other)
			}
			owner[q] = who
		}
	}
	var used uint64
	for off, asked := range held {
		size, ok := a.SizeOf(off)
		require.True(t, ok)
		require.GreaterOrEqual(t, size, asked)
		require.LessOrEqual(t, off+size, a.total)
		claim(off, size, "block")
		used += size
	}
	for i, x := range a.byOffset {
		claim(x.off, x.size, "free")
		if i > 0 {
			require.Less(t, a.byOffset[i-1].end(), x.off, "free neighbours must be one extent")
		}
	}
	require.Len(t, a.bySize, len(a.byOffset))
	require.Equal(t, a.total&^(Quantum-1), used+a.Stats().Free)
	require.Equal(t, len(held), a.Stats().Blocks)
}

// step runs one scripted call on a. It returns what happened so that two allocators can be compared.
func step(a *Allocator, held map[uint64]uint64, order *[]uint64, alloc bool, size, align uint64, pick int) (uint64, error) {
	if alloc || len(*order) == 0 {
		off, err := a.Alloc(size, align)
		if err == nil {
			held[off] = size
			*order = append(*order, off)
		}
		return off, err
	}
	i := pick % len(*order)
	off := (*order)[i]
	*order = append((*order)[:i], (*order)[i+1:]...)
	delete(held, off)
	return off, a.Free(off)
}

func TestAllocatorProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Uint64Range(0, 1<<14).Draw(t, "total")
		a, b := NewAllocator("s", "V", total), NewAllocator("s", "V", total)
		heldA, heldB := map[uint64]uint64{}, map[uint64]uint64{}
		var orderA, orderB []uint64
		for range rapid.IntRange(0, 80).Draw(t, "calls") {
			alloc := rapid.Bool().Draw(t, "alloc")
			size := rapid.Uint64Range(1, 3000).Draw(t, "size")
			align := uint64(1) << rapid.IntRange(0, 12).Draw(t, "log align")
			pick := rapid.IntRange(0, 1000).Draw(t, "pick")
			offA, errA := step(a, heldA, &orderA, alloc, size, align, pick)
			offB, errB := step(b, heldB, &orderB, alloc, size, align, pick)
			require.Equal(t, offA, offB, "the same calls must give the same offsets")
			require.Equal(t, errA, errB)
			if errA != nil {
				require.ErrorIs(t, errA, errs.ErrHeapFull)
			} else if _, isLive := heldA[offA]; isLive && alloc {
				require.Zero(t, offA%align)
			}
			checkInvariants(t, a, heldA)
		}
		for _, off := range orderA {
			require.NoError(t, a.Free(off))
		}
		usable := total &^ (Quantum - 1)
		require.Equal(t, Stats{Total: total, Free: usable, Largest: usable}, a.Stats(), "everything coalesces to one block")
		require.LessOrEqual(t, len(a.byOffset), 1)
	})
}

func FuzzAllocator(f *testing.F) {
	f.Add([]byte{1, 0, 4, 8, 0, 200, 0, 0, 3})
	f.Add([]byte{255, 255, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7})
	f.Fuzz(func(t *testing.T, script []byte) {
		a := NewAllocator("s", "V", 1<<13)
		held := map[uint64]uint64{}
		var order []uint64
		for len(script) >= 3 {
			op, lo, hi := script[0], script[1], script[2]
			script = script[3:]
			size := uint64(lo) | uint64(hi&0x0f)<<8
			if op == 0xff { // an arbitrary offset: must be refused unless it is a block
				_, live := held[size]
				if err := a.Free(size); live {
					require.NoError(t, err)
					delete(held, size)
					order = without(order, size)
				} else {
					require.ErrorIs(t, err, errs.ErrInvalid)
				}
				checkInvariants(t, a, held)
				continue
			}
			_, err := step(a, held, &order, op&1 == 1, size, uint64(1)<<(op>>4), int(lo))
			if err != nil && size > 0 && !errors.Is(err, errs.ErrHeapFull) {
				t.Fatalf("unexpected error: %v", err)
			}
			checkInvariants(t, a, held)
		}
	})
}

func without(order []uint64, off uint64) []uint64 {
	var kept []uint64
	for _, o := range order {
		if o != off {
			kept = append(kept, o)
		}
	}
	return kept
}
