// The trace hook: compiled kernels call it in every basic block. It takes the turn from lanes that compute for long,
// and names loops that wait for memory without simt_pause: their registers and stack are the same at every visit.
#include <sched.h>

#include "config.h"
#include "simt.h"

namespace softgpu {
namespace {

constexpr uint32_t same_visits = 64;  // of one place, with nothing changed, before a loop counts as a bare spin
#if defined(__x86_64__)
constexpr uint32_t frame_registers = 6, frame_resume = 6, frame_stack = 7;
#else
constexpr uint32_t frame_registers = 11, frame_resume = 11, frame_stack = 14;
#endif
constexpr uint32_t stack_words = 24;

uint64_t hash_words(const uint64_t* w, uint32_t n, uint64_t h) {
    for (uint32_t i = 0; i < n; i++) h = (h ^ w[i]) * 0x9e3779b97f4a7c15ull + (h >> 29);
    return h;
}

void look_for_spin(block_thread* t, const uint64_t* frame) {
    lane* l = &t->lanes[t->current];
    uint64_t h = hash_words(frame, frame_registers, 1);
    h = hash_words(frame + frame_stack, stack_words, h);
    const void* pc = reinterpret_cast<const void*>(frame[frame_resume]);
    if (l->spin_pc != pc) {
        // A loop of several basic blocks is seen at different ones; stay with one until it proves to be left.
        if (l->spin_pc && ++l->spin_misses < 64) return;
        l->spin_pc = pc;
        l->spin_hash = h;
        l->spin_misses = l->spin_count = 0;
        return;
    }
    l->spin_misses = 0;
    if (l->spin_hash != h) {
        l->spin_hash = h;
        l->spin_count = 0;
        return;
    }
    if (++l->spin_count < same_visits || t->job->spin_named.exchange(true)) return;
    report("bare spin: " + lane_name(t, t->current) + " loops at " + code_name(pc) +
           " without changing anything; it waits for memory without pausing [use the waits of pgas/wait.cuh]");
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

extern "C" void simt_trace_slow(const uint64_t* frame) {
    simt_trace_budget = options().trace_budget;
    block_thread* t = this_block;
    if (!t || !t->on_lane || t->in_handler) return;
    check_stop(t);
    look_for_spin(t, frame);
    t->pauses = 0;
    if (++t->forced % (t->runnable ? t->runnable : 1) == 0 && t->forced / t->runnable > 4) sched_yield();
    switch_next(t);
    check_stop(t);
}
