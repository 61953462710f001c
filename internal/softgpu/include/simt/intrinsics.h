// Fences, clocks, cached loads, integer and float intrinsics.
#ifndef PGAS_SIMT_INTRINSICS_H
#define PGAS_SIMT_INTRINSICS_H

// Lanes of a block share a thread, so only fences of a wider scope reach the processor.
inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence() {
    simt_tsan_fence();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_system() { __threadfence(); }

__forceinline__ void __nanosleep(unsigned ns) { simt_nanosleep(ns); }
__forceinline__ void __trap() { simt_trap("__trap"); }
inline long long clock64() { return static_cast<long long>(simt_clock64()); }
inline unsigned long long globaltimer() { return simt_globaltimer(); }

// Loads with a cache hint. The cache-global and volatile forms see what other blocks wrote.
template <class T>
inline T __ldg(const T* p) {
    return *p;
}
template <class T>
inline T __ldcs(const T* p) {
    return *p;
}
template <class T>
inline T __ldcg(const T* p) {
    return *const_cast<const volatile T*>(p);
}
template <class T>
inline T __ldcv(const T* p) {
    return *const_cast<const volatile T*>(p);
}
template <class T>
inline void __stcg(T* p, T v) {
    *p = v;
}
template <class T>
inline void __stcs(T* p, T v) {
    *p = v;
}

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline int __clz(int v) { return v ? __builtin_clz(unsigned(v)) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll(static_cast<unsigned long long>(v)) : 64; }
inline unsigned __brev(unsigned v) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (v >> i & 1u) << (31 - i);
    return r;
}
inline unsigned long long __brevll(unsigned long long v) {
    return static_cast<unsigned long long>(__brev(unsigned(v))) << 32 | __brev(unsigned(v >> 32));
}

// Byte i of the result is byte (selector nibble i & 7) of y:x; with bit 3 of the nibble its sign, repeated.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    uint64_t both = uint64_t(y) << 32 | x;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        unsigned n = selector >> (4 * i);
        unsigned b = unsigned(both >> (8 * (n & 7))) & 0xff;
        if (n & 8) b = b & 0x80 ? 0xff : 0;
        r |= b << (8 * i);
    }
    return r;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    __extension__ typedef unsigned __int128 wide;
    return static_cast<unsigned long long>(wide(a) * b >> 64);
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    shift &= 31;
    return shift ? hi << shift | lo >> (32 - shift) : hi;
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    shift &= 31;
    return shift ? lo >> shift | hi << (32 - shift) : lo;
}

inline int __float_as_int(float v) { return simt::from_bits<int>(simt::to_bits(v)); }
inline unsigned __float_as_uint(float v) { return simt::from_bits<unsigned>(simt::to_bits(v)); }
inline float __int_as_float(int v) { return simt::from_bits<float>(simt::to_bits(v)); }
inline float __uint_as_float(unsigned v) { return simt::from_bits<float>(simt::to_bits(v)); }
inline long long __double_as_longlong(double v) { return simt::from_bits<long long>(simt::to_bits(v)); }
inline double __longlong_as_double(long long v) { return simt::from_bits<double>(simt::to_bits(v)); }

// Rounded once, as the name says; the compiler may not fuse them with their neighbours.
inline float __fadd_rn(float a, float b) {
    volatile float r = a + b;
    return r;
}
inline float __fmul_rn(float a, float b) {
    volatile float r = a * b;
    return r;
}
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __frcp_rn(float v) { return 1.0f / v; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float v) { return std::exp(v); }
inline float __logf(float v) { return std::log(v); }
inline float rsqrtf(float v) { return 1.0f / std::sqrt(v); }
inline int __float2int_rn(float v) { return int(std::nearbyint(v)); }
inline int __float2int_rz(float v) { return int(v); }
inline unsigned __float2uint_rn(float v) { return unsigned(std::nearbyint(v)); }
inline float __int2float_rn(int v) { return float(v); }
inline float __uint2float_rn(unsigned v) { return float(v); }

// min and max of mixed integer types, which std has not; one type is std's.
using std::max;
using std::min;
inline unsigned min(unsigned a, int b) { return std::min(a, unsigned(b)); }
inline unsigned min(int a, unsigned b) { return std::min(unsigned(a), b); }
inline unsigned max(unsigned a, int b) { return std::max(a, unsigned(b)); }
inline unsigned max(int a, unsigned b) { return std::max(unsigned(a), b); }

#endif
