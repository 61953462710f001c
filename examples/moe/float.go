package main

import "math"

// The conversions follow CUDA's rules bit for bit: bf16 as __float2bfloat16 (round to nearest even, NaN becomes
// 0x7fff) and e4m3 as __nv_cvt_float_to_fp8 with __NV_SATFINITE (round to nearest even, everything above 448 becomes
// 448, NaN becomes 0x7f with the sign kept). moe.cu holds the same functions for the device.

// toBF16 rounds f to bf16.
func toBF16(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return 0x7fff
	}
	return uint16((u + 0x7fff + (u>>16)&1) >> 16)
}

// fromBF16 is exact.
func fromBF16(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// toE4M3 rounds f to fp8 e4m3: 4 exponent bits of bias 7, 3 mantissa bits, no infinity.
func toE4M3(f float32) uint8 {
	u := math.Float32bits(f)
	sign := uint8(u >> 24 & 0x80)
	a := u & 0x7fffffff
	switch {
	case a > 0x7f800000: // NaN
		return sign | 0x7f
	case a >= 0x43e00000: // 448 and above, infinity too
		return sign | 0x7e
	case a >= 0x3c800000: // 2^-6 and above: normal
		// Dropping 20 mantissa bits; a carry out of the mantissa moves the exponent, as it should.
		a += 0x7ffff + a>>20&1
		return sign | uint8(a>>20-(127-7)<<3)
	case a <= 0x3a800000: // up to 2^-10: half the smallest subnormal ties to zero
		return sign
	}
	// Subnormal: the value in units of 2^-9, rounded. 24 significant bits lose 141-exponent bits.
	shift := 141 - a>>23
	m := a&0x7fffff | 0x800000
	m += 1<<(shift-1) - 1 + m>>shift&1
	return sign | uint8(m>>shift)
}

// fromE4M3 is exact.
func fromE4M3(b uint8) float32 {
	sign := uint32(b&0x80) << 24
	exp, man := uint32(b>>3&0xf), uint32(b&7)
	switch {
	case exp == 0xf && man == 7:
		return math.Float32frombits(sign | 0x7fc00000)
	case exp == 0:
		v := float32(man) / 512
		return math.Float32frombits(sign | math.Float32bits(v))
	}
	return math.Float32frombits(sign | (exp+120)<<23 | man<<20)
}

// minAmax keeps the scale of an all-zero group finite.
const minAmax = 1e-4

// scaleOf returns the scale that a receiver multiplies with, and the one that the sender multiplies with. 448 is the
// largest e4m3 value, so the group's largest channel lands on it (or, with powers of two, at most on it).
func scaleOf(amax float32, pow2 bool) (inverse, scale float32) {
	amax = max(amax, minAmax)
	if !pow2 {
		return amax / 448, 448 / amax
	}
	u := math.Float32bits(amax / 448)
	exp := u >> 23
	if u&0x7fffff != 0 {
		exp++
	}
	return math.Float32frombits(exp << 23), math.Float32frombits((254 - exp) << 23)
}
