// ThreadSanitizer's fiber interface. The runner itself is compiled without instrumentation and tells TSan by hand which
// lane runs and what barriers order; without SIMT_TSAN all of it is empty.
#ifndef PGAS_SOFTGPU_TSAN_H
#define PGAS_SOFTGPU_TSAN_H

#ifdef SIMT_TSAN
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* addr);
void __tsan_release(void* addr);
}
#endif

namespace softgpu {
namespace tsan {

#ifdef SIMT_TSAN
inline void* current() { return __tsan_get_current_fiber(); }
inline void* create() { return __tsan_create_fiber(0); }
inline void destroy(void* f) {
    if (f) __tsan_destroy_fiber(f);
}
// Without the flag a switch would order everything before it, and lanes of a block would never race.
inline void switch_to(void* f) { __tsan_switch_to_fiber(f, 1); }
inline void acquire(void* addr) { __tsan_acquire(addr); }
inline void release(void* addr) { __tsan_release(addr); }
constexpr bool enabled = true;
#else
inline void* current() { return nullptr; }
inline void* create() { return nullptr; }
inline void destroy(void*) {}
inline void switch_to(void*) {}
inline void acquire(void*) {}
inline void release(void*) {}
constexpr bool enabled = false;
#endif

}  // namespace tsan
}  // namespace softgpu

#endif
