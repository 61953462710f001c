package kernel_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// e4m3 is the value of a code, by the format's definition (OCP 8-bit floating point, E4M3).
func e4m3(code int) float64 {
	sign, exponent, fraction := 1-2*float64(code>>7), code>>3&15, float64(code&7)
	switch {
	case code&0x7f == 0x7f:
		return math.NaN()
	case exponent == 0:
		return sign * fraction / 512
	}
	return sign * (1 + fraction/8) * math.Pow(2, float64(exponent-7))
}

// nearestE4M3 finds the code by search: nearest value, ties to the even code, then saturation or NaN.
func nearestE4M3(f float32, saturate bool) byte {
	v := math.Abs(float64(f))
	if math.IsNaN(v) {
		return 0x7f
	}
	sign := byte(0)
	if math.Signbit(float64(f)) {
		sign = 0x80
	}
	if v > 464 { // half way to what would come after 448
		if saturate {
			return sign | 0x7e
		}
		return sign | 0x7f
	}
	best := 0
	for code := range 0x7f {
		d, old := math.Abs(e4m3(code)-v), math.Abs(e4m3(best)-v)
		if d < old || d == old && code%2 == 0 {
			best = code
		}
	}
	return sign | byte(best)
}

// around returns floats at, and up to n steps beside, each value, with both signs.
func around(values []float64, n int) []float32 {
	var out []float32
	for _, v := range values {
		bits := int64(math.Float32bits(float32(v)))
		for d := -int64(n); d <= int64(n); d++ {
			if b := bits + d; b >= 0 && b <= 0x7fffffff {
				out = append(out, math.Float32frombits(uint32(b)), math.Float32frombits(uint32(b)|1<<31))
			}
		}
	}
	return out
}

func floats(values []float32) []byte {
	var raw []byte
	for _, v := range values {
		raw = binary.NativeEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}

func TestFP8Conversion(t *testing.T) {
	g := open(t, "", "numbers.cu")
	special := []float64{0, 448, 464, 480, math.MaxFloat32, math.Inf(1), math.NaN(), 1e-30, 0x1p-149}
	for code := range 0x7e {
		special = append(special, e4m3(code), (e4m3(code)+e4m3(code+1))/2)
	}
	in := around(special, 40)
	for bits := range 1 << 16 { // every bf16 value
		in = append(in, math.Float32frombits(uint32(bits)<<16))
	}
	n := len(in)
	src, dst := g.alloc(uint64(4*n)), g.alloc(uint64(2*n))
	require.NoError(t, g.MemcpyHtoD(src, floats(in)))
	g.run("to_fp8", shape(1, 256), args().Ptr(src).Ptr(dst).I32(int32(n)))
	out := make([]byte, 2*n)
	require.NoError(t, g.MemcpyDtoH(out, dst))
	for i, f := range in {
		require.Equal(t, nearestE4M3(f, true), out[i], "saturating %v (%#x)", f, math.Float32bits(f))
		require.Equal(t, nearestE4M3(f, false), out[n+i], "%v (%#x)", f, math.Float32bits(f))
	}

	p := g.alloc(256 * 6)
	g.run("from_fp8", shape(1, 256), args().Ptr(p).Ptr(p+1024))
	back := g.u32(p, 256)
	half := make([]byte, 512)
	require.NoError(t, g.MemcpyDtoH(half, p+1024))
	for code := range 256 {
		h := binary.NativeEndian.Uint16(half[2*code:])
		if code&0x7f == 0x7f {
			require.True(t, math.IsNaN(float64(math.Float32frombits(back[code]))))
			require.EqualValues(t, 0x7fff, h)
			continue
		}
		require.Equal(t, math.Float32bits(float32(e4m3(code)))|uint32(code&0x80)<<24, back[code], "code %#x", code)
		require.Equal(t, e4m3(code), halfValue(h), "code %#x", code)
		require.Equal(t, code >= 128, h>>15 == 1)
	}
}

func halfValue(h uint16) float64 {
	sign, exponent, fraction := 1-2*float64(h>>15), int(h>>10&31), float64(h&0x3ff)
	if exponent == 0 {
		return sign * fraction * 0x1p-24
	}
	return sign * (1 + fraction/1024) * math.Pow(2, float64(exponent-15))
}

func TestBF16Conversion(t *testing.T) {
	g := open(t, "", "numbers.cu")
	var in []float32
	var want []uint16
	for code := range uint32(1 << 16) {
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			f := math.Float32frombits(code<<16 | low)
			in = append(in, f)
			// Nearest of the two neighbours, ties to the even one; one past the largest is infinity.
			up := low > 0x8000 || low == 0x8000 && code%2 == 1
			switch {
			case math.IsNaN(float64(f)):
				want = append(want, 0x7fff)
			case up:
				want = append(want, uint16(code+1))
			default:
				want = append(want, uint16(code))
			}
		}
	}
	n := len(in)
	src, dst := g.alloc(uint64(4*n)), g.alloc(uint64(2*n))
	require.NoError(t, g.MemcpyHtoD(src, floats(in)))
	g.run("to_bf16", shape(1, 256), args().Ptr(src).Ptr(dst).I32(int32(n)))
	out := make([]byte, 2*n)
	require.NoError(t, g.MemcpyDtoH(out, dst))
	for i := range in {
		if got := binary.NativeEndian.Uint16(out[2*i:]); got != want[i] {
			require.Equal(t, want[i], got, "%v (%#x)", in[i], math.Float32bits(in[i]))
		}
	}

	codes, wide := g.alloc(2<<16), g.alloc(4<<16)
	var raw []byte
	for code := range 1 << 16 {
		raw = binary.NativeEndian.AppendUint16(raw, uint16(code))
	}
	require.NoError(t, g.MemcpyHtoD(codes, raw))
	g.run("from_bf16", shape(1, 256), args().Ptr(codes).Ptr(wide).I32(1<<16))
	for code, bits := range g.u32(wide, 1<<16) {
		if bits != uint32(code)<<16 {
			require.Equal(t, uint32(code)<<16, bits)
		}
	}
}
