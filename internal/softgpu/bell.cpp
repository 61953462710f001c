// The bell of this process, and how threads get from spinning to sleeping on it.
//
// A sleeper counts itself in `sleepers`, fences, looks at its condition once more and only then sleeps; a ringer makes
// memory visible, fences, and looks at `sleepers`. Ringers on the data path of this process skip their fence: the
// sleeper runs membarrier(2) instead, which fences all threads of the process. Where that call is missing they fence.
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include "config.h"
#include "simt.h"

namespace softgpu {
namespace {

constexpr uint32_t yields = 20;  // fewer puts threads to sleep too early, more wastes the cores of others
constexpr uint64_t nap_ns = 1000000;
constexpr uint64_t blind_nap_ns = 200000;  // of waiters whose condition cannot be checked again

struct bell {
    uint32_t sleepers;
    uint32_t seq;
};

struct own_bell {
    int fd = -1;
    bell* page = nullptr;
    bool ringers_must_fence = true;
};

own_bell make_bell() {
    own_bell b;
    b.fd = memfd_create("pgas-bell", MFD_CLOEXEC);
    if (b.fd >= 0 && ftruncate(b.fd, 4096) == 0) {
        void* p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, b.fd, 0);
        if (p != MAP_FAILED) b.page = static_cast<bell*>(p);
    }
    b.ringers_must_fence = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0;
    return b;
}

own_bell& own() {
    static own_bell b = make_bell();
    return b;
}

// simt_notify must not pay for a function-local static.
bell* notify_bell;
bool notify_fences = true;

__attribute__((constructor)) void init_bell() {
    notify_bell = own().page;
    notify_fences = own().ringers_must_fence;
}

long futex(uint32_t* word, int op, uint32_t value, const timespec* timeout) {
    return syscall(SYS_futex, word, op, value, timeout, nullptr, 0);
}

void sleep_on(bell* b, uint32_t seq, uint64_t ns) {
    timespec ts{time_t(ns / 1000000000u), long(ns % 1000000000u)};
    futex(&b->seq, FUTEX_WAIT, seq, &ts);
}

void fence_all_threads() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!own().ringers_must_fence) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

uint32_t announce(bell* b) {
    __atomic_fetch_add(&b->sleepers, 1, __ATOMIC_SEQ_CST);
    fence_all_threads();
    return __atomic_load_n(&b->seq, __ATOMIC_ACQUIRE);
}

void withdraw(bell* b) { __atomic_fetch_sub(&b->sleepers, 1, __ATOMIC_SEQ_CST); }

void ring(bell* b) {
    __atomic_fetch_add(&b->seq, 1, __ATOMIC_SEQ_CST);
    futex(&b->seq, FUTEX_WAKE, INT_MAX, nullptr);
}

inline void cpu_relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    asm volatile("yield");
#endif
}

inline uint64_t ticks() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t v;
    asm volatile("mrs %0, cntvct_el0" : "=r"(v));
    return v;
#endif
}

// Waiters on threads that run no block.
struct host_waiter {
    uint32_t steps = 0;
    uint64_t last = 0;
};
__thread host_waiter host_wait;

void host_pause() {
    constexpr uint64_t same_wait_ticks = 100000;  // a longer gap means that the caller did something else in between
    host_waiter& h = host_wait;
    if (ticks() - h.last > same_wait_ticks) h.steps = 0;
    uint32_t spins = spin_limit();
    if (h.steps < spins) {
        cpu_relax();
    } else if (h.steps < spins + yields) {
        sched_yield();
    } else {
        bell* b = own().page;
        sleep_on(b, announce(b), blind_nap_ns);
        withdraw(b);
    }
    h.steps++;
    h.last = ticks();
}

}  // namespace

uint32_t spin_limit() {
    if (options().spin) return options().spin;
    static const uint32_t cores = uint32_t(get_nprocs());
    return options().local_pes * 2 <= cores ? 64 : 5;
}

void idle_step(idle_state* s, uint32_t spins) {
    bell* b = own().page;
    if (s->steps < spins) {
        cpu_relax();
    } else if (s->steps < spins + yields) {
        sched_yield();
    } else if (!s->armed) {
        s->seq = announce(b);  // the next round of turns is the second look at every condition
        s->armed = true;
        return;
    } else {
        sleep_on(b, s->seq, nap_ns);
        withdraw(b);
        s->armed = false;
        return;
    }
    s->steps++;
}

void idle_end(idle_state* s) {
    s->steps = 0;
    if (!s->armed) return;
    s->armed = false;
    withdraw(own().page);
}

void progress(block_thread* t) {
    t->pauses = t->forced = 0;
    if (t->idle.steps) idle_end(&t->idle);
}

}  // namespace softgpu

using namespace softgpu;

void simt_pause(void) {
    block_thread* t = this_block;
    if (!t || !t->on_lane) {
        host_pause();
        return;
    }
    check_stop(t);
    if (++t->pauses >= t->runnable) {
        t->pauses = 0;
        idle_step(&t->idle, spin_limit());
    }
    simt_trace_budget = options().trace_budget;
    switch_next(t);
    check_stop(t);
}

void simt_notify(void) {
    block_thread* t = this_block;
    if (t)
        progress(t);
    else
        host_wait.steps = 0;
    if (notify_fences)
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&notify_bell->sleepers, __ATOMIC_RELAXED)) ring(notify_bell);
}

void simt_bell_ring(void* other) {
    if (!other) return;
    auto* b = static_cast<bell*>(other);
    if (this_block) progress(this_block);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&b->sleepers, __ATOMIC_RELAXED)) ring(b);
}

int softgpu_bell_fd(void) { return own().fd; }
void* softgpu_bell(void) { return own().page; }

int softgpu_bell_wait(void* on, int (*ready)(void*), void* ctx, uint64_t timeout_ns) {
    auto* b = static_cast<bell*>(on);
    uint64_t end = simt_globaltimer() + timeout_ns;
    for (;;) {
        uint32_t seq = announce(b);
        int r = ready(ctx);
        uint64_t now = simt_globaltimer();
        if (!r && now < end) sleep_on(b, seq, end - now < nap_ns ? end - now : nap_ns);
        withdraw(b);
        if (r || now >= end) return r;
    }
}

uint64_t simt_globaltimer(void) {
    timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return uint64_t(ts.tv_sec) * 1000000000u + uint64_t(ts.tv_nsec);
}

uint64_t simt_clock64(void) { return ticks(); }

void simt_nanosleep(uint32_t) { simt_pause(); }
