package kernel_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/native/gdr"
	"github.com/pgas-go/pgas/internal/softgpu"
)

func TestMemoryIsLimitedAndReserved(t *testing.T) {
	g := open(t, "mem=64M", "")
	free, total, err := g.MemGetInfo()
	require.NoError(t, err)
	require.EqualValues(t, 64<<20, free)
	require.EqualValues(t, 64<<20, total)
	p := g.alloc(40 << 20)
	_, err = g.MemAlloc(40 << 20)
	require.Equal(t, cuda.ErrOutOfMemory, cuda.Code(err))
	_, err = g.MemCreate(26<<20, cuda.MemProp{})
	require.Equal(t, cuda.ErrOutOfMemory, cuda.Code(err))
	require.NoError(t, g.MemFree(p))
	free, _, err = g.MemGetInfo()
	require.NoError(t, err)
	require.EqualValues(t, 64<<20, free)
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(g.MemFree(p)), "freed twice")
}

func TestMoreThanTheMachineHasIsRefusedAtOnce(t *testing.T) {
	g := open(t, "mem=64000G", "")
	start := time.Now()
	_, err := g.MemAlloc(60000 << 30)
	require.Equal(t, cuda.ErrOutOfMemory, cuda.Code(err))
	require.Less(t, time.Since(start), time.Second)
}

func TestPointerAttributes(t *testing.T) {
	g := open(t, "", "")
	p := g.alloc(100)
	for attr, want := range map[int]uint64{cuda.PointerMemoryType: cuda.MemoryTypeDevice, cuda.PointerDeviceOrdinal: 0,
		cuda.PointerRangeStartAddr: uint64(p), cuda.PointerRangeSize: 64 << 10, cuda.PointerDevicePointer: uint64(p + 5)} {
		v, err := g.PointerAttribute(attr, p+5)
		require.NoError(t, err)
		require.Equal(t, want, v, "attribute %d", attr)
	}
	require.NoError(t, g.PointerSetSyncMemops(p))
	host, err := g.MemHostAlloc(64, 0)
	require.NoError(t, err)
	kind, err := g.PointerAttribute(cuda.PointerMemoryType, cuda.DevicePtr(uintptr(host)))
	require.NoError(t, err)
	require.EqualValues(t, cuda.MemoryTypeHost, kind)
	_, err = g.PointerAttribute(cuda.PointerMemoryType, 4096)
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(err))
	require.Contains(t, softgpu.Describe(uint64(p)+7), "byte 7 of device memory #")
}

func TestHostRegistration(t *testing.T) {
	g := open(t, "", "basic.cu")
	page := g.foreignPage()
	_, err := g.MemHostGetDevicePointer(page)
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(err))
	require.NoError(t, g.MemHostRegister(page, 4096, cuda.HostRegisterDevicemap))
	require.Equal(t, cuda.ErrHostMemoryAlreadyRegistered, cuda.Code(g.MemHostRegister(page, 64, 0)))
	dp, err := g.MemHostGetDevicePointer(page)
	require.NoError(t, err)
	g.run("add_one", shape(1, 32), args().Ptr(dp).I32(1))
	require.EqualValues(t, 1, *(*int32)(page))
	require.NoError(t, g.MemHostUnregister(page))
	require.Equal(t, cuda.ErrHostMemoryNotRegistered, cuda.Code(g.MemHostUnregister(page)))
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(g.MemHostRegister(unsafe.Pointer(at[byte](4096)), 64, 0)))
}

func TestVirtualMemory(t *testing.T) {
	g := open(t, "", "basic.cu")
	const unit = 2 << 20
	n, err := g.MemAllocationGranularity(cuda.MemProp{}, false)
	require.NoError(t, err)
	require.EqualValues(t, unit, n)
	base, err := g.MemAddressReserve(4*unit, 8*unit, 0)
	require.NoError(t, err)
	require.Zero(t, base%(8*unit))
	h, err := g.MemCreate(2*unit, cuda.MemProp{Shareable: true})
	require.NoError(t, err)
	require.NoError(t, g.MemMap(base+unit, 2*unit, 0, h))
	require.Equal(t, cuda.ErrAlreadyMapped, cuda.Code(g.MemMap(base+2*unit, unit, 0, h)))
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(g.MemMap(base+4*unit, unit, 0, h)), "outside the reservation")
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(g.MemMap(base, unit, 2*unit, h)), "outside the memory")
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(g.MemsetD8(base+unit, 1, 8)), "no access yet")
	require.NoError(t, g.MemSetAccess(base+unit, 2*unit, 0, cuda.AccessReadWrite))
	require.NoError(t, g.MemsetD8(base+unit, 1, 2*unit))
	require.NoError(t, g.MemRelease(h))
	g.run("add_one", shape(1, 32), args().Ptr(base+2*unit).I32(1))
	require.EqualValues(t, 0x01010102, g.u32(base+2*unit, 1)[0])

	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(g.MemUnmap(base+unit, unit)), "part of a mapping")
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(g.MemAddressFree(base, 4*unit)), "still mapped")
	report := g.fail(cuda.ErrIllegalAddress, "add_one", shape(1, 32), args().Ptr(base+3*unit).I32(1))
	require.Contains(t, report, "0 bytes after the end of mapped memory #")
	require.Equal(t, cuda.ErrIllegalAddress, cuda.Code(g.MemUnmap(base+unit, 2*unit)), "done, though the context is broken")
	require.Equal(t, cuda.ErrIllegalAddress, cuda.Code(g.MemAddressFree(base, 4*unit)))
	require.Zero(t, softgpu.GetUsage().Bytes)
}

func TestCapabilitiesCanBeTakenAway(t *testing.T) {
	g := open(t, "vmm=0,dmabuf=0,rdma=0,memops=0", "")
	for _, attr := range []int{cuda.AttrVirtualMemoryManagementSupported, cuda.AttrDMABufSupported,
		cuda.AttrGPUDirectRDMASupported, cuda.AttrCanUse64BitStreamMemOps} {
		v, err := g.DeviceAttribute(attr, 0)
		require.NoError(t, err)
		require.Zero(t, v, "attribute %d", attr)
	}
	_, err := g.MemCreate(2<<20, cuda.MemProp{})
	require.Equal(t, cuda.ErrNotSupported, cuda.Code(err))
	_, err = g.MemDmaBufFD(g.alloc(4096), 4096)
	require.Equal(t, cuda.ErrNotSupported, cuda.Code(err))
}

func TestExportedRangesAreTheSameMemory(t *testing.T) {
	g := open(t, "", "")
	p := g.alloc(256 << 10)
	fd, offset, err := softgpu.ExportRange(uint64(p)+4096, 4096)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.EqualValues(t, 4096, offset)
	mem, err := unix.Mmap(fd, int64(offset), 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	mem[5] = 77
	require.EqualValues(t, 77, *at[byte](p + 4096 + 5))
	require.NoError(t, unix.Munmap(mem))
	require.Error(t, unix.Ftruncate(fd, 0), "nobody can take the memory away")
	_, _, err = softgpu.ExportRange(uint64(p), 256<<10+1)
	require.Error(t, err)
	dmabuf, err := g.MemDmaBufFD(p, 64<<10)
	require.NoError(t, err)
	require.NoError(t, unix.Close(dmabuf))
}

func TestGDRMapping(t *testing.T) {
	g := open(t, "", "basic.cu")
	lib := softgpu.GDR()
	require.Equal(t, "2.5", lib.Version())
	h, err := lib.Open()
	require.NoError(t, err)
	p := g.alloc(128 << 10)
	pinned, err := h.Pin(uint64(p), 2*gdr.PageSize, 0)
	require.NoError(t, err)
	_, err = h.Pin(uint64(p), 3*gdr.PageSize, 0)
	require.ErrorIs(t, err, unix.EINVAL)
	va, err := h.Map(pinned, gdr.PageSize)
	require.NoError(t, err)
	_, err = h.Map(pinned, gdr.PageSize)
	require.ErrorIs(t, err, unix.EAGAIN)
	info, err := h.Info(pinned)
	require.NoError(t, err)
	require.True(t, info.Mapped)
	require.EqualValues(t, p, info.VA)
	require.NoError(t, h.CopyTo(pinned, va, []byte{41, 0, 0, 0}))
	g.run("add_one", shape(1, 32), args().Ptr(p).I32(1))
	var back [4]byte
	require.NoError(t, h.CopyFrom(pinned, back[:], va))
	require.EqualValues(t, 42, back[0])
	require.NoError(t, h.Unmap(pinned, va, gdr.PageSize))
	require.NoError(t, h.Unpin(pinned))
	require.ErrorIs(t, h.Unpin(pinned), unix.EINVAL)
	require.NoError(t, h.Close())
}

// Two processes share memory and a bell: the kernel of this one sleeps until the kernel of the other one writes.
func TestMemoryAndBellBetweenProcesses(t *testing.T) {
	g := open(t, "", "basic.cu")
	const unit = 2 << 20
	h, err := g.MemCreate(unit, cuda.MemProp{Shareable: true})
	require.NoError(t, err)
	base, err := g.MemAddressReserve(unit, 0, 0)
	require.NoError(t, err)
	require.NoError(t, g.MemMap(base, unit, 0, h))
	require.NoError(t, g.MemSetAccess(base, unit, 0, cuda.AccessReadWrite))
	fd, err := g.MemExportFD(h)
	require.NoError(t, err)
	memory := os.NewFile(uintptr(fd), "memory")
	defer memory.Close()
	bellFD, err := unix.FcntlInt(uintptr(softgpu.BellFD()), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	bell := os.NewFile(uintptr(bellFD), "bell")
	defer bell.Close()

	g.start("spin_until", shape(1, 32), args().Ptr(base).U64(1).Ptr(base+64))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PGAS_KERNEL_TEST_CHILD="+buildModule(t, "basic.cu"))
	cmd.ExtraFiles = []*os.File{memory, bell}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	within(t, 10*time.Second, func() { require.NoError(t, g.CtxSynchronize()) })
	require.EqualValues(t, 1, g.u64(base+64))
	require.EqualValues(t, 3, g.u64(base+128), "written by the kernel of the other process")
}

// runChild is the other process of TestMemoryAndBellBetweenProcesses.
func runChild(module string) int {
	if err := childMain(module); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func childMain(path string) error {
	const memoryFD, bellFD, unit = 3, 4, 2 << 20
	d := softgpu.Driver()
	if err := d.Init(); err != nil {
		return err
	}
	ctx, err := d.PrimaryCtxRetain(0)
	if err != nil {
		return err
	}
	d.Bind(ctx)
	h, err := d.MemImportFD(memoryFD)
	if err != nil {
		return err
	}
	base, err := d.MemAddressReserve(unit, 0, 0)
	if err != nil {
		return err
	}
	if err := d.MemMap(base, unit, 0, h); err != nil {
		return err
	}
	if err := d.MemSetAccess(base, unit, 0, cuda.AccessReadWrite); err != nil {
		return err
	}
	m, err := d.ModuleLoad(path)
	if err != nil {
		return err
	}
	bell, err := unix.Mmap(bellFD, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	f, err := d.ModuleFunction(m, "write_and_ring")
	if err != nil {
		return err
	}
	a := (&cuda.Args{}).Ptr(base).Ptr(cuda.DevicePtr(uintptr(unsafe.Pointer(&bell[0]))))
	if err := d.LaunchKernel(f, cuda.Launch{}, a); err != nil {
		return err
	}
	if err := d.CtxSynchronize(); err != nil {
		return err
	}
	d.Bind(0)
	return d.PrimaryCtxRelease(0)
}

func TestImportTakesOnlyExports(t *testing.T) {
	g := open(t, "", "")
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(2<<20))
	_, err = g.MemImportFD(int(f.Fd()))
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(err))
	h, err := g.MemCreate(2<<20, cuda.MemProp{})
	require.NoError(t, err)
	_, err = g.MemExportFD(h)
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(err), "not made to be shared")
}

// A waiting kernel costs no processor time.
func TestWaitersSleep(t *testing.T) {
	g := open(t, "", "basic.cu")
	s := g.stream(cuda.StreamNonBlocking)
	k := g.gate(s)
	time.Sleep(20 * time.Millisecond)
	before := cpuTime(t)
	time.Sleep(300 * time.Millisecond)
	used := cpuTime(t) - before
	k.open()
	require.NoError(t, g.StreamSynchronize(s))
	require.Less(t, used, 60*time.Millisecond, "of 300 ms")
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/stat")
	require.NoError(t, err)
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+2:]))
	user, err := strconv.Atoi(f[11])
	require.NoError(t, err)
	system, err := strconv.Atoi(f[12])
	require.NoError(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}
