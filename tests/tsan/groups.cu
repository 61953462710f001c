// Group operations under ThreadSanitizer on the software GPU: what the threads of a warp or block wrote is what the
// leader posts, and what the leader saw complete is what they read. Two PEs play ping-pong.
#include "pgas/pgas.cuh"

namespace {

template <class Group>
__device__ pgas::status ping(Group g, pgas::context c, uint64_t* box, uint64_t* src, uint64_t n, uint64_t* sig,
                             uint64_t rounds) {
    uint32_t me = c.my_pe();
    uint64_t bad = 0;
    for (uint64_t r = 1; r <= rounds; ++r) {
        if (me == 0) {
            for (uint64_t i = g.rank(); i < n; i += g.size()) src[i] = r * 1000 + i;
            pgas::status s = pgas::put_signal(g, c, box, src, n, 1, pgas::signal_set(sig, r));
            if (s != pgas::status::ok) return s;
        }
        uint32_t s = 0;
        if (g.rank() == 0) {
            s = static_cast<uint32_t>(pgas::wait_until(c, pgas::signal_at(sig, me == 0 ? 1 : 0), pgas::ge(r)));
        }
        s = g.broadcast(s);
        if (s != 0) return static_cast<pgas::status>(s);
        if (me == 1) {
            for (uint64_t i = g.rank(); i < n; i += g.size()) bad += box[i] != r * 1000 + i;
            for (uint64_t i = g.rank(); i < n; i += g.size()) src[i] = r * 2000 + i;
            pgas::status t = pgas::signal(g, c, 0, pgas::signal_set(pgas::signal_at(sig, 1), r));
            if (t != pgas::status::ok) return t;
        } else {
            pgas::status t = pgas::get(g, c, box, src, n, 1);
            if (t != pgas::status::ok) return t;
            // Another thread's part: only the group's order makes it visible.
            for (uint64_t i = (g.rank() + 1) % g.size(); i < n; i += g.size()) bad += box[i] != r * 2000 + i;
            t = pgas::signal(g, c, 1, pgas::signal_set(pgas::signal_at(sig, 2), r));
            if (t != pgas::status::ok) return t;
        }
        if (me == 1 && g.rank() == 0) {
            s = static_cast<uint32_t>(pgas::wait_until(c, pgas::signal_at(sig, 2), pgas::ge(r)));
        }
        s = g.broadcast(s);
        if (s != 0) return static_cast<pgas::status>(s);
    }
    return bad == 0 ? pgas::status::ok : pgas::status::invalid;
}

}  // namespace

extern "C" __global__ void groups(pgas::world w, uint32_t warp, uint64_t* box, uint64_t* src, uint64_t n, uint64_t* sig,
                                  uint64_t rounds, uint32_t* result) {
    pgas::context c = w.context(0);
    pgas::status s =
        warp ? ping(pgas::warp(), c, box, src, n, sig, rounds) : ping(pgas::block(), c, box, src, n, sig, rounds);
    atomicMax(result, static_cast<uint32_t>(s));
}
PGAS_KERNEL(groups)
