// Kernels for the tests of package pgas.
#include <pgas/pgas.cuh>

// Puts n words to the next PE with a signal, block-wide, and waits for those of the PE before.
extern "C" __global__ void ring(pgas::world w, uint64_t* box, const uint64_t* src, uint64_t n, uint64_t* flag,
                                uint64_t round, uint32_t* status) {
    pgas::context ctx = w.context(0);
    uint32_t next = (w.my_pe() + 1) % w.n_pes();
    pgas::status s = pgas::put_signal_nbi(pgas::block(), ctx, box, src, n, next, pgas::signal_set(flag, round));
    if (threadIdx.x == 0) {
        if (s == pgas::status::ok) s = pgas::wait_until(ctx, flag, pgas::ge(round));
        if (s == pgas::status::ok) s = pgas::quiet(ctx, next);
        *status = static_cast<uint32_t>(s);
    }
}
PGAS_KERNEL(ring)

// Waits for a signal that may never come.
extern "C" __global__ void wait_forever(pgas::world w, uint64_t* flag, uint32_t* status) {
    *status = static_cast<uint32_t>(pgas::wait_until(w.context(0), flag, pgas::ge(1)));
}
PGAS_KERNEL(wait_forever)

// Writes to a PE that does not exist.
extern "C" __global__ void bad_pe(pgas::world w, uint64_t* box) {
    (void)pgas::put(pgas::thread(), w.context(0), box, box, 1, 99);
}
PGAS_KERNEL(bad_pe)

struct scale {
    float by;
    int32_t plus;
};

extern "C" __global__ void all_types(int8_t* out8, float a, double b, uint16_t c, scale s, bool d) {
    if (threadIdx.x == 0) out8[blockIdx.x] = int8_t(a + float(b) + float(c) * s.by + float(s.plus) + (d ? 1 : 0));
}
PGAS_KERNEL(all_types)

// Reads far outside all memory.
extern "C" __global__ void wild(const uint64_t* from, uint64_t* out) { *out = from[uint64_t(1) << 40]; }
PGAS_KERNEL(wild)

// Built as if by headers of another version.
extern "C" __global__ void stale(uint64_t* out) { *out = 1; }
SIMT_KERNEL(stale)
extern "C" {
unsigned long long stale_pgas_layout_hash = 1;
}

extern "C" __global__ void plain(uint64_t* out) { *out = 42; }
SIMT_KERNEL(plain)

// Waits for a signal that never comes, without a deadline: only the end of the job ends it.
extern "C" __global__ void wait_without_deadline(pgas::world w, uint64_t* flag) {
    (void)pgas::wait_until(w.context(0).with_timeout_ns(0), flag, pgas::ge(1));
}
PGAS_KERNEL(wait_without_deadline)
