package signal

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/wire"
)

func TestWaitSleepsUntilRung(t *testing.T) {
	word, bell := new(uint64), new(wire.Bell)
	addr, bellAddr := uintptr(unsafe.Pointer(word)), uintptr(unsafe.Pointer(bell))
	got := make(chan uint64)
	go func() {
		seen, err := Wait(addr, Cond{Ge, 3}, bellAddr, false, func() error { return nil })
		require.NoError(t, err)
		got <- seen
	}()
	require.Eventually(t, func() bool { return atomic.LoadUint32(&bell.Sleepers) == 1 }, time.Second, time.Microsecond)
	Apply(addr, Update{Add, 2})
	Ring(bellAddr)
	select {
	case v := <-got:
		t.Fatalf("woke with %d", v)
	case <-time.After(5 * time.Millisecond):
	}
	Apply(addr, Update{Add, 2})
	Ring(bellAddr)
	require.Equal(t, uint64(4), <-got)
	require.Zero(t, atomic.LoadUint32(&bell.Sleepers))
}

func TestWaitStops(t *testing.T) {
	word := new(uint64)
	stop := errors.New("stop")
	for _, bell := range []uintptr{0, uintptr(unsafe.Pointer(new(wire.Bell)))} {
		asked := 0
		seen, err := Wait(uintptr(unsafe.Pointer(word)), Cond{Eq, 1}, bell, true, func() error {
			if asked++; asked == 3 {
				return stop
			}
			return nil
		})
		require.Equal(t, stop, err)
		require.Zero(t, seen)
	}
	*word = 1
	seen, err := Wait(uintptr(unsafe.Pointer(word)), Cond{Eq, 1}, 0, false, func() error { return stop })
	require.NoError(t, err, "a word that holds wins over a stop")
	require.Equal(t, uint64(1), seen)
}

// Two threads take turns; a lost wake-up would cost a millisecond each and show as a slow test.
func TestPingPong(t *testing.T) {
	words, bells := new([16]uint64), new([2]wire.Bell)
	at := func(i int) uintptr { return uintptr(unsafe.Pointer(&words[8*i])) }
	bell := func(i int) uintptr { return uintptr(unsafe.Pointer(&bells[i])) }
	never := func() error { return nil }
	const rounds = 2000
	go func() {
		for i := uint64(1); i <= rounds; i++ {
			_, _ = Wait(at(0), Cond{Ge, i}, bell(0), true, never)
			Apply(at(1), Update{Set, i})
			Ring(bell(1))
		}
	}()
	for i := uint64(1); i <= rounds; i++ {
		Apply(at(0), Update{Set, i})
		Ring(bell(0))
		seen, err := Wait(at(1), Cond{Ge, i}, bell(1), true, never)
		require.NoError(t, err)
		require.Equal(t, i, seen)
	}
	Ring(0)
}
