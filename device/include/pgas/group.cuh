// Thread groups as values: pgas::thread(), pgas::warp(), pgas::block().
//
// A group operation must be called by all threads of the group with the same arguments. rank() is the caller's place,
// size() the number of threads, sync() a barrier that also orders memory among the group's threads, and broadcast()
// gives every thread the value of rank 0 (it synchronises too).
#pragma once

#include "memory_model.cuh"

namespace pgas {

struct thread_group {
    PGAS_DEVICE uint32_t rank() const { return 0; }
    PGAS_DEVICE uint32_t size() const { return 1; }
    PGAS_DEVICE void sync() const {}
    template <class T>
    PGAS_DEVICE T broadcast(T v) const {
        return v;
    }
};

PGAS_DEVICE thread_group thread() { return {}; }

#if !defined(PGAS_HOST)

namespace detail {
PGAS_DEVICE uint32_t block_threads() { return blockDim.x * blockDim.y * blockDim.z; }
PGAS_DEVICE uint32_t thread_in_block() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
}  // namespace detail

// The warp of the caller. The last warp of a block may have fewer than 32 threads.
struct warp_group {
    uint32_t mask;
    uint32_t lane;
    uint32_t lanes;

    PGAS_DEVICE uint32_t rank() const { return lane; }
    PGAS_DEVICE uint32_t size() const { return lanes; }
    PGAS_DEVICE void sync() const { __syncwarp(mask); }
    PGAS_DEVICE uint32_t broadcast(uint32_t v) const {
        v = __shfl_sync(mask, v, 0);
        __syncwarp(mask);  // a shuffle orders no memory
        return v;
    }
};

PGAS_DEVICE warp_group warp() {
    uint32_t t = detail::thread_in_block();
    uint32_t first = t & ~31u;
    uint32_t left = detail::block_threads() - first;
    uint32_t lanes = left < 32 ? left : 32;
    return {lanes == 32 ? 0xffffffffu : (1u << lanes) - 1, t - first, lanes};
}

// All threads of the block.
struct block_group {
    PGAS_DEVICE uint32_t rank() const { return detail::thread_in_block(); }
    PGAS_DEVICE uint32_t size() const { return detail::block_threads(); }
    PGAS_DEVICE void sync() const { __syncthreads(); }
    PGAS_DEVICE uint32_t broadcast(uint32_t v) const {
        __shared__ uint32_t slot;
        if (rank() == 0) slot = v;
        __syncthreads();
        v = slot;
        __syncthreads();
        return v;
    }
};

PGAS_DEVICE block_group block() { return {}; }

#endif

}  // namespace pgas
