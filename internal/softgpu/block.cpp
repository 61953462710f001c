// Lanes of one block: their stacks, their turns, and what happens when none can run.
#include <sys/mman.h>

#include <cstdio>
#include <cstring>

#include "config.h"
#include "module.h"
#include "simt.h"
#include "tsan.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102  // Linux 6.13
#endif

__thread simt_state simt_self;
__thread int32_t simt_trace_budget;

namespace softgpu {

__thread block_thread* this_block;

namespace {

constexpr size_t page = 4096;
constexpr size_t entry_headroom = 512;  // the trace hook reads this far above a frame
constexpr uint64_t stack_canary = 0x5afe57ac5afe57acull;
constexpr uint32_t max_mprotect_guards = 16384;  // each splits a mapping, and Linux allows 65530 of those
std::atomic<uint32_t> mprotect_guards{0};

uint64_t next_random(block_thread* t) {
    t->rng ^= t->rng << 13;
    t->rng ^= t->rng >> 7;
    t->rng ^= t->rng << 17;
    return t->rng;
}

unsigned char* stack_bottom(block_thread* t, uint32_t i) { return t->stacks + size_t(i) * t->stack_bytes; }

// Lanes of a warp are at the same place of their stacks. Were the stacks a power of two apart, those places would share
// a few cache sets, and every switch would miss: so stacks have an odd number of pages, and begin at different lines.
constexpr size_t line = 64;
size_t padded_stack(size_t bytes) { return (bytes + page) | page; }
unsigned char* stack_top(block_thread* t, uint32_t i) { return stack_bottom(t, i) + t->stack_bytes - i * line % page; }

// The lowest page of a stack is its guard. Where the kernel gives no cheap guard and too many dear ones exist already,
// a canary above it is checked when the lane ends.
void guard_stack(block_thread* t, uint32_t i) {
    unsigned char* p = stack_bottom(t, i);
    if (madvise(p, page, MADV_GUARD_INSTALL) == 0) return;
    if (mprotect_guards.fetch_add(1) < max_mprotect_guards) mprotect(p, page, PROT_NONE);
}

void place_canary(block_thread* t, uint32_t i) {
    memcpy(stack_bottom(t, i) + page, &stack_canary, sizeof(stack_canary));
}

[[noreturn]] void lane_exit(block_thread* t) {
    lane* l = &t->lanes[t->current];
    uint64_t canary;
    memcpy(&canary, stack_bottom(t, t->current) + page, sizeof(canary));
    if (canary != stack_canary)
        t->job->fail(CUDA_ERROR_LAUNCH_FAILED, lane_name(t, t->current) + " overflowed its stack of " +
                                                   std::to_string(options().stack) + " bytes [configure stack=...]");
    tsan::release(&t->job->tsan_end);
    tsan::release(&t->tsan_reuse[t->tsan_blocks & 1]);
    l->exited = true;
    uint32_t bit = 1u << (t->current % warp_lanes);
    t->run[t->current / warp_lanes] &= ~bit;
    t->gone[t->current / warp_lanes] |= bit;
    t->runnable--;
    t->live--;
    progress(t);
    if (t->live == 0) leave_block(t);
    complete_after_exit(t, t->current);
    switch_away(t);
    __builtin_unreachable();
}

void lane_start() {
    block_thread* t = this_block;
    tsan::acquire(&t->job->tsan_start);
    tsan::acquire(&t->tsan_reuse[(t->tsan_blocks - 1) & 1]);
    t->job->entry(t->job->args.data());
    lane_exit(this_block);
}

void* first_frame(unsigned char* top) {
    auto* base = reinterpret_cast<uint64_t*>(top - entry_headroom);
#if defined(__x86_64__)
    uint64_t* sp = base - 8;  // resume address, six registers, return address of lane_start
    memset(sp, 0, 8 * sizeof(uint64_t));
    sp[0] = reinterpret_cast<uint64_t>(&lane_start);
#else
    uint64_t* sp = base - 22;
    memset(sp, 0, 22 * sizeof(uint64_t));
    sp[11] = reinterpret_cast<uint64_t>(&lane_start);
#endif
    return sp;
}

void prepare_lane(block_thread* t, uint32_t i, const simt_dim3& dim) {
    lane* l = &t->lanes[i];
    if (t->guarded <= i) {
        guard_stack(t, i);
        t->guarded = i + 1;
    }
    place_canary(t, i);
    l->sp = first_frame(stack_top(t, i));
    l->tid = {i % dim.x, i / dim.x % dim.y, i / (dim.x * dim.y)};
    l->waiting = wait_kind::none;
    l->exited = false;
    l->op = 0;
    l->site = nullptr;
    l->spin_pc = nullptr;
    l->spin_count = 0;
    if (tsan::enabled) {
        tsan::destroy(l->tsan_shadow);
        l->tsan_shadow = nullptr;
        tsan::destroy(l->tsan_fiber);
        l->tsan_fiber = tsan::create();
    }
}

void prepare_block(block_thread* t, launch* job, uint64_t index) {
    t->job = job;
    t->tsan_blocks++;
    t->block_index = index;
    t->n_lanes = job->n_lanes;
    t->n_warps = (job->n_lanes + warp_lanes - 1) / warp_lanes;
    t->live = t->runnable = job->n_lanes;
    t->arrived = t->pauses = t->forced = 0;
    t->in_handler = false;
    for (uint32_t i = 0; i < t->n_lanes; i++) prepare_lane(t, i, job->block);
    for (uint32_t w = 0; w < t->n_warps; w++) {
        uint32_t rest = t->n_lanes - w * warp_lanes;
        t->run[w] = rest >= warp_lanes ? ~0u : (1u << rest) - 1;
        t->gone[w] = ~t->run[w];
    }
    t->current = options().shuffle ? uint32_t(next_random(t) % t->n_lanes) : 0;
    simt_self.block_dim = job->block;
    simt_self.grid_dim = job->grid;
    simt_self.block = {uint32_t(index % job->grid.x), uint32_t(index / job->grid.x % job->grid.y),
                       uint32_t(index / (uint64_t(job->grid.x) * job->grid.y))};
}

void set_self(block_thread* t, uint32_t i) {
    t->current = i;
    simt_self.thread = t->lanes[i].tid;
    simt_self.lane = i % warp_lanes;
}

void run_block(block_thread* t, launch* job, uint64_t index) {
    prepare_block(t, job, index);
    poison_shared(job, t->rng | 1);
    set_self(t, t->current);
    simt_trace_budget = options().trace_budget;
    t->tsan_scheduler = tsan::current();
    t->on_lane = true;
    tsan::switch_to(t->lanes[t->current].tsan_fiber);
    simt_switch(&t->scheduler_sp, t->lanes[t->current].sp);
    t->on_lane = false;
    take_fault(t);
    idle_end(&t->idle);
    check_shared(job);
}

// The runnable lane after `from`, in a cycle; -1 when there is none.
int find_next(const block_thread* t, uint32_t from) {
    uint32_t w = from / warp_lanes;
    uint32_t bits = t->run[w] & ~((2u << (from % warp_lanes)) - 1);
    for (uint32_t n = 0; n <= t->n_warps; n++) {
        if (bits) return int(w * warp_lanes) + __builtin_ctz(bits);
        w = w + 1 == t->n_warps ? 0 : w + 1;
        bits = t->run[w];
    }
    return -1;
}

int choose_next(block_thread* t) {
    if (!options().shuffle) return find_next(t, t->current);
    return find_next(t, uint32_t(next_random(t) % t->n_lanes));
}

std::string where_lane_waits(const lane* l) {
    if (l->waiting == wait_kind::block) return "a block barrier called from " + code_name(l->site);
    char mask[32];
    snprintf(mask, sizeof(mask), "0x%08x", l->mask);
    return std::string("a warp operation with mask ") + mask + " called from " + code_name(l->site);
}

// Names the lanes of a block of which none can run, grouped by what they wait for.
std::string describe_deadlock(block_thread* t) {
    std::string text = "barrier deadlock in block " + std::to_string(t->block_index) + " of kernel " + t->job->name +
                       ": " + std::to_string(t->n_lanes - t->live) + " of " + std::to_string(t->n_lanes) +
                       " lanes have exited";
    int groups = 0;
    for (uint32_t i = 0; i < t->n_lanes && groups < 8;) {
        const lane* l = &t->lanes[i];
        uint32_t end = i + 1;
        while (end < t->n_lanes && t->lanes[end].exited == l->exited && t->lanes[end].waiting == l->waiting &&
               t->lanes[end].site == l->site)
            end++;
        if (!l->exited) {
            text += end - i > 1 ? ", lanes " + std::to_string(i) + ".." + std::to_string(end - 1) + " wait at "
                                : ", lane " + std::to_string(i) + " waits at ";
            text += where_lane_waits(l);
            groups++;
        }
        i = end;
    }
    return text;
}

}  // namespace

block_thread* block_thread_create() {
    void* p = mmap(nullptr, sizeof(block_thread), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    auto* t = static_cast<block_thread*>(p);
    t->stack_bytes = padded_stack(options().stack);
    void* s = mmap(nullptr, t->stack_bytes * max_lanes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (s == MAP_FAILED) {
        munmap(p, sizeof(block_thread));
        return nullptr;
    }
    t->stacks = static_cast<unsigned char*>(s);
    static std::atomic<uint64_t> serial{0};
    t->rng = (options().seed + 1) * 0x9e3779b97f4a7c15ull ^ (serial.fetch_add(1) + 1) * 0xbf58476d1ce4e5b9ull;
    if (!t->rng) t->rng = 1;
    return t;
}

void block_thread_destroy(block_thread* t) {
    if (!t) return;
    for (lane& l : t->lanes) {
        tsan::destroy(l.tsan_shadow);
        tsan::destroy(l.tsan_fiber);
    }
    munmap(t->stacks, t->stack_bytes * max_lanes);
    munmap(t, sizeof(block_thread));
}

void run_blocks(block_thread* t, launch* job) {
    this_block = t;
    while (!job->error.load(std::memory_order_relaxed)) {
        uint64_t i = job->next_block.fetch_add(1, std::memory_order_relaxed);
        if (i >= job->n_blocks) break;
        run_block(t, job, i);
        // Blocks of one launch on one thread would be ordered by the reuse of its shared memory, and their races
        // hidden.
        if (tsan::enabled && job->n_blocks <= block_slots()) break;
    }
    this_block = nullptr;
}

void leave_block(block_thread* t) {
    void* abandoned;
    tsan::switch_to(t->tsan_scheduler);
    simt_switch(&abandoned, t->scheduler_sp);
    __builtin_unreachable();
}

void make_runnable(block_thread* t, uint32_t i) {
    t->run[i / warp_lanes] |= 1u << (i % warp_lanes);
    t->runnable++;
}

// simt_switch without a call: a call without its return leaves the return predictor wrong for every return that follows
// a switch. What it leaves on the stack is the same, so either resumes what the other saved.
static inline void change_stack(void** save_sp, void* load_sp) {
#if defined(__x86_64__)
    asm volatile(
        "leaq -128(%%rsp), %%rsp\n\t"  // the red zone is the compiler's
        "leaq 1f(%%rip), %%rdx\n\t"
        "pushq %%rbp\n\tpushq %%rbx\n\tpushq %%r12\n\tpushq %%r13\n\tpushq %%r14\n\tpushq %%r15\n\tpushq %%rdx\n\t"
        "movq %%rsp, (%%rdi)\n\t"
        "movq %%rsi, %%rsp\n\t"
        "popq %%rdx\n\tpopq %%r15\n\tpopq %%r14\n\tpopq %%r13\n\tpopq %%r12\n\tpopq %%rbx\n\tpopq %%rbp\n\t"
        "jmpq *%%rdx\n"
        "1:\n\t"
        "leaq 128(%%rsp), %%rsp"
        : "+D"(save_sp), "+S"(load_sp)
        :
        : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
          "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#else
    simt_switch(save_sp, load_sp);
#endif
}

static void switch_to(block_thread* t, uint32_t next) {
    if (next == t->current) return;
    lane* from = &t->lanes[t->current];
    set_self(t, next);
    tsan::switch_to(t->lanes[next].tsan_fiber);
    change_stack(&from->sp, t->lanes[next].sp);
}

void switch_next(block_thread* t) { switch_to(t, uint32_t(choose_next(t))); }

void switch_away(block_thread* t) {
    int next = choose_next(t);
    if (next < 0) {
        t->job->fail(CUDA_ERROR_LAUNCH_FAILED, describe_deadlock(t));
        leave_block(t);
    }
    switch_to(t, uint32_t(next));
    check_stop(t);
}

}  // namespace softgpu
