// Warp and block operations. The last lane that arrives computes the results of all, so one barrier serves one
// operation, whatever the masks are.
#include <cstdio>

#include "simt.h"
#include "tsan.h"

namespace softgpu {
namespace {

constexpr uint64_t undefined_value = 0xbad1badbad1badull;  // read from a lane that takes no part

// The source lane of a shuffle as PTX shfl.sync defines it, `self` when it is out of range.
uint32_t shuffle_source(int op, uint32_t self, uint32_t aux, uint32_t width) {
    uint32_t first = self & ~(width - 1);
    uint32_t last = first + width - 1;
    uint32_t d = aux & 31;
    switch (op) {
        case SIMT_SHFL:
            return first | (aux & (width - 1));
        case SIMT_SHFL_UP:
            return self >= first + d ? self - d : self;
        case SIMT_SHFL_DOWN:
            return self + d <= last ? self + d : self;
        default:
            return (self ^ d) <= last ? self ^ d : self;
    }
}

uint64_t combine(int op, uint64_t a, uint64_t b) {
    switch (op) {
        case SIMT_ADD:
            return a + b;
        case SIMT_MIN:
            return a < b ? a : b;
        case SIMT_MAX:
            return a > b ? a : b;
        case SIMT_MIN_SIGNED:
            return int64_t(a) < int64_t(b) ? a : b;
        case SIMT_MAX_SIGNED:
            return int64_t(a) > int64_t(b) ? a : b;
        case SIMT_AND:
            return a & b;
        case SIMT_OR:
            return a | b;
        default:
            return a ^ b;
    }
}

template <class F>
void each_lane(uint32_t mask, F f) {
    for (; mask; mask &= mask - 1) f(uint32_t(__builtin_ctz(mask)));
}

uint64_t reduce(int op, const lane* warp, uint32_t peers) {
    uint64_t first = warp[__builtin_ctz(peers)].value;
    uint64_t r = op == SIMT_BALLOT ? 0 : first;
    each_lane(op == SIMT_BALLOT ? peers : peers & (peers - 1), [&](uint32_t i) {
        if (op == SIMT_BALLOT)
            r |= warp[i].value ? 1u << i : 0;
        else
            r = combine(op, r, warp[i].value);
    });
    return r;
}

void compute(int op, lane* warp, uint32_t peers) {
    if (op == SIMT_SYNC) return;
    uint64_t in[warp_lanes] = {};
    each_lane(peers, [&](uint32_t i) { in[i] = warp[i].value; });
    if (op >= SIMT_SHFL && op <= SIMT_SHFL_XOR) {
        each_lane(peers, [&](uint32_t i) {
            uint32_t from = shuffle_source(op, i, warp[i].aux, warp[i].width);
            warp[i].value = peers >> from & 1 ? in[from] : undefined_value;
        });
        return;
    }
    if (op == SIMT_MATCH_ANY || op == SIMT_MATCH_ALL) {
        each_lane(peers, [&](uint32_t i) {
            uint32_t same = 0;
            each_lane(peers, [&](uint32_t j) { same |= in[j] == in[i] ? 1u << j : 0; });
            warp[i].value = op == SIMT_MATCH_ANY || same == peers ? same : 0;
        });
        return;
    }
    uint64_t r = reduce(op, warp, peers);
    each_lane(peers, [&](uint32_t i) { warp[i].value = r; });
}

const char* warp_op_name(int op) {
    static const char* const names[] = {
        "__syncwarp",        "__shfl_sync",       "__shfl_up_sync",    "__shfl_down_sync",
        "__shfl_xor_sync",   "__ballot_sync",     "__match_any_sync",  "__match_all_sync",
        "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_min_sync",
        "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync",  "__reduce_xor_sync"};
    return names[op];
}

[[noreturn]] void fail_lane(block_thread* t, const std::string& what) {
    t->job->fail(CUDA_ERROR_LAUNCH_FAILED, lane_name(t, t->current) + ": " + what);
    leave_block(t);
}

std::string hex(uint32_t v) {
    char s[16];
    snprintf(s, sizeof(s), "0x%08x", v);
    return s;
}

// Completes the operation that lane i of warp w waits in, if every other lane of its mask has arrived or exited.
bool try_complete(block_thread* t, uint32_t w, uint32_t i) {
    lane* warp = &t->lanes[w * warp_lanes];
    uint32_t mask = warp[i].mask, op = warp[i].op;
    uint32_t peers = mask & ~t->gone[w];
    if (peers & t->run[w]) return false;  // first, and cheap: it is true for all arrivals but the last
    bool all = true, same_op = true;
    each_lane(peers, [&](uint32_t j) {
        all = all && warp[j].waiting == wait_kind::warp && warp[j].mask == mask;
        same_op = same_op && warp[j].op == op;
    });
    if (!all) return false;
    if (!same_op)
        fail_lane(t, std::string("lanes of mask ") + hex(mask) + " disagree: one calls " + warp_op_name(int(op)));
    compute(int(op), warp, peers);
    uint32_t leader = uint32_t(__builtin_ctz(mask));
    int* sync = &t->tsan_warp[w][leader][t->tsan_warp_phase[w][leader]++ & 1];
    each_lane(peers, [&](uint32_t j) {
        warp[j].waiting = wait_kind::none;
        warp[j].tsan_sync = sync;
        make_runnable(t, w * warp_lanes + j);
    });
    progress(t);
    return true;
}

void take_off(block_thread* t, uint32_t i) {
    t->run[i / warp_lanes] &= ~(1u << (i % warp_lanes));
    t->runnable--;
}

// All live lanes wait at the block barrier: gives them the result and lets them run.
void complete_block(block_thread* t) {
    uint32_t count = 0;
    int op = -1;
    for (uint32_t i = 0; i < t->n_lanes; i++) {
        lane* l = &t->lanes[i];
        if (l->exited) continue;
        if (op < 0) op = l->op;
        if (op != l->op) fail_lane(t, "lanes disagree at a block barrier: some count, some do not");
        count += l->value ? 1 : 0;
    }
    uint64_t r = op == SIMT_BLOCK_COUNT ? count : op == SIMT_BLOCK_AND ? count == t->live : count != 0;
    int* sync = &t->tsan_block[t->tsan_block_phase++ & 1];
    for (uint32_t i = 0; i < t->n_lanes; i++) {
        lane* l = &t->lanes[i];
        l->waiting = wait_kind::none;
        l->value = r;
        l->tsan_sync = sync;
    }
    for (uint32_t w = 0; w < t->n_warps; w++) t->run[w] = ~t->gone[w];
    t->runnable = t->live;
    t->arrived = 0;
    progress(t);
}

}  // namespace

void complete_after_exit(block_thread* t, uint32_t lane_index) {
    if (t->arrived == t->live) {
        complete_block(t);
        return;
    }
    uint32_t w = lane_index / warp_lanes;
    for (uint32_t i = 0; i < warp_lanes; i++) {
        if (t->gone[w] >> i & 1) continue;
        const lane* l = &t->lanes[w * warp_lanes + i];
        if (l->waiting == wait_kind::warp && l->mask >> (lane_index % warp_lanes) & 1) try_complete(t, w, i);
    }
}

}  // namespace softgpu

using namespace softgpu;

uint64_t simt_warp(int op, uint32_t mask, uint64_t value, uint32_t aux, uint32_t width) {
    block_thread* t = this_block;
    if (!t) return value;  // a CPU thread is a warp of one lane
    check_stop(t);
    uint32_t i = t->current, w = i / warp_lanes, self = i % warp_lanes;
    lane* l = &t->lanes[i];
    if (!(mask >> self & 1))
        fail_lane(t, std::string(warp_op_name(op)) + " with mask " + hex(mask) + ", without itself");
    l->op = uint8_t(op);
    l->mask = mask;
    l->value = value;
    l->aux = aux;
    l->width = width;
    l->site = __builtin_return_address(0);
    l->waiting = wait_kind::warp;
    l->spin_count = 0;
    uint32_t leader = uint32_t(__builtin_ctz(mask));
    if (op == SIMT_SYNC) tsan::release(&t->tsan_warp[w][leader][t->tsan_warp_phase[w][leader] & 1]);
    take_off(t, i);
    if (!try_complete(t, w, self)) switch_away(t);
    if (op == SIMT_SYNC) tsan::acquire(l->tsan_sync);
    return l->value;
}

int simt_block(int op, int predicate) {
    block_thread* t = this_block;
    if (!t) return predicate != 0;
    check_stop(t);
    lane* l = &t->lanes[t->current];
    l->op = uint8_t(op);
    l->value = predicate != 0;
    l->site = __builtin_return_address(0);
    l->waiting = wait_kind::block;
    l->spin_count = 0;
    tsan::release(&t->tsan_block[t->tsan_block_phase & 1]);
    take_off(t, t->current);
    t->arrived++;
    if (t->arrived == t->live)
        complete_block(t);
    else
        switch_away(t);
    tsan::acquire(l->tsan_sync);
    return int(l->value);
}

// The lanes of the warp that call from the same place in the same round of turns.
uint32_t simt_activemask(void) {
    block_thread* t = this_block;
    if (!t) return 1;
    check_stop(t);
    constexpr uint8_t collecting = 0xff;
    uint32_t i = t->current, w = i / warp_lanes;
    lane* l = &t->lanes[i];
    l->op = collecting;
    l->site = __builtin_return_address(0);
    switch_next(t);
    check_stop(t);
    if (l->op != collecting) return uint32_t(l->value);
    uint32_t mask = 0;
    lane* warp = &t->lanes[w * warp_lanes];
    auto joins = [&](uint32_t j) { return warp[j].op == collecting && warp[j].site == l->site; };
    each_lane(t->run[w], [&](uint32_t j) { mask |= joins(j) ? 1u << j : 0; });
    each_lane(mask, [&](uint32_t j) {
        warp[j].op = SIMT_SYNC;
        warp[j].value = mask;
    });
    return mask;
}
