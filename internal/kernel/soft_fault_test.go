package kernel_test

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/softgpu"
)

// fail launches a kernel that must fail with code, and returns the report.
func (g *gpu) fail(code int, name string, l cuda.Launch, a *cuda.Args) string {
	g.t.Helper()
	softgpu.ClearReport()
	var err error
	within(g.t, 20*time.Second, func() {
		g.start(name, l, a)
		err = g.StreamSynchronize(l.Stream)
	})
	require.Equal(g.t, code, cuda.Code(err), "%v; report: %s", err, softgpu.LastReport())
	return softgpu.LastReport()
}

func TestFaultsAreNamed(t *testing.T) {
	for _, c := range []struct {
		kernel string
		code   int
		l      cuda.Launch
		args   func(p cuda.DevicePtr) *cuda.Args
		report []string
	}{
		{"out_of_bounds", cuda.ErrIllegalAddress, shape(2, 64),
			func(p cuda.DevicePtr) *cuda.Args { return args().Ptr(p).U64(64 << 10 / 4) },
			[]string{"kernel out_of_bounds block 1 thread 3 (3,0,0)", "0 bytes after the end of device memory #"}},
		{"out_of_bounds", cuda.ErrIllegalAddress, shape(2, 64),
			func(p cuda.DevicePtr) *cuda.Args { return args().Ptr(p).U64(1<<64 - 2) },
			[]string{"8 bytes before device memory #"}},
		{"out_of_bounds", cuda.ErrIllegalAddress, shape(2, 64),
			func(cuda.DevicePtr) *cuda.Args { return args().Ptr(0).U64(4) },
			[]string{"accessed 0x10:"}},
		{"barrier_deadlock", cuda.ErrLaunchFailed, shape(1, 32), nil,
			[]string{"barrier deadlock in block 0 of kernel barrier_deadlock", "lanes 0..15 wait at a block barrier",
				"lanes 16..31 wait at a warp operation with mask 0xffffffff called from barrier_deadlock+"}},
		{"mask_mismatch", cuda.ErrLaunchFailed, shape(1, 32), nil, []string{"with mask 0x0000ffff", "with mask 0xffffffff"}},
		{"not_in_mask", cuda.ErrLaunchFailed, shape(1, 32), nil, []string{"__syncwarp with mask 0x00000001, without itself"}},
		{"traps", cuda.ErrLaunchFailed, shape(1, 32), nil, []string{"thread 9 (9,0,0) called __trap"}},
		{"asserts", cuda.ErrAssert, shape(1, 1), func(cuda.DevicePtr) *cuda.Args { return args().I32(41) },
			[]string{"assertion failed: v == 42", "faults.cu:"}},
		{"divides", cuda.ErrLaunchFailed, shape(1, 1),
			func(p cuda.DevicePtr) *cuda.Args { return args().Ptr(p).I32(0) }, []string{"divided an integer by zero"}},
		{"overflows", cuda.ErrLaunchFailed, shape(1, 2), func(p cuda.DevicePtr) *cuda.Args { return args().Ptr(p) },
			[]string{"overflowed its stack of 65536 bytes"}},
		{"fault_while_others_wait", cuda.ErrIllegalAddress, shape(8, 64),
			func(p cuda.DevicePtr) *cuda.Args { return args().Ptr(p).Ptr(0) }, []string{"block 0"}},
	} {
		t.Run(c.kernel, func(t *testing.T) {
			g := open(t, "", "faults.cu")
			p := g.alloc(64 << 10)
			a := args()
			if c.args != nil {
				a = c.args(p)
			}
			report := g.fail(c.code, c.kernel, c.l, a)
			for _, want := range c.report {
				require.Contains(t, report, want)
			}
		})
	}
}

func TestFaultIsStickyUntilTheContextGoes(t *testing.T) {
	g := open(t, "", "faults.cu")
	p := g.alloc(64)
	s, err := g.StreamCreate(cuda.StreamNonBlocking)
	require.NoError(t, err)
	g.fail(cuda.ErrLaunchFailed, "traps", shape(1, 32), nil)
	_, err = g.MemAlloc(64)
	require.Equal(t, cuda.ErrLaunchFailed, cuda.Code(err))
	require.Equal(t, cuda.ErrLaunchFailed, cuda.Code(g.CtxSynchronize()))
	require.Equal(t, cuda.ErrLaunchFailed, cuda.Code(g.StreamSynchronize(s)))
	require.Equal(t, cuda.ErrLaunchFailed, cuda.Code(g.LaunchKernel(g.fnSticky(), shape(1, 1), nil)))
	require.Equal(t, cuda.ErrLaunchFailed, cuda.Code(g.MemFree(p)), "frees, and still says so")
	g.close()
	g = open(t, "", "faults.cu")
	g.alloc(64)
}

func (g *gpu) fnSticky() cuda.Function { return cuda.Function(8) }

func TestManyFaultsLeaveTheProcessWhole(t *testing.T) {
	for i := range 20 {
		g := open(t, fmt.Sprintf("seed=%d,shuffle=1", i), "faults.cu")
		g.fail(cuda.ErrIllegalAddress, "out_of_bounds", shape(16, 256), args().Ptr(0).U64(uint64(i)))
		g.close()
	}
	g := open(t, "", "basic.cu")
	p := g.alloc(4)
	g.run("add_one", shape(1, 32), args().Ptr(p).I32(1))
}

// Go's own faults still go to Go.
func TestGoFaultsAreStillGos(t *testing.T) {
	g := open(t, "", "faults.cu")
	g.fail(cuda.ErrIllegalAddress, "out_of_bounds", shape(2, 32), args().Ptr(0).U64(0))
	var nothing *int
	require.Panics(t, func() { *nothing = 1 })
	debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(false)
	reserved, err := softgpu.Driver().MemAddressReserve(2<<20, 0, 0)
	require.Equal(t, cuda.ErrIllegalAddress, cuda.Code(err), "the context is broken")
	require.Zero(t, reserved)
	g.close()
	g = open(t, "", "")
	reserved, err = g.MemAddressReserve(2<<20, 0, 0)
	require.NoError(t, err)
	require.Panics(t, func() { *at[int](reserved) = 1 })
}

func TestOverrunOfDynamicSharedMemoryIsNamed(t *testing.T) {
	g := open(t, "", "basic.cu")
	l := shape(1, 1)
	l.Shared = 100
	report := g.fail(cuda.ErrIllegalAddress, "writes_behind_shared", l, nil)
	require.Contains(t, report, "wrote byte 100 of its dynamic shared memory of 100 bytes")
}

func TestBareSpinIsRescuedAndNamed(t *testing.T) {
	g := open(t, "", "basic.cu")
	p := g.alloc(4)
	within(t, 20*time.Second, func() { g.run("bare_spin", shape(1, 32), args().Ptr(p)) })
	g.put32(p, 0)
	require.NoError(t, g.LaunchKernel(g.fn("long_bare_spin"), shape(2, 32), args().Ptr(p)))
	require.Eventually(t, func() bool { return softgpu.LastReport() != "" }, 10*time.Second, time.Millisecond)
	*at[int32](p) = 1
	require.NoError(t, g.CtxSynchronize())
	report := softgpu.LastReport()
	require.Contains(t, report, "bare spin: kernel long_bare_spin block ")
	require.Contains(t, report, "loops at long_bare_spin+0x")
	require.Equal(t, 1, strings.Count(report, "bare spin"), "named once")
}

func TestLongComputationIsNoSpin(t *testing.T) {
	g := open(t, "", "basic.cu")
	p := g.alloc(4 * 32)
	g.run("long_compute", shape(1, 32), args().Ptr(p).U32(2_000_000))
	require.Empty(t, softgpu.LastReport())
}

func TestContextEndsRunningKernels(t *testing.T) {
	g := open(t, "", "basic.cu")
	p := g.alloc(16)
	g.start("spin_until", shape(4, 64), args().Ptr(p).U64(1).Ptr(p+8))
	time.Sleep(10 * time.Millisecond)
	within(t, 10*time.Second, g.close)
}

func TestInjectedFaults(t *testing.T) {
	g := open(t, "fail=cuMemAlloc:2:OUT_OF_MEMORY,fail=cuMemHostRegister:io:NOT_PERMITTED", "")
	for i, want := range []int{-1, cuda.ErrOutOfMemory, -1} {
		_, err := g.MemAlloc(64)
		require.Equal(t, want, cuda.Code(err), "call %d", i+1)
	}
	host, err := g.MemHostAlloc(4096, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, g.MemFreeHost(host)) }()

	// A page of a device's registers, and one that is not.
	page := g.foreignPage()
	err = g.MemHostRegister(page, 4096, cuda.HostRegisterIomemory|cuda.HostRegisterDevicemap)
	require.Equal(t, cuda.ErrNotPermitted, cuda.Code(err))
	require.NoError(t, g.MemHostRegister(page, 4096, cuda.HostRegisterDevicemap))
	require.NoError(t, g.MemHostUnregister(page))
}

func TestOptionsAreParsedStrictly(t *testing.T) {
	for text, want := range map[string]string{
		"sms":                              `"sms" is not key=value`,
		"sms=0":                            `sms is "0", want 1..1024`,
		"mem=8Q":                           `mem is "8Q"`,
		"mem=-1":                           `mem is "-1"`,
		"stack=1":                          "want 16384..",
		"warp=3":                           `unknown key "warp"`,
		"fail=cuMemAlloc:1":                "want fail=CALL:N:CODE",
		"fail=cuFoo:1:OUT_OF_MEMORY":       "no call cuFoo",
		"fail=cuMemAlloc:x:OUT_OF_MEMORY":  `N is "x"`,
		"fail=cuMemAlloc:1:BAD":            "unknown code BAD",
		"fail=cuMemAlloc:io:NOT_PERMITTED": "cuMemHostRegister only",
	} {
		err := softgpu.Configure(text)
		require.ErrorContains(t, err, want, text)
	}
	require.NoError(t, softgpu.Configure("mem=1G,sms=2,name=x,stack=128K"))
	require.NoError(t, softgpu.Configure(""))
	open(t, "", "")
	require.ErrorContains(t, softgpu.Configure(""), "in use")
}
