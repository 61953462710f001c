package main

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// fixture is one PE's view of a round, made in plain Go as correct kernels would make it.
type fixture struct {
	ref     *Reference
	batches []Batch
	pe      int
	gen     uint64
	words   []uint64
	recv    []byte
	out     []byte
}

func newFixture(t *testing.T, c Config, pes, pe int, gen uint64, kind string) *fixture {
	require.NoError(t, c.check(pes))
	l, err := newLayout(c, pes)
	require.NoError(t, err)
	f := &fixture{ref: newReference(c, l, pes), pe: pe, gen: gen}
	for p := range pes {
		f.batches = append(f.batches, generate(c, kind, pes, p, gen))
	}
	f.words = make([]uint64, l.Pairs)
	f.recv = make([]byte, l.Recv.Count*l.Recv.Stride)
	for i := range f.recv {
		f.recv[i] = canary
	}
	stride := int(l.Recv.Stride)
	for pair := range l.Pairs {
		local, source := pair/pes, pair%pes
		tokens := make([]int, 0)
		for token := range wanted(f.batches[source], c.TopK, pe*l.LocalExperts+local) { // map order: any slot order is legal
			tokens = append(tokens, token)
		}
		f.words[pair] = countWord(gen, len(tokens))
		for slot, token := range tokens {
			copy(f.recv[(pair*c.Tokens+slot)*stride:], f.ref.message(f.batches[source], source, gen, token))
		}
	}
	f.out = make([]byte, l.Out.Count*l.Out.Stride)
	for token := range f.batches[pe].Tokens {
		for i, v := range f.ref.combined(f.batches[pe], pe, gen, token) {
			binary.LittleEndian.PutUint16(f.out[token*int(l.Out.Stride)+2*i:], v)
		}
	}
	return f
}

func (f *fixture) dispatch() error {
	return newVerifier(f.ref, f.pe).dispatch(f.gen, f.batches, f.words, f.recv)
}

func (f *fixture) combine() error {
	return newVerifier(f.ref, f.pe).combine(f.gen, f.batches[f.pe], f.out)
}

func TestVerifierAcceptsCorrectRounds(t *testing.T) {
	for _, args := range [][]string{nil, {"-bf16"}, {"-pow2-scales"}, {"-bf16", "-hidden", "15"}, {"-bf16", "-hidden", "1"}, {"-tokens", "0"}} {
		for _, kind := range routings {
			f := newFixture(t, smallConfig(t, args...), 4, 1, 5, kind)
			require.NoError(t, f.dispatch(), "%v %s", args, kind)
			require.NoError(t, f.combine(), "%v %s", args, kind)
		}
	}
}

// A flipped bit anywhere that is covered by a count, or never was, is found and named.
func TestVerifierFindsEveryFlippedBit(t *testing.T) {
	for _, args := range [][]string{nil, {"-bf16", "-hidden", "16"}} {
		f := newFixture(t, smallConfig(t, args...), 4, 1, 5, "zipf")
		l := f.ref.l
		r := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			at := r.IntN(len(f.recv))
			inSlot := at % int(l.Recv.Stride)
			slot := at / int(l.Recv.Stride)
			pair := slot / f.ref.c.Tokens
			counted := slot%f.ref.c.Tokens < int(uint32(f.words[pair]))
			f.recv[at] ^= 1 << r.IntN(8)
			err := f.dispatch()
			if counted && inSlot >= l.MessageBytes {
				require.NoError(t, err) // padding behind a message belongs to nobody
			} else {
				var m *Mismatch
				require.ErrorAs(t, err, &m, "byte %d", at)
				require.Equal(t, pair, (m.Expert-f.pe*l.LocalExperts)*4+m.Source)
				require.Equal(t, slot%f.ref.c.Tokens, m.Slot)
				if inSlot >= 4 || !counted { // a wrong token number shows at byte 0
					require.Equal(t, inSlot, m.Byte)
				}
			}
			f = newFixture(t, f.ref.c, 4, 1, 5, "zipf")
		}
	}
}

func TestVerifierFindsWrongCounts(t *testing.T) {
	f := newFixture(t, smallConfig(t), 4, 1, 5, "uniform")
	for pair := range f.words {
		old := f.words[pair]
		for _, bad := range []uint64{old + 1, old + 1<<32, 0, old - 2<<32} {
			f.words[pair] = bad
			var m *Mismatch
			require.ErrorAs(t, f.dispatch(), &m)
			require.Equal(t, "count word", m.Why)
			require.Equal(t, bad, m.Got)
		}
		f.words[pair] = old
	}
}

// The same token twice in place of two different ones has the right count and only known tokens.
func TestVerifierFindsADuplicate(t *testing.T) {
	f := newFixture(t, smallConfig(t), 4, 1, 5, "onehot")
	for pair, w := range f.words {
		if uint32(w) > 1 {
			stride := int(f.ref.l.Recv.Stride)
			at := pair * f.ref.c.Tokens * stride
			copy(f.recv[at+stride:at+2*stride], f.recv[at:at+stride])
			require.ErrorContains(t, f.dispatch(), "came before")
			return
		}
	}
	f = newFixture(t, smallConfig(t), 4, int(newPicker(f.ref.c, "onehot").hot)/f.ref.l.LocalExperts, 5, "onehot")
	pair := int(newPicker(f.ref.c, "onehot").hot) % f.ref.l.LocalExperts * 4
	stride := int(f.ref.l.Recv.Stride)
	at := pair * f.ref.c.Tokens * stride
	copy(f.recv[at+stride:at+2*stride], f.recv[at:at+stride])
	require.ErrorContains(t, f.dispatch(), "came before")
}

func TestVerifierFindsAWrongSum(t *testing.T) {
	f := newFixture(t, smallConfig(t), 4, 2, 6, "masked")
	row := 2 * f.ref.c.Hidden
	for token := range f.batches[2].Tokens {
		at := token*int(f.ref.l.Out.Stride) + token%row
		f.out[at] ^= 0x10
		var m *Mismatch
		require.ErrorAs(t, f.combine(), &m)
		require.Equal(t, token, m.Slot)
		require.Equal(t, token%row, m.Byte)
		f.out[at] ^= 0x10
	}
	require.NoError(t, f.combine())
}

// A slot filled by an earlier generation of the same parity may hold anything; of the other parity it may not.
func TestVerifierRemembersFilledSlots(t *testing.T) {
	c := smallConfig(t)
	a := newFixture(t, c, 4, 1, 2, "onehot")
	v := newVerifier(a.ref, int(newPicker(c, "onehot").hot)/a.ref.l.LocalExperts)
	a = newFixture(t, c, 4, v.pe, 2, "onehot")
	require.NoError(t, v.dispatch(2, a.batches, a.words, a.recv))
	b := newFixture(t, c, 4, v.pe, 4, "masked")
	for i, x := range b.recv {
		if x == canary {
			b.recv[i] = a.recv[i]
		}
	}
	require.NoError(t, v.dispatch(4, b.batches, b.words, b.recv))
	require.Error(t, newVerifier(b.ref, v.pe).dispatch(4, b.batches, b.words, b.recv))
}

// The quantized channels are within half a step of the original ones, group by group.
func TestQuantizeError(t *testing.T) {
	for _, pow2 := range []bool{false, true} {
		c := testConfig(t, "-tokens", "16")
		b := generate(c, "uniform", 1, 0, 1)
		q, scales := make([]byte, c.Hidden), make([]byte, c.Hidden/scaleGroup*4)
		for token := range b.Tokens {
			x := b.X[token*c.Hidden : (token+1)*c.Hidden]
			quantize(x, pow2, q, scales)
			for i, v := range x {
				s := float64(math.Float32frombits(binary.LittleEndian.Uint32(scales[i/scaleGroup*4:])))
				want, got := float64(fromBF16(v)), float64(fromE4M3(q[i]))*s
				step := max(math.Abs(want)/16, s/1024) // 2^-4 relative, or half of 2^-9 scaled
				require.LessOrEqual(t, math.Abs(want-got), step*1.0001)
			}
		}
	}
}

// The tolerance holds for real shapes with room, and fails for a sum that is off by a tenth.
func TestTolerance(t *testing.T) {
	for _, pow2 := range []string{"-pow2-scales=false", "-pow2-scales=true"} {
		c := testConfig(t, "-tokens", "16", "-hidden", "1024", "-experts", "8", pow2)
		l, err := newLayout(c, 2)
		require.NoError(t, err)
		ref := newReference(c, l, 2)
		b := generate(c, "uniform", 2, 0, 1)
		out := make([]byte, l.Out.Count*l.Out.Stride)
		scaled := make([]byte, len(out))
		for token := range b.Tokens {
			for i, v := range ref.combined(b, 0, 1, token) {
				binary.LittleEndian.PutUint16(out[token*int(l.Out.Stride)+2*i:], v)
				binary.LittleEndian.PutUint16(scaled[token*int(l.Out.Stride)+2*i:], toBF16(1.1*fromBF16(v)))
			}
		}
		d, err := newVerifier(ref, 0).tolerance(b, out)
		require.NoError(t, err)
		require.Positive(t, d)
		_, err = newVerifier(ref, 0).tolerance(b, scaled)
		require.ErrorContains(t, err, "fp8 result differs from bf16")
	}
}

// The MLP against float64 arithmetic: right within rounding, so the fixed order hides no wrong index.
func TestMLPAgainstFloat64(t *testing.T) {
	for _, hidden := range []int{1, 7, 256, 1000} {
		c := testConfig(t, "-bf16", "-ffn", "32")
		c.Hidden = hidden
		l, err := newLayout(c, 1)
		require.NoError(t, err)
		ref := newReference(c, l, 1)
		r := rand.New(rand.NewPCG(3, uint64(hidden)))
		x := make([]float32, hidden)
		for i := range x {
			x[i] = fromBF16(toBF16(r.Float32()*2 - 1))
		}
		w1, w2 := expertWeights(c, 3)
		got := ref.mlp(3, x)
		h := make([]float64, c.FFN)
		for f := range h {
			for i := range x {
				h[f] += float64(x[i]) * float64(fromBF16(w1[i*c.FFN+f]))
			}
			h[f] = max(h[f], 0)
		}
		for i := range x {
			var y, mag float64
			for f := range h {
				y += h[f] * float64(fromBF16(w2[f*hidden+i]))
				mag += math.Abs(h[f] * float64(fromBF16(w2[f*hidden+i])))
			}
			require.InDelta(t, y, float64(fromBF16(got[i])), mag/100+1e-6)
		}
	}
}

func TestMismatchNamesThePlace(t *testing.T) {
	err := error(&Mismatch{Step: "dispatch", PE: 1, Gen: 9, Expert: 12, Source: 3, Slot: 4, Byte: 77, Want: 0x12, Got: 0x13, Why: "byte differs"})
	require.EqualError(t, err, "dispatch on PE 1, generation 9: expert 12, source PE 3, slot 4, byte 77: byte differs: want 0x12, got 0x13")
	var m *Mismatch
	require.True(t, errors.As(err, &m))
}

func TestPercentiles(t *testing.T) {
	require.Equal(t, Percentiles{}, percentiles(nil))
	require.Equal(t, Percentiles{P50: 5, P99: 5}, percentiles([]float64{5}))
	us := make([]float64, 200)
	for i := range us {
		us[i] = float64(200 - i)
	}
	require.Equal(t, Percentiles{P50: 100, P99: 198}, percentiles(us))
}
