// Barriers and warp operations.
#ifndef PGAS_SIMT_WARP_H
#define PGAS_SIMT_WARP_H

namespace simt {

template <class T>
inline uint64_t to_bits(T v) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "warp operations move up to 8 bytes");
    uint64_t b = 0;
    memcpy(&b, &v, sizeof(T));
    return b;
}

template <class T>
inline T from_bits(uint64_t b) {
    T v;
    memcpy(&v, &b, sizeof(T));
    return v;
}

}  // namespace simt

// Inlined, so that a report names the place in the kernel.
__forceinline__ void __syncwarp(unsigned mask = 0xffffffffu) { simt_warp(SIMT_SYNC, mask, 0, 0, 32); }
__forceinline__ void __syncthreads() { simt_block(SIMT_BLOCK_SYNC, 0); }
__forceinline__ int __syncthreads_count(int p) { return simt_block(SIMT_BLOCK_COUNT, p); }
__forceinline__ int __syncthreads_and(int p) { return simt_block(SIMT_BLOCK_AND, p); }
__forceinline__ int __syncthreads_or(int p) { return simt_block(SIMT_BLOCK_OR, p); }
__forceinline__ unsigned __activemask() { return simt_activemask(); }

#define SIMT_SHUFFLE(name, op, aux_type)                                                                  \
    template <class T>                                                                                    \
    __forceinline__ T name(unsigned mask, T v, aux_type aux, int width = 32) {                            \
        return simt::from_bits<T>(simt_warp(op, mask, simt::to_bits(v), uint32_t(aux), uint32_t(width))); \
    }
SIMT_SHUFFLE(__shfl_sync, SIMT_SHFL, int)
SIMT_SHUFFLE(__shfl_up_sync, SIMT_SHFL_UP, unsigned)
SIMT_SHUFFLE(__shfl_down_sync, SIMT_SHFL_DOWN, unsigned)
SIMT_SHUFFLE(__shfl_xor_sync, SIMT_SHFL_XOR, int)
#undef SIMT_SHUFFLE

__forceinline__ unsigned __ballot_sync(unsigned mask, int p) {
    return unsigned(simt_warp(SIMT_BALLOT, mask, p != 0, 0, 32));
}
__forceinline__ int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
__forceinline__ int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }

template <class T>
__forceinline__ unsigned __match_any_sync(unsigned mask, T v) {
    return unsigned(simt_warp(SIMT_MATCH_ANY, mask, simt::to_bits(v), 0, 32));
}
template <class T>
__forceinline__ unsigned __match_all_sync(unsigned mask, T v, int* all) {
    unsigned m = unsigned(simt_warp(SIMT_MATCH_ALL, mask, simt::to_bits(v), 0, 32));
    *all = m != 0;
    return m;
}

#define SIMT_REDUCE(name, op, type, wide) \
    __forceinline__ type name(unsigned mask, type v) { return type(simt_warp(op, mask, uint64_t(wide(v)), 0, 32)); }
SIMT_REDUCE(__reduce_add_sync, SIMT_ADD, unsigned, uint64_t)
SIMT_REDUCE(__reduce_min_sync, SIMT_MIN, unsigned, uint64_t)
SIMT_REDUCE(__reduce_max_sync, SIMT_MAX, unsigned, uint64_t)
SIMT_REDUCE(__reduce_and_sync, SIMT_AND, unsigned, uint64_t)
SIMT_REDUCE(__reduce_or_sync, SIMT_OR, unsigned, uint64_t)
SIMT_REDUCE(__reduce_xor_sync, SIMT_XOR, unsigned, uint64_t)
SIMT_REDUCE(__reduce_add_sync, SIMT_ADD, int, int64_t)
SIMT_REDUCE(__reduce_min_sync, SIMT_MIN_SIGNED, int, int64_t)
SIMT_REDUCE(__reduce_max_sync, SIMT_MAX_SIGNED, int, int64_t)
#undef SIMT_REDUCE

#endif
