package main

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A Mismatch names the first byte of a result that differs from the reference.
type Mismatch struct {
	Step                 string // "dispatch" or "combine"
	PE                   int    // where the wrong byte is
	Gen                  uint64
	Expert, Source, Slot int // dispatch: global expert, source PE, slot; combine: -1, own PE, token
	Byte                 int // in the slot or in the token
	Want, Got            uint64
	Why                  string
}

func (m *Mismatch) Error() string {
	return fmt.Sprintf("%s on PE %d, generation %d: expert %d, source PE %d, slot %d, byte %d: %s: want %#x, got %#x",
		m.Step, m.PE, m.Gen, m.Expert, m.Source, m.Slot, m.Byte, m.Why, m.Want, m.Got)
}

// countWord is the signal value that carries a count. Values of one word only grow, because generations do.
func countWord(gen uint64, n int) uint64 { return gen<<32 | uint64(n) }

// canary fills receive buffers before the first generation. Slots that no count ever covered must keep it.
const canary = 0xa5

// A verifier compares the buffers of one PE with the reference. It remembers how far each slot range has ever been
// filled, so that writes outside the counted slots are found too.
type verifier struct {
	ref    *Reference
	pe     int
	filled [parities][]int // per pair
}

func newVerifier(ref *Reference, pe int) *verifier {
	v := &verifier{ref: ref, pe: pe}
	for p := range v.filled {
		v.filled[p] = make([]int, ref.l.Pairs)
	}
	return v
}

// dispatch checks the count words and every byte of the receive buffer (of one parity) of this PE.
func (v *verifier) dispatch(gen uint64, batches []Batch, words []uint64, recv []byte) error {
	for pair := range v.ref.l.Pairs {
		local, source := pair/v.ref.pes, pair%v.ref.pes
		e := v.pe*v.ref.l.LocalExperts + local
		at := Mismatch{Step: "dispatch", PE: v.pe, Gen: gen, Expert: e, Source: source}
		want := wanted(batches[source], v.ref.c.TopK, e)
		if w := countWord(gen, len(want)); words[pair] != w {
			at.Why, at.Want, at.Got = "count word", w, words[pair]
			return &at
		}
		size := v.ref.c.Tokens * int(v.ref.l.Recv.Stride)
		if err := v.pair(at, pair, batches[source], want, recv[pair*size:(pair+1)*size]); err != nil {
			return err
		}
	}
	return nil
}

// wanted returns the set of tokens of a batch that choose expert e.
func wanted(b Batch, topk, e int) map[int]bool {
	set := map[int]bool{}
	for i, x := range b.TopK {
		if int(x) == e {
			set[i/topk] = true
		}
	}
	return set
}

// pair checks the slots of one (local expert, source PE). Tokens may lie in any order, each exactly once.
func (v *verifier) pair(at Mismatch, pair int, b Batch, want map[int]bool, slots []byte) error {
	stride, n := int(v.ref.l.Recv.Stride), len(want)
	for at.Slot = range v.ref.c.Tokens {
		slot := slots[at.Slot*stride : (at.Slot+1)*stride]
		if at.Slot >= n {
			if err := v.untouched(at, pair, slot); err != nil {
				return err
			}
			continue
		}
		t := int(binary.LittleEndian.Uint32(slot))
		if !want[t] {
			at.Why, at.Want, at.Got = fmt.Sprintf("token number (%d tokens are due, this one is not or came before)", n), 0, uint64(t)
			return &at
		}
		delete(want, t)
		if err := equal(at, v.ref.message(b, at.Source, at.Gen, t), slot); err != nil {
			return err
		}
	}
	p := at.Gen % parities
	v.filled[p][pair] = max(v.filled[p][pair], n)
	return nil
}

// untouched checks that a slot that no generation of this parity ever filled still holds the canary.
func (v *verifier) untouched(at Mismatch, pair int, slot []byte) error {
	if at.Slot < v.filled[at.Gen%parities][pair] {
		return nil // left over from an earlier generation
	}
	for i, got := range slot {
		if got != canary {
			at.Byte, at.Why, at.Want, at.Got = i, "slot beyond the count was written", canary, uint64(got)
			return &at
		}
	}
	return nil
}

func equal(at Mismatch, want, got []byte) error {
	for i := range want {
		if want[i] != got[i] {
			at.Byte, at.Why, at.Want, at.Got = i, "byte differs", uint64(want[i]), uint64(got[i])
			return &at
		}
	}
	return nil
}

// combine checks every byte of every combined token of this PE.
func (v *verifier) combine(gen uint64, b Batch, out []byte) error {
	stride := int(v.ref.l.Out.Stride)
	want := make([]byte, v.ref.l.RowBytes)
	for t := range b.Tokens {
		for i, x := range v.ref.combined(b, v.pe, gen, t) {
			binary.LittleEndian.PutUint16(want[2*i:], x)
		}
		at := Mismatch{Step: "combine", PE: v.pe, Gen: gen, Expert: -1, Source: v.pe, Slot: t}
		if err := equal(at, want, out[t*stride:(t+1)*stride]); err != nil {
			return err
		}
	}
	return nil
}

// errTolerance: quantization loses more than it should.
var errTolerance = errors.New("fp8 result differs from bf16")

// tolerance compares the combined tokens, which equal the quantized reference bit for bit, with what experts fed in
// bf16 would have given.
func (v *verifier) tolerance(b Batch, out []byte) (float64, error) {
	var d difference
	got := make([]uint16, v.ref.c.Hidden)
	for t := range b.Tokens {
		row := out[t*int(v.ref.l.Out.Stride):]
		for i := range got {
			got[i] = binary.LittleEndian.Uint16(row[2*i:])
		}
		d.add(v.ref.unquantized(b, t), got)
	}
	allowed := fp8Tolerance(b.Tokens, v.ref.c.FFN)
	if x := d.value(); !(x <= allowed) {
		return x, fmt.Errorf("combine on PE %d: %w by %.2e, allowed are %.2e", v.pe, errTolerance, x, allowed)
	}
	return d.value(), nil
}
