// The promises of docs/memory-model.md as two- and three-PE programs. Every kernel runs `rounds` rounds and counts the
// rounds in which the promise was broken. With `control` set it makes the mistake that the promise speaks of, and the
// Go side expects violations under the chaos driver: a litmus test that cannot fail proves nothing.
//
// One block; data operations at block scope, so that the leader acts for what other threads wrote.
#include "pgas/pgas.cuh"

namespace {

enum which : uint32_t {
    put_signal_data,
    signal_covers_earlier,
    fence_orders,
    quiet_completes,
    fence_get_put,
    source_reuse,
    get_then_read,
    signal_not_torn,
    signal_add_sum,
    signal_relay,
};

// Words of the signal array.
enum word : uint64_t { arrived, acknowledged, summed, relayed, words };

struct test {
    pgas::world w;
    pgas::context c0, c1;
    uint8_t* box;  // symmetric, 2 * n bytes: where others put
    uint8_t* src;  // symmetric, 2 * n bytes
    uint64_t n;
    uint64_t* sig;
    bool control;
    uint32_t* violations;
    uint32_t* result;

    __device__ bool ok(pgas::status s) const {
        if (s != pgas::status::ok) atomicMax(result, static_cast<uint32_t>(s));
        return s == pgas::status::ok;
    }
    __device__ uint64_t* at(uint64_t i) const { return pgas::signal_at(sig, i); }

    // Fills by all threads; the group operation that follows synchronises.
    __device__ void fill(uint8_t* p, uint64_t round) const {
        for (uint64_t i = threadIdx.x; i < n; i += blockDim.x) p[i] = uint8_t(round * 31 + i * 7 + 1);
    }
    // Counts at most one violation a thread and round.
    __device__ void expect(const uint8_t* p, uint64_t round) const {
        for (uint64_t i = threadIdx.x; i < n; i += blockDim.x) {
            if (p[i] != uint8_t(round * 31 + i * 7 + 1)) {
                atomicAdd(violations, 1u);
                break;
            }
        }
        __syncthreads();
    }
    // All threads wait: thread 0 by the signal, the others for thread 0.
    __device__ bool wait(uint64_t i, uint64_t value) const {
        uint32_t s = 0;
        if (threadIdx.x == 0) s = static_cast<uint32_t>(pgas::wait_until(c0, at(i), pgas::ge(value)));
        return ok(static_cast<pgas::status>(pgas::block().broadcast(s)));
    }
    // Thread 0 puts the arrival word as an ordinary element.
    __device__ bool flag(uint64_t round) const {
        __syncthreads();
        return threadIdx.x != 0 || ok(pgas::p(c0, at(arrived), round, 1));
    }
    __device__ bool acknowledge(uint32_t pe, uint64_t round) const {
        return ok(pgas::signal(pgas::block(), c0, pe, pgas::signal_set(at(acknowledged), round)));
    }
};

__device__ bool send_data(const test& t, uint32_t which, uint64_t r) {
    t.fill(t.src, r);
    auto signal = pgas::signal_set(t.at(arrived), r);
    switch (which) {
        case put_signal_data:
            // The mistake: the signal takes another context than the data.
            if (!t.control) return t.ok(pgas::put_signal_nbi(pgas::block(), t.c0, t.box, t.src, t.n, 1, signal));
            return t.ok(pgas::put_nbi(pgas::block(), t.c0, t.box, t.src, t.n, 1)) &&
                   t.ok(pgas::signal(pgas::block(), t.c1, 1, signal));
        case signal_covers_earlier:
            t.fill(t.src + t.n, r);
            return t.ok(pgas::put_nbi(pgas::block(), t.control ? t.c1 : t.c0, t.box, t.src, t.n, 1)) &&
                   t.ok(pgas::put_signal_nbi(pgas::block(), t.c0, t.box + t.n, t.src + t.n, t.n, 1, signal));
        case fence_orders:
            // The flag is a plain element, so that only the fence orders it. One queue would order it anyway: the
            // mistake is again another context.
            return t.ok(pgas::put_nbi(pgas::block(), t.control ? t.c1 : t.c0, t.box, t.src, t.n, 1)) &&
                   t.ok(pgas::fence(t.c0, 1)) && t.flag(r);
        case quiet_completes:
            return t.ok(pgas::put_nbi(pgas::block(), t.c0, t.box, t.src, t.n, 1)) &&
                   (t.control || t.ok(pgas::quiet(t.c0, 1))) && t.ok(pgas::signal(pgas::block(), t.c1, 1, signal));
        default:  // source_reuse
            if (t.control) {
                if (!t.ok(pgas::put_nbi(pgas::block(), t.c0, t.box, t.src, t.n, 1))) return false;
            } else if (!t.ok(pgas::put(pgas::block(), t.c0, t.box, t.src, t.n, 1))) {
                return false;
            }
            t.fill(t.src, r + 100);
            return t.ok(pgas::signal(pgas::block(), t.c0, 1, signal));
    }
}

// PE 0 sends rounds to PE 1, which checks and acknowledges.
__device__ void message_passing(const test& t, uint32_t which, uint32_t rounds) {
    for (uint64_t r = 1; r <= rounds; ++r) {
        if (t.w.my_pe() == 0) {
            if (!send_data(t, which, r) || !t.wait(acknowledged, r)) return;
            if (!t.ok(pgas::quiet(t.c0, 1)) || !t.ok(pgas::quiet(t.c1, 1))) return;
        } else if (t.w.my_pe() == 1) {
            if (!t.wait(arrived, r)) return;
            t.expect(t.box, r);
            if (which == signal_covers_earlier) t.expect(t.box + t.n, r);
            if (!t.acknowledge(0, r)) return;
        }
    }
}

// PE 0 reads PE 1's box, then overwrites it: the get must return the old contents.
__device__ void get_before_put(const test& t, uint32_t rounds) {
    if (t.w.my_pe() != 0) return;
    t.fill(t.src, 0);
    if (!t.ok(pgas::put(pgas::block(), t.c0, t.box, t.src, t.n, 1)) || !t.ok(pgas::quiet(t.c0, 1))) return;
    for (uint64_t r = 1; r <= rounds; ++r) {
        t.fill(t.src, r);
        if (!t.ok(pgas::get_nbi(pgas::block(), t.c0, t.src + t.n, t.box, t.n, 1))) return;
        if (!t.control && !t.ok(pgas::fence(t.c0, 1))) return;
        if (!t.ok(pgas::put_nbi(pgas::block(), t.c0, t.box, t.src, t.n, 1)) || !t.ok(pgas::quiet(t.c0, 1))) return;
        __syncthreads();
        t.expect(t.src + t.n, r - 1);
    }
}

// PE 1 publishes a round in its own box; PE 0 gets it and reads it at once.
__device__ void get_and_read(const test& t, uint32_t rounds) {
    for (uint64_t r = 1; r <= rounds; ++r) {
        if (t.w.my_pe() == 1) {
            t.fill(t.box, r);
            if (!t.ok(pgas::signal(pgas::block(), t.c0, 0, pgas::signal_set(t.at(arrived), r)))) return;
            if (!t.wait(acknowledged, r)) return;
        } else if (t.w.my_pe() == 0) {
            if (!t.wait(arrived, r)) return;
            if (t.control) {
                if (!t.ok(pgas::get_nbi(pgas::block(), t.c0, t.src, t.box, t.n, 1))) return;
            } else if (!t.ok(pgas::get(pgas::block(), t.c0, t.src, t.box, t.n, 1))) {
                return;
            }
            t.expect(t.src, r);
            if (!t.ok(pgas::quiet(t.c0, 1)) || !t.acknowledge(1, r)) return;
        }
    }
}

// PE 0 sets a word to 0 and to all ones in turn; PE 1 must never see anything else.
__device__ void torn_signals(const test& t, uint32_t rounds) {
    if (threadIdx.x != 0) return;
    if (t.w.my_pe() == 0) {
        for (uint64_t r = 1; r <= rounds; ++r) {
            uint64_t v = r % 2 == 0 ? 0 : ~uint64_t(0);
            if (!t.ok(pgas::signal(pgas::thread(), t.c0, 1, pgas::signal_set(t.at(summed), v)))) return;
        }
        t.ok(pgas::signal(pgas::thread(), t.c0, 1, pgas::signal_set(t.at(arrived), 1)));
    } else if (t.w.my_pe() == 1) {
        uint64_t seen = 0;
        pgas::context brief = t.c0.with_timeout_ns(1000000);
        while (!pgas::test(t.c0, t.at(arrived), pgas::ge(1))) {
            // Ends by its short deadline when the word does not move; that is no error here.
            pgas::wait_until(brief, t.at(summed), pgas::ne(seen), &seen);
            if (seen != 0 && seen != ~uint64_t(0)) atomicAdd(t.violations, 1u);
            if (t.w.w->control != 0 && pgas::detail::aborted(t.w.w) != pgas::status::ok) return;
        }
    }
}

// All threads of all PEs add to a word of PE 0.
__device__ void sums(const test& t, uint32_t rounds) {
    for (uint32_t r = 0; r < rounds; ++r) {
        if (!t.ok(pgas::signal(pgas::thread(), t.c0, 0, pgas::signal_add(t.at(summed), 1)))) return;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    if (!t.ok(pgas::quiet(t.c0, 0))) return;
    if (!t.ok(pgas::signal(pgas::thread(), t.c0, 0, pgas::signal_add(t.at(arrived), 1)))) return;
    if (t.w.my_pe() != 0) return;
    if (!t.ok(pgas::wait_until(t.c0, t.at(arrived), pgas::ge(t.w.n_pes())))) return;
    uint64_t want = uint64_t(rounds) * blockDim.x * t.w.n_pes();
    if (!pgas::test(t.c0, t.at(summed), pgas::eq(want))) atomicAdd(t.violations, 1u);
}

// PE 0 puts to PE 2 and tells PE 1; PE 1 tells PE 2; PE 2 must see the data.
__device__ void relay(const test& t, uint32_t rounds) {
    for (uint64_t r = 1; r <= rounds; ++r) {
        if (t.w.my_pe() == 0) {
            t.fill(t.src, r);
            if (!t.ok(pgas::put_nbi(pgas::block(), t.c0, t.box, t.src, t.n, 2))) return;
            if (!t.control && !t.ok(pgas::quiet(t.c0, 2))) return;
            if (!t.ok(pgas::signal(pgas::block(), t.c0, 1, pgas::signal_set(t.at(arrived), r)))) return;
            if (!t.wait(acknowledged, r) || !t.ok(pgas::quiet(t.c0, 2))) return;
        } else if (t.w.my_pe() == 1) {
            if (!t.wait(arrived, r)) return;
            if (!t.ok(pgas::signal(pgas::block(), t.c0, 2, pgas::signal_set(t.at(relayed), r)))) return;
        } else if (t.w.my_pe() == 2) {
            if (!t.wait(relayed, r)) return;
            t.expect(t.box, r);
            if (!t.acknowledge(0, r)) return;
        }
    }
}

}  // namespace

extern "C" __global__ void litmus(pgas::world w, uint32_t which, uint32_t control, uint32_t rounds, uint8_t* box,
                                  uint8_t* src, uint64_t n, uint64_t* sig, uint32_t* violations, uint32_t* result) {
    test t{w, w.context(0), w.context(1), box, src, n, sig, control != 0, violations, result};
    switch (which) {
        case fence_get_put:
            return get_before_put(t, rounds);
        case get_then_read:
            return get_and_read(t, rounds);
        case signal_not_torn:
            return torn_signals(t, rounds);
        case signal_add_sum:
            return sums(t, rounds);
        case signal_relay:
            return relay(t, rounds);
        default:
            return message_passing(t, which, rounds);
    }
}
PGAS_KERNEL(litmus)
