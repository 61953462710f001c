// NIC atomics. Operands are values; memory holds the host's byte order (atomic_req_8B_endianness_mode 1).
#include "requester.h"

namespace pgas::softhca {
namespace {

// Addition whose carries do not cross a bit that is set in boundary (the top bit of a field).
template <typename T>
T add_in_fields(T a, T b, T boundary) {
    // Add without the top bits of the fields, so that nothing carries out of a field, then add those without carry.
    const T low = ~boundary;
    return static_cast<T>((a & low) + (b & low)) ^ ((a ^ b) & boundary);
}

template <typename T>
uint64_t execute(uint8_t* word, const Atomic& op) {
    T* p = reinterpret_cast<T*>(word);
    const T operand = static_cast<T>(op.swap_add);
    if (!op.swap && op.boundary == 0) return __atomic_fetch_add(p, operand, __ATOMIC_ACQ_REL);
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    for (;;) {
        T next = old;
        if (!op.swap) {
            next = add_in_fields<T>(old, operand, static_cast<T>(op.boundary));
        } else if (((old ^ static_cast<T>(op.compare)) & static_cast<T>(op.compare_mask)) == 0) {
            const T mask = static_cast<T>(op.swap_mask);
            next = (old & ~mask) | (operand & mask);
        }
        if (__atomic_compare_exchange_n(p, &old, next, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return old;
    }
}

}  // namespace

uint64_t execute_atomic(uint8_t* word, const Atomic& op) {
    return op.size == 4 ? execute<uint32_t>(word, op) : execute<uint64_t>(word, op);
}

}  // namespace pgas::softhca
