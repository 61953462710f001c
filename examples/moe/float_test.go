package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// bf16Oracle rounds by looking at the two neighbours, not at bits.
func bf16Oracle(f float32) uint16 {
	if f != f {
		return 0x7fff
	}
	low := uint16(math.Float32bits(f) >> 16) // towards zero
	if math.IsInf(float64(f), 0) {
		return low
	}
	a, b := float64(fromBF16(low)), float64(fromBF16(low+1))
	if low&0x7fff == 0x7f7f { // the next one would be 2^128; its code is infinity's
		b = math.Copysign(0x1p128, a)
	}
	switch below, above := math.Abs(float64(f)-a), math.Abs(b-float64(f)); {
	case below < above:
		return low
	case below > above:
		return low + 1
	}
	return low + low&1
}

// Rounding to bf16 depends on the upper half and on how the lower half compares with 0x8000, so these lower halves
// with every upper half are exhaustive.
func TestBF16Exhaustive(t *testing.T) {
	for high := range 1 << 16 {
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			f := math.Float32frombits(uint32(high)<<16 | low)
			if want, got := bf16Oracle(f), toBF16(f); want != got {
				t.Fatalf("toBF16(%#08x): want %#x, got %#x", math.Float32bits(f), want, got)
			}
		}
	}
}

func TestBF16RoundTrip(t *testing.T) {
	for b := range 1 << 16 {
		f := fromBF16(uint16(b))
		if f == f {
			require.Equal(t, uint16(b), toBF16(f))
		}
	}
}

// e4m3Values are the non-negative finite values by code, from the definition of the format.
func e4m3Values() []float64 {
	v := make([]float64, 0x7f)
	for code := range v {
		exp, man := code>>3, float64(code&7)
		if exp == 0 {
			v[code] = math.Ldexp(man/8, -6)
		} else {
			v[code] = math.Ldexp(1+man/8, exp-7)
		}
	}
	return v
}

func TestE4M3Decode(t *testing.T) {
	for code, want := range e4m3Values() {
		require.Equal(t, want, float64(fromE4M3(uint8(code))))
		require.Equal(t, math.Float32bits(float32(math.Copysign(want, -1))), math.Float32bits(fromE4M3(uint8(code)|0x80)))
	}
	require.True(t, math.IsNaN(float64(fromE4M3(0x7f))))
	require.True(t, math.IsNaN(float64(fromE4M3(0xff))))
}

// e4m3Oracle finds the nearest value by search: ties to the even code, saturation at 448.
func e4m3Oracle(f float32, values []float64) uint8 {
	sign := uint8(math.Float32bits(f) >> 24 & 0x80)
	a := math.Abs(float64(f))
	switch {
	case f != f:
		return sign | 0x7f
	case a >= 448:
		return sign | 0x7e
	}
	code := 0
	for values[code+1] <= a {
		code++
	}
	below, above := a-values[code], values[code+1]-a
	if above < below || above == below && code&1 == 1 {
		code++
	}
	return sign | uint8(code)
}

// Conversion is monotone between neighbours, so it is right everywhere if it is right at every value, at every midpoint
// and at the floats next to them. Every bf16, the only inputs when the scale is a power of two, is tried as well.
func TestE4M3Exhaustive(t *testing.T) {
	values := e4m3Values()
	try := func(f float32) {
		for _, x := range []float32{f, -f} {
			if want, got := e4m3Oracle(x, values), toE4M3(x); want != got {
				t.Fatalf("toE4M3(%g = %#08x): want %#x, got %#x", x, math.Float32bits(x), want, got)
			}
		}
	}
	inf := float32(math.Inf(1))
	near := func(f float32) {
		try(f)
		try(math.Nextafter32(f, inf))
		try(math.Nextafter32(f, -inf))
	}
	for code := range len(values) - 1 {
		near(float32(values[code]))
		near(float32((values[code] + values[code+1]) / 2))
	}
	for _, f := range []float32{448, 464, 480, math.MaxFloat32, inf, float32(math.NaN()), math.SmallestNonzeroFloat32} {
		near(f)
	}
	for b := range 1 << 16 {
		try(fromBF16(uint16(b)))
	}
}

// A prime stride through all 2^32 floats, and monotony along it.
func TestE4M3Sweep(t *testing.T) {
	values := e4m3Values()
	last := uint8(0)
	for u := uint64(0); u <= 0x7f800000; u += 1009 {
		f := math.Float32frombits(uint32(u))
		got := toE4M3(f)
		if got < last || got != e4m3Oracle(f, values) {
			t.Fatalf("toE4M3(%#08x) = %#x after %#x, oracle %#x", u, got, last, e4m3Oracle(f, values))
		}
		last = got
	}
}

func TestE4M3RoundTrip(t *testing.T) {
	for code := range 256 {
		if code&0x7f != 0x7f {
			require.Equal(t, uint8(code), toE4M3(fromE4M3(uint8(code))))
		}
	}
}

func TestScales(t *testing.T) {
	for _, amax := range []float32{0, 1e-9, 1e-4, 0.3, 1, 447, 448, 449, 1e30} {
		inverse, scale := scaleOf(amax, false)
		require.Equal(t, max(amax, minAmax)/448, inverse)
		require.Equal(t, 448/max(amax, minAmax), scale)

		inverse, scale = scaleOf(amax, true)
		require.Equal(t, float32(1), inverse*scale, "amax %g", amax)
		frac, _ := math.Frexp(float64(inverse))
		require.Equal(t, 0.5, frac, "amax %g: not a power of two", amax)
		require.GreaterOrEqual(t, inverse, max(amax, minAmax)/448)
		require.Less(t, inverse/2, max(amax, minAmax)/448)
	}
}
