// <cuda_bf16.h> for the software GPU: __nv_bfloat16 and its conversions, bit for bit as CUDA's (round to nearest even,
// NaN becomes 0x7fff).
#ifndef PGAS_SIMT_CUDA_BF16_H
#define PGAS_SIMT_CUDA_BF16_H

#include "cuda.h"

struct __nv_bfloat16_raw {
    unsigned short x;
};

namespace simt {

inline unsigned short float_to_bf16(float v) {
    uint32_t b = uint32_t(to_bits(v));
    if ((b & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return static_cast<unsigned short>((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}
inline float bf16_to_float(unsigned short b) { return from_bits<float>(uint64_t(b) << 16); }

}  // namespace simt

struct alignas(2) __nv_bfloat16 {
    unsigned short __x;

    __nv_bfloat16() = default;
    __nv_bfloat16(float v) : __x(simt::float_to_bf16(v)) {}
    __nv_bfloat16(const __nv_bfloat16_raw& r) : __x(r.x) {}
    operator float() const { return simt::bf16_to_float(__x); }
    operator __nv_bfloat16_raw() const { return {__x}; }
    __nv_bfloat16& operator=(float v) {
        __x = simt::float_to_bf16(v);
        return *this;
    }
};

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

inline __nv_bfloat16 __float2bfloat16(float v) { return __nv_bfloat16(v); }
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return __nv_bfloat16(v); }
inline float __bfloat162float(__nv_bfloat16 v) { return float(v); }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short v) { return __nv_bfloat16_raw{v}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.__x; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {__nv_bfloat16(a), __nv_bfloat16(b)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return __floats2bfloat162_rn(v.x, v.y); }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {float(v.x), float(v.y)}; }
inline float __low2float(__nv_bfloat162 v) { return float(v.x); }
inline float __high2float(__nv_bfloat162 v) { return float(v.y); }

#endif
