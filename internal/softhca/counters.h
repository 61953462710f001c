// Cheap counters: one writer at a time per queue pair, so no read-modify-write on the data path.
#pragma once

#include <atomic>
#include <cstdint>

#include "softhca.h"

namespace pgas::softhca {

enum Counter : uint32_t {
#define PGAS_SOFTHCA_ENUM(name) count_##name,
    SOFTHCA_COUNTERS(PGAS_SOFTHCA_ENUM)
#undef PGAS_SOFTHCA_ENUM
        counter_total
};

// Added to by the engine that holds the queue pair; anybody may read.
struct OwnedCounters {
    std::atomic<uint64_t> value[counter_total] = {};

    void add(Counter c, uint64_t n = 1) {
        value[c].store(value[c].load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
};

// Added to by anybody.
struct SharedCounters {
    std::atomic<uint64_t> value[counter_total] = {};

    void add(Counter c, uint64_t n = 1) { value[c].fetch_add(n, std::memory_order_relaxed); }
};

template <typename Counters>
void accumulate(softhca_counts* out, const Counters& in) {
    uint64_t* to = reinterpret_cast<uint64_t*>(out);
    for (uint32_t i = 0; i < counter_total; i++) to[i] += in.value[i].load(std::memory_order_relaxed);
}

static_assert(sizeof(softhca_counts) == counter_total * sizeof(uint64_t));

}  // namespace pgas::softhca
