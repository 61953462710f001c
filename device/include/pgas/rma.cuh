// One-sided transfers: put, get, p, g, ptr.
//
// Symmetric addresses are this PE's own pointers into the symmetric heap; the same offset is used on the target. Local
// sources and targets may lie in any segment of the heap or in a buffer registered by the host. On the p2p path any
// local memory works; on NIC paths a source of up to 28 bytes does too.
//
// Common to all: zero lengths are complete at once; any alignment and any length, over 4 GiB too; PE may be myself. A
// bad PE, context or address returns status::invalid and issues nothing. Threads of a group must pass equal arguments.
#pragma once

#include "detail/ibgda_post.cuh"
#include "detail/p2p.cuh"
#include "group.cuh"

namespace pgas {

// What put_signal() and signal() do to a signal word. Passed by value all the way down, so that it stays in registers.
struct signal_update {
    detail::update what;
    uint64_t* word;  // symmetric address in the signal segment
    uint64_t value;
};
PGAS_DEVICE signal_update signal_set(uint64_t* word, uint64_t value) { return {detail::update::set, word, value}; }
PGAS_DEVICE signal_update signal_add(uint64_t* word, uint64_t value) { return {detail::update::add, word, value}; }

namespace detail {

PGAS_DEVICE signal_update no_signal() { return {update::none, nullptr, 0}; }

// Looks up a signal word: aligned, and in the signal segment, which alone is registered in strict order.
PGAS_DEVICE place signal_place(context c, signal_update u) {
    place at = locate(c.w, u.word, 8);
    bool good = at.seg == static_cast<uint32_t>(wire::segment::signal) && at.offset % 8 == 0;
    return good ? at : place{wire::segments, 0};
}

PGAS_DEVICE signal_target nic_signal(context c, uint32_t pe, signal_update u, place at) {
    if (u.what == update::none) return {update::none, 0, 0, 0};
    return {u.what, at.offset, peer_of(c.w, pe)->rkey[at.seg], u.value};
}

// One thread, after its group has synchronised.
PGAS_DEVICE status issue_signal(context c, uint32_t pe, signal_update u) {
    if (!valid(c, pe)) return refuse(c, wire::op::signal, pe, u.word, 8);
    place at = signal_place(c, u);
    if (!at.found()) return refuse(c, wire::op::signal, pe, u.word, 8);
    if (path_to(c, pe, true) == wire::path::p2p) {
        p2p_signal(c.w, pe, reinterpret_cast<uint64_t*>(p2p_address(c.w, pe, at)), u.what, u.value);
        return status::ok;
    }
    mm::fence_system();  // p2p stores of a mixed job come before the NIC's update, too
    uint64_t end = 0;
    return post_signal(c, queue_of(c, pe), pe, nic_signal(c, pe, u, at), &end);
}

// One thread: put over a NIC queue, with or without a signal, optionally until the source may be reused.
PGAS_DEVICE status nic_put(context c, place dst, const void* src, uint64_t bytes, uint32_t pe, signal_update u,
                           place sig, bool blocking) {
    wire::op op = u.what != update::none ? wire::op::put_signal : wire::op::put;
    wire::queue* q = queue_of(c, pe);
    local_ref from{true, 0, 0};
    if (bytes > max_inline) from = local(c.w, src, bytes);
    if (!from.ok) return refuse(c, op, pe, src, bytes);
    transfer_range t{dst.offset, bytes == 0 ? 0 : peer_of(c.w, pe)->rkey[dst.seg], src, from.lkey, from.iova, bytes};
    uint64_t end = 0;
    status s = post_transfer(c, q, pe, op, prm::opcode::rdma_write, t, nic_signal(c, pe, u, sig), &end);
    if (s != status::ok || !blocking || bytes <= max_inline) return s;
    return wait_completed(c, q, pe, op, end);
}

template <class Group>
PGAS_DEVICE status put_any(Group g, context c, void* dst, const void* src, uint64_t bytes, uint32_t pe, signal_update u,
                           bool blocking) {
    wire::op op = u.what != update::none ? wire::op::put_signal : wire::op::put;
    place sig{0, 0};
    place at{0, 0};
    bool good = valid(c, pe);
    if (good && u.what != update::none) {
        sig = signal_place(c, u);
        good = sig.found();
    }
    if (good && bytes != 0) {
        at = locate(c.w, dst, bytes);
        good = at.found();
    }
    if (!good) {  // the same in all threads of the group
        if (g.rank() == 0) refuse(c, op, pe, dst, bytes);
        g.sync();
        return status::invalid;
    }
    if (path_to(c, pe, u.what != update::none) == wire::path::p2p) {
        if (bytes != 0) p2p_put(g, reinterpret_cast<void*>(p2p_address(c.w, pe, at)), src, bytes);
        if (u.what == update::none) return status::ok;
        if (bytes == 0) g.sync();
        if (g.rank() == 0) {
            p2p_signal(c.w, pe, reinterpret_cast<uint64_t*>(p2p_address(c.w, pe, sig)), u.what, u.value);
        }
        return status::ok;
    }
    if (bytes == 0 && u.what == update::none) return status::ok;
    g.sync();
    uint32_t s = 0;
    if (g.rank() == 0) s = static_cast<uint32_t>(nic_put(c, at, src, bytes, pe, u, sig, blocking));
    return static_cast<status>(g.broadcast(s));
}

// One thread: get over a NIC queue.
PGAS_DEVICE status nic_get(context c, void* dst, place src, uint64_t bytes, uint32_t pe, bool blocking) {
    local_ref to = local(c.w, dst, bytes);
    if (!to.ok) return refuse(c, wire::op::get, pe, dst, bytes);
    wire::queue* q = queue_of(c, pe);
    uint64_t end = 0;
    status s = post_transfer(c, q, pe, wire::op::get, prm::opcode::rdma_read,
                             {src.offset, peer_of(c.w, pe)->rkey[src.seg], nullptr, to.lkey, to.iova, bytes},
                             {update::none, 0, 0, 0}, &end);
    if (s != status::ok || !blocking) return s;
    return wait_completed(c, q, pe, wire::op::get, end);
}

template <class Group>
PGAS_DEVICE status get_any(Group g, context c, void* dst, const void* src, uint64_t bytes, uint32_t pe, bool blocking) {
    if (valid(c, pe) && bytes == 0) return status::ok;
    place at = valid(c, pe) ? locate(c.w, src, bytes) : place{wire::segments, 0};
    if (!at.found()) {
        if (g.rank() == 0) refuse(c, wire::op::get, pe, src, bytes);
        g.sync();
        return status::invalid;
    }
    if (path_to(c, pe, false) == wire::path::p2p) {
        p2p_get(g, dst, reinterpret_cast<const void*>(p2p_address(c.w, pe, at)), bytes);
        return status::ok;
    }
    g.sync();
    uint32_t s = 0;
    if (g.rank() == 0) s = static_cast<uint32_t>(nic_get(c, dst, at, bytes, pe, blocking));
    // The broadcast orders the data, which rank 0 has seen complete, before every thread's later reads.
    return static_cast<status>(g.broadcast(s));
}

}  // namespace detail

// Puts n elements into dst on a PE. Returns when issued: src must stay as it is until quiet().
//   Group: any. Memory order: none until fence(), quiet() or a signal. Paths: all.
//   Errors: invalid, timeout (no free queue slot in time), aborted, peer_lost, completion_error.
template <class Group, class T>
PGAS_DEVICE status put_nbi(Group g, context c, T* dst, const T* src, uint64_t n, uint32_t pe) {
    return detail::put_any(g, c, dst, src, n * sizeof(T), pe, detail::no_signal(), false);
}

// The same, but returns when src may be reused.
template <class Group, class T>
PGAS_DEVICE status put(Group g, context c, T* dst, const T* src, uint64_t n, uint32_t pe) {
    return detail::put_any(g, c, dst, src, n * sizeof(T), pe, detail::no_signal(), true);
}

// Gets n elements of src on a PE. Returns when issued: dst holds the data after quiet().
template <class Group, class T>
PGAS_DEVICE status get_nbi(Group g, context c, T* dst, const T* src, uint64_t n, uint32_t pe) {
    return detail::get_any(g, c, dst, src, n * sizeof(T), pe, false);
}

// The same, but returns when dst holds the data, visible to the whole group.
template <class Group, class T>
PGAS_DEVICE status get(Group g, context c, T* dst, const T* src, uint64_t n, uint32_t pe) {
    return detail::get_any(g, c, dst, src, n * sizeof(T), pe, true);
}

// Byte forms.
template <class Group>
PGAS_DEVICE status put_bytes_nbi(Group g, context c, void* dst, const void* src, uint64_t bytes, uint32_t pe) {
    return detail::put_any(g, c, dst, src, bytes, pe, detail::no_signal(), false);
}
template <class Group>
PGAS_DEVICE status put_bytes(Group g, context c, void* dst, const void* src, uint64_t bytes, uint32_t pe) {
    return detail::put_any(g, c, dst, src, bytes, pe, detail::no_signal(), true);
}
template <class Group>
PGAS_DEVICE status get_bytes_nbi(Group g, context c, void* dst, const void* src, uint64_t bytes, uint32_t pe) {
    return detail::get_any(g, c, dst, src, bytes, pe, false);
}
template <class Group>
PGAS_DEVICE status get_bytes(Group g, context c, void* dst, const void* src, uint64_t bytes, uint32_t pe) {
    return detail::get_any(g, c, dst, src, bytes, pe, true);
}

// Puts one element given by value. Thread scope. An aligned element of 1, 2, 4 or 8 bytes is never seen half-written.
template <class T>
PGAS_DEVICE status p(context c, T* dst, T value, uint32_t pe) {
    static_assert(sizeof(T) <= detail::max_inline, "p: an element has at most 28 bytes");
    return detail::put_any(thread(), c, dst, &value, sizeof(T), pe, detail::no_signal(), false);
}

// Gets one element of 1, 2, 4 or 8 bytes into *out, which may be any memory. Thread scope. Returns when it is there.
template <class T>
PGAS_DEVICE status g(context c, T* out, const T* src, uint32_t pe) {
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "g: 1, 2, 4 or 8 bytes");
    detail::place at = detail::valid(c, pe) ? detail::locate(c.w, src, sizeof(T)) : detail::place{wire::segments, 0};
    if (!at.found()) return detail::refuse(c, wire::op::get, pe, src, sizeof(T));
    if (detail::path_to(c, pe, false) == wire::path::p2p) {
        detail::p2p_get(thread(), out, reinterpret_cast<const void*>(detail::p2p_address(c.w, pe, at)), sizeof(T));
        return status::ok;
    }
    uint64_t word = 0;
    status s = detail::fetch_value(c, detail::queue_of(c, pe), pe, at.offset, detail::peer_of(c.w, pe)->rkey[at.seg],
                                   sizeof(T), &word);
    if (s != status::ok) return s;
    auto* from = reinterpret_cast<const uint8_t*>(&word);
    auto* to = reinterpret_cast<uint8_t*>(out);
    for (uint32_t i = 0; i < sizeof(T); ++i) to[i] = from[i];
    return status::ok;
}

// The address of a symmetric object of a PE for direct loads and stores, or null where they do not work: the PE is not
// reached by p2p, does not exist, or p is not a symmetric address.
template <class T>
PGAS_DEVICE T* ptr(context c, T* p, uint32_t pe) {
    if (!detail::valid(c, pe) || detail::peer_of(c.w, pe)->path != wire::path::p2p) return nullptr;
    detail::place at = detail::locate(c.w, p, 1);
    return at.found() ? reinterpret_cast<T*>(detail::p2p_address(c.w, pe, at)) : nullptr;
}

}  // namespace pgas
