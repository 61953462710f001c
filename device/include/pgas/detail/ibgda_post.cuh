// The ibgda path, operations: what put, get and signal post. Called by one thread for its group.
#pragma once

#include "ibgda_queue.cuh"

namespace pgas {
namespace detail {

// One transfer between a local range and a range of one remote segment.
struct transfer_range {
    uint64_t remote;
    wire::be32 rkey;
    const void* local;  // for inline payloads
    wire::be32 lkey;
    uint64_t iova;
    uint64_t bytes;
};

struct signal_target {
    update what;
    uint64_t remote;
    wire::be32 rkey;
    uint64_t value;

    PGAS_DEVICE uint32_t blocks() const { return what == update::none ? 0 : what == update::add ? 1 : 2; }
};

PGAS_DEVICE void write_signal(wqe_writer w, signal_target s) {
    if (s.what == update::add) {
        fetch_add64(w, s.remote, s.rkey, s.value, w.q->sink_lkey, w.q->sink);
    } else {
        swap64(w, s.remote, s.rkey, s.value, w.q->sink_lkey, w.q->sink);
    }
}

// Posts a WRITE (or READ) of any length and, when sig is not none, a signal behind it on the same queue. Pieces are
// posted in reservations of at most a ring each; the order of a queue is kept across them. *end is the index behind the
// last WQE posted so far, also on failure, so that a caller can wait for what was issued.
PGAS_DEVICE status post_transfer(context c, wire::queue* q, uint32_t pe, wire::op op, prm::opcode opcode,
                                 transfer_range t, signal_target sig, uint64_t* end) {
    bool inlined = opcode == prm::opcode::rdma_write && t.bytes <= max_inline;
    uint64_t pieces = inlined ? (t.bytes != 0) : (t.bytes + q->max_msg - 1) >> mm::log2(q->max_msg);
    uint64_t sent = 0;
    for (uint64_t piece = 0; piece < pieces;) {
        uint64_t left = pieces - piece;
        uint32_t batch = uint32_t(left < q->depth ? left : q->depth);
        bool with_signal = batch == left && sig.what != update::none && batch + sig.blocks() <= q->depth;
        uint32_t blocks = batch + (with_signal ? sig.blocks() : 0);
        uint64_t base;
        status s = reserve(c, q, pe, op, blocks, &base);
        if (s != status::ok) return s;
        for (uint32_t i = 0; i < batch; ++i) {
            wqe_writer w{q, base + i};
            bool last = i + 1 == batch && !with_signal;
            cqe_request ce = last ? cqe_request::always : cqe_request::on_error;
            uint64_t n = t.bytes - sent < q->max_msg ? t.bytes - sent : q->max_msg;
            if (inlined) {
                write_inline(w, t.remote, t.rkey, t.local, uint32_t(n), ce);
            } else {
                transfer(w, opcode, t.remote + sent, t.rkey, uint32_t(n), t.lkey, t.iova + sent, ce);
            }
            sent += n;
        }
        if (with_signal) {
            write_signal({q, base + batch}, sig);
            sig.what = update::none;
        }
        if (opcode == prm::opcode::rdma_read) mm::raise_release(&q->reads, base + blocks);
        s = submit(c, q, pe, op, base, blocks);
        if (s != status::ok) return s;
        *end = base + blocks;
        piece += batch;
    }
    if (sig.what == update::none) return status::ok;
    uint64_t base;
    status s = reserve(c, q, pe, op, sig.blocks(), &base);
    if (s != status::ok) return s;
    write_signal({q, base}, sig);
    s = submit(c, q, pe, op, base, sig.blocks());
    if (s == status::ok) *end = base + sig.blocks();
    return s;
}

// Posts a signal alone.
PGAS_DEVICE status post_signal(context c, wire::queue* q, uint32_t pe, signal_target sig, uint64_t* end) {
    return post_transfer(c, q, pe, wire::op::signal, prm::opcode::rdma_write, {0, 0, nullptr, 0, 0, 0}, sig, end);
}

// Gives back the slots of fetches that gave up waiting, once the NIC can no longer write them.
PGAS_COLD void reclaim_slots(wire::queue* q) {
    uint64_t lost = mm::ld_acquire<mm::scope::gpu>(&q->fetch_lost);
    if (lost == 0) return;
    // A fetch raises the end before it sets its bit, so this end covers every bit of `lost`.
    if (mm::ld_acquire<mm::scope::gpu>(&q->completed) < mm::ld_acquire<mm::scope::gpu>(&q->fetch_lost_end)) return;
    if (mm::cas(&q->fetch_lost, lost, uint64_t(0)) == lost) mm::clear_bits_release(&q->fetch_busy, lost);
}

// Claims a sink slot, lets `post(slot iova, &end)` post a WQE that returns a value there, waits for it and reads it.
template <class Post>
PGAS_DEVICE status fetch(context c, wire::queue* q, uint32_t pe, wire::op op, uint64_t* value, Post post) {
    uint32_t s = 0;
    status r = wait(c.w, c.timeout_ns, [&]() -> poll_result {
        if (mm::ld_relaxed<mm::scope::gpu>(&q->fetch_lost) != 0) reclaim_slots(q);
        uint64_t busy = mm::ld_acquire<mm::scope::gpu>(&q->fetch_busy);
        for (s = 1; s < wire::sink_slots && (busy >> s & 1) != 0;) ++s;
        if (s == wire::sink_slots) {
            status p = poll(c, q, pe, op);  // slots come back with completions
            return p != status::ok ? done(p) : pending();
        }
        return mm::cas(&q->fetch_busy, busy, busy | uint64_t(1) << s) == busy ? done(status::ok) : again();
    });
    if (r != status::ok) return r;
    uint64_t end = 0;
    r = post(q->sink + s * 8, &end);
    bool posted = end != 0;
    if (r == status::ok) r = wait_completed(c, q, pe, op, end);
    if (r == status::ok) {
        *value = mm::ld_relaxed<mm::scope::system>(reinterpret_cast<const uint64_t*>(q->sink_map) + s);
    } else if (posted) {  // the NIC may still write the slot
        mm::raise_release(&q->fetch_lost_end, end);
        mm::set_bits_release(&q->fetch_lost, uint64_t(1) << s);
        return r;
    }
    mm::clear_bits_release(&q->fetch_busy, uint64_t(1) << s);
    return r;
}

// Reads n bytes (1, 2, 4 or 8) of a remote word.
PGAS_DEVICE status fetch_value(context c, wire::queue* q, uint32_t pe, uint64_t remote, wire::be32 rkey, uint32_t n,
                               uint64_t* value) {
    status r = fetch(c, q, pe, wire::op::get, value, [&](uint64_t iova, uint64_t* end) {
        transfer_range t{remote, rkey, nullptr, q->sink_lkey, iova, n};
        return post_transfer(c, q, pe, wire::op::get, prm::opcode::rdma_read, t, {update::none, 0, 0, 0}, end);
    });
    if (r == status::ok && n < 8) *value &= (uint64_t(1) << (8 * n)) - 1;
    return r;
}

// Adds to a remote 64-bit word and returns its old value.
PGAS_DEVICE status fetch_and_add(context c, wire::queue* q, uint32_t pe, uint64_t remote, wire::be32 rkey, uint64_t add,
                                 uint64_t* value) {
    return fetch(c, q, pe, wire::op::atomic, value, [&](uint64_t iova, uint64_t* end) {
        uint64_t base;
        status r = reserve(c, q, pe, wire::op::atomic, 1, &base);
        if (r != status::ok) return r;
        fetch_add64({q, base}, remote, rkey, add, q->sink_lkey, iova);
        mm::raise_release(&q->reads, base + 1);
        *end = base + 1;  // before submit: what fails in there may have been rung
        return submit(c, q, pe, wire::op::atomic, base, 1);
    });
}

// Orders later WQEs behind earlier READs, which a later WRITE may otherwise overtake. Everything else is in order
// already.
PGAS_DEVICE status fence_queue(context c, wire::queue* q, uint32_t pe) {
    uint64_t reads = mm::ld_acquire<mm::scope::gpu>(&q->reads);
    if (reads <= mm::ld_acquire<mm::scope::gpu>(&q->completed)) return status::ok;
    if (reads <= mm::ld_acquire<mm::scope::gpu>(&q->fenced)) return status::ok;
    uint64_t base;
    status s = reserve(c, q, pe, wire::op::fence, 1, &base);
    if (s != status::ok) return s;
    fenced_nop({q, base});
    s = submit(c, q, pe, wire::op::fence, base, 1);
    if (s == status::ok) mm::raise_release(&q->fenced, base + 1);
    return s;
}

// Completes everything that any thread published on the queue before this call.
PGAS_DEVICE status quiet_queue(context c, wire::queue* q, uint32_t pe) {
    return wait_completed(c, q, pe, wire::op::quiet, mm::ld_acquire<mm::scope::gpu>(&q->ready));
}

}  // namespace detail
}  // namespace pgas
