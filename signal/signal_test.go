package signal

import (
	"math"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCondHolds(t *testing.T) {
	values := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 3), rapid.SampledFrom([]uint64{math.MaxUint64, 1 << 63, 1<<63 - 1}))
	rapid.Check(t, func(t *rapid.T) {
		seen, want := values.Draw(t, "seen"), values.Draw(t, "want")
		require.Equal(t, seen == want, Cond{Eq, want}.Holds(seen))
		require.Equal(t, seen != want, Cond{Ne, want}.Holds(seen))
		require.Equal(t, seen > want, Cond{Gt, want}.Holds(seen))
		require.Equal(t, seen >= want, Cond{Ge, want}.Holds(seen))
		require.Equal(t, seen < want, Cond{Lt, want}.Holds(seen))
		require.Equal(t, seen <= want, Cond{Le, want}.Holds(seen))
		require.False(t, Cond{Cmp(6), want}.Holds(seen))
	})
}

func TestNames(t *testing.T) {
	require.Equal(t, ">= 7", Cond{Ge, 7}.String())
	require.Equal(t, "cmp(9)", Cmp(9).String())
	require.Equal(t, "add 3", Update{Add, 3}.String())
	require.Equal(t, "op(2)", Op(2).String())
	require.False(t, Op(2).Valid())
	require.False(t, Cmp(6).Valid())
	require.True(t, Le.Valid())
}

func TestWord(t *testing.T) {
	line := new([8]uint64)
	addr := uintptr(unsafe.Pointer(line))
	Apply(addr, Update{Set, math.MaxUint64})
	require.Equal(t, uint64(math.MaxUint64), Load(addr))
	Apply(addr, Update{Add, 2})
	require.Equal(t, uint64(1), Load(addr), "add wraps at 2^64")

	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for range 1000 {
				Apply(addr, Update{Add, 3})
			}
		})
	}
	done.Wait()
	require.Equal(t, uint64(12001), Load(addr))
	require.Equal(t, [7]uint64{}, [7]uint64(line[1:]), "neighbours stay")
}
