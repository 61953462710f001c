// The memory model, and the only file with inline assembly or atomics builtins.
//
// Every access to memory that another thread, another GPU, a NIC or a CPU also touches goes through a function here.
// The CUDA backend emits PTX with an explicit order and scope. The host backend (software GPU and CPU posts) uses the
// C++ atomics of the same order, so that ThreadSanitizer checks what PTX would run. Scopes collapse on a CPU.
//
// Facts: PTX ISA, memory consistency model (ld/st/atom/fence .relaxed .acquire .release, sm_70+); st.mmio needs
// PTX 8.2. A NIC reads queues at system scope; GPU scope is enough only when the queues are in this GPU's own memory.
#pragma once

#include "config.cuh"
#include "detail/wire.cuh"

#if !defined(PGAS_CUDA)
#include <cstring>
#include <ctime>
#endif

namespace pgas {
namespace mm {

enum class scope { gpu, system };

#if defined(PGAS_CUDA)

#define PGAS_LD_(NAME, SEM, SCOPE_WORD, TYPE, PTX, REG)                                               \
    PGAS_DEVICE TYPE NAME(const TYPE* p) {                                                            \
        TYPE v;                                                                                       \
        asm volatile("ld." SEM "." SCOPE_WORD "." PTX " %0, [%1];" : "=" REG(v) : "l"(p) : "memory"); \
        return v;                                                                                     \
    }
#define PGAS_ST_(NAME, SEM, SCOPE_WORD, TYPE, PTX, REG)                                          \
    PGAS_DEVICE void NAME(TYPE* p, TYPE v) {                                                     \
        asm volatile("st." SEM "." SCOPE_WORD "." PTX " [%0], %1;" ::"l"(p), REG(v) : "memory"); \
    }

namespace ptx {
// clang-format off
PGAS_LD_(ld_relaxed_gpu, "relaxed", "gpu", uint32_t, "u32", "r")
PGAS_LD_(ld_relaxed_gpu, "relaxed", "gpu", uint64_t, "u64", "l")
PGAS_LD_(ld_relaxed_sys, "relaxed", "sys", uint32_t, "u32", "r")
PGAS_LD_(ld_relaxed_sys, "relaxed", "sys", uint64_t, "u64", "l")
PGAS_LD_(ld_acquire_gpu, "acquire", "gpu", uint32_t, "u32", "r")
PGAS_LD_(ld_acquire_gpu, "acquire", "gpu", uint64_t, "u64", "l")
PGAS_LD_(ld_acquire_sys, "acquire", "sys", uint32_t, "u32", "r")
PGAS_LD_(ld_acquire_sys, "acquire", "sys", uint64_t, "u64", "l")
PGAS_ST_(st_relaxed_gpu, "relaxed", "gpu", uint32_t, "u32", "r")
PGAS_ST_(st_relaxed_gpu, "relaxed", "gpu", uint64_t, "u64", "l")
PGAS_ST_(st_relaxed_sys, "relaxed", "sys", uint32_t, "u32", "r")
PGAS_ST_(st_relaxed_sys, "relaxed", "sys", uint64_t, "u64", "l")
PGAS_ST_(st_release_gpu, "release", "gpu", uint32_t, "u32", "r")
PGAS_ST_(st_release_gpu, "release", "gpu", uint64_t, "u64", "l")
PGAS_ST_(st_release_sys, "release", "sys", uint32_t, "u32", "r")
PGAS_ST_(st_release_sys, "release", "sys", uint64_t, "u64", "l")
// clang-format on
}  // namespace ptx
#undef PGAS_LD_
#undef PGAS_ST_

template <scope S, class T>
PGAS_DEVICE T ld_relaxed(const T* p) {
    return S == scope::gpu ? ptx::ld_relaxed_gpu(p) : ptx::ld_relaxed_sys(p);
}

template <scope S, class T>
PGAS_DEVICE T ld_acquire(const T* p) {
    return S == scope::gpu ? ptx::ld_acquire_gpu(p) : ptx::ld_acquire_sys(p);
}

template <scope S, class T>
PGAS_DEVICE void st_relaxed(T* p, T v) {
    S == scope::gpu ? ptx::st_relaxed_gpu(p, v) : ptx::st_relaxed_sys(p, v);
}

template <scope S, class T>
PGAS_DEVICE void st_release(T* p, T v) {
    S == scope::gpu ? ptx::st_release_gpu(p, v) : ptx::st_release_sys(p, v);
}

// Single-copy atomic stores and loads of an element of 1, 2, 4 or 8 bytes, naturally aligned, relaxed, system scope.
PGAS_DEVICE void st_element(uint8_t* p, uint8_t v) {
    asm volatile("st.relaxed.sys.u8 [%0], %1;" ::"l"(p), "r"(uint32_t(v)) : "memory");
}
PGAS_DEVICE void st_element(uint16_t* p, uint16_t v) {
    asm volatile("st.relaxed.sys.u16 [%0], %1;" ::"l"(p), "h"(v) : "memory");
}
PGAS_DEVICE void st_element(uint32_t* p, uint32_t v) { ptx::st_relaxed_sys(p, v); }
PGAS_DEVICE void st_element(uint64_t* p, uint64_t v) { ptx::st_relaxed_sys(p, v); }
PGAS_DEVICE uint8_t ld_element(const uint8_t* p) {
    uint32_t v;
    asm volatile("ld.relaxed.sys.u8 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return uint8_t(v);
}
PGAS_DEVICE uint16_t ld_element(const uint16_t* p) {
    uint16_t v;
    asm volatile("ld.relaxed.sys.u16 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
    return v;
}
PGAS_DEVICE uint32_t ld_element(const uint32_t* p) { return ptx::ld_relaxed_sys(p); }
PGAS_DEVICE uint64_t ld_element(const uint64_t* p) { return ptx::ld_relaxed_sys(p); }

// Compare-and-swap, relaxed, GPU scope. Returns the old value.
PGAS_DEVICE uint32_t cas(uint32_t* p, uint32_t expected, uint32_t desired) {
    uint32_t old;
    asm volatile("atom.cas.relaxed.gpu.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(p), "r"(expected), "r"(desired)
                 : "memory");
    return old;
}
PGAS_DEVICE uint64_t cas(uint64_t* p, uint64_t expected, uint64_t desired) {
    uint64_t old;
    asm volatile("atom.cas.relaxed.gpu.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(p), "l"(expected), "l"(desired)
                 : "memory");
    return old;
}
// Compare-and-swap, relaxed, system scope, for words the host also reads.
PGAS_DEVICE uint32_t cas_system(uint32_t* p, uint32_t expected, uint32_t desired) {
    uint32_t old;
    asm volatile("atom.cas.relaxed.sys.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(p), "r"(expected), "r"(desired)
                 : "memory");
    return old;
}

// Raises *p to at least v. Release, GPU scope.
PGAS_DEVICE void raise_release(uint64_t* p, uint64_t v) {
    asm volatile("red.max.release.gpu.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
// Sets bits of *p. Release, GPU scope.
PGAS_DEVICE void set_bits_release(uint64_t* p, uint64_t bits) {
    asm volatile("red.or.release.gpu.b64 [%0], %1;" ::"l"(p), "l"(bits) : "memory");
}
// Clears bits of *p. Release, GPU scope.
PGAS_DEVICE void clear_bits_release(uint64_t* p, uint64_t bits) {
    asm volatile("red.and.release.gpu.b64 [%0], %1;" ::"l"(p), "l"(~bits) : "memory");
}
// Adds to a signal word of this or a peer GPU. Release, system scope.
PGAS_DEVICE void add_release_system(uint64_t* p, uint64_t v) {
    asm volatile("red.add.release.sys.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
// Adds and returns the old value. Relaxed, system scope.
PGAS_DEVICE uint64_t fetch_add_system(uint64_t* p, uint64_t v) {
    uint64_t old;
    asm volatile("atom.add.relaxed.sys.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}
// Stores a signal word. Release, system scope.
PGAS_DEVICE void signal_store(uint64_t* p, uint64_t v) { ptx::st_release_sys(p, v); }

PGAS_DEVICE void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

// Stores 16 bytes of a WQE. The first 8 bytes may be read concurrently by a poller of the same queue.
PGAS_DEVICE void st_wqe16(void* p, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// A release at GPU scope when that is enough, else at system scope. PTX defines a fence followed by a relaxed store as
// a release pattern, so the two stores below cost one fence each and no second copy of the code.
PGAS_DEVICE void fence_release(bool gpu_scope) {
    if (gpu_scope) {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    } else {
        asm volatile("fence.acq_rel.sys;" ::: "memory");
    }
}

// Stores the send counter of a doorbell record. Release at the given scope.
PGAS_DEVICE void st_record_release(uint32_t* p, uint32_t v, bool gpu_scope) {
    fence_release(gpu_scope);
    ptx::st_relaxed_sys(p, v);
}

// Writes an 8-byte doorbell after everything before it, also what other threads released to this one.
PGAS_DEVICE void st_doorbell_release(uint64_t* p, uint64_t v, bool gpu_scope) {
    fence_release(gpu_scope);
    asm volatile("st.mmio.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// log2 of a power of two.
PGAS_DEVICE uint32_t log2(uint32_t v) { return 31 - __clz(int(v)); }

PGAS_DEVICE uint64_t now_ns() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

PGAS_DEVICE void pause() { asm volatile("nanosleep.u32 32;"); }

// Nobody sleeps on a bell on hardware.
PGAS_DEVICE void notify_own() {}
PGAS_DEVICE void notify_peer(uint64_t) {}

// Copies n bytes between non-overlapping ranges by `size` lanes, of which this is `rank`. No order, no sync.
PGAS_DEVICE void copy(void* dst, const void* src, uint64_t n, uint32_t rank, uint32_t size) {
    auto* d = static_cast<uint8_t*>(dst);
    auto* s = static_cast<const uint8_t*>(src);
    uint64_t head = 0;
    uint64_t vectors = 0;
    if (((reinterpret_cast<uint64_t>(d) ^ reinterpret_cast<uint64_t>(s)) & 15) == 0) {
        head = (16 - (reinterpret_cast<uint64_t>(d) & 15)) & 15;
        head = head < n ? head : n;
        vectors = (n - head) / 16;
    }
    for (uint64_t i = rank; i < vectors; i += size) {
        reinterpret_cast<uint4*>(d + head)[i] = reinterpret_cast<const uint4*>(s + head)[i];
    }
    for (uint64_t i = rank; i < head; i += size) d[i] = s[i];
    for (uint64_t i = head + vectors * 16 + rank; i < n; i += size) d[i] = s[i];
}

#else  // host backend

#if defined(PGAS_HOST)
// What the CPU needs from its platform. The software platform gives its doorbell and its bells; hardware needs neither.
struct host_hooks {
    void (*doorbell)(volatile void* addr, uint64_t value) = nullptr;
    void (*pause)() = nullptr;
    void (*notify)() = nullptr;
    void (*ring_bell)(void* bell) = nullptr;
};
inline host_hooks& hooks() {
    static host_hooks h;
    return h;
}
#endif

template <scope, class T>
PGAS_DEVICE T ld_relaxed(const T* p) {
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

template <scope, class T>
PGAS_DEVICE T ld_acquire(const T* p) {
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

template <scope, class T>
PGAS_DEVICE void st_relaxed(T* p, T v) {
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

template <scope, class T>
PGAS_DEVICE void st_release(T* p, T v) {
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

template <class T>
PGAS_DEVICE void st_element(T* p, T v) {
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

template <class T>
PGAS_DEVICE T ld_element(const T* p) {
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

template <class T>
PGAS_DEVICE T cas(T* p, T expected, T desired) {
    __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
PGAS_DEVICE uint32_t cas_system(uint32_t* p, uint32_t expected, uint32_t desired) { return cas(p, expected, desired); }

PGAS_DEVICE void raise_release(uint64_t* p, uint64_t v) {
    uint64_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (old < v && !__atomic_compare_exchange_n(p, &old, v, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}
PGAS_DEVICE void set_bits_release(uint64_t* p, uint64_t bits) { __atomic_fetch_or(p, bits, __ATOMIC_RELEASE); }
PGAS_DEVICE void clear_bits_release(uint64_t* p, uint64_t bits) { __atomic_fetch_and(p, ~bits, __ATOMIC_RELEASE); }
PGAS_DEVICE void add_release_system(uint64_t* p, uint64_t v) { __atomic_fetch_add(p, v, __ATOMIC_RELEASE); }
PGAS_DEVICE uint64_t fetch_add_system(uint64_t* p, uint64_t v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
// An exchange rather than a store: it is a full barrier on every CPU, so the look at the bell that follows cannot pass
// it.
PGAS_DEVICE void signal_store(uint64_t* p, uint64_t v) { __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }

PGAS_DEVICE void fence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

PGAS_DEVICE void st_wqe16(void* p, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    auto* w = static_cast<uint64_t*>(p);
    __atomic_store_n(w, uint64_t(b) << 32 | a, __ATOMIC_RELAXED);
    __atomic_store_n(w + 1, uint64_t(d) << 32 | c, __ATOMIC_RELAXED);
}

PGAS_DEVICE void st_record_release(uint32_t* p, uint32_t v, bool) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

PGAS_DEVICE void st_doorbell_release(uint64_t* p, uint64_t v, bool) {
#if defined(PGAS_SOFTGPU)
    simt_mmio_store64(p, v);
#else
    if (hooks().doorbell) {
        hooks().doorbell(p, v);
    } else {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        __atomic_store_n(p, v, __ATOMIC_RELEASE);
    }
#endif
}

PGAS_DEVICE uint32_t log2(uint32_t v) { return uint32_t(__builtin_ctz(v)); }

PGAS_DEVICE uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

PGAS_DEVICE void pause() {
#if defined(PGAS_SOFTGPU)
    simt_pause();
#else
    if (hooks().pause) hooks().pause();
#endif
}

// Wakes waiters of this PE that sleep on its bell.
PGAS_DEVICE void notify_own() {
#if defined(PGAS_SOFTGPU)
    simt_notify();
#else
    if (hooks().notify) hooks().notify();
#endif
}
// Wakes waiters of the PE that owns the bell.
PGAS_DEVICE void notify_peer(uint64_t bell) {
    if (bell == 0) return;
#if defined(PGAS_SOFTGPU)
    simt_bell_ring(reinterpret_cast<void*>(bell));
#else
    if (hooks().ring_bell) hooks().ring_bell(reinterpret_cast<void*>(bell));
#endif
}

// Lanes of a software block share one OS thread, so each copies one contiguous part.
PGAS_DEVICE void copy(void* dst, const void* src, uint64_t n, uint32_t rank, uint32_t size) {
    uint64_t part = ((n / size) + 63) & ~uint64_t(63);
    uint64_t begin = part * rank;
    if (part == 0 || size == 1) {
        begin = rank == 0 ? 0 : n;
        part = n;
    }
    if (begin >= n) return;
    uint64_t len = rank + 1 == size || n - begin < part ? n - begin : part;
    memcpy(static_cast<uint8_t*>(dst) + begin, static_cast<const uint8_t*>(src) + begin, len);
}

#endif

}  // namespace mm
}  // namespace pgas
