// Signals: 64-bit words that tell another PE "what I put before this has arrived".
//
// A signal word lives in the signal segment (World.AllocSignals), one cache line each. Use monotonic values and
// generations, never "nonzero means mine": a word is set or added to, and waited on with a comparison. All writers of
// one word must use the same kind of update from the same kind of agent; see docs/memory-model.md.
#pragma once

#include "rma.cuh"

namespace pgas {

// Word i of an array of signals: they are 64 bytes apart.
PGAS_DEVICE uint64_t* signal_at(uint64_t* first, uint64_t i) { return first + i * (wire::signal_align / 8); }

// A comparison for test() and wait_until().
struct comparison {
    enum class kind : uint32_t { eq, ne, gt, ge, lt, le } what;
    uint64_t value;

    PGAS_DEVICE bool holds(uint64_t v) const {
        switch (what) {
            case kind::eq:
                return v == value;
            case kind::ne:
                return v != value;
            case kind::gt:
                return v > value;
            case kind::ge:
                return v >= value;
            case kind::lt:
                return v < value;
            default:
                return v <= value;
        }
    }
};
PGAS_DEVICE comparison eq(uint64_t v) { return {comparison::kind::eq, v}; }
PGAS_DEVICE comparison ne(uint64_t v) { return {comparison::kind::ne, v}; }
PGAS_DEVICE comparison gt(uint64_t v) { return {comparison::kind::gt, v}; }
PGAS_DEVICE comparison ge(uint64_t v) { return {comparison::kind::ge, v}; }
PGAS_DEVICE comparison lt(uint64_t v) { return {comparison::kind::lt, v}; }
PGAS_DEVICE comparison le(uint64_t v) { return {comparison::kind::le, v}; }

// Updates a signal word on a PE. It takes effect after every earlier put of the same context to the same PE: whoever
// sees the new value by wait_until() or a test() that holds also sees that data.
//   Group: any. Completes: when issued. Memory order: release. Paths: all.
//   Errors: invalid (PE, context, or the word is not a signal word), timeout, aborted, peer_lost, completion_error.
template <class Group>
PGAS_DEVICE status signal(Group g, context c, uint32_t pe, signal_update u) {
    g.sync();
    uint32_t s = 0;
    if (g.rank() == 0) s = static_cast<uint32_t>(detail::issue_signal(c, pe, u));
    return static_cast<status>(g.broadcast(s));
}

// Puts n elements, then updates a signal word on the same PE. The signal covers this put and every earlier one of the
// context to that PE, in every branch: split messages, warps and blocks, all paths. n may be 0.
//   Group: any; dst, src, n, pe and u must be equal in all threads. Completes: when issued; src must stay as it is
//   until quiet(). Memory order: release. Paths: all. Errors: as put_nbi() and signal().
template <class Group, class T>
PGAS_DEVICE status put_signal_nbi(Group g, context c, T* dst, const T* src, uint64_t n, uint32_t pe, signal_update u) {
    return detail::put_any(g, c, dst, src, n * sizeof(T), pe, u, false);
}

// The same, but returns when src may be reused.
template <class Group, class T>
PGAS_DEVICE status put_signal(Group g, context c, T* dst, const T* src, uint64_t n, uint32_t pe, signal_update u) {
    return detail::put_any(g, c, dst, src, n * sizeof(T), pe, u, true);
}

// Byte forms.
template <class Group>
PGAS_DEVICE status put_signal_bytes_nbi(Group g, context c, void* dst, const void* src, uint64_t bytes, uint32_t pe,
                                        signal_update u) {
    return detail::put_any(g, c, dst, src, bytes, pe, u, false);
}
template <class Group>
PGAS_DEVICE status put_signal_bytes(Group g, context c, void* dst, const void* src, uint64_t bytes, uint32_t pe,
                                    signal_update u) {
    return detail::put_any(g, c, dst, src, bytes, pe, u, true);
}

namespace detail {
PGAS_COLD void wait_timed_out(context c, const uint64_t* word, uint64_t expected, uint64_t seen, uint64_t waited_ns) {
    record_timeout(c, wire::op::wait, c.w->my_pe, [&](wire::status_record* r) {
        r->address = reinterpret_cast<uint64_t>(word);
        r->expected = expected;
        r->seen = seen;
        r->waited_ns = waited_ns;
    });
}

// A message of mine that failed on the wire shows in my CQE alone: the peer that starves for it will never answer me.
// So a wait that has lasted a while looks at the queues of its context, one at a time.
constexpr uint64_t patience_ns = 10'000'000;

struct queue_watch {
    context c;
    uint32_t* next;

    PGAS_DEVICE status operator()(uint64_t waited_ns) const {
        if (c.w->queues == 0 || c.index >= c.w->n_contexts || waited_ns < patience_ns) return status::ok;
        uint32_t pe = *next < c.w->n_pes ? *next : 0;
        *next = pe + 1;
        return poll(c, queue_of(c, pe), pe, wire::op::wait);
    }
};
}  // namespace detail

// Reads my own signal word once. Memory order: acquire at system scope, so when the comparison holds the data that the
// signal covers is visible to this thread.
PGAS_DEVICE bool test(context, const uint64_t* sig, comparison cmp) {
    return cmp.holds(mm::ld_acquire<mm::scope::system>(sig));
}

// Waits until my own signal word compares true. Thread scope: other threads see the data after they synchronise with
// this one. Memory order: acquire at system scope.
//   Returns ok; timeout after the context's deadline; aborted or peer_lost when the job ends; completion_error when an
//   operation that this PE issued on the context has failed meanwhile. value, when not null, receives the last value
//   read.
PGAS_DEVICE status wait_until(context c, const uint64_t* sig, comparison cmp, uint64_t* value = nullptr) {
    uint64_t seen = 0;
    uint64_t waited = 0;
    uint32_t next = 0;
    status s = detail::wait(
        c.w, c.timeout_ns,
        [&]() -> detail::poll_result {
            seen = mm::ld_acquire<mm::scope::system>(sig);
            return cmp.holds(seen) ? detail::done(status::ok) : detail::pending();
        },
        &waited, detail::queue_watch{c, &next});
    if (value) *value = seen;
    if (s == status::timeout) detail::wait_timed_out(c, sig, cmp.value, seen, waited);
    return s;
}

}  // namespace pgas
