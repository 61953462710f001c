// <cuda_fp8.h> for the software GPU: e4m3 and its conversions, bit for bit as CUDA's. e4m3 has no infinity: codes
// 0x7f and 0xff are NaN, 0x7e is the largest number, 448.
#ifndef PGAS_SIMT_CUDA_FP8_H
#define PGAS_SIMT_CUDA_FP8_H

#include "cuda.h"
#include "cuda_bf16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
typedef enum { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum { __NV_E4M3 } __nv_fp8_interpretation_t;
struct __half_raw {
    unsigned short x;
};

namespace simt {

// Round to nearest even on the value's own grid; subnormals step by 2^-9. Too large: 448 or NaN. NaN: 0x7f, no sign.
inline unsigned char float_to_e4m3(float v, bool saturate) {
    uint32_t b = uint32_t(to_bits(v)), magnitude = b & 0x7fffffffu;
    auto sign = static_cast<unsigned char>(b >> 24 & 0x80);
    if (magnitude > 0x7f800000u) return 0x7f;
    constexpr uint32_t smallest_normal = 0x3c800000u;  // 2^-6
    uint32_t code;
    if (magnitude < smallest_normal) {
        code = uint32_t(std::nearbyint(from_bits<float>(magnitude) * 512.0f));  // exact product, ties to even
    } else {
        uint32_t rounded = magnitude + 0x7ffffu + (magnitude >> 20 & 1u);
        code = rounded >= 0x7f800000u ? 0xffu : (rounded >> 20) - ((127 - 7) << 3);
    }
    if (code > 0x7e) code = saturate ? 0x7e : 0x7f;
    return static_cast<unsigned char>(sign | code);
}

inline float e4m3_to_float(unsigned char code) {
    uint32_t sign = uint32_t(code & 0x80) << 24, exponent = code >> 3 & 15, fraction = code & 7;
    if ((code & 0x7f) == 0x7f) return from_bits<float>(0x7fffffffu);
    if (exponent == 0) {
        float v = float(fraction) * (1.0f / 512);
        return from_bits<float>(to_bits(v) | sign);
    }
    return from_bits<float>(sign | (exponent + 120) << 23 | fraction << 20);
}

// Every e4m3 value is a normal half, except that its two zeros are zeros.
inline unsigned short e4m3_to_half(unsigned char code) {
    auto sign = static_cast<unsigned short>((code & 0x80) << 8);
    if ((code & 0x7f) == 0x7f) return 0x7fff;
    uint32_t b = uint32_t(to_bits(e4m3_to_float(code & 0x7f)));
    if (b == 0) return sign;
    return static_cast<unsigned short>(sign | ((b >> 23) - 112) << 10 | (b >> 13 & 0x3ff));
}

}  // namespace simt

inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float v, __nv_saturation_t saturate, __nv_fp8_interpretation_t) {
    return simt::float_to_e4m3(v, saturate == __NV_SATFINITE);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t saturate, __nv_fp8_interpretation_t) {
    bool s = saturate == __NV_SATFINITE;
    return static_cast<__nv_fp8x2_storage_t>(simt::float_to_e4m3(v.y, s) << 8 | simt::float_to_e4m3(v.x, s));
}
// bf16 to float is exact, so one rounding is left.
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw v, __nv_saturation_t saturate,
                                                      __nv_fp8_interpretation_t) {
    return simt::float_to_e4m3(simt::bf16_to_float(v.x), saturate == __NV_SATFINITE);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t v, __nv_fp8_interpretation_t) {
    return {simt::e4m3_to_half(v)};
}

struct alignas(1) __nv_fp8_e4m3 {
    __nv_fp8_storage_t __x;

    __nv_fp8_e4m3() = default;
    explicit __nv_fp8_e4m3(float v) : __x(simt::float_to_e4m3(v, true)) {}
    explicit __nv_fp8_e4m3(__nv_bfloat16 v) : __nv_fp8_e4m3(float(v)) {}
    explicit operator float() const { return simt::e4m3_to_float(__x); }
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(simt::e4m3_to_float(__x)); }
};

struct alignas(2) __nv_fp8x2_e4m3 {
    __nv_fp8x2_storage_t __x;

    __nv_fp8x2_e4m3() = default;
    explicit __nv_fp8x2_e4m3(float2 v) : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, __NV_E4M3)) {}
    explicit operator float2() const {
        return {simt::e4m3_to_float(static_cast<unsigned char>(__x)),
                simt::e4m3_to_float(static_cast<unsigned char>(__x >> 8))};
    }
};

struct alignas(4) __nv_fp8x4_e4m3 {
    __nv_fp8x4_storage_t __x;

    __nv_fp8x4_e4m3() = default;
    explicit __nv_fp8x4_e4m3(float4 v)
        : __x(uint32_t(__nv_cvt_float2_to_fp8x2({v.z, v.w}, __NV_SATFINITE, __NV_E4M3)) << 16 |
              __nv_cvt_float2_to_fp8x2({v.x, v.y}, __NV_SATFINITE, __NV_E4M3)) {}
    explicit operator float4() const {
        return {simt::e4m3_to_float(static_cast<unsigned char>(__x)),
                simt::e4m3_to_float(static_cast<unsigned char>(__x >> 8)),
                simt::e4m3_to_float(static_cast<unsigned char>(__x >> 16)),
                simt::e4m3_to_float(static_cast<unsigned char>(__x >> 24))};
    }
};

#endif
