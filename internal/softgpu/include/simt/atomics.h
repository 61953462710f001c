// CUDA's atomics: relaxed, returning the old value. The device and system forms also wake sleepers of the process, as
// everything does that may fulfil somebody's wait.
#ifndef PGAS_SIMT_ATOMICS_H
#define PGAS_SIMT_ATOMICS_H

namespace simt {

template <class T, class F>
inline T update(T* p, F next) {
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, next(old), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}

inline float add_float(float* p, float v) {
    auto* bits = reinterpret_cast<uint32_t*>(p);
    uint32_t old = update(bits, [v](uint32_t b) { return uint32_t(to_bits(from_bits<float>(b) + v)); });
    return from_bits<float>(old);
}

inline double add_double(double* p, double v) {
    auto* bits = reinterpret_cast<uint64_t*>(p);
    uint64_t old = update(bits, [v](uint64_t b) { return to_bits(from_bits<double>(b) + v); });
    return from_bits<double>(old);
}

template <class T>
inline T compare_and_swap(T* p, T compare, T v) {
    __atomic_compare_exchange_n(p, &compare, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return compare;
}

}  // namespace simt

// One operation in its three scopes. A block scope needs no bell: its lanes share a thread.
#define SIMT_ATOMIC(name, type, expression)                          \
    inline type name##_block(type* p, type v) { return expression; } \
    inline type name(type* p, type v) {                              \
        type old = expression;                                       \
        simt_notify();                                               \
        return old;                                                  \
    }                                                                \
    inline type name##_system(type* p, type v) { return name(p, v); }

#define SIMT_ATOMIC_INTEGER(type)                                                                                \
    SIMT_ATOMIC(atomicAdd, type, __atomic_fetch_add(p, v, __ATOMIC_RELAXED))                                     \
    SIMT_ATOMIC(atomicExch, type, __atomic_exchange_n(p, v, __ATOMIC_RELAXED))                                   \
    SIMT_ATOMIC(atomicAnd, type, __atomic_fetch_and(p, v, __ATOMIC_RELAXED))                                     \
    SIMT_ATOMIC(atomicOr, type, __atomic_fetch_or(p, v, __ATOMIC_RELAXED))                                       \
    SIMT_ATOMIC(atomicXor, type, __atomic_fetch_xor(p, v, __ATOMIC_RELAXED))                                     \
    SIMT_ATOMIC(atomicMax, type, simt::update(p, [v](type old) { return old > v ? old : v; }))                   \
    SIMT_ATOMIC(atomicMin, type, simt::update(p, [v](type old) { return old < v ? old : v; }))                   \
    inline type atomicCAS_block(type* p, type compare, type v) { return simt::compare_and_swap(p, compare, v); } \
    inline type atomicCAS(type* p, type compare, type v) {                                                       \
        type old = simt::compare_and_swap(p, compare, v);                                                        \
        simt_notify();                                                                                           \
        return old;                                                                                              \
    }                                                                                                            \
    inline type atomicCAS_system(type* p, type compare, type v) { return atomicCAS(p, compare, v); }

SIMT_ATOMIC_INTEGER(int)
SIMT_ATOMIC_INTEGER(unsigned)
SIMT_ATOMIC_INTEGER(unsigned long long)
SIMT_ATOMIC(atomicSub, int, __atomic_fetch_sub(p, v, __ATOMIC_RELAXED))
SIMT_ATOMIC(atomicSub, unsigned, __atomic_fetch_sub(p, v, __ATOMIC_RELAXED))
SIMT_ATOMIC(atomicInc, unsigned, simt::update(p, [v](unsigned old) { return old >= v ? 0 : old + 1; }))
SIMT_ATOMIC(atomicDec, unsigned, simt::update(p, [v](unsigned old) { return old == 0 || old > v ? v : old - 1; }))
SIMT_ATOMIC(atomicAdd, float, simt::add_float(p, v))
SIMT_ATOMIC(atomicAdd, double, simt::add_double(p, v))
SIMT_ATOMIC(atomicExch, float,
            simt::from_bits<float>(__atomic_exchange_n(reinterpret_cast<uint32_t*>(p), uint32_t(simt::to_bits(v)),
                                                       __ATOMIC_RELAXED)))
#undef SIMT_ATOMIC_INTEGER
#undef SIMT_ATOMIC

#endif
