// What a kernel sees of one generation: where things lie, and how it waits and reports.
#pragma once

#include "numbers.cuh"

namespace moe {

// Offsets and sizes of the symmetric allocation, filled by the host (Go type plan).
struct plan {
    uint64_t recv, combined, staging, rows, x, topk, weights, out, w1, w2, table, begin, counters, fault;
    uint64_t slot_bytes;   // a dispatch slot
    uint64_t row_bytes;    // a row of bf16 channels, rounded up
    uint64_t entry_bytes;  // topk and weights of one parity
    uint64_t table_bytes, begin_bytes;
    uint32_t tokens, hidden, experts, local_experts, topk_n, ffn, max_rows, contexts;
    uint32_t header_bytes, payload_bytes, message_bytes, fp8, pow2, pad;
};

// Counted by warps of this PE; zero between rounds. `done` is (count + 1) << 32 | issued.
struct counters {
    unsigned long long done;
    unsigned int slots;
    unsigned int sent;  // combine rows issued to a pair
};

constexpr uint32_t lanes = 32;
constexpr uint32_t max_warps = 16;
constexpr uint32_t max_ffn = 256;
constexpr uint32_t inner = 16;    // inner channels that a lane accumulates at a time
constexpr uint32_t chunk = 8;     // neighbouring channels that a lane takes at a time
constexpr uint32_t group = 128;   // channels of one scale
constexpr uint32_t parities = 2;  // receive buffers

// Steps for the fault word.
enum step : uint32_t { dispatch_send = 1, dispatch_receive, mlp, combine_send, combine_receive };
// A fault that the library does not know: a word or header of another round.
constexpr uint32_t protocol_fault = 100;

// What one kernel sees of one generation.
struct generation {
    pgas::world w;
    uint8_t* base;
    uint64_t* signals;
    plan p;
    uint64_t gen;
    uint32_t parity;

    PGAS_DEVICE uint8_t* slot(uint64_t pair, uint64_t j) const {
        return base + p.recv + ((parity * uint64_t(p.experts) + pair) * p.tokens + j) * p.slot_bytes;
    }
    PGAS_DEVICE uint8_t* combined(uint64_t entry) const {
        return base + p.combined + (parity * uint64_t(p.tokens) * p.topk_n + entry) * p.row_bytes;
    }
    PGAS_DEVICE uint8_t* staging(uint64_t t) const {
        return base + p.staging + (parity * uint64_t(p.tokens) + t) * p.slot_bytes;
    }
    PGAS_DEVICE uint8_t* row(uint64_t r) const {
        return base + p.rows + (parity * uint64_t(p.max_rows) + r) * p.row_bytes;
    }
    PGAS_DEVICE uint8_t* x(uint64_t t) const { return base + p.x + (parity * uint64_t(p.tokens) + t) * p.row_bytes; }
    PGAS_DEVICE uint8_t* out(uint64_t t) const {
        return base + p.out + (parity * uint64_t(p.tokens) + t) * p.row_bytes;
    }
    PGAS_DEVICE const int32_t* topk() const {
        return reinterpret_cast<const int32_t*>(base + p.topk + parity * p.entry_bytes);
    }
    PGAS_DEVICE const float* weights() const {
        return reinterpret_cast<const float*>(base + p.weights + parity * p.entry_bytes);
    }
    PGAS_DEVICE uint32_t* table() const { return reinterpret_cast<uint32_t*>(base + p.table + parity * p.table_bytes); }
    // begin[pair] is the first row of a pair, begin[experts] the number of rows.
    PGAS_DEVICE uint32_t* begin() const { return reinterpret_cast<uint32_t*>(base + p.begin + parity * p.begin_bytes); }
    PGAS_DEVICE counters* count(uint32_t i) const { return reinterpret_cast<counters*>(base + p.counters) + i; }
    PGAS_DEVICE uint64_t* count_word(uint32_t pair) const {
        return pgas::signal_at(signals, uint64_t(parity) * p.experts + pair);
    }
    PGAS_DEVICE uint64_t* flag_word(uint32_t expert) const {
        return pgas::signal_at(signals, uint64_t(parities + parity) * p.experts + expert);
    }
    // Data and signals of a local expert share one queue per peer.
    PGAS_DEVICE pgas::context context(uint32_t local_expert) const { return w.context(local_expert % p.contexts); }
    PGAS_DEVICE uint64_t tagged(uint32_t n) const { return gen << 32 | n; }
};

PGAS_DEVICE generation generation_of(pgas::world w, uint8_t* base, uint64_t* signals, const plan& p, uint64_t gen) {
    return {w, base, signals, p, gen, uint32_t(gen % parities)};
}

PGAS_DEVICE uint32_t warp_in_block() { return threadIdx.x / lanes; }
PGAS_DEVICE uint32_t warps_in_block() { return blockDim.x / lanes; }
PGAS_DEVICE uint32_t warp_in_grid() { return blockIdx.x * warps_in_block() + warp_in_block(); }
PGAS_DEVICE uint32_t warps_in_grid() { return gridDim.x * warps_in_block(); }

// Leaves the first fault for the host: (step << 32 | status) and what it is about (expert, pair or row).
PGAS_DEVICE void fault(const generation& r, step where, uint32_t status, uint64_t about) {
    auto* word = reinterpret_cast<unsigned long long*>(r.base + r.p.fault);
    if (atomicCAS(word, 0ull, static_cast<unsigned long long>(uint64_t(where) << 32 | status)) == 0) word[1] = about;
}

// Whether no kernel before this one left a fault. All threads of the block call it and get the same answer.
PGAS_DEVICE bool intact(const generation& r) {
    uint32_t clear = 1;
    auto* word = reinterpret_cast<const uint64_t*>(r.base + r.p.fault);
    if (threadIdx.x == 0) clear = pgas::mm::ld_relaxed<pgas::mm::scope::gpu>(word) == 0 ? 1 : 0;
    return pgas::block().broadcast(clear) != 0;
}

// Reports a status other than ok and returns whether all is well.
PGAS_DEVICE bool fine(const generation& r, step where, pgas::status s, uint64_t about) {
    if (s == pgas::status::ok) return true;
    fault(r, where, static_cast<uint32_t>(s), about);
    return false;
}

// A receiver that has waited this long looks whether its own sends are what is wrong.
constexpr uint64_t patience_ns = 100'000'000;

// Waits for a word of this generation. One thread. *n receives the count in it.
//
// A put that failed on the wire shows in my queue only, and the peer that misses it will never answer. So a wait that
// takes long completes my sends first: if one of them failed, that is the cause to report.
PGAS_DEVICE bool await(const generation& r, step where, const uint64_t* word, uint32_t limit, uint64_t about,
                       uint32_t* n) {
    uint64_t seen = 0;
    pgas::context ctx = r.w.context(0);
    pgas::status s = pgas::wait_until(ctx.with_timeout_ns(patience_ns), word, pgas::ge(r.tagged(0)), &seen);
    if (s == pgas::status::timeout) {
        for (uint32_t c = 0; c < r.p.contexts; ++c) {
            if (!fine(r, where, pgas::quiet(r.w.context(c)), about)) return false;
        }
        s = pgas::wait_until(ctx, word, pgas::ge(r.tagged(0)), &seen);
    }
    if (!fine(r, where, s, about)) return false;
    *n = uint32_t(seen);
    if (seen >> 32 == r.gen && *n <= limit) return true;
    fault(r, where, protocol_fault, about);
    return false;
}

// Eight neighbouring bf16 channels as fp32, zeros behind the last of n. `whole` says that rows are 16-byte aligned.
PGAS_DEVICE void load8(const uint16_t* p, uint32_t n, bool whole, float* v) {
    if (whole) {
        uint64_t a = reinterpret_cast<const uint64_t*>(p)[0];
        uint64_t b = reinterpret_cast<const uint64_t*>(p)[1];
        MOE_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
            v[i] = from_bf16(uint16_t(a >> (16 * i)));
            v[i + 4] = from_bf16(uint16_t(b >> (16 * i)));
        }
        return;
    }
    for (uint32_t i = 0; i < chunk; ++i) v[i] = i < n ? from_bf16(p[i]) : 0.0f;
}

PGAS_DEVICE void store8(uint16_t* p, uint32_t n, bool whole, const float* v) {
    if (whole) {
        uint64_t a = 0;
        uint64_t b = 0;
        MOE_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
            a |= uint64_t(to_bf16(v[i])) << (16 * i);
            b |= uint64_t(to_bf16(v[i + 4])) << (16 * i);
        }
        reinterpret_cast<uint64_t*>(p)[0] = a;
        reinterpret_cast<uint64_t*>(p)[1] = b;
        return;
    }
    for (uint32_t i = 0; i < n && i < chunk; ++i) p[i] = to_bf16(v[i]);
}

}  // namespace moe
