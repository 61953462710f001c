// Which compiler is this, and what do its words mean here. Nothing else.
//
// Three builds share these headers:
//   PGAS_CUDA     nvcc, NVRTC or clang in CUDA mode: real device code.
//   PGAS_SOFTGPU  the host compiler with simt/cuda.h force-included: the software GPU.
//   PGAS_HOST     the host compiler alone: the CPU posts through the same queues (proxy/engine).
#pragma once

#if defined(PGAS_SOFTGPU)
// Defined by simt/cuda.h, together with every CUDA word.
#elif defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__CUDA__)
#define PGAS_CUDA 1
#else
#define PGAS_HOST 1
#endif

#if defined(PGAS_HOST)
#define PGAS_DEVICE inline
#else
#define PGAS_DEVICE __device__ __forceinline__
#endif

// What runs once, if ever: errors and their records. Kept out of line, or every call site would carry them.
#if defined(PGAS_CUDA)
#define PGAS_COLD static __device__ __noinline__
#else
#define PGAS_COLD [[gnu::cold, gnu::noinline, gnu::unused]] static
#endif

#if defined(PGAS_CUDA)
#define PGAS_UNROLL _Pragma("unroll")
#else
#define PGAS_UNROLL
#endif

// PGAS_KERNEL(name) follows the definition of `extern "C" __global__ void name(...)`. It lets the host find the kernel
// by name and leaves the layout hash of these headers in the module as `name_pgas_layout_hash`, which the host compares
// with its own before the first launch.
#if defined(PGAS_CUDA)
#define PGAS_KERNEL(name)                                                              \
    extern "C" {                                                                       \
    __device__ unsigned long long name##_pgas_layout_hash = ::pgas::wire::layout_hash; \
    }
#elif defined(PGAS_SOFTGPU)
#undef PGAS_KERNEL
#define PGAS_KERNEL(name)                                                   \
    SIMT_KERNEL(name)                                                       \
    extern "C" {                                                            \
    unsigned long long name##_pgas_layout_hash = ::pgas::wire::layout_hash; \
    }
#endif
