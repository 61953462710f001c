// From local pointers to (segment, offset), peer addresses and keys.
#pragma once

#include "record.cuh"

namespace pgas {
namespace detail {

struct place {
    uint32_t seg;  // wire::segments when the range is in no segment
    uint64_t offset;
    PGAS_DEVICE bool found() const { return seg < wire::segments; }
};

// What a signal does to its word.
enum class update : uint32_t { none, set, add };

// The segment that holds all of [p, p+n).
PGAS_DEVICE place locate(const wire::world* w, const void* p, uint64_t n) {
    uint64_t a = reinterpret_cast<uint64_t>(p);
    for (uint32_t s = 0; s < wire::segments; ++s) {
        uint64_t off = a - w->seg[s].base;
        if (off <= w->seg[s].size && n <= w->seg[s].size - off && a >= w->seg[s].base) return {s, off};
    }
    return {wire::segments, 0};
}

PGAS_DEVICE const wire::peer* peer_of(const wire::world* w, uint32_t pe) {
    return reinterpret_cast<const wire::peer*>(w->peers) + pe;
}

PGAS_DEVICE wire::queue* queue_of(context c, uint32_t pe) {
    return reinterpret_cast<wire::queue*>(c.w->queues) + uint64_t(c.index) * c.w->n_pes + pe;
}

// A local source or target as the NIC sees it.
struct local_ref {
    bool ok;
    wire::be32 lkey;
    uint64_t iova;
};

// Looks in my segments, then among registered user buffers. Every MR is zero-based, so the iova is an offset.
PGAS_DEVICE local_ref local(const wire::world* w, const void* p, uint64_t n) {
    place at = locate(w, p, n);
    if (at.found()) return {true, w->seg[at.seg].lkey, at.offset};
    auto* regions = reinterpret_cast<const wire::region*>(w->regions);
    uint32_t count = mm::ld_acquire<mm::scope::system>(&w->n_regions);
    uint64_t a = reinterpret_cast<uint64_t>(p);
    for (uint32_t i = 0; i < count; ++i) {
        uint64_t off = a - regions[i].base;
        if (a >= regions[i].base && off < regions[i].size && n <= regions[i].size - off) {
            return {true, regions[i].lkey, off};
        }
    }
    return {false, 0, 0};
}

// Can this context talk to this PE at all?
PGAS_DEVICE bool valid(context c, uint32_t pe) { return c.index < c.w->n_contexts && pe < c.w->n_pes; }

// The path for data and signals to a PE. In a job with mixed paths, words with several writers must be updated by one
// agent, so whatever carries a signal goes through the NIC.
PGAS_DEVICE wire::path path_to(context c, uint32_t pe, bool signals) {
    if (signals && (c.w->flags & wire::flag_mixed_paths) != 0 && c.w->queues != 0) return wire::path::ibgda;
    return peer_of(c.w, pe)->path;
}

}  // namespace detail
}  // namespace pgas
