package softhca_test

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/softhca"
)

const chaosSpec = "mode=chaos,chaos_delay_us=20,chaos_split=8,seed="

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// violations runs rounds of "payload, then flag" and counts how often the flag was seen before the payload.
func violations(t *testing.T, access uint32, rounds int, flag func(p *pair, round uint64) []byte) int {
	p := newPairOn(t, defaults(), "mlx5_0", "mlx5_0", access)
	const n, flagAt = 4096, 1 << 16
	bad := 0
	for round := uint64(1); round <= uint64(rounds); round++ {
		fill(p.src.b[:n], byte(round))
		binary.NativeEndian.PutUint64(p.src.b[flagAt:], round)
		w := write(n, p.lkey, 0, p.rkey, 0)
		w[11] = 0
		p.a.post(w)
		p.a.post(flag(p, round))
		p.a.ring()
		for atomic.LoadUint64(p.dst.word64(flagAt)) != round {
			time.Sleep(time.Microsecond)
		}
		for at := 0; at < n; at += 8 {
			if byte(atomic.LoadUint64(p.dst.word64(at))) != byte(round) {
				bad++
				break
			}
		}
		p.a.wait()
		require.Equal(t, p.src.b[:n], p.dst.b[:n], "the completion covers all of it")
	}
	return bad
}

func flagWrite(p *pair, _ uint64) []byte { return write(8, p.lkey, 1<<16, p.rkey, 1<<16) }

func flagAtomic(p *pair, _ uint64) []byte { return fetchAdd(1, p.lkey, 1<<17, p.rkey, 1<<16) }

func TestPayloadBeforeFlag(t *testing.T) {
	for _, mode := range append([]string{chaosSpec + "1", chaosSpec + "2"}, modes[:2]...) {
		configure(t, mode)
		require.Zero(t, violations(t, allAccess, 150, flagWrite), mode)
		require.Zero(t, violations(t, allAccess, 150, flagAtomic), mode)
		// Relaxed writes do not pass atomics either.
		require.Zero(t, violations(t, allAccess|mlx5.AccessRelaxedOrdering, 150, flagAtomic), mode)
	}
}

// The control: with relaxed ordering the flag may come first, and chaos shows it.
func TestRelaxedOrderingIsSeen(t *testing.T) {
	configure(t, chaosSpec+"3")
	require.NotZero(t, violations(t, allAccess|mlx5.AccessRelaxedOrdering, 300, flagWrite))
}

// A WRITE of what an earlier READ fetched needs the fence. Without it chaos sends the old bytes.
func TestFenceAfterRead(t *testing.T) {
	stale := func(flags byte) int {
		configure(t, chaosSpec+"4")
		p := newPair(t, defaults())
		bad := 0
		for round := uint64(1); round <= 200; round++ {
			*p.dst.word64(0) = round
			*p.src.word64(0) = 0
			p.a.post(read(8, p.lkey, 0, p.rkey, 0))
			w := write(8, p.lkey, 0, p.rkey, 64)
			w[11] |= flags
			p.a.post(w)
			p.a.ring()
			p.a.wait()
			p.a.wait()
			require.Equal(t, round, *p.src.word64(0))
			if *p.dst.word64(64) != round {
				bad++
			}
		}
		return bad
	}
	require.NotZero(t, stale(0), "no fence")
	require.Zero(t, stale(0x40), "fence")
	require.Zero(t, stale(0x80), "fence and small fence")
	require.Zero(t, stale(0x60), "strong ordering")
}

// Many threads ring queue pairs of one HCA at once, in pairs that write into each other; nothing is lost.
func TestConcurrentDoorbells(t *testing.T) {
	eachMode(t, "", func(t *testing.T) {
		const pairs, rounds = 4, 300
		var wg sync.WaitGroup
		for i := range pairs {
			p := newPair(t, defaults())
			*p.src.word64(8) = 0
			for side, q := range []*queue{p.a, p.b} {
				wg.Add(1)
				go func() {
					defer wg.Done()
					key, remoteKey := p.lkey, p.rkey
					if side == 1 {
						key, remoteKey = p.lkeyB, p.rkeyA
					}
					r := rand.New(rand.NewPCG(uint64(i), uint64(side)))
					for n := 0; n < rounds; {
						batch := 1 + r.IntN(8)
						for range batch {
							q.post(fetchAdd(1, key, 64, remoteKey, 8))
							n++
						}
						q.ring()
						for range batch {
							if cqe := q.wait(); cqe.Get(prm.Cqe.Opcode) != 0 {
								t.Errorf("CQE % x", []byte(cqe))
								return
							}
						}
					}
				}()
			}
			defer func() {
				require.GreaterOrEqual(t, *p.dst.word64(8), uint64(rounds))
				require.Equal(t, *p.dst.word64(8)+*p.src.word64(8), softCount(p))
			}()
		}
		wg.Wait()
	})
}

func softCount(p *pair) uint64 {
	a, _ := softhca.QPCounters(p.a.qpn)
	b, _ := softhca.QPCounters(p.b.qpn)
	return a.WQEAtomicFA + b.WQEAtomicFA
}

// One queue rung by several threads at once: doorbells are combined, each WQE is executed once.
func TestCombinedDoorbells(t *testing.T) {
	eachMode(t, "", func(t *testing.T) {
		cfg := defaults()
		cfg.logSQ, cfg.logCQ = 12, 12
		p := newPair(t, cfg)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 4 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range 500 {
					mu.Lock()
					p.a.post(fetchAdd(1, p.lkey, 0, p.rkey, 0))
					p.a.ring()
					mu.Unlock()
					_ = softhca.MMIOStore(p.a.d.uar.RegAddr, doorbell(0, p.a.qpn<<8)) // an old one, of no effect
				}
			}()
		}
		wg.Wait()
		p.a.ring()
		for range 2000 {
			p.a.wait()
		}
		require.Equal(t, uint64(2000), *p.dst.word64(0))
	})
}

// Deregistration waits for engines, and afterwards the memory stays as it is.
func TestDeregistrationStopsWrites(t *testing.T) {
	eachMode(t, "", func(t *testing.T) {
		cfg := defaults()
		cfg.logSQ = 10
		p := newPair(t, cfg)
		target := newMemory(t, 1<<20)
		mr, err := p.b.d.pd.RegDmabufMR(0, 1<<20, 0, target.fd, allAccess)
		require.NoError(t, err)
		var stop atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !stop.Load() {
				p.a.post(ctrl(prm.OpcodeRdmaWrite, 0, 0, 0, raddr(0, mr.RKey), data(1<<19, p.lkey, 0)))
				p.a.post(nop())
				p.a.ring()
				if p.a.wait().Get(prm.Cqe.Opcode) != 0 {
					p.a.wait() // the NOP, flushed
					return
				}
			}
		}()
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, mr.Close())
		clear(target.b)
		time.Sleep(5 * time.Millisecond)
		require.Equal(t, make([]byte, 1<<20), target.b)
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			t.Error("writes go on after deregistration")
			stop.Store(true)
			<-done
		}
		require.Equal(t, prm.QpStateErr, p.a.state())
	})
}
