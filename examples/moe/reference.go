package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// A Reference computes in plain Go what the kernels must produce, bit for bit. Every rounding and every order of
// addition is fixed: products of two bf16 values are exact in fp32, so a fused multiply-add changes nothing in the
// expert MLP; combine multiplies and adds in two rounded steps on both sides.
type Reference struct {
	c       Config
	l       Layout
	pes     int
	experts map[int]*expert
}

// expert is one two-layer MLP: hidden -> ffn -> hidden with ReLU, bf16 weights kept as fp32.
type expert struct {
	w1 []float32 // [channel][inner]
	w2 []float32 // [inner][channel]
}

func newReference(c Config, l Layout, pes int) *Reference {
	return &Reference{c: c, l: l, pes: pes, experts: map[int]*expert{}}
}

// expertWeights returns both layers of a global expert as bf16. They depend on the seed and the expert only.
func expertWeights(c Config, e int) (w1, w2 []uint16) {
	r := rand.New(rand.NewPCG(mix(c.Seed, 0xe4be47, uint64(e)), 1))
	draw := func(n int, scale float64) []uint16 {
		w := make([]uint16, n)
		step := float32(scale / (1 << 15))
		for i := 0; i < n; i += 4 {
			u := r.Uint64()
			for j := i; j < min(i+4, n); j++ {
				w[j] = toBF16(float32(int16(u)) * step)
				u >>= 16
			}
		}
		return w
	}
	n := c.Hidden * c.FFN
	return draw(n, 1/math.Sqrt(float64(c.Hidden))), draw(n, 1/math.Sqrt(float64(c.FFN)))
}

func (r *Reference) expert(e int) *expert {
	x := r.experts[e]
	if x == nil {
		w1, w2 := expertWeights(r.c, e)
		x = &expert{w1: widen(w1), w2: widen(w2)}
		r.experts[e] = x
	}
	return x
}

func widen(b []uint16) []float32 {
	f := make([]float32, len(b))
	for i, v := range b {
		f[i] = fromBF16(v)
	}
	return f
}

// message returns the bytes that PE pe sends for token t of its batch, the same to every expert of the token.
func (r *Reference) message(b Batch, pe int, gen uint64, t int) []byte {
	m := make([]byte, r.l.MessageBytes)
	le := binary.LittleEndian
	le.PutUint32(m[0:], uint32(t))
	le.PutUint32(m[4:], uint32(pe))
	le.PutUint32(m[8:], uint32(gen))
	le.PutUint32(m[12:], uint32(r.c.TopK))
	for k := range (r.l.HeaderBytes - 16) / 2 {
		e := uint16(0xffff)
		if k < r.c.TopK {
			e = uint16(b.TopK[t*r.c.TopK+k])
		}
		le.PutUint16(m[16+2*k:], e)
	}
	x := b.X[t*r.c.Hidden : (t+1)*r.c.Hidden]
	payload := m[r.l.HeaderBytes:]
	if r.c.FP8 {
		quantize(x, r.c.Pow2, payload[:r.l.PayloadBytes], payload[r.l.PayloadBytes:])
		return m
	}
	for i, v := range x {
		le.PutUint16(payload[2*i:], v)
	}
	return m
}

// quantize writes the e4m3 channels and the scales of one token.
func quantize(x []uint16, pow2 bool, q, scales []byte) {
	for g := range len(x) / scaleGroup {
		group := x[g*scaleGroup : (g+1)*scaleGroup]
		var amax float32
		for _, v := range group {
			amax = max(amax, fromBF16(v&0x7fff))
		}
		inverse, scale := scaleOf(amax, pow2)
		for i, v := range group {
			q[g*scaleGroup+i] = toE4M3(fromBF16(v) * scale)
		}
		binary.LittleEndian.PutUint32(scales[4*g:], math.Float32bits(inverse))
	}
}

// received returns the channels that an expert computes with, as fp32 holding bf16 values.
func (r *Reference) received(m []byte) []float32 {
	x := make([]float32, r.c.Hidden)
	payload := m[r.l.HeaderBytes:]
	for i := range x {
		if r.c.FP8 {
			scale := math.Float32frombits(binary.LittleEndian.Uint32(payload[r.l.PayloadBytes+i/scaleGroup*4:]))
			x[i] = fromBF16(toBF16(fromE4M3(payload[i]) * scale))
		} else {
			x[i] = fromBF16(binary.LittleEndian.Uint16(payload[2*i:]))
		}
	}
	return x
}

// laneChannels is how many neighbouring channels a lane takes at a time in the first layer.
const laneChannels = 8

// mlp runs expert e on the channels x and returns bf16.
//
// Order of the first layer: lane l of a warp adds up the channels of its chunks, 8 neighbours each, chunk after chunk;
// the 32 lane sums are then added in lane order. Second layer: inner channel after inner channel.
func (r *Reference) mlp(e int, x []float32) []uint16 {
	w, n := r.expert(e), r.c.FFN
	partial := make([]float32, warpSize*n)
	for i, v := range x {
		lane := i / laneChannels % warpSize
		w1 := w.w1[i*n : i*n+n]
		acc := partial[lane*n:][:len(w1)]
		for f, u := range w1 {
			acc[f] += float32(v * u)
		}
	}
	y := make([]float32, len(x))
	for f := range n {
		h := partial[f]
		for lane := 1; lane < warpSize; lane++ {
			h += partial[lane*n+f]
		}
		if !(h > 0) {
			h = 0
		}
		if h = fromBF16(toBF16(h)); h == 0 {
			continue // it would add zeros to sums that start at +0 and so never are -0
		}
		w2 := w.w2[f*len(x):][:len(y)]
		for i, u := range w2 {
			y[i] += float32(h * u)
		}
	}
	out := make([]uint16, len(y))
	for i, v := range y {
		out[i] = toBF16(v)
	}
	return out
}

// combined returns what combine must write for token t: bf16 of the weighted fp32 sum over k in rising order.
func (r *Reference) combined(b Batch, pe int, gen uint64, t int) []uint16 {
	return r.weigh(b, t, r.received(r.message(b, pe, gen, t)))
}

// unquantized returns the same for experts that compute with the original bf16 channels.
func (r *Reference) unquantized(b Batch, t int) []uint16 {
	return r.weigh(b, t, widen(b.X[t*r.c.Hidden:(t+1)*r.c.Hidden]))
}

func (r *Reference) weigh(b Batch, t int, x []float32) []uint16 {
	sum := make([]float32, len(x))
	for k := range r.c.TopK {
		e := b.TopK[t*r.c.TopK+k]
		if e < 0 {
			continue
		}
		w := b.Weights[t*r.c.TopK+k]
		for i, v := range r.mlp(int(e), x) {
			sum[i] += float32(w * fromBF16(v))
		}
	}
	out := make([]uint16, len(x))
	for i, v := range sum {
		out[i] = toBF16(v)
	}
	return out
}

// fp8Tolerance bounds 1 - 2xy/(x^2+y^2) between the fp8 result and the bf16 one. An e4m3 channel has a relative
// rounding error of at most 2^-4, 2.6 % in the mean square, and the measure is half the square of the relative error:
// 3.4e-4 for independent errors. 9e-4 is the bound that DeepEP's own test uses. Power-of-two scales do not change it:
// they cost range at the small end, not precision.
//
// The mean square needs numbers to average over. With fewer than 256 inner channels of all tokens together a few of
// them decide, and the bound is that of the largest error, 2^-4 squared.
func fp8Tolerance(tokens, ffn int) float64 {
	if tokens*ffn < 256 {
		return 1.0 / 256
	}
	return 9e-4
}

// difference is 1 - 2xy/(x^2+y^2): 0 for equal vectors, 2 for opposite ones.
type difference struct{ xy, xx, yy float64 }

func (d *difference) add(x, y []uint16) {
	for i := range x {
		a, b := float64(fromBF16(x[i])), float64(fromBF16(y[i]))
		d.xy += a * b
		d.xx += a * a
		d.yy += b * b
	}
}

func (d *difference) value() float64 {
	if d.xx+d.yy == 0 {
		return 0
	}
	return 1 - 2*d.xy/(d.xx+d.yy)
}
