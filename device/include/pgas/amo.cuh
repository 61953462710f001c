// Atomic memory operations on symmetric 64-bit words.
//
// All updates of one word must take one way: in a job with mixed paths they go through the NIC, like signals. Do not
// mix them with plain atomics of the owner's kernels on a NIC path; see docs/memory-model.md.
#pragma once

#include "rma.cuh"

namespace pgas {

// Adds value to a word of a PE and gives the old value in *old. Thread scope. The word must be 8-byte aligned.
//   Completes: when *old is there, and so is the update. Memory order: relaxed; use fence(), quiet() or signals for
//   more. Errors: invalid, timeout, aborted, peer_lost, completion_error. Paths: all.
PGAS_DEVICE status fetch_add(context c, uint64_t* old, uint64_t* word, uint64_t value, uint32_t pe) {
    detail::place at = detail::valid(c, pe) ? detail::locate(c.w, word, 8) : detail::place{wire::segments, 0};
    if (!at.found() || at.offset % 8 != 0) return detail::refuse(c, wire::op::atomic, pe, word, 8);
    if (detail::path_to(c, pe, true) == wire::path::p2p) {
        *old = mm::fetch_add_system(reinterpret_cast<uint64_t*>(detail::p2p_address(c.w, pe, at)), value);
        mm::notify_peer(detail::peer_of(c.w, pe)->bell);
        return status::ok;
    }
    return detail::fetch_and_add(c, detail::queue_of(c, pe), pe, at.offset, detail::peer_of(c.w, pe)->rkey[at.seg],
                                 value, old);
}

}  // namespace pgas
