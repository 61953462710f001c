// How the HCA moves bytes. Naturally aligned pieces of 2, 4 and 8 bytes are single-copy atomic and released, so a
// reader that acquires a flag sees everything placed before it; the middle of long payload is plain memcpy. Under
// ThreadSanitizer every piece is atomic, because memcpy would hide nothing but would report readers that poll.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pgas::softhca {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PGAS_SOFTHCA_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define PGAS_SOFTHCA_TSAN 1
#endif

template <typename T>
inline bool place_piece(uint8_t*& dst, const uint8_t*& src, size_t& n) {
    if (n < sizeof(T) || reinterpret_cast<uintptr_t>(dst) % sizeof(T) != 0) return false;
    T v;
    if (reinterpret_cast<uintptr_t>(src) % sizeof(T) == 0) {
        v = __atomic_load_n(reinterpret_cast<const T*>(src), __ATOMIC_RELAXED);
    } else {
        std::memcpy(&v, src, sizeof v);
    }
    __atomic_store_n(reinterpret_cast<T*>(dst), v, __ATOMIC_RELEASE);
    dst += sizeof(T);
    src += sizeof(T);
    n -= sizeof(T);
    return true;
}

inline void place_pieces(uint8_t* dst, const uint8_t* src, size_t n) {
    while (n > 0) {
        if (place_piece<uint64_t>(dst, src, n)) continue;
        if (place_piece<uint32_t>(dst, src, n)) continue;
        if (place_piece<uint16_t>(dst, src, n)) continue;
        place_piece<uint8_t>(dst, src, n);
    }
}

inline void place(uint8_t* dst, const uint8_t* src, size_t n) {
#if !defined(PGAS_SOFTHCA_TSAN)
    constexpr size_t bulk = 128;
    if (n > bulk) {
        if (dst < src + n && src < dst + n) {  // loopback onto itself: hardware reads the packet before it writes it
            std::memmove(dst, src, n);
            return;
        }
        const size_t head = -reinterpret_cast<uintptr_t>(dst) & 7;
        place_pieces(dst, src, head);
        const size_t middle = (n - head) & ~size_t{7};
        __atomic_thread_fence(__ATOMIC_RELEASE);
        std::memcpy(dst + head, src + head, middle);
        place_pieces(dst + head + middle, src + head + middle, n - head - middle);
        return;
    }
#endif
    place_pieces(dst, src, n);
}

}  // namespace pgas::softhca
