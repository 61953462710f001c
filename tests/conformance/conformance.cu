// One kernel runs every operation of the device library at every scope. The Go side chooses sizes, offsets, queue
// depths and paths, and checks every byte and its surroundings.
//
// The transfer is cut into slices, one per group, so that at thread scope all threads of the launch post at once and at
// warp scope all warps do: small queues then run full all the time.
#include "pgas/pgas.cuh"

namespace {

enum op : uint32_t { op_put, op_put_nbi, op_get, op_get_nbi, op_put_signal, op_put_signal_nbi, op_elements };
enum scope : uint32_t { scope_thread, scope_warp, scope_block };

struct slice {
    uint64_t begin, end;
};

__device__ slice slice_of(uint64_t n, uint32_t i, uint32_t count) {
    uint64_t part = n / count;
    uint64_t more = n % count;
    uint64_t begin = part * i + (i < more ? i : more);
    return {begin, begin + part + (i < more ? 1 : 0)};
}

template <class Group>
__device__ pgas::status run(Group g, pgas::context c, uint32_t what, uint8_t* dst, uint8_t* src, uint64_t n,
                            uint32_t pe, pgas::signal_update u) {
    pgas::status s = pgas::status::invalid;
    switch (what) {
        case op_put:
            s = pgas::put_bytes(g, c, dst, src, n, pe);
            break;
        case op_put_nbi:
            s = pgas::put_bytes_nbi(g, c, dst, src, n, pe);
            break;
        case op_get:
            return pgas::get_bytes(g, c, dst, src, n, pe);
        case op_get_nbi:
            s = pgas::get_bytes_nbi(g, c, dst, src, n, pe);
            break;
        case op_put_signal:
            return pgas::put_signal_bytes(g, c, dst, src, n, pe, u);
        case op_put_signal_nbi:
            return pgas::put_signal_bytes_nbi(g, c, dst, src, n, pe, u);
        default:
            break;
    }
    g.sync();
    if (s != pgas::status::ok) return s;
    return pgas::quiet(c, pe);
}

// Even bytes by p, odd bytes by g: both directions, single elements.
__device__ pgas::status elements(pgas::context c, uint8_t* dst, uint8_t* src, slice s, uint32_t put_to,
                                 uint32_t get_from) {
    for (uint64_t i = s.begin; i < s.end; ++i) {
        pgas::status r = i % 2 == 0 ? pgas::p(c, dst + i, src[i], put_to) : pgas::g(c, dst + i, src + i, get_from);
        if (r != pgas::status::ok) return r;
    }
    return pgas::quiet(c, put_to);
}

__device__ void keep(uint32_t* result, pgas::status s) {
    if (s != pgas::status::ok) atomicMax(result, static_cast<uint32_t>(s));
}

}  // namespace

extern "C" __global__ void rma(pgas::world w, uint32_t ctx, uint32_t what, uint32_t scope, uint8_t* dst, uint8_t* src,
                               uint64_t n, uint32_t put_to, uint32_t get_from, uint64_t* sig, uint32_t add,
                               uint64_t value, uint32_t* result) {
    pgas::context c = w.context(ctx);
    uint32_t tid = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t pe = what == op_get || what == op_get_nbi ? get_from : put_to;
    pgas::signal_update u = add ? pgas::signal_add(sig, value) : pgas::signal_set(sig, value);
    if (what == op_elements) {
        keep(result, elements(c, dst, src, slice_of(n, tid, gridDim.x * blockDim.x), put_to, get_from));
    } else if (scope == scope_thread) {
        slice s = slice_of(n, tid, gridDim.x * blockDim.x);
        keep(result, run(pgas::thread(), c, what, dst + s.begin, src + s.begin, s.end - s.begin, pe, u));
    } else if (scope == scope_warp) {
        uint32_t warps = (blockDim.x + 31) / 32;
        slice s = slice_of(n, blockIdx.x * warps + threadIdx.x / 32, gridDim.x * warps);
        keep(result, run(pgas::warp(), c, what, dst + s.begin, src + s.begin, s.end - s.begin, pe, u));
    } else {
        slice s = slice_of(n, blockIdx.x, gridDim.x);
        keep(result, run(pgas::block(), c, what, dst + s.begin, src + s.begin, s.end - s.begin, pe, u));
    }
}
PGAS_KERNEL(rma)

// Waits for a signal, then compares [dst, dst+n) with a pattern at once: what the signal covers must be visible now.
extern "C" __global__ void wait_and_check(pgas::world w, uint64_t* sig, uint64_t value, const uint8_t* dst, uint64_t n,
                                          uint64_t seed, uint32_t* mismatches, uint32_t* result) {
    __shared__ uint32_t status;
    if (threadIdx.x == 0) status = static_cast<uint32_t>(pgas::wait_until(w.context(0), sig, pgas::ge(value)));
    __syncthreads();
    keep(result, static_cast<pgas::status>(status));
    if (status != 0) return;
    uint32_t bad = 0;
    for (uint64_t i = threadIdx.x; i < n; i += blockDim.x) {
        uint64_t x = (i + seed) * 0x9e3779b97f4a7c15ull;
        if (dst[i] != uint8_t(x >> 56)) ++bad;
    }
    if (bad != 0) atomicAdd(mismatches, bad);
}
PGAS_KERNEL(wait_and_check)

// What a kernel sees of its world.
extern "C" __global__ void identity(pgas::world w, uint64_t* object, uint32_t pe, uint64_t* out) {
    pgas::context c = w.context(0);
    out[0] = w.my_pe();
    out[1] = w.n_pes();
    out[2] = w.n_contexts();
    out[3] = pgas::ptr(c, object, pe) != nullptr;
    out[4] = pgas::ptr(c, object, w.n_pes()) != nullptr;
    out[5] = pgas::ptr(c, out + (uint64_t(1) << 40), pe) != nullptr;
    out[6] = pgas::test(c, object, pgas::eq(*object));
    out[7] = pgas::test(c, object, pgas::ne(*object));
}
PGAS_KERNEL(identity)

// Calls that must be refused. Bit i of *refused is set when call i returned invalid.
extern "C" __global__ void misuse(pgas::world w, uint8_t* object, uint64_t* sig, uint64_t size, uint32_t* refused) {
    pgas::context c = w.context(0);
    pgas::context bad_ctx = w.context(w.n_contexts());
    uint8_t local[64] = {};
    uint32_t n = w.n_pes();
    pgas::status got[] = {
        pgas::put_bytes_nbi(pgas::thread(), c, object, object, 8, n),
        pgas::put_bytes_nbi(pgas::thread(), c, object, object, 8, ~0u),
        pgas::put_bytes_nbi(pgas::thread(), bad_ctx, object, object, 8, 0),
        pgas::put_bytes_nbi(pgas::thread(), c, local, object, 8, 0),
        pgas::put_bytes_nbi(pgas::thread(), c, object, object, ~uint64_t(0) - 4096, 0),
        pgas::get_bytes_nbi(pgas::thread(), c, object, local, 8, 0),
        pgas::get_bytes(pgas::thread(), c, object, object + size, size * 64 + (uint64_t(1) << 44), 0),
        pgas::signal(pgas::thread(), c, n, pgas::signal_add(sig, 1)),
        pgas::signal(pgas::thread(), c, 0, pgas::signal_add(reinterpret_cast<uint64_t*>(object), 1)),
        pgas::signal(pgas::thread(), c, 0,
                     pgas::signal_add(reinterpret_cast<uint64_t*>(reinterpret_cast<uint8_t*>(sig) + 4), 1)),
        pgas::put_signal_bytes(pgas::thread(), c, object, object, 8, 0, pgas::signal_set(nullptr, 1)),
        pgas::fence(c, n),
        pgas::quiet(c, n),
        pgas::g(c, local, object, n),
        pgas::p(c, object, uint8_t(1), n),
    };
    uint32_t bits = 0;
    for (uint32_t i = 0; i < sizeof(got) / sizeof(got[0]); ++i) {
        if (got[i] == pgas::status::invalid) bits |= 1u << i;
    }
    *refused = bits;
}
PGAS_KERNEL(misuse)
