package signal

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/internal/wire"
)

// How a waiter steps down from spinning to sleeping. Long spins and early sleeps both cost more than they save when
// there are more PEs than cores.
const (
	spins     = 100 // loads before the first yield, well under a microsecond
	yields    = 50
	sleepTime = time.Millisecond // a missed ring costs at most this
)

// Ring wakes the sleepers of the PE that owns the bell (a wire.Bell mapped here); 0 is no bell. Call it after the change
// that they wait for was made with Apply or any other sequentially consistent atomic.
func Ring(bell uintptr) {
	if bell == 0 {
		return
	}
	b := bellAt(bell)
	if atomic.LoadUint32(&b.Sleepers) == 0 {
		return
	}
	atomic.AddUint32(&b.Seq, 1)
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&b.Seq)), futexWake, 1<<30, 0, 0, 0)
}

// Wait returns the value of the word at addr once it satisfies c. It loads, then yields the core, then sleeps on the
// bell of this PE (or, without one, for short times). stop is asked before each sleep; its error ends the wait and is
// returned with the last value seen. crowded says that the writer may be a goroutine of this process, which then needs the
// Go scheduler's turn and not only the system's.
func Wait(addr uintptr, c Cond, bell uintptr, crowded bool, stop func() error) (uint64, error) {
	for range spins {
		if seen := Load(addr); c.Holds(seen) {
			return seen, nil
		}
	}
	for range yields {
		if crowded {
			runtime.Gosched()
		}
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		if seen := Load(addr); c.Holds(seen) {
			return seen, nil
		}
	}
	for {
		if err := stop(); err != nil {
			seen := Load(addr)
			if c.Holds(seen) {
				return seen, nil
			}
			return seen, err
		}
		sleep(addr, c, bell)
		if seen := Load(addr); c.Holds(seen) {
			return seen, nil
		}
	}
}

// sleep announces the sleeper before it looks at the word again, so that a ring in between is not lost.
func sleep(addr uintptr, c Cond, bell uintptr) {
	if bell == 0 {
		time.Sleep(sleepTime / 20)
		return
	}
	b := bellAt(bell)
	atomic.AddUint32(&b.Sleepers, 1)
	seq := atomic.LoadUint32(&b.Seq)
	if !c.Holds(Load(addr)) {
		limit := unix.NsecToTimespec(int64(sleepTime))
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&b.Seq)), futexWait, uintptr(seq),
			uintptr(unsafe.Pointer(&limit)), 0, 0)
	}
	atomic.AddUint32(&b.Sleepers, ^uint32(0))
}

// The futex is shared between processes, so no FUTEX_PRIVATE_FLAG.
const (
	futexWait = 0
	futexWake = 1
)

func bellAt(addr uintptr) *wire.Bell { return *(**wire.Bell)(unsafe.Pointer(&addr)) }
