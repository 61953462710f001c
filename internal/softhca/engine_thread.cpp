// Thread: one engine thread per HCA, fed by a ring of queue pairs that were rung.
//
// The ring is relaxed on purpose. Hardware orders nothing by the doorbell but what the doorbell record releases, and
// ThreadSanitizer shall see exactly that.
#include <signal.h>

#include <thread>

#include "engine.h"
#include "idle.h"
#include "requester.h"

namespace pgas::softhca {
namespace {

class ThreadEngine : public Engine {
  public:
    explicit ThreadEngine(Hca& hca) : hca_(hca), ring_(new std::atomic<uint32_t>[max_qps]) {
        for (uint32_t i = 0; i < max_qps; i++) ring_[i].store(0, std::memory_order_relaxed);
        sigset_t all, old;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        thread_ = std::thread([this] { loop(); });
        pthread_sigmask(SIG_SETMASK, &old, nullptr);
    }

    ~ThreadEngine() override { stop(); }

    void stop() override {
        if (!thread_.joinable()) return;
        stopping_.store(true);
        doze_.wake();
        thread_.join();
    }

    // A queue pair is in the ring at most once, so the ring cannot overflow.
    void ring(Qp& qp, int32_t) override {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (qp.queued.exchange(1, std::memory_order_relaxed) != 0) return;
        const uint32_t slot = tail_.fetch_add(1, std::memory_order_relaxed) & (max_qps - 1);
        ring_[slot].store(qp.index + 1, std::memory_order_relaxed);
        doze_.wake();
    }

  private:
    void loop() {
        uint32_t head = 0;
        while (!stopping_.load(std::memory_order_relaxed)) {
            std::atomic<uint32_t>& slot = ring_[head & (max_qps - 1)];
            const uint32_t index = slot.load(std::memory_order_relaxed);
            if (index == 0) {
                bool slept = false;
                doze_.wait([&] { return slot.load(std::memory_order_relaxed) != 0 || stopping_.load(); }, &slept);
                if (slept) hca_.counters().add(count_engine_sleeps);
                continue;
            }
            slot.store(0, std::memory_order_relaxed);
            head++;
            Qp* qp = hca_.at(index - 1);
            qp->queued.store(0, std::memory_order_relaxed);
            std::atomic_thread_fence(std::memory_order_seq_cst);
            run_combined(hca_, *qp, effects_);
        }
    }

    Hca& hca_;
    std::unique_ptr<std::atomic<uint32_t>[]> ring_;
    std::atomic<uint32_t> tail_{0};
    std::atomic<bool> stopping_{false};
    Doze doze_;
    Effects effects_;
    std::thread thread_;
};

}  // namespace

std::unique_ptr<Engine> make_thread_engine(Hca& hca) { return std::make_unique<ThreadEngine>(hca); }

}  // namespace pgas::softhca
