// How a thread waits for work: a short spin, a few yields, then sleep on a futex. Pure spinning is ten thousand times
// slower as soon as there are more threads than cores.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace pgas::softhca {

inline void cpu_pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

inline void futex_wait(std::atomic<uint32_t>* word, uint32_t value, const timespec* timeout, bool shared) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, value, timeout,
            nullptr, 0);
}

inline void futex_wake(std::atomic<uint32_t>* word, int count, bool shared) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, count, nullptr,
            nullptr, 0);
}

// The sleeping place of one engine thread.
class Doze {
  public:
    // Producer: after publishing work.
    void wake() {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (asleep_.load(std::memory_order_relaxed) == 0) return;
        asleep_.store(0, std::memory_order_relaxed);
        futex_wake(&asleep_, 1, false);
    }

    // Consumer: returns when ready() may be true or after at most one second.
    template <typename Ready>
    void wait(Ready ready, bool* slept) {
        static const int pauses = sysconf(_SC_NPROCESSORS_ONLN) > 2 ? 64 : 5;
        for (int i = 0; i < pauses; i++) {
            if (ready()) return;
            cpu_pause();
        }
        for (int i = 0; i < 20; i++) {
            if (ready()) return;
            sched_yield();
        }
        asleep_.store(1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (!ready()) {
            *slept = true;
            const timespec belt = {1, 0};
            futex_wait(&asleep_, 1, &belt, false);
        }
        asleep_.store(0, std::memory_order_relaxed);
    }

  private:
    std::atomic<uint32_t> asleep_{0};
};

}  // namespace pgas::softhca
