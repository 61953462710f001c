// CUDA for the host compiler: included first in every translation unit of kernel source that is built for the software
// GPU (-include simt/cuda.h). It defines CUDA's words, so the source stays as it is.
//
// Not there: <<<>>> launches, PTX, cooperative_groups, libcu++, textures.
#ifndef PGAS_SIMT_CUDA_H
#define PGAS_SIMT_CUDA_H

// The C++ library uses some of the words below as attribute names, so all of it that kernels need comes first.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#define PGAS_SOFTGPU 1

#include "abi.h"
#include "runtime.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
// One copy per block, because a block is a thread. `extern __shared__` becomes a symbol that the build defines.
#define __shared__ thread_local

#define threadIdx (simt_self.thread)
#define blockIdx (simt_self.block)
#define blockDim (simt_self.block_dim)
#define gridDim (simt_self.grid_dim)
#define warpSize 32

// Each builds on those before it.
// clang-format off
#include "types.h"
#include "kernel.h"
#include "warp.h"
#include "atomics.h"
#include "intrinsics.h"
// clang-format on

// A failed assertion ends the launch, not the process.
extern "C" __attribute__((weak, visibility("hidden"), noreturn)) void __assert_fail(const char* text, const char* file,
                                                                                    unsigned line,
                                                                                    const char* function) noexcept {
    simt_assert_fail(text, file, line, function);
}

#endif
