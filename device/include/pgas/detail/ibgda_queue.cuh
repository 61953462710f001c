// The ibgda path, queue protocol: credit, reserve, in turn, ring, complete. ARCHITECTURE.md tells the whole story.
//
// Indices are 64-bit and count basic blocks (BB, 64 bytes). Invariants, for any number of posters and pollers:
//   completed <= rung <= ready <= reserved <= completed + depth
// A thread holds reserved slots only between reserve() and submit(), and does nothing there that can wait on a peer.
#pragma once

#include "ibgda_wqe.cuh"
#include "locate.cuh"

namespace pgas {
namespace detail {

// A poster may leave its doorbell to a later reservation, but never more than this many BBs in a row.
constexpr uint64_t max_unrung = 32;

PGAS_DEVICE uint64_t slot(const wire::queue* q, uint64_t index) {
    return q->sq + (index & (q->depth - 1)) * wire::wqe_bytes;
}

// Marks the queue as failed and tells the host, once. Later calls on the queue return the same status at once.
PGAS_COLD status fail_queue(context c, wire::queue* q, uint32_t pe, wire::op op, status s, uint64_t index,
                            uint64_t waited_ns) {
    uint32_t old = mm::cas(&q->error, 0u, static_cast<uint32_t>(s));
    if (old != 0) return static_cast<status>(old);
    record_first(c.w, s, op, pe, c.index, [&](wire::status_record* r) {
        r->qpn = q->qpn;
        r->wqe_index = index;
        r->waited_ns = waited_ns;
    });
    return s;
}

// A wait on the queue passed its deadline: for free slots, or (end != 0) for completions below `end`.
PGAS_COLD void queue_timed_out(context c, const wire::queue* q, uint32_t pe, wire::op op, uint64_t end,
                               uint64_t waited_ns) {
    record_timeout(c, op, pe, [&](wire::status_record* r) {
        r->qpn = q->qpn;
        r->wqe_index = end;
        r->seen = mm::ld_relaxed<mm::scope::gpu>(&q->completed);
        r->waited_ns = waited_ns;
    });
}

// An error CQE. In a collapsed CQ a later flush overwrites the first cause, so the syndrome is what is left of it.
PGAS_COLD status fail_completion(context c, wire::queue* q, uint32_t pe, wire::op op, uint64_t index) {
    uint32_t old = mm::cas(&q->error, 0u, static_cast<uint32_t>(status::completion_error));
    if (old != 0) return static_cast<status>(old);
    namespace cqe = prm::err_cqe;
    uint32_t syndromes = prm::bswap32(mm::ld_relaxed<mm::scope::system>(cqe_word(q, prm::word_of(cqe::syndrome))));
    uint32_t opcode = prm::bswap32(mm::ld_relaxed<mm::scope::system>(cqe_word(q, prm::word_of(cqe::send_opcode))));
    record_first(c.w, status::completion_error, op, pe, c.index, [&](wire::status_record* r) {
        r->qpn = q->qpn;
        r->wqe_index = index;
        r->opcode = prm::extract(cqe::send_opcode, opcode);
        r->syndrome = prm::extract(cqe::syndrome, syndromes);
        r->vendor_syndrome = prm::extract(cqe::vendor_err_synd, syndromes);
        r->hw_syndrome = prm::extract(cqe::hw_err_synd, syndromes);
    });
    return status::completion_error;
}

// How many BBs the WQE that completed with this counter had. Its control segment is still in the ring unless the slot
// was given out again; then somebody has already seen this completion, and one BB is a safe lower bound.
PGAS_DEVICE uint32_t completed_span(const wire::queue* q, uint16_t counter) {
    uint64_t ctrl = mm::ld_relaxed<mm::scope::system>(reinterpret_cast<const uint64_t*>(slot(q, counter)));
    if (ctrl_index(ctrl) != counter) return 1;
    return prm::bbs(ctrl_ds(ctrl));
}

// Out of line although it is not cold: next to the latency of a completion a call is nothing.
// Looks at the CQE once: moves `completed`, or latches an error. The opcode is looked at every time.
PGAS_COLD status poll(context c, wire::queue* q, uint32_t pe, wire::op op) {
    uint32_t failed = mm::ld_relaxed<mm::scope::gpu>(&q->error);
    if (failed != 0) return static_cast<status>(failed);
    // Acquire before the CQE is read: this CQE is then no older than the one that `completed` came from, so the
    // 16-bit difference below is never negative.
    uint64_t seen = mm::ld_acquire<mm::scope::gpu>(&q->completed);
    uint32_t word = prm::bswap32(mm::ld_acquire<mm::scope::system>(cqe_word(q, prm::cqe_status_word)));
    prm::cqe_opcode what = prm::cqe_op(word);
    uint16_t counter = uint16_t(prm::cqe_counter(word));
    if (what == prm::cqe_opcode::invalid) return status::ok;  // nothing has ever completed
    if (what != prm::cqe_opcode::req) {
        return fail_completion(c, q, pe, op, seen + uint16_t(counter - uint16_t(seen)));
    }
    uint16_t delta = uint16_t(counter + completed_span(q, counter) - uint16_t(seen));
    if (delta != 0 && delta <= q->depth) {
        mm::raise_release(&q->completed, seen + delta);
        mm::notify_own();
    }
    return status::ok;
}

// Takes n BBs (n <= depth). Waits for free slots first, so a failure leaves the queue as it was.
PGAS_DEVICE status reserve(context c, wire::queue* q, uint32_t pe, wire::op op, uint32_t n, uint64_t* base) {
    uint64_t waited = 0;
    status s = wait(
        c.w, c.timeout_ns,
        [&]() -> poll_result {
            uint32_t failed = mm::ld_relaxed<mm::scope::gpu>(&q->error);
            if (failed != 0) return done(static_cast<status>(failed));
            // `completed` first: it never passes `reserved`, so the difference cannot be negative.
            uint64_t free_from = mm::ld_acquire<mm::scope::gpu>(&q->completed);
            uint64_t r = mm::ld_relaxed<mm::scope::gpu>(&q->reserved);
            if (r + n - free_from > q->depth) {
                status p = poll(c, q, pe, op);
                if (p != status::ok) return done(p);
                uint64_t freed = mm::ld_acquire<mm::scope::gpu>(&q->completed);
                return freed == free_from ? pending() : again();
            }
            if (mm::cas(&q->reserved, r, r + n) != r) return again();
            *base = r;
            return done(status::ok);
        },
        &waited);
    if (s == status::timeout) queue_timed_out(c, q, pe, op, 0, waited);
    return s;
}

// Have all posters before the one that reserved from `base` on published?
PGAS_DEVICE bool my_turn(const wire::queue* q, uint64_t base) {
    return mm::ld_acquire<mm::scope::gpu>(&q->ready) == base;
}

// Waits until all earlier posters have published. The deadline is never shorter than the job's: a poster with little
// time left must not fail the queue of all others only because the one before it lost its processor for a moment.
PGAS_COLD status await_turn(context c, wire::queue* q, uint32_t pe, wire::op op, uint64_t base) {
    uint64_t limit = c.w->timeout_ns;
    if (c.timeout_ns == 0 || c.timeout_ns > limit) limit = c.timeout_ns;
    uint64_t waited = 0;
    status s = wait(
        c.w, limit,
        [&]() -> poll_result {
            if (my_turn(q, base)) return done(status::ok);
            uint32_t failed = mm::ld_relaxed<mm::scope::gpu>(&q->error);
            return failed != 0 ? done(static_cast<status>(failed)) : pending();
        },
        &waited);
    // The poster before us is gone. Nobody behind us can be served either: fail the queue for all of them.
    return s == status::ok ? s : fail_queue(c, q, pe, op, s, base, waited);
}

// Publishes the n BBs at base, in turn, and rings. All their WQEs must have been written by the caller, or by threads
// that have since synchronised with it.
PGAS_DEVICE status submit(context c, wire::queue* q, uint32_t pe, wire::op op, uint64_t base, uint32_t n) {
    if (!my_turn(q, base)) {
        status s = await_turn(c, q, pe, op, base);
        if (s != status::ok) return s;
    }
    uint64_t end = base + n;
    bool later_poster = mm::ld_relaxed<mm::scope::gpu>(&q->reserved) > end;
    if (!later_poster || end - mm::ld_relaxed<mm::scope::gpu>(&q->rung) > max_unrung) {
        bool gpu_scope = c.w->queue_scope != 0;
        mm::st_record_release(send_counter(q), prm::send_dbr(uint32_t(end)), gpu_scope);
        mm::st_doorbell_release(reinterpret_cast<uint64_t*>(q->db), prm::doorbell_value(uint32_t(end), q->qpn),
                                gpu_scope);
        mm::st_relaxed<mm::scope::gpu>(&q->rung, end);
    }
    mm::st_release<mm::scope::gpu>(&q->ready, end);
    mm::notify_own();
    return status::ok;
}

// Waits until everything below `end` is complete.
PGAS_DEVICE status wait_completed(context c, wire::queue* q, uint32_t pe, wire::op op, uint64_t end) {
    uint64_t waited = 0;
    status s = wait(
        c.w, c.timeout_ns,
        [&]() -> poll_result {
            if (mm::ld_acquire<mm::scope::gpu>(&q->completed) >= end) return done(status::ok);
            status p = poll(c, q, pe, op);
            if (p != status::ok) return done(p);
            return mm::ld_acquire<mm::scope::gpu>(&q->completed) >= end ? done(status::ok) : pending();
        },
        &waited);
    if (s == status::timeout) queue_timed_out(c, q, pe, op, end, waited);
    return s;
}

}  // namespace detail
}  // namespace pgas
