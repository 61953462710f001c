// bf16 and fp8 e4m3, by CUDA's rules bit for bit; float.go holds the same functions for the host.
#pragma once

#include <pgas/pgas.cuh>

// Unrolls the short loop that follows: on a GPU to keep arrays in registers, on a CPU to make vectors of them.
#if defined(PGAS_CUDA) || defined(__clang__)
#define MOE_UNROLL _Pragma("unroll")
#else
#define MOE_UNROLL _Pragma("GCC unroll 16")
#endif

namespace moe {

#if defined(PGAS_CUDA)
PGAS_DEVICE uint32_t bits_of(float f) { return __float_as_uint(f); }
PGAS_DEVICE float float_of(uint32_t u) { return __uint_as_float(u); }
PGAS_DEVICE float mul(float a, float b) { return __fmul_rn(a, b); }
PGAS_DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
#else
PGAS_DEVICE uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
PGAS_DEVICE float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
PGAS_DEVICE float mul(float a, float b) { return a * b; }
PGAS_DEVICE float add(float a, float b) { return a + b; }
#endif

PGAS_DEVICE float from_bf16(uint16_t b) { return float_of(uint32_t(b) << 16); }

// As __float2bfloat16: to nearest even.
PGAS_DEVICE uint16_t to_bf16(float f) {
    uint32_t u = bits_of(f);
    bool nan = (u & 0x7fffffff) > 0x7f800000;
    return uint16_t(nan ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// As __nv_cvt_float_to_fp8 with __NV_SATFINITE and __NV_E4M3: to nearest even, at most 448.
PGAS_DEVICE uint8_t to_e4m3(float f) {
    uint32_t u = bits_of(f);
    uint32_t sign = u >> 24 & 0x80;
    uint32_t a = u & 0x7fffffff;
    if (a > 0x7f800000) return uint8_t(sign | 0x7f);
    if (a >= 0x43e00000) return uint8_t(sign | 0x7e);
    if (a >= 0x3c800000) {
        a += 0x7ffff + (a >> 20 & 1);
        return uint8_t(sign | ((a >> 20) - (120 << 3)));
    }
    if (a <= 0x3a800000) return uint8_t(sign);
    uint32_t shift = 141 - (a >> 23);
    uint32_t m = (a & 0x7fffff) | 0x800000;
    m += (1u << (shift - 1)) - 1 + (m >> shift & 1);
    return uint8_t(sign | m >> shift);
}

// Without branches: as fp32 bits the code is the value times 2^-120, subnormals included.
PGAS_DEVICE float from_e4m3(uint8_t b) {
    uint32_t sign = uint32_t(b & 0x80) << 24;
    uint32_t code = b & 0x7f;
    float magnitude = float_of(code << 20) * 0x1p120f;
    return float_of(sign | (code == 0x7f ? 0x7fc00000 : bits_of(magnitude)));
}

struct scales {
    float inverse;  // the receiver multiplies with it
    float scale;    // the sender multiplies with it
};

PGAS_DEVICE scales scales_of(float amax, bool pow2) {
    amax = amax < 1e-4f ? 1e-4f : amax;
    if (!pow2) return {amax / 448.0f, 448.0f / amax};
    uint32_t u = bits_of(amax / 448.0f);
    uint32_t exp = (u >> 23) + ((u & 0x7fffff) != 0 ? 1 : 0);
    return {float_of(exp << 23), float_of((254 - exp) << 23)};
}

}  // namespace moe
