// Fences under ThreadSanitizer, which does not model them. A fence copies the lane's clock into a shadow fiber; a later
// relaxed store releases that copy and not what the lane did after the fence, so a fence in the wrong place shows as a
// race.
#include "tsan.h"

#include "simt.h"

using namespace softgpu;

#ifdef SIMT_TSAN

namespace {

// Of threads that run no block.
__thread void* thread_shadow;
__thread int thread_clock;

void** shadow_slot(block_thread* t) { return t && t->on_lane ? &t->lanes[t->current].tsan_shadow : &thread_shadow; }

int* clock_slot(block_thread* t) { return t && t->on_lane ? &t->lanes[t->current].tsan_clock : &thread_clock; }

}  // namespace

void simt_tsan_fence(void) {
    block_thread* t = this_block;
    void** slot = shadow_slot(t);
    int* clock = clock_slot(t);
    tsan::destroy(*slot);
    *slot = tsan::create();
    void* self = tsan::current();
    tsan::release(clock);
    tsan::switch_to(*slot);
    tsan::acquire(clock);
    tsan::switch_to(self);
}

void simt_tsan_release_at(const volatile void* addr) {
    void** slot = shadow_slot(this_block);
    if (!*slot) return;
    void* self = tsan::current();
    tsan::switch_to(*slot);
    tsan::release(const_cast<void*>(addr));
    tsan::switch_to(self);
}

#else

void simt_tsan_fence(void) {}
void simt_tsan_release_at(const volatile void*) {}

#endif
