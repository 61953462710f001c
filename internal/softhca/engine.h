// The three ways to drive a queue pair, over one state machine (requester.h).
#pragma once

#include <memory>

#include "hca.h"

namespace pgas::softhca {

class Engine {
  public:
    virtual ~Engine() = default;
    // The queue pair may have work. Never blocks on another engine. doorbell is the index of a doorbell, or -1.
    virtual void ring(Qp& qp, int32_t doorbell) = 0;
    // Finishes what is queued for a queue pair that its caller holds: the state changes or memory goes away.
    virtual void settle(Qp& qp) { (void)qp; }
    virtual void stop() {}
};

std::unique_ptr<Engine> make_inline_engine(Hca& hca);
std::unique_ptr<Engine> make_thread_engine(Hca& hca);
std::unique_ptr<Engine> make_chaos_engine(Hca& hca);

// Runs a queue pair on this thread unless somebody runs it; then that one runs it again.
void run_combined(Hca& hca, Qp& qp, Effects& effects);

inline bool try_own(Qp& qp) {
    uint32_t free = 0;
    return qp.owner.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed);
}

}  // namespace pgas::softhca
