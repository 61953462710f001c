// MoE dispatch and combine in one hop, each cut into a send half and a receive half that the host may run around other
// work. One kernel per half, one for the experts; no kernel needs its blocks to be co-resident.
//
// Generations. Every dispatch-combine round has a number that only grows. Receive slots and signal words exist twice;
// generation g uses those of parity g mod 2. A signal word carries (generation << 32 | count), is set by one writer
// and waited on with >=, so nothing is ever cleared and a late or stale value cannot be taken for this round's.
//
// Rule R: a PE starts the dispatch send half of g after its own combine receive half of g - 2 has ended. The host keeps
// it by launching both on one stream. Two rounds may thus be in flight. Why no slot is overwritten while it is read:
//  1. Dispatch slots and count words of g at D, written by S: by rule R, S has seen the flags that D's experts
//     sent to S in g - 2. D sends them after its dispatch receive half and its experts have read the slots and words
//     of g - 2 (kernels of one stream).
//  2. Combine slots and flag words of g at S, written by D: D sends them after S's counts of g have arrived, which S
//     sent after its combine receive half of g - 2 had read the slots and words.
//  3. Sources: the combine receive half ends with quiet on every context, so the staging slots and expert outputs of
//     g - 2 have left this PE before g writes them.
// An expert without tokens of S still sends its flag to S: the flag is what lets S go on.
//
// Words of this PE in GPU memory that several warps count in (struct counters) return to zero by themselves: the last
// one to count resets them and sends the signal. Nobody spins on them.
//
// All roundings are fixed; the host reference computes the same bits.

#include "generation.cuh"

using namespace moe;

// ---- dispatch, send half -------------------------------------------------------------------------------------------

namespace moe {

// Adds to an expert's word: 1 for an issued token, (count + 1) << 32 once. Whoever completes it sends the count, behind
// all tokens in the same queue. One thread.
PGAS_DEVICE bool finish_expert(const generation& r, uint32_t expert, uint64_t delta) {
    counters* c = r.count(expert);
    __threadfence();  // tokens that this thread's warp issued come before the sum that shows them
    uint64_t now = atomicAdd(&c->done, static_cast<unsigned long long>(delta)) + delta;
    uint32_t due = uint32_t(now >> 32);
    if (due == 0 || uint32_t(now) != due - 1) return true;
    __threadfence();
    c->done = 0;
    c->slots = 0;
    uint32_t local = expert % r.p.local_experts;
    uint32_t pe = expert / r.p.local_experts;
    uint32_t pair = local * r.w.n_pes() + r.w.my_pe();
    auto update = pgas::signal_set(r.count_word(pair), r.tagged(due - 1));
    return fine(r, dispatch_send, pgas::signal(pgas::thread(), r.context(local), pe, update), expert);
}

// Warps count how many of my tokens go to each expert.
PGAS_DEVICE void count_tokens(const generation& r, uint32_t n_tokens) {
    uint32_t lane = pgas::warp().rank();
    uint32_t entries = n_tokens * r.p.topk_n;
    for (uint32_t e = warp_in_grid(); e < r.p.experts; e += warps_in_grid()) {
        uint32_t n = 0;
        for (uint32_t i = lane; i < entries; i += lanes) n += r.topk()[i] == int32_t(e) ? 1 : 0;
        for (uint32_t o = lanes / 2; o != 0; o /= 2) n += __shfl_xor_sync(0xffffffffu, n, o);
        if (lane == 0) finish_expert(r, e, uint64_t(n + 1) << 32);
        __syncwarp();
    }
}

// The block's warps write a token's message into its staging slot: header, expert list, channels, scales.
PGAS_DEVICE void stage_token(const generation& r, uint32_t t) {
    const plan& p = r.p;
    uint8_t* m = r.staging(t);
    const uint8_t* x = r.x(t);
    if (threadIdx.x == 0) {
        auto* header = reinterpret_cast<uint32_t*>(m);
        header[0] = t;
        header[1] = r.w.my_pe();
        header[2] = uint32_t(r.gen);
        header[3] = p.topk_n;
    }
    auto* list = reinterpret_cast<uint16_t*>(m + 16);
    for (uint32_t k = threadIdx.x; k < (p.header_bytes - 16) / 2; k += blockDim.x) {
        list[k] = k < p.topk_n ? uint16_t(r.topk()[uint64_t(t) * p.topk_n + k]) : uint16_t(0xffff);
    }
    uint8_t* payload = m + p.header_bytes;
    if (!p.fp8) {  // both rows are rounded up to 16 bytes
        auto* from = reinterpret_cast<const uint64_t*>(x);
        auto* to = reinterpret_cast<uint64_t*>(payload);
        for (uint32_t i = threadIdx.x; i < p.payload_bytes / 8; i += blockDim.x) to[i] = from[i];
        auto* tail = reinterpret_cast<const uint16_t*>(x);
        for (uint32_t i = p.payload_bytes / 8 * 4 + threadIdx.x; i < p.hidden; i += blockDim.x) {
            reinterpret_cast<uint16_t*>(payload)[i] = tail[i];
        }
        return;
    }
    uint32_t lane = pgas::warp().rank();
    for (uint32_t g = warp_in_block(); g < p.hidden / group; g += warps_in_block()) {
        uint64_t four = reinterpret_cast<const uint64_t*>(x)[g * lanes + lane];
        float amax = 0;
        MOE_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
            float a = from_bf16(uint16_t(four >> (16 * i)) & 0x7fff);
            amax = a > amax ? a : amax;
        }
        for (uint32_t o = lanes / 2; o != 0; o /= 2) {
            float a = __shfl_xor_sync(0xffffffffu, amax, o);
            amax = a > amax ? a : amax;
        }
        scales s = scales_of(amax, p.pow2 != 0);
        uint32_t packed = 0;
        MOE_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
            packed |= uint32_t(to_e4m3(mul(from_bf16(uint16_t(four >> (16 * i))), s.scale))) << (8 * i);
        }
        reinterpret_cast<uint32_t*>(payload)[g * lanes + lane] = packed;
        if (lane == 0) reinterpret_cast<float*>(payload + p.payload_bytes)[g] = s.inverse;
    }
}

// A warp sends a staged token to the expert of entry k. Returns the same in all lanes.
PGAS_DEVICE bool send_entry(const generation& r, uint32_t t, uint32_t k) {
    auto warp = pgas::warp();
    int32_t chosen = r.topk()[uint64_t(t) * r.p.topk_n + k];
    if (chosen < 0) return true;
    auto expert = uint32_t(chosen);
    uint32_t slot = 0;
    if (warp.rank() == 0 && expert < r.p.experts) slot = atomicAdd(&r.count(expert)->slots, 1u);
    slot = warp.broadcast(slot);
    if (expert >= r.p.experts || slot >= r.p.tokens) {  // a token may choose an expert only once
        fault(r, dispatch_send, static_cast<uint32_t>(pgas::status::invalid), expert);
        return false;
    }
    uint32_t local = expert % r.p.local_experts;
    uint32_t pe = expert / r.p.local_experts;
    uint8_t* dst = r.slot(uint64_t(local) * r.w.n_pes() + r.w.my_pe(), slot);
    pgas::status s = pgas::put_bytes_nbi(warp, r.context(local), dst, r.staging(t), r.p.message_bytes, pe);
    if (!fine(r, dispatch_send, s, expert)) return false;
    warp.sync();
    uint32_t ok = 1;
    if (warp.rank() == 0) ok = finish_expert(r, expert, 1) ? 1 : 0;
    return warp.broadcast(ok) != 0;
}

}  // namespace moe

extern "C" __global__ void __launch_bounds__(512, 1)
    moe_dispatch_send(pgas::world w, uint8_t* base, uint64_t* signals, plan p, uint64_t gen, uint32_t n_tokens) {
    generation r = generation_of(w, base, signals, p, gen);
    if (!intact(r)) return;
    count_tokens(r, n_tokens);
    bool ok = true;  // a warp that failed stops sending but stays in the block's barriers
    for (uint32_t t = blockIdx.x; t < n_tokens; t += gridDim.x) {
        stage_token(r, t);
        pgas::block().sync();
        for (uint32_t k = warp_in_block(); ok && k < p.topk_n; k += warps_in_block()) ok = send_entry(r, t, k);
    }
}
PGAS_KERNEL(moe_dispatch_send)

// ---- dispatch, receive half ----------------------------------------------------------------------------------------

namespace moe {

// One warp turns the counts in begin[1..experts] into running sums. Returns the number of rows.
PGAS_DEVICE uint32_t scan_counts(const generation& r) {
    uint32_t lane = pgas::warp().rank();
    uint32_t* begin = r.begin();
    uint32_t total = 0;
    if (lane == 0) begin[0] = 0;
    for (uint32_t first = 0; first < r.p.experts; first += lanes) {
        uint32_t pair = first + lane;
        uint32_t sum = pair < r.p.experts ? begin[pair + 1] : 0;
        for (uint32_t o = 1; o < lanes; o *= 2) {
            uint32_t before = __shfl_up_sync(0xffffffffu, sum, o);
            if (lane >= o) sum += before;
        }
        if (pair < r.p.experts) begin[pair + 1] = total + sum;
        total += __shfl_sync(0xffffffffu, sum, lanes - 1);
    }
    return total;
}

}  // namespace moe

// One block. Waits for the counts of all (local expert, source PE) pairs and lists the rows: all rows of an expert are
// neighbours, ordered by source PE. The tokens stay in their slots.
extern "C" __global__ void __launch_bounds__(512, 1)
    moe_dispatch_receive(pgas::world w, uint8_t* base, uint64_t* signals, plan p, uint64_t gen) {
    generation r = generation_of(w, base, signals, p, gen);
    if (!intact(r)) return;
    __shared__ uint32_t rows;
    for (uint32_t pair = threadIdx.x; pair < p.experts; pair += blockDim.x) {
        uint32_t n = 0;
        if (!await(r, dispatch_receive, r.count_word(pair), p.tokens, pair, &n)) n = 0;
        r.begin()[pair + 1] = n;
    }
    pgas::block().sync();
    if (warp_in_block() == 0) {
        uint32_t total = scan_counts(r);
        if (threadIdx.x == 0) rows = total;
        if (threadIdx.x == 0 && total > p.max_rows) {
            fault(r, dispatch_receive, protocol_fault, total);
            rows = 0;
        }
    }
    pgas::block().sync();
    if (rows == 0) return;
    for (uint32_t pair = warp_in_block(); pair < p.experts; pair += warps_in_block()) {
        uint32_t first = r.begin()[pair];
        uint32_t n = r.begin()[pair + 1] - first;
        for (uint32_t j = threadIdx.x % lanes; j < n; j += lanes) r.table()[first + j] = pair * p.tokens + j;
    }
}
PGAS_KERNEL(moe_dispatch_receive)

// ---- experts -------------------------------------------------------------------------------------------------------

namespace moe {

// Eight neighbouring channels of a message as the expert computes with them: bf16 values.
PGAS_DEVICE void load_message8(const plan& p, const uint8_t* payload, uint32_t c, bool whole, float* v) {
    if (!p.fp8) {
        load8(reinterpret_cast<const uint16_t*>(payload) + c, p.hidden - c, whole, v);
        return;
    }
    uint64_t q = *reinterpret_cast<const uint64_t*>(payload + c);
    float scale = reinterpret_cast<const float*>(payload + p.payload_bytes)[c / group];
    MOE_UNROLL
    for (uint32_t i = 0; i < chunk; ++i) v[i] = from_bf16(to_bf16(mul(from_e4m3(uint8_t(q >> (8 * i))), scale)));
}

// Adds one channel times its weights to `inner` sums. Products of bf16 values are exact in fp32, so a fused
// multiply-add gives the same bits.
PGAS_DEVICE void add_channel(float v, const uint16_t* w, float* acc) {
    MOE_UNROLL
    for (uint32_t i = 0; i < inner; ++i) acc[i] += v * from_bf16(w[i]);
}

// Sums of one lane over its channels, for `inner` inner channels from w1 on.
PGAS_DEVICE void lane_sums(const plan& p, const uint8_t* payload, const uint16_t* w1, uint32_t lane, float* acc) {
    bool whole = p.hidden % chunk == 0;
    for (uint32_t i = 0; i < inner; ++i) acc[i] = 0;
    for (uint32_t c = lane * chunk; c < p.hidden; c += lanes * chunk) {
        float v[chunk];
        load_message8(p, payload, c, whole, v);
        const uint16_t* w = w1 + uint64_t(c) * p.ffn;
        if (whole) {
            MOE_UNROLL
            for (uint32_t j = 0; j < chunk; ++j) add_channel(v[j], w + j * p.ffn, acc);
        } else {
            for (uint32_t j = 0; j < chunk && c + j < p.hidden; ++j) add_channel(v[j], w + j * p.ffn, acc);
        }
    }
}

// The second layer for the chunks of one lane.
PGAS_DEVICE void lane_outputs(const plan& p, const uint16_t* h, const uint16_t* w2, uint32_t lane, uint16_t* out) {
    bool whole = p.hidden % chunk == 0;
    for (uint32_t c = lane * chunk; c < p.hidden; c += lanes * chunk) {
        float acc[chunk] = {};
        for (uint32_t f = 0; f < p.ffn; ++f) {
            float w[chunk];
            float hf = from_bf16(h[f]);
            load8(w2 + uint64_t(f) * p.hidden + c, p.hidden - c, whole, w);
            MOE_UNROLL
            for (uint32_t i = 0; i < chunk; ++i) acc[i] += hf * w[i];
        }
        store8(out + c, p.hidden - c, whole, acc);
    }
}

}  // namespace moe

// Each warp runs one row at a time through its expert: hidden -> ffn, ReLU, ffn -> hidden. The result is written where
// combine sends it from.
extern "C" __global__ void __launch_bounds__(512, 1)
    moe_mlp(pgas::world w, uint8_t* base, uint64_t* signals, plan p, uint64_t gen) {
    __shared__ float partial[max_warps][lanes][inner + 1];
    __shared__ uint16_t hidden[max_warps][max_ffn];
    generation r = generation_of(w, base, signals, p, gen);
    if (!intact(r)) return;
    uint32_t lane = pgas::warp().rank();
    uint32_t me = warp_in_block();
    uint32_t rows = r.begin()[p.experts];
    for (uint32_t i = warp_in_grid(); i < rows; i += warps_in_grid()) {
        uint32_t at = r.table()[i];
        uint32_t pair = at / p.tokens;
        uint64_t weights = uint64_t(pair / w.n_pes()) * ((uint64_t(p.hidden) * p.ffn * 2 + 15) / 16 * 16);
        const uint8_t* payload = r.slot(pair, at % p.tokens) + p.header_bytes;
        auto* w1 = reinterpret_cast<const uint16_t*>(base + p.w1 + weights);
        auto* w2 = reinterpret_cast<const uint16_t*>(base + p.w2 + weights);
        for (uint32_t f = 0; f < p.ffn; f += inner) {
            float acc[inner];
            lane_sums(p, payload, w1 + f, lane, acc);
            for (uint32_t k = 0; k < inner; ++k) partial[me][lane][k] = acc[k];
            __syncwarp();
            if (lane < inner) {
                float h = partial[me][0][lane];
                for (uint32_t l = 1; l < lanes; ++l) h += partial[me][l][lane];
                hidden[me][f + lane] = to_bf16(h > 0 ? h : 0.0f);
            }
            __syncwarp();
        }
        lane_outputs(p, hidden[me], w2, lane, reinterpret_cast<uint16_t*>(r.row(i)));
        __syncwarp();
    }
}
PGAS_KERNEL(moe_mlp)

// ---- combine, send half --------------------------------------------------------------------------------------------

namespace moe {

// Tells a source PE that all rows of an expert for it are on their way, in the queue of those rows. One thread.
PGAS_DEVICE bool send_flag(const generation& r, uint32_t pair, uint32_t n) {
    uint32_t local = pair / r.w.n_pes();
    uint32_t expert = r.w.my_pe() * r.p.local_experts + local;
    auto update = pgas::signal_set(r.flag_word(expert), r.tagged(n));
    pgas::status s = pgas::signal(pgas::thread(), r.context(local), pair % r.w.n_pes(), update);
    return fine(r, combine_send, s, pair);
}

// Counts an issued row of a pair; the last one sends the flag. One thread.
PGAS_DEVICE bool finish_pair(const generation& r, uint32_t pair) {
    uint32_t n = r.begin()[pair + 1] - r.begin()[pair];
    counters* c = r.count(r.p.experts + pair);
    __threadfence();
    if (atomicAdd(&c->sent, 1u) + 1 != n) return true;
    __threadfence();
    c->sent = 0;
    return send_flag(r, pair, n);
}

// A warp sends row i to the slot of its (token, k) at the source PE. Returns the same in all lanes.
PGAS_DEVICE bool send_row(const generation& r, uint32_t i) {
    auto warp = pgas::warp();
    uint32_t at = r.table()[i];
    uint32_t pair = at / r.p.tokens;
    uint32_t local = pair / r.w.n_pes();
    uint32_t source = pair % r.w.n_pes();
    const uint8_t* m = r.slot(pair, at % r.p.tokens);
    auto* header = reinterpret_cast<const uint32_t*>(m);
    auto* list = reinterpret_cast<const uint16_t*>(m + 16);
    uint32_t expert = r.w.my_pe() * r.p.local_experts + local;
    uint32_t mine = __ballot_sync(0xffffffffu, warp.rank() < r.p.topk_n && list[warp.rank()] == expert);
    bool good = header[0] < r.p.tokens && header[1] == source && header[2] == uint32_t(r.gen) && mine != 0;
    if (!good) {
        fault(r, combine_send, protocol_fault, pair);
        return false;
    }
    uint64_t entry = uint64_t(header[0]) * r.p.topk_n + uint32_t(__ffs(int(mine)) - 1);
    pgas::status s =
        pgas::put_bytes_nbi(warp, r.context(local), r.combined(entry), r.row(i), 2ull * r.p.hidden, source);
    if (!fine(r, combine_send, s, pair)) return false;
    warp.sync();
    uint32_t ok = 1;
    if (warp.rank() == 0) ok = finish_pair(r, pair) ? 1 : 0;
    return warp.broadcast(ok) != 0;
}

}  // namespace moe

extern "C" __global__ void __launch_bounds__(512, 1)
    moe_combine_send(pgas::world w, uint8_t* base, uint64_t* signals, plan p, uint64_t gen) {
    generation r = generation_of(w, base, signals, p, gen);
    if (!intact(r)) return;
    uint32_t* begin = r.begin();
    bool ok = true;
    for (uint32_t pair = blockIdx.x * blockDim.x + threadIdx.x; ok && pair < p.experts;
         pair += gridDim.x * blockDim.x) {
        if (begin[pair + 1] == begin[pair]) ok = send_flag(r, pair, 0);
    }
    __syncwarp();
    ok = __all_sync(0xffffffffu, ok);
    for (uint32_t i = warp_in_grid(); ok && i < begin[p.experts]; i += warps_in_grid()) ok = send_row(r, i);
}
PGAS_KERNEL(moe_combine_send)

// ---- combine, receive half -----------------------------------------------------------------------------------------

namespace moe {

// A warp waits for the experts of a token: lane k for entry k.
PGAS_DEVICE bool await_token(const generation& r, uint32_t t) {
    uint32_t lane = pgas::warp().rank();
    int32_t e = lane < r.p.topk_n ? r.topk()[uint64_t(t) * r.p.topk_n + lane] : -1;
    uint32_t n = 0;
    bool ok = e < 0 || await(r, combine_receive, r.flag_word(uint32_t(e)), r.p.tokens, uint32_t(e), &n);
    __syncwarp();
    return __all_sync(0xffffffffu, ok);
}

// A warp adds up the rows of a token in the order of k, in fp32, each step rounded.
PGAS_DEVICE void combine_token(const generation& r, uint32_t t) {
    const plan& p = r.p;
    bool whole = p.hidden % chunk == 0;
    uint64_t first = uint64_t(t) * p.topk_n;
    for (uint32_t c = pgas::warp().rank() * chunk; c < p.hidden; c += lanes * chunk) {
        float acc[chunk] = {};
        for (uint32_t k = 0; k < p.topk_n; ++k) {
            if (r.topk()[first + k] < 0) continue;
            float v[chunk];
            float weight = r.weights()[first + k];
            load8(reinterpret_cast<const uint16_t*>(r.combined(first + k)) + c, p.hidden - c, whole, v);
            MOE_UNROLL
            for (uint32_t i = 0; i < chunk; ++i) acc[i] = add(acc[i], mul(weight, v[i]));
        }
        store8(reinterpret_cast<uint16_t*>(r.out(t)) + c, p.hidden - c, whole, acc);
    }
}

}  // namespace moe

// Ends when every expert's flag has come and everything that this PE sent in earlier halves is complete (rule R).
extern "C" __global__ void __launch_bounds__(512, 1)
    moe_combine_receive(pgas::world w, uint8_t* base, uint64_t* signals, plan p, uint64_t gen, uint32_t n_tokens) {
    generation r = generation_of(w, base, signals, p, gen);
    if (!intact(r)) return;
    bool ok = true;
    for (uint32_t t = warp_in_grid(); ok && t < n_tokens; t += warps_in_grid()) {
        ok = await_token(r, t);
        if (ok) combine_token(r, t);
    }
    for (uint32_t e = blockIdx.x * blockDim.x + threadIdx.x; ok && e < p.experts; e += gridDim.x * blockDim.x) {
        uint32_t n = 0;
        ok = await(r, combine_receive, r.flag_word(e), p.tokens, e, &n);
    }
    if (blockIdx.x != 0) return;
    for (uint32_t c = threadIdx.x; ok && c < p.contexts; c += blockDim.x) {
        ok = fine(r, combine_receive, pgas::quiet(r.w.context(c)), c);
    }
}
PGAS_KERNEL(moe_combine_receive)
