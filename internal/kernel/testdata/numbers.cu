// Conversions of narrow floats, over arrays.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

extern "C" __global__ void to_bf16(const float* in, unsigned short* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = __bfloat16_as_ushort(__float2bfloat16(in[i]));
}
PGAS_KERNEL(to_bf16)

extern "C" __global__ void from_bf16(const unsigned short* in, float* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = __bfloat162float(__ushort_as_bfloat16(in[i]));
}
PGAS_KERNEL(from_bf16)

// out[i]: saturating, out[n+i]: not saturating.
extern "C" __global__ void to_fp8(const float* in, unsigned char* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out[i] = __nv_cvt_float_to_fp8(in[i], __NV_SATFINITE, __NV_E4M3);
        out[n + i] = __nv_cvt_float_to_fp8(in[i], __NV_NOSAT, __NV_E4M3);
        if (__nv_fp8_e4m3(in[i]).__x != out[i]) out[i] ^= 0xff;
    }
}
PGAS_KERNEL(to_fp8)

extern "C" __global__ void from_fp8(float* out, unsigned short* half) {
    __nv_fp8_e4m3 v;
    v.__x = static_cast<unsigned char>(threadIdx.x);
    out[threadIdx.x] = float(v);
    half[threadIdx.x] = __nv_cvt_fp8_to_halfraw(v.__x, __NV_E4M3).x;
}
PGAS_KERNEL(from_fp8)
