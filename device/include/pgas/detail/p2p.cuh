// The p2p path: loads and stores on the peer's mapped heap.
#pragma once

#include "locate.cuh"

namespace pgas {
namespace detail {

PGAS_DEVICE uint64_t p2p_address(const wire::world* w, uint32_t pe, place at) {
    uint64_t base = peer_of(w, pe)->map[at.seg];
    return base == 0 ? 0 : base + at.offset;
}

// An element that a peer may be polling must never be seen half-written.
PGAS_DEVICE bool store_element(void* dst, const void* src, uint64_t n) {
    uint64_t both = reinterpret_cast<uint64_t>(dst) | reinterpret_cast<uint64_t>(src);
    if (n == 8 && (both & 7) == 0) {
        mm::st_element(static_cast<uint64_t*>(dst), *static_cast<const uint64_t*>(src));
    } else if (n == 4 && (both & 3) == 0) {
        mm::st_element(static_cast<uint32_t*>(dst), *static_cast<const uint32_t*>(src));
    } else if (n == 2 && (both & 1) == 0) {
        mm::st_element(static_cast<uint16_t*>(dst), *static_cast<const uint16_t*>(src));
    } else if (n == 1) {
        mm::st_element(static_cast<uint8_t*>(dst), *static_cast<const uint8_t*>(src));
    } else {
        return false;
    }
    return true;
}

PGAS_DEVICE bool load_element(void* dst, const void* src, uint64_t n) {
    uint64_t both = reinterpret_cast<uint64_t>(dst) | reinterpret_cast<uint64_t>(src);
    if (n == 8 && (both & 7) == 0) {
        *static_cast<uint64_t*>(dst) = mm::ld_element(static_cast<const uint64_t*>(src));
    } else if (n == 4 && (both & 3) == 0) {
        *static_cast<uint32_t*>(dst) = mm::ld_element(static_cast<const uint32_t*>(src));
    } else if (n == 2 && (both & 1) == 0) {
        *static_cast<uint16_t*>(dst) = mm::ld_element(static_cast<const uint16_t*>(src));
    } else if (n == 1) {
        *static_cast<uint8_t*>(dst) = mm::ld_element(static_cast<const uint8_t*>(src));
    } else {
        return false;
    }
    return true;
}

template <class Group>
PGAS_DEVICE void p2p_put(Group g, void* remote, const void* src, uint64_t n) {
    g.sync();  // the source may have been written by other threads of the group
    if (n > 8) {
        mm::copy(remote, src, n, g.rank(), g.size());
    } else if (g.rank() == 0 && !store_element(remote, src, n)) {
        mm::copy(remote, src, n, 0, 1);
    }
    g.sync();  // any thread's later fence or signal covers what all threads stored
}

template <class Group>
PGAS_DEVICE void p2p_get(Group g, void* dst, const void* remote, uint64_t n) {
    g.sync();
    if (n > 8) {
        mm::copy(dst, remote, n, g.rank(), g.size());
    } else if (g.rank() == 0 && !load_element(dst, remote, n)) {
        mm::copy(dst, remote, n, 0, 1);
    }
    g.sync();
}

// Called by one thread, after the group has synchronised.
PGAS_DEVICE void p2p_signal(const wire::world* w, uint32_t pe, uint64_t* remote, update what, uint64_t value) {
    if (what == update::add) {
        mm::add_release_system(remote, value);
    } else {
        mm::signal_store(remote, value);
    }
    mm::notify_peer(peer_of(w, pe)->bell);
}

}  // namespace detail
}  // namespace pgas
