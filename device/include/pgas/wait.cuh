// The only spin loops of the device library. Every one of them has a deadline and sees an abort.
#pragma once

#include "memory_model.cuh"

namespace pgas {

using status = wire::status;

namespace detail {

// What a poll function tells wait(): finished (with a status), try again at once, or nothing yet.
struct poll_result {
    enum class kind { done, again, pending } what;
    status result;
};
PGAS_DEVICE poll_result done(status s) { return {poll_result::kind::done, s}; }
PGAS_DEVICE poll_result again() { return {poll_result::kind::again, status::ok}; }
PGAS_DEVICE poll_result pending() { return {poll_result::kind::pending, status::ok}; }

// The abort word is in host memory and the clock is slow to read: look at both only now and then.
#if defined(PGAS_CUDA)
constexpr uint32_t polls_per_check = 256;
#else
constexpr uint32_t polls_per_check = 16;
#endif

// The abort status that the host has set for this PE, or ok.
PGAS_DEVICE status aborted(const wire::world* w) {
    auto* c = reinterpret_cast<const wire::control*>(w->control);
    return static_cast<status>(mm::ld_relaxed<mm::scope::system>(&c->abort));
}

// The slow part of a wait: reads the clock and the abort word. start 0 means that the clock has not been read yet.
struct clock_check {
    status result;  // ok: go on waiting
    uint64_t start, now;
};
PGAS_COLD clock_check check_clock(const wire::world* w, uint64_t start, uint64_t timeout_ns) {
    uint64_t now = mm::now_ns();
    if (start == 0) start = now;
    status s = aborted(w);
    if (s == status::ok && timeout_ns != 0 && now - start >= timeout_ns) s = status::timeout;
    return {s, start, now};
}

// What a wait does besides polling each time it reads the clock: nothing.
struct no_side_work {
    PGAS_DEVICE status operator()(uint64_t) const { return status::ok; }
};

// Calls poll() until it is done, the job is aborted, or timeout_ns has passed (0: no deadline). At each look at the
// clock it also calls side(waited_ns), whose failure ends the wait. waited_ns, when not null, receives the time spent
// if the result is not ok.
template <class Poll, class Side = no_side_work>
PGAS_DEVICE status wait(const wire::world* w, uint64_t timeout_ns, Poll poll, uint64_t* waited_ns = nullptr,
                        Side side = {}) {
    uint64_t start = 0;
    for (uint32_t polls = 1;; ++polls) {
        poll_result r = poll();
        if (r.what == poll_result::kind::done) return r.result;
        if (r.what == poll_result::kind::pending) mm::pause();
        if (polls % polls_per_check != 0) continue;
        clock_check c = check_clock(w, start, timeout_ns);
        start = c.start;
        if (waited_ns) *waited_ns = c.now - start;
        if (c.result == status::ok) c.result = side(c.now - start);
        if (c.result != status::ok) return c.result;
    }
}

}  // namespace detail
}  // namespace pgas
