// Fields of big-endian hardware structures: descriptors, access, and byte order.
//
// Everything here works on the host (C++17, constant expressions included) and in device code.
#pragma once

#if defined(__CUDACC_RTC__)
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#else
#include <cstdint>
#endif

// Both attributes under a CUDA compiler, nothing elsewhere. clang without the toolkit's headers has no macros for
// them, only the attributes.
#if (defined(__CUDACC__) || defined(__CUDA__)) && defined(__clang__)
#define PGAS_PRM_FN __attribute__((host)) __attribute__((device)) inline
#elif defined(__CUDACC__)
#define PGAS_PRM_FN __host__ __device__ inline
#else
#define PGAS_PRM_FN inline
#endif

namespace pgas {
namespace prm {

// The place of one value: bits from the most significant bit of the first byte, shifted left by 8, and the number of
// bits. It is a scalar because device code may use the value of a scalar constant of a namespace, but not an object.
enum class field : uint32_t {};

PGAS_PRM_FN constexpr field make_field(uint32_t first_bit, uint32_t width) {
    return static_cast<field>(first_bit << 8 | width);
}
PGAS_PRM_FN constexpr uint32_t first_bit(field f) { return static_cast<uint32_t>(f) >> 8; }
PGAS_PRM_FN constexpr uint32_t width(field f) { return static_cast<uint32_t>(f) & 0xff; }
// The same field of a struct that lies `bytes` into the buffer.
PGAS_PRM_FN constexpr field at(field f, uint32_t bytes) { return make_field(first_bit(f) + 8 * bytes, width(f)); }
// Offset of the first byte.
PGAS_PRM_FN constexpr uint32_t byte_of(field f) { return first_bit(f) / 8; }
// Offset of the 32-bit word that holds the field.
PGAS_PRM_FN constexpr uint32_t word_of(field f) { return first_bit(f) / 32 * 4; }
// Distance of the lowest bit from bit 0 of the word, in host order.
PGAS_PRM_FN constexpr uint32_t shift_of(field f) { return 32 - first_bit(f) % 32 - width(f); }
// Largest value.
PGAS_PRM_FN constexpr uint64_t max_of(field f) { return width(f) >= 64 ? ~0ull : (1ull << width(f)) - 1; }

// The value, moved to its bits of the word in host order. Bits that do not fit are cut off: counters wrap.
PGAS_PRM_FN constexpr uint32_t place(field f, uint32_t value) {
    return (value & static_cast<uint32_t>(max_of(f))) << shift_of(f);
}

// The value of a field, from its word in host order.
PGAS_PRM_FN constexpr uint32_t extract(field f, uint32_t word) {
    return (word >> shift_of(f)) & static_cast<uint32_t>(max_of(f));
}

// Big-endian words, a byte at a time so that they are constant expressions and need no alignment. Compilers make one
// load or store and a byte swap of them.
PGAS_PRM_FN constexpr uint32_t load_word(const uint8_t* p) {
    return static_cast<uint32_t>(p[0]) << 24 | static_cast<uint32_t>(p[1]) << 16 | static_cast<uint32_t>(p[2]) << 8 |
           p[3];
}

PGAS_PRM_FN constexpr void store_word(uint8_t* p, uint32_t word) {
    p[0] = static_cast<uint8_t>(word >> 24);
    p[1] = static_cast<uint8_t>(word >> 16);
    p[2] = static_cast<uint8_t>(word >> 8);
    p[3] = static_cast<uint8_t>(word);
}

// Reads a number of up to 32 bits, or of 64.
PGAS_PRM_FN constexpr uint64_t get(const uint8_t* buffer, field f) {
    if (width(f) == 64) {
        const uint8_t* p = buffer + byte_of(f);
        return static_cast<uint64_t>(load_word(p)) << 32 | load_word(p + 4);
    }
    return extract(f, load_word(buffer + word_of(f)));
}

// Writes a number of up to 32 bits, or of 64, and leaves every other bit alone. Returns false, and writes nothing,
// when the value is wider than the field.
[[nodiscard]] PGAS_PRM_FN constexpr bool set(uint8_t* buffer, field f, uint64_t value) {
    if (value > max_of(f)) return false;
    if (width(f) == 64) {
        store_word(buffer + byte_of(f), static_cast<uint32_t>(value >> 32));
        store_word(buffer + byte_of(f) + 4, static_cast<uint32_t>(value));
        return true;
    }
    uint8_t* p = buffer + word_of(f);
    const uint32_t mask = static_cast<uint32_t>(max_of(f)) << shift_of(f);
    store_word(p, (load_word(p) & ~mask) | static_cast<uint32_t>(value) << shift_of(f));
    return true;
}

// Reverses the bytes of a word. This is one instruction on GPUs and CPUs.
PGAS_PRM_FN uint32_t bswap32(uint32_t x) {
#if defined(__CUDA_ARCH__) && !defined(__clang__)
    return __byte_perm(x, 0, 0x0123);
#else
    return __builtin_bswap32(x);
#endif
}

PGAS_PRM_FN uint64_t bswap64(uint64_t x) {
    return static_cast<uint64_t>(bswap32(static_cast<uint32_t>(x))) << 32 | bswap32(static_cast<uint32_t>(x >> 32));
}

}  // namespace prm
}  // namespace pgas
