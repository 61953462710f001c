// Helpers on top of the generated PRM layouts.
#pragma once

#include <cstring>
#include <initializer_list>

#include "../../device/include/pgas/detail/prm.cuh"

namespace pgas::softhca {

namespace prm = pgas::prm;

inline uint32_t load_be32(const void* p) {
    uint32_t v;
    std::memcpy(&v, p, 4);
    return __builtin_bswap32(v);
}

inline uint64_t load_be64(const void* p) {
    uint64_t v;
    std::memcpy(&v, p, 8);
    return __builtin_bswap64(v);
}

// Writes a value; what does not fit is cut off, as hardware counters do.
inline void put(uint8_t* buffer, prm::field f, uint64_t value) {
    if (!prm::set(buffer, f, value & prm::max_of(f))) __builtin_trap();
}

inline uint32_t get32(const uint8_t* buffer, prm::field f) { return static_cast<uint32_t>(prm::get(buffer, f)); }

// A copy of a command or context in which fields are cleared as they are read: what is left is a bit that the device
// does not know, and hardware refuses those.
class Reader {
  public:
    static constexpr size_t max_size = 4096;

    Reader(const uint8_t* data, size_t size) : size_(size < max_size ? size : max_size) {
        std::memcpy(data_, data, size_);
    }

    // Returns the value and clears its bits.
    uint64_t take(prm::field f) {
        const uint64_t v = prm::get(data_, f);
        put(data_, f, 0);
        return v;
    }
    uint32_t take32(prm::field f) { return static_cast<uint32_t>(take(f)); }
    void take_bytes(size_t at, uint8_t* out, size_t n) {
        std::memcpy(out, data_ + at, n);
        std::memset(data_ + at, 0, n);
    }
    // Clears bits whose value does not matter here.
    void skip(std::initializer_list<prm::field> fields) {
        for (prm::field f : fields) put(data_, f, 0);
    }
    bool rest_is_zero() const {
        for (size_t i = 0; i < size_; i++) {
            if (data_[i] != 0) return false;
        }
        return true;
    }

  private:
    size_t size_;
    uint8_t data_[max_size];
};

}  // namespace pgas::softhca
