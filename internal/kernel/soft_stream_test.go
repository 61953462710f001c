package kernel_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/softgpu"
)

// gate is a kernel that runs until opened.
type gate struct {
	g    *gpu
	flag cuda.DevicePtr
}

func (g *gpu) gate(s cuda.Stream) *gate {
	g.t.Helper()
	k := &gate{g: g, flag: g.alloc(16)}
	l := shape(1, 32)
	l.Stream = s
	g.start("spin_until", l, args().Ptr(k.flag).U64(1).Ptr(k.flag+8))
	return k
}

// open lets the kernel end, as a NIC would: a store to memory, then the bell.
func (k *gate) open() {
	require.NoError(k.g.t, k.g.gateWrite(k.flag))
}

func (g *gpu) gateWrite(p cuda.DevicePtr) error {
	s, err := g.StreamCreate(cuda.StreamNonBlocking)
	if err != nil {
		return err
	}
	if err := g.StreamWriteValue64(s, p, 1, 0); err != nil {
		return err
	}
	if err := g.StreamSynchronize(s); err != nil {
		return err
	}
	return g.StreamDestroy(s)
}

func (g *gpu) stream(flags uint32) cuda.Stream {
	g.t.Helper()
	s, err := g.StreamCreate(flags)
	require.NoError(g.t, err)
	return s
}

func (g *gpu) event() cuda.Event {
	g.t.Helper()
	e, err := g.EventCreate(0)
	require.NoError(g.t, err)
	return e
}

func TestLaunchReturnsBeforeTheKernelEnds(t *testing.T) {
	g := open(t, "", "basic.cu")
	s := g.stream(cuda.StreamNonBlocking)
	k := g.gate(s)
	done, err := g.StreamQuery(s)
	require.NoError(t, err)
	require.False(t, done)
	k.open()
	require.NoError(t, g.StreamSynchronize(s))
	done, err = g.StreamQuery(s)
	require.NoError(t, err)
	require.True(t, done)
	require.EqualValues(t, 1, g.u64(k.flag+8))
}

func TestStreamsRunInOrderAndApart(t *testing.T) {
	g := open(t, "", "basic.cu")
	a, b := g.stream(cuda.StreamNonBlocking), g.stream(cuda.StreamNonBlocking)
	p := g.alloc(4 * 64)
	k := g.gate(a)
	l := shape(1, 64)
	l.Stream = a
	for range 5 {
		g.start("add_one", l, args().Ptr(p).I32(64))
	}
	l.Stream = b
	g.run("add_one", l, args().Ptr(p).I32(64))
	require.EqualValues(t, 1, *at[int32](p), "only stream b has run")
	k.open()
	require.NoError(t, g.StreamSynchronize(a))
	require.EqualValues(t, 6, *at[int32](p))
}

func TestEventsOrderStreams(t *testing.T) {
	g := open(t, "", "basic.cu")
	a, b := g.stream(cuda.StreamNonBlocking), g.stream(cuda.StreamNonBlocking)
	start, end := g.event(), g.event()
	require.NoError(t, g.EventRecord(start, a))
	k := g.gate(a)
	require.NoError(t, g.EventRecord(end, a))
	require.NoError(t, g.StreamWaitEvent(b, end))
	p := g.alloc(4)
	require.NoError(t, g.MemsetD8Async(p, 7, 4, b))

	require.NoError(t, g.EventSynchronize(start))
	time.Sleep(5 * time.Millisecond)
	done, err := g.EventQuery(end)
	require.NoError(t, err)
	require.False(t, done)
	require.Zero(t, *at[uint32](p), "stream b waits for the event")
	_, err = g.EventElapsedTime(start, end)
	require.Equal(t, cuda.ErrNotReady, cuda.Code(err))

	k.open()
	require.NoError(t, g.EventSynchronize(end))
	require.NoError(t, g.StreamSynchronize(b))
	require.EqualValues(t, 0x07070707, *at[uint32](p))
	d, err := g.EventElapsedTime(start, end)
	require.NoError(t, err)
	require.GreaterOrEqual(t, d, 5*time.Millisecond)
	require.Less(t, d, 5*time.Second)
	require.NoError(t, g.EventDestroy(end))
	require.Equal(t, cuda.ErrInvalidHandle, cuda.Code(g.EventSynchronize(end)))
}

func TestDefaultStreamWaitsForBlockingStreams(t *testing.T) {
	g := open(t, "", "basic.cu")
	blocking, free := g.stream(0), g.stream(cuda.StreamNonBlocking)
	p := g.alloc(16) // a synchronous set, which would wait for the kernel
	k := g.gate(blocking)
	require.NoError(t, g.MemsetD8Async(p, 1, 8, cuda.StreamDefault))
	require.NoError(t, g.MemsetD8Async(p+8, 1, 8, free))
	require.NoError(t, g.StreamSynchronize(free))
	require.NotZero(t, *at[uint64](p + 8))
	require.Zero(t, *at[uint64](p), "the default stream waits for the blocking stream")
	k.open()
	require.NoError(t, g.StreamSynchronize(cuda.StreamDefault))
	require.NotZero(t, *at[uint64](p))
}

func TestStreamMemoryOperations(t *testing.T) {
	g := open(t, "", "basic.cu")
	a, b := g.stream(cuda.StreamNonBlocking), g.stream(cuda.StreamNonBlocking)
	p := g.alloc(32)
	require.NoError(t, g.StreamWaitValue64(a, p, 5, cuda.WaitGEQ))
	require.NoError(t, g.StreamWriteValue64(a, p+8, 9, 0))
	require.NoError(t, g.StreamWaitValue64(b, p+8, 9, cuda.WaitEQ))
	require.NoError(t, g.StreamWriteValue64(b, p+16, 1, 0))
	require.NoError(t, g.gateWrite(p))
	time.Sleep(5 * time.Millisecond)
	require.Zero(t, *at[uint64](p + 8), "1 is not at least 5")
	c := g.stream(cuda.StreamNonBlocking)
	require.NoError(t, g.StreamWriteValue64(c, p, 6, 0))
	within(t, 5*time.Second, func() { require.NoError(t, g.StreamSynchronize(b)) })
	require.EqualValues(t, 1, *at[uint64](p + 16))
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(g.StreamWriteValue64(a, p+1, 0, 0)))
	require.Equal(t, cuda.ErrNotSupported, cuda.Code(g.StreamWaitValue64(a, p, 0, cuda.WaitNOR)))
}

func TestAsynchronousCopies(t *testing.T) {
	g := open(t, "", "basic.cu")
	s := g.stream(cuda.StreamNonBlocking)
	const n = 1 << 20
	host, err := g.MemHostAlloc(n, 0)
	require.NoError(t, err)
	bytes := unsafe.Slice((*byte)(host), n)
	for i := range bytes {
		bytes[i] = byte(i * 7)
	}
	p, q := g.alloc(n), g.alloc(n)
	require.NoError(t, g.MemcpyHtoDAsync(p, host, n, s))
	require.NoError(t, g.MemcpyDtoDAsync(q, p, n, s))
	require.NoError(t, g.StreamSynchronize(s))
	clear(bytes)
	require.NoError(t, g.MemcpyDtoHAsync(host, q, n, s))
	require.NoError(t, g.StreamSynchronize(s))
	for i := range bytes {
		require.Equal(t, byte(i*7), bytes[i])
	}
	require.Equal(t, cuda.ErrInvalidValue, cuda.Code(g.MemcpyDtoD(p+1, q, n+64<<10)), "beyond the allocation")
}

// What is copied from pageable memory is what was there at the call.
func TestAsynchronousCopyFromPageableMemoryIsStaged(t *testing.T) {
	g := open(t, "", "basic.cu")
	s := g.stream(cuda.StreamNonBlocking)
	p := g.alloc(8)
	k := g.gate(s)
	page := (*uint64)(g.foreignPage())
	*page = 11
	require.NoError(t, g.MemcpyHtoDAsync(p, unsafe.Pointer(page), 8, s))
	*page = 22
	k.open()
	require.NoError(t, g.StreamSynchronize(s))
	require.EqualValues(t, 11, g.u64(p))
}

func TestKernelLaunchTimes(t *testing.T) {
	g := open(t, "", "basic.cu")
	f := g.fn("nothing")
	launch := func(l cuda.Launch, n int) time.Duration {
		start := time.Now()
		for range n {
			require.NoError(t, g.LaunchKernel(f, l, nil))
		}
		require.NoError(t, g.CtxSynchronize())
		return time.Since(start) / time.Duration(n)
	}
	launch(shape(32, 1024), 1)
	t.Logf("launch 1x32: %v, 1x1024: %v, 32x1024: %v", launch(shape(1, 32), 200), launch(shape(1, 1024), 50),
		launch(shape(32, 1024), 20))
	// Stacks are kept: a first launch of this size takes 100 ms and more.
	require.Less(t, launch(shape(32, 1024), 5), 100*time.Millisecond)
}

func TestNothingIsLeftBehind(t *testing.T) {
	round := func(i int) {
		g := open(t, "", "basic.cu")
		a, b := g.stream(0), g.stream(cuda.StreamNonBlocking)
		e := g.event()
		p := g.alloc(1 << 20)
		l := shape(3, 32)
		l.Stream = a
		g.start("add_one", l, args().Ptr(p).I32(64))
		require.NoError(t, g.EventRecord(e, a))
		require.NoError(t, g.StreamWaitEvent(b, e))
		require.NoError(t, g.StreamSynchronize(b))
		if i%2 == 0 { // the other rounds leave everything to the context
			require.NoError(t, g.StreamDestroy(a))
			require.NoError(t, g.EventDestroy(e))
			require.NoError(t, g.MemFree(p))
			require.NoError(t, g.ModuleUnload(g.mod))
		}
		g.close()
		require.Equal(t, softgpu.Usage{}, softgpu.GetUsage())
	}
	for i := range 10 {
		round(i)
	}
	fds, tasks := openFDs(t), threads(t)
	for i := range 500 {
		round(i)
	}
	require.LessOrEqual(t, openFDs(t), fds)
	require.LessOrEqual(t, threads(t), tasks+2, "Go may start a thread of its own")
}
