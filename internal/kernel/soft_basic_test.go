package kernel_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/softgpu"
)

func TestLaunchWritesEveryElement(t *testing.T) {
	g := open(t, "", "basic.cu")
	const n = 5000
	p := g.alloc(4 * n)
	for range 3 {
		g.run("add_one", shape(20, 256), args().Ptr(p).I32(n-1))
	}
	for i, v := range g.u32(p, n) {
		want := uint32(3)
		if i == n-1 {
			want = 0
		}
		require.Equal(t, want, v, "element %d", i)
	}
}

func TestParametersByValue(t *testing.T) {
	g := open(t, "", "basic.cu")
	sizes, err := g.FuncParamSizes(g.fn("by_value"))
	require.NoError(t, err)
	require.Equal(t, []int{40, 4, 8, 8}, sizes)
	none, err := g.FuncParamSizes(g.fn("nothing"))
	require.NoError(t, err)
	require.Empty(t, none)

	table, size, err := g.ModuleGlobal(g.mod, "table")
	require.NoError(t, err)
	require.EqualValues(t, 16, size)
	g.put32(table, 1, 2, 33, 4)

	var wide [40]byte
	wide[0] = 7
	binary.NativeEndian.PutUint64(wide[8:], math.Float64bits(0.25))
	wide[39] = 5
	out := g.alloc(32)
	g.run("by_value", shape(1, 32), args().Bytes(wide[:]).F32(1.5).U64(1<<40).Ptr(out))
	for i, want := range []float64{12.25, 1.5, 1 << 40, 33} {
		require.Equal(t, want, math.Float64frombits(g.u64(out+cuda.DevicePtr(8*i))), "value %d", i)
	}
}

func TestSharedMemory(t *testing.T) {
	g := open(t, "", "basic.cu")
	const blocks, threads = 5, 1024
	p := g.alloc(4 * blocks * threads)
	values := make([]uint32, blocks*threads)
	for i := range values {
		values[i] = uint32(i)
	}
	g.put32(p, values...)
	l := shape(blocks, threads)
	l.Shared = 4 * threads
	g.run("reverse", l, args().Ptr(p))
	for i, v := range g.u32(p, len(values)) {
		require.EqualValues(t, i/threads*threads+threads-1-i%threads, v, "element %d", i)
	}
	two := g.alloc(4)
	l = shape(1, 1)
	l.Shared = 64
	g.run("two_names", l, args().Ptr(two))
	require.EqualValues(t, 1, g.u32(two, 1)[0], "all dynamic arrays of a kernel begin at one address")
}

func TestSharedMemoryStartsAsGarbage(t *testing.T) {
	g := open(t, "", "basic.cu")
	out := g.alloc(8)
	l := shape(1, 32)
	l.Shared = 64
	g.run("shared_at_start", l, args().Ptr(out))
	for _, v := range g.u32(out, 2) {
		require.NotZero(t, v)
	}
}

func TestDynamicSharedMemoryLimits(t *testing.T) {
	g := open(t, "", "basic.cu")
	f := g.fn("reverse")
	l := shape(1, 32)
	l.Shared = 48<<10 + 1
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(g.LaunchKernel(f, l, args().Ptr(0))))
	require.NoError(t, g.FuncSetAttribute(f, cuda.FuncMaxDynamicSharedSizeBytes, 227<<10))
	require.Error(t, g.FuncSetAttribute(f, cuda.FuncMaxDynamicSharedSizeBytes, 227<<10+1))
	p := g.alloc(4 * 32)
	l.Shared = 227 << 10
	g.run("reverse", l, args().Ptr(p))
}

func TestAtomicsAcrossBlocks(t *testing.T) {
	g := open(t, "", "basic.cu")
	total, biggest, sum := g.alloc(8), g.alloc(4), g.alloc(4)
	g.run("count_all", shape(64, 96), args().Ptr(total).Ptr(biggest).Ptr(sum))
	require.EqualValues(t, 64*96, g.u64(total))
	require.EqualValues(t, 64*96-1, g.u32(biggest, 1)[0])
	require.EqualValues(t, 64*96/2, math.Float32frombits(g.u32(sum, 1)[0]))
	counter, _, err := g.ModuleGlobal(g.mod, "counter")
	require.NoError(t, err)
	require.EqualValues(t, 2*64*96, g.u64(counter))
}

func TestModulesOfOneFileHaveTheirOwnVariables(t *testing.T) {
	g := open(t, "", "basic.cu")
	second, err := g.ModuleLoad(buildModule(t, "basic.cu"))
	require.NoError(t, err)
	a, _, err := g.ModuleGlobal(g.mod, "counter")
	require.NoError(t, err)
	b, _, err := g.ModuleGlobal(second, "counter")
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	require.NoError(t, g.ModuleUnload(second))
	require.Equal(t, cuda.ErrInvalidHandle, cuda.Code(g.ModuleUnload(second)))
}

func TestLaunchBounds(t *testing.T) {
	g := open(t, "", "basic.cu")
	for name, want := range map[string]int{"bounded": 96, "bounded_by_constant": 192, "nothing": 1024, "add_one": 1024} {
		n, err := g.FuncAttribute(cuda.FuncMaxThreadsPerBlock, g.fn(name))
		require.NoError(t, err)
		require.Equal(t, want, n, name)
	}
	out := g.alloc(4)
	g.run("bounded", shape(1, 96), args().Ptr(out))
	err := g.LaunchKernel(g.fn("bounded"), shape(1, 97), args().Ptr(out))
	require.Equal(t, cuda.ErrLaunchOutOfResources, cuda.Code(err))
	require.Contains(t, softgpu.LastReport(), "__launch_bounds__ says 96")
}

func TestLaunchShapesAreChecked(t *testing.T) {
	g := open(t, "", "basic.cu")
	f := g.fn("nothing")
	for _, l := range []cuda.Launch{shape(1, 1025), {Block: [3]uint32{32, 33}}, {Block: [3]uint32{1, 1, 65}},
		{Grid: [3]uint32{1, 65536}}} {
		require.Equal(t, cuda.ErrInvalidValue, cuda.Code(g.LaunchKernel(f, l, nil)), "%+v", l)
	}
	require.Equal(t, cuda.ErrInvalidHandle, cuda.Code(g.LaunchKernel(cuda.Function(64), shape(1, 1), nil)))
	_, err := g.ModuleFunction(g.mod, "missing")
	require.Equal(t, cuda.ErrNotFound, cuda.Code(err))
	_, err = g.ModuleLoad("testdata/none")
	require.Equal(t, cuda.ErrFileNotFound, cuda.Code(err))
	_, err = g.ModuleLoad("testdata/basic.cu")
	require.Equal(t, cuda.ErrInvalidImage, cuda.Code(err))
}

func TestCooperativeLaunch(t *testing.T) {
	g := open(t, "sms=4,blocks_per_sm=8", "basic.cu")
	f := g.fn("grid_barrier")
	per, err := g.MaxActiveBlocks(f, 512, 0)
	require.NoError(t, err)
	require.Equal(t, 4, per)
	l := shape(16, 512)
	l.Cooperative = true
	p := g.alloc(4)
	within(t, 20*time.Second, func() { g.run("grid_barrier", l, args().Ptr(p).U32(16)) })
	l = shape(17, 512)
	l.Cooperative = true
	require.Equal(t, cuda.ErrCooperativeLaunchTooLarge, cuda.Code(g.LaunchKernel(f, l, args().Ptr(p).U32(17))))
	require.Contains(t, softgpu.LastReport(), "at most 16 are resident together")
}

func TestOrdinaryLaunchesAreResidentUpToTheLimitAndRunBeyondIt(t *testing.T) {
	g := open(t, "sms=4,blocks_per_sm=8", "basic.cu")
	p := g.alloc(4)
	within(t, 20*time.Second, func() { g.run("grid_barrier", shape(32, 32), args().Ptr(p).U32(32)) })
	total := g.alloc(16)
	g.run("count_all", shape(1000, 32), args().Ptr(total).Ptr(total+8).Ptr(total+12))
	require.EqualValues(t, 32000, g.u64(total))
}

func TestWarpShuffles(t *testing.T) {
	g := open(t, "", "warp.cu")
	p := g.alloc(4 * 256)
	g.run("shuffles", shape(1, 32), args().Ptr(p))
	out := g.u32(p, 256)
	source := []func(lane int) int{
		func(int) int { return 5 },
		func(l int) int { return max(l-3, l-3+3*btoi(l < 3)) },
		func(l int) int { return l + 3*btoi(l+3 < 32) },
		func(l int) int { return l ^ 1 },
		func(l int) int { return l&^7 + 9%8 },
		func(l int) int { return l - 2*btoi(l%8 >= 2) },
		func(l int) int { return l + 2*btoi(l%8+2 < 8) },
		// The bound is the end of the own group: 12 reaches a lower group or stays.
		func(l int) int {
			if l^12 <= l|7 {
				return l ^ 12
			}
			return l
		},
	}
	for k, f := range source {
		for lane := range 32 {
			require.EqualValues(t, f(lane)*10, out[32*k+lane], "shuffle %d lane %d", k, lane)
		}
	}
}

func TestWarpVotesAndReductions(t *testing.T) {
	g := open(t, "", "warp.cu")
	p := g.alloc(32)
	g.run("votes", shape(1, 64), args().Ptr(p).Ptr(p+16))
	var third uint32
	for i := 0; i < 32; i += 3 {
		third |= 1 << i
	}
	require.Equal(t, []uint32{third, 1, 1, 0, 0}, g.u32(p, 5))
}

func TestDivergedWarps(t *testing.T) {
	for _, options := range []string{"", "shuffle=1,seed=7", "shuffle=1,seed=8"} {
		g := open(t, options, "warp.cu")
		p := g.alloc(4 * 64)
		g.run("diverged", shape(1, 64), args().Ptr(p))
		const odd, even = 0xaaaa, 0x5555
		for i, v := range g.u32(p, 64) {
			lane := i % 32
			var want uint32
			switch {
			case lane < 16:
				want = 3*odd + 2*even
			case lane%2 == 1:
				want = 31
			default:
				want = 16 + 18 + 20 + 22 + 24 + 26 + 28 + 30
			}
			require.Equal(t, want, v&0xffffff, "options %q thread %d", options, i)
			require.NotZero(t, v>>24)
		}
		g.close()
	}
}

func TestActiveMask(t *testing.T) {
	g := open(t, "", "warp.cu")
	p := g.alloc(4 * 32)
	g.run("active", shape(1, 32), args().Ptr(p))
	for lane, v := range g.u32(p, 32) {
		want := uint32(0)
		if lane%4 == 1 {
			want = 0x22222222
		}
		require.Equal(t, want, v, "lane %d", lane)
	}
}

func TestBlockVotesAndEarlyExit(t *testing.T) {
	g := open(t, "", "warp.cu")
	p := g.alloc(16)
	g.run("block_votes", shape(1, 100), args().Ptr(p))
	require.Equal(t, []uint32{20, 1, 0}, g.u32(p, 3))
	g.run("early_exit", shape(3, 100), args().Ptr(p+12))
	require.EqualValues(t, 150, g.u32(p+12, 1)[0])
}

func TestThreeDimensions(t *testing.T) {
	g := open(t, "", "warp.cu")
	const n = 3 * 4 * 5 * 2 * 3 * 2
	p := g.alloc(4 * n)
	g.run("three_dimensions", cuda.Launch{Grid: [3]uint32{2, 3, 2}, Block: [3]uint32{3, 4, 5}}, args().Ptr(p))
	out := g.u32(p, n)
	for i, v := range out {
		b, k := i/60, i%60
		require.EqualValues(t, b*1000+k/12*100+k/3%4*10+k%3, v, "element %d", i)
	}
}

func TestIntrinsics(t *testing.T) {
	g := open(t, "", "warp.cu")
	p := g.alloc(4)
	g.run("intrinsics", shape(1, 1), args().Ptr(p))
	require.Zero(t, g.u32(p, 1)[0], "bits of the checks that failed")
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
