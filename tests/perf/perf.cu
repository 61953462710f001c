// The kernels that are measured. Each times batches of operations itself, with the clock that the host also has, and
// leaves the time of each batch: percentiles over batches say more than a mean in which one preempted batch drowns all
// others. `failed` receives the first bad status.
#include "pgas/pgas.cuh"

namespace {

enum scope : uint32_t { scope_thread, scope_warp, scope_block };

struct clock_of_batches {
    uint64_t* ns;  // one per batch
    uint64_t begin;

    __device__ void start() { begin = pgas::mm::now_ns(); }
    __device__ void stop(uint32_t batch) const { ns[batch] = pgas::mm::now_ns() - begin; }
};

__device__ bool ok(pgas::status s, uint32_t* failed) {
    if (s != pgas::status::ok) atomicCAS(failed, 0u, static_cast<uint32_t>(s));
    return s == pgas::status::ok;
}

// One thread of PE 0 and one of PE 1: put 8 bytes with a signal, wait for the answer.
__device__ bool ping(pgas::context c, uint64_t* box, uint64_t* flag, uint64_t round, uint32_t* failed) {
    uint32_t peer = 1 - c.my_pe();
    bool first = c.my_pe() == 0;
    if (!first && !ok(pgas::wait_until(c, flag, pgas::ge(round)), failed)) return false;
    if (!ok(pgas::put_signal(pgas::thread(), c, box + 1, box, 1, peer, pgas::signal_set(flag, round)), failed))
        return false;
    return !first || ok(pgas::wait_until(c, flag, pgas::ge(round)), failed);
}

// Everybody puts 8 bytes with a signal to its right neighbour and waits for its left one.
__device__ bool shift(pgas::context c, uint64_t* box, uint64_t* flag, uint64_t round, uint32_t* failed) {
    uint32_t next = (c.my_pe() + 1) % c.n_pes();
    if (!ok(pgas::put_signal(pgas::thread(), c, box + 1, box, 1, next, pgas::signal_set(flag, round)), failed))
        return false;
    return ok(pgas::wait_until(c, flag, pgas::ge(round)), failed);
}

template <class Group>
__device__ bool send(Group g, pgas::context c, uint64_t* dst, const uint64_t* src, uint32_t count, uint32_t* failed) {
    for (uint32_t i = 0; i < count; ++i) {
        if (!ok(pgas::put_nbi(g, c, dst, src, 1, 1), failed)) return false;
    }
    return true;
}

__device__ bool block_quiet(pgas::context c, uint32_t* failed) {
    __syncthreads();
    uint32_t s = 0;
    if (threadIdx.x == 0) s = static_cast<uint32_t>(pgas::quiet(c, 1));
    return ok(static_cast<pgas::status>(pgas::block().broadcast(s)), failed);
}

}  // namespace

extern "C" __global__ void nothing() {}
PGAS_KERNEL(nothing)

// Rounds go on from `round`, so that the flag only grows. The first batch is not timed: the PEs meet in it.
extern "C" __global__ void ping_pong(pgas::world w, uint64_t* box, uint64_t* flag, uint64_t round, uint32_t batches,
                                     uint32_t batch, uint64_t* ns, uint32_t* failed) {
    pgas::context c = w.context(0);
    clock_of_batches t{ns, 0};
    for (uint32_t b = 0; b <= batches; ++b) {
        t.start();
        for (uint32_t i = 0; i < batch; ++i) {
            if (!ping(c, box, flag, ++round, failed)) return;
        }
        if (b != 0) t.stop(b - 1);
    }
}
PGAS_KERNEL(ping_pong)

extern "C" __global__ void exchange(pgas::world w, uint64_t* box, uint64_t* flag, uint64_t round, uint32_t batches,
                                    uint32_t batch, uint64_t* ns, uint32_t* failed) {
    pgas::context c = w.context(0);
    clock_of_batches t{ns, 0};
    for (uint32_t b = 0; b <= batches; ++b) {
        t.start();
        for (uint32_t i = 0; i < batch; ++i) {
            if (!shift(c, box, flag, ++round, failed)) return;
        }
        if (b != 0) t.stop(b - 1);
    }
}
PGAS_KERNEL(exchange)

// PE 0 puts the same range again and again to PE 1, one put at a time of the whole block. A batch ends with a quiet.
extern "C" __global__ void bandwidth(pgas::world w, uint8_t* dst, const uint8_t* src, uint64_t bytes, uint32_t batches,
                                     uint32_t batch, uint64_t* ns, uint32_t* failed) {
    pgas::context c = w.context(0);
    clock_of_batches t{ns, 0};
    for (uint32_t b = 0; b <= batches; ++b) {
        __syncthreads();
        t.start();
        for (uint32_t i = 0; i < batch; ++i) {
            if (!ok(pgas::put_nbi(pgas::block(), c, dst, src, bytes, 1), failed)) return;
        }
        if (!block_quiet(c, failed)) return;
        if (b != 0 && threadIdx.x == 0) t.stop(b - 1);
    }
}
PGAS_KERNEL(bandwidth)

// PE 0 puts words of 8 bytes: every thread its own, every warp its own, or the block one. A batch ends with a quiet.
extern "C" __global__ void message_rate(pgas::world w, uint32_t scope, uint64_t* dst, const uint64_t* src,
                                        uint32_t batches, uint32_t each, uint64_t* ns, uint32_t* failed) {
    pgas::context c = w.context(0);
    clock_of_batches t{ns, 0};
    uint32_t at = threadIdx.x;
    for (uint32_t b = 0; b <= batches; ++b) {
        __syncthreads();
        t.start();
        bool good;
        if (scope == scope_thread) {
            good = send(pgas::thread(), c, dst + at, src + at, each, failed);
        } else if (scope == scope_warp) {
            good = send(pgas::warp(), c, dst + at / 32, src + at / 32, each, failed);
        } else {
            good = send(pgas::block(), c, dst, src, each, failed);
        }
        if (!block_quiet(c, failed) || !good) return;
        if (b != 0 && threadIdx.x == 0) t.stop(b - 1);
    }
}
PGAS_KERNEL(message_rate)
