// Inline: the doorbell store executes the queue pair on the thread that rang.
#include "engine.h"
#include "requester.h"

namespace pgas::softhca {
namespace {

constexpr int burst = 16;  // WQEs between two looks at commands that wait for the queue pair

void run_owned(Hca& hca, Qp& qp, Effects& effects) {
    for (;;) {
        qp.pending.store(0, std::memory_order_seq_cst);
        begin_burst(qp);
        Step s = Step::executed;
        for (int i = 0; i < burst && s == Step::executed; i++) s = step(hca, qp, effects);
        end_burst(hca, qp);
        if (s != Step::executed || qp.commands_waiting.load(std::memory_order_relaxed) != 0) return;
    }
}

class InlineEngine : public Engine {
  public:
    explicit InlineEngine(Hca& hca) : hca_(hca) {}
    void ring(Qp& qp, int32_t) override { run_combined(hca_, qp, effects_); }

  private:
    Hca& hca_;
    Effects effects_;
};

}  // namespace

void run_combined(Hca& hca, Qp& qp, Effects& effects) {
    for (;;) {
        if (!try_own(qp)) {
            // Leave word, then try once more: the holder looks for word after it let go.
            qp.pending.store(1, std::memory_order_seq_cst);
            uint32_t free = 0;
            if (!qp.owner.compare_exchange_strong(free, 1, std::memory_order_seq_cst)) return;
        }
        run_owned(hca, qp, effects);
        qp.owner.exchange(0, std::memory_order_seq_cst);
        // A command that waits rings the engine when it is done.
        if (qp.commands_waiting.load(std::memory_order_seq_cst) != 0) return;
        if (qp.pending.load(std::memory_order_seq_cst) == 0) return;
    }
}

std::unique_ptr<Engine> make_inline_engine(Hca& hca) { return std::make_unique<InlineEngine>(hca); }

}  // namespace pgas::softhca
