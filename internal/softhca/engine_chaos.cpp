// Chaos: an engine thread that does everything hardware may do, at random from a seed. It works on the queue pairs in
// random order; splits the payload of a WRITE and lands the pieces in any order; lets unfenced later WQEs go ahead of
// the results of READs and atomics; delays completions; forgets a doorbell when a later one followed; and goes by the
// doorbell's value or by the record. What RC and the fences promise it keeps.
#include <signal.h>

#include <algorithm>
#include <random>
#include <thread>

#include "chaos.h"
#include "engine.h"
#include "idle.h"
#include "place.h"

namespace pgas::softhca {
namespace {

constexpr size_t max_flights = 16;

// Queues effects on the newest WQE in flight.
class ChaosEffects : public Effects {
  public:
    ChaosEffects(Config& config, std::mt19937_64& random) : config_(config), random_(random) {}

    void write(Qp& qp, uint8_t* dst, const Iov* from, uint32_t n, bool relaxed) override {
        InFlight& f = qp.chaos->flights.back();
        f.relaxed = relaxed;
        for (uint32_t i = 0; i < n; i++) {
            const uint8_t* src = from[i].base;
            if (from[i].transient) {
                f.copies.emplace_back(src, src + from[i].length);
                src = f.copies.back().data();
            }
            split(f, dst, src, from[i].length);
            dst += from[i].length;
        }
        std::shuffle(f.chunks.begin(), f.chunks.end(), random_);
    }

    // The responder may fetch a READ's bytes while it already executes later WRITEs: without a fence a READ may return
    // what they wrote (IBA ordering rules, RDMA READ followed by RDMA WRITE).
    void read(Qp& qp, const Iov* to, uint32_t n, const uint8_t* src) override {
        InFlight& f = expect(qp, to, n);
        if (random_() % 2 == 0) {
            f.unread = src;
        } else {
            place(f.result.data(), src, f.result.size());
        }
    }

    // An atomic's old value was taken when it executed.
    void result(Qp& qp, const Iov* to, uint32_t n, const uint8_t* bytes) override {
        InFlight& f = expect(qp, to, n);
        place(f.result.data(), bytes, f.result.size());
    }

    void complete(Qp& qp, const Completion& c) override {
        qp.chaos->flights.back().completed = true;
        qp.chaos->flights.back().completion = c;
    }

    void settle(Qp& qp) override {
        for (InFlight& f : qp.chaos->flights) {
            while (!f.chunks.empty()) land(qp, f);
        }
    }

    static void land(Qp& qp, InFlight& f) {
        const Chunk c = f.chunks.back();
        f.chunks.pop_back();
        place(c.dst, c.src, c.length);
        qp.link_bell = true;
    }

    static void deliver(Qp& qp, InFlight& f) {
        if (f.unread != nullptr) place(f.result.data(), f.unread, f.result.size());
        Effects now;
        now.read(qp, f.to.data(), static_cast<uint32_t>(f.to.size()), f.result.data());
        f.has_result = false;
    }

  private:
    static InFlight& expect(Qp& qp, const Iov* to, uint32_t n) {
        InFlight& f = qp.chaos->flights.back();
        f.has_result = true;
        f.to.assign(to, to + n);
        uint64_t total = 0;
        for (uint32_t i = 0; i < n; i++) total += to[i].length;
        f.result.resize(total);
        return f;
    }

    // Cuts at multiples of 8 bytes of the target: aligned words stay whole.
    void split(InFlight& f, uint8_t* dst, const uint8_t* src, size_t n) {
        size_t pieces = 1 + random_() % config_.chaos_split;
        while (pieces-- > 1 && n > 16) {
            size_t cut = 1 + random_() % (n - 1);
            cut -= std::min<size_t>(cut, (reinterpret_cast<uintptr_t>(dst) + cut) & 7);
            if (cut == 0) continue;
            f.chunks.push_back({dst, src, cut});
            dst += cut;
            src += cut;
            n -= cut;
        }
        if (n > 0) f.chunks.push_back({dst, src, n});
    }

    Config& config_;
    std::mt19937_64& random_;
};

class ChaosEngine : public Engine {
  public:
    explicit ChaosEngine(Hca& hca)
        : hca_(hca),
          ring_(new std::atomic<uint32_t>[max_qps]),
          random_(hca.config().seed),
          effects_(hca.config(), random_) {
        for (uint32_t i = 0; i < max_qps; i++) ring_[i].store(0, std::memory_order_relaxed);
        sigset_t all, old;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        thread_ = std::thread([this] { loop(); });
        pthread_sigmask(SIG_SETMASK, &old, nullptr);
    }

    ~ChaosEngine() override { stop(); }

    void stop() override {
        if (!thread_.joinable()) return;
        stopping_.store(true);
        doze_.wake();
        thread_.join();
    }

    void ring(Qp& qp, int32_t doorbell) override {
        qp.last_doorbell.store(doorbell, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (qp.queued.exchange(1, std::memory_order_relaxed) != 0) {
            if (doorbell >= 0) hca_.counters().add(count_doorbells_dropped);
            return;
        }
        const uint32_t slot = tail_.fetch_add(1, std::memory_order_relaxed) & (max_qps - 1);
        ring_[slot].store(qp.index + 1, std::memory_order_relaxed);
        doze_.wake();
    }

    // The caller holds the queue pair: everything in flight happens now.
    void settle(Qp& qp) override {
        if (qp.chaos == nullptr) return;
        effects_.settle(qp);
        for (InFlight& f : qp.chaos->flights) {
            if (f.has_result) ChaosEffects::deliver(qp, f);
        }
        while (!qp.chaos->flights.empty()) retire(qp);
        close(qp);
    }

  private:
    void loop() {
        while (!stopping_.load(std::memory_order_relaxed)) {
            take_rung();
            if (active_.empty()) {
                bool slept = false;
                doze_.wait([&] { return rung() || stopping_.load(); }, &slept);
                if (slept) hca_.counters().add(count_engine_sleeps);
                continue;
            }
            const size_t i = random_() % active_.size();
            if (Clock::now() < active_[i]->chaos->not_before) {
                rest();
            } else if (!visit(*active_[i])) {
                active_[i] = active_.back();
                active_.pop_back();
            }
        }
    }

    bool rung() { return ring_[head_ & (max_qps - 1)].load(std::memory_order_relaxed) != 0; }

    void take_rung() {
        while (rung()) {
            std::atomic<uint32_t>& slot = ring_[head_++ & (max_qps - 1)];
            Qp* qp = hca_.at(slot.load(std::memory_order_relaxed) - 1);
            slot.store(0, std::memory_order_relaxed);
            if (hca_.config().chaos_drop_doorbells && random_() % 4 == 0) pause_for(5);  // a later one may follow
            qp->queued.store(0, std::memory_order_relaxed);
            std::atomic_thread_fence(std::memory_order_seq_cst);
            const int32_t value = qp->last_doorbell.load(std::memory_order_relaxed);
            if (qp->chaos == nullptr) qp->chaos = std::make_unique<ChaosQueue>();
            qp->chaos->has_limit = value >= 0 && random_() % 2 == 0;
            qp->chaos->limit = static_cast<uint16_t>(value);
            if (std::find(active_.begin(), active_.end(), qp) == active_.end()) active_.push_back(qp);
        }
    }

    void pause_for(uint64_t us) {
        const timespec ts = {0, static_cast<long>(us * 1000)};
        nanosleep(&ts, nullptr);
    }

    // Sleeps until some active queue pair may be visited.
    void rest() {
        auto first = Clock::time_point::max();
        for (Qp* qp : active_) first = std::min(first, qp->chaos->not_before);
        const auto us = std::chrono::duration_cast<std::chrono::microseconds>(first - Clock::now()).count();
        if (us > 0) pause_for(static_cast<uint64_t>(std::min<int64_t>(us, 200)));
    }

    // One random action. False when the queue pair has nothing left to do.
    bool visit(Qp& qp) {
        if (qp.commands_waiting.load(std::memory_order_seq_cst) != 0 || !try_own(qp)) {
            sched_yield();
            return true;
        }
        const bool more = act(qp);
        qp.owner.exchange(0, std::memory_order_seq_cst);
        if (more && hca_.config().chaos_delay_us != 0 && random_() % 8 == 0) {
            qp.chaos->not_before =
                Clock::now() + std::chrono::microseconds(random_() % (hca_.config().chaos_delay_us + 1));
        }
        return more;
    }

    bool act(Qp& qp) {
        ChaosQueue& q = *qp.chaos;
        bool can_start = qp.qpn.load(std::memory_order_relaxed) != 0 && may_start(qp);
        if (!can_start && q.flights.empty()) return false;
        if (!q.open) {
            begin_burst(qp);
            q.open = true;
        }
        if (!q.flights.empty() && (!can_start || random_() % 2 == 0)) {
            progress(qp);
            can_start = true;
        } else {
            can_start = start(qp);
        }
        ring_bells(hca_, qp);
        if (!q.flights.empty()) return true;
        close(qp);
        return can_start;
    }

    // Do RC's order and the fences let the next WQE start now?
    bool may_start(Qp& qp) {
        ChaosQueue& q = *qp.chaos;
        if (q.flights.size() >= max_flights) return false;
        const bool error =
            qp.shared->state.load(std::memory_order_relaxed) == static_cast<uint32_t>(prm::qp_state::err);
        if (q.has_limit && !error && static_cast<int16_t>(q.limit - qp.next) <= 0) return false;
        size_t strict = 0, chunks = 0, results = 0;
        for (const InFlight& f : q.flights) {
            strict += f.relaxed ? 0 : f.chunks.size();
            chunks += f.chunks.size();
            results += f.has_result;
        }
        if (strict != 0) return false;
        prm::fence_mode fence;
        prm::opcode opcode;
        if (!peek(qp, &fence, &opcode)) return waiting(qp) != 0 || error;
        if (fence == prm::fence_mode::strong_ordering) return q.flights.empty();
        if (fence >= prm::fence_mode::fence && results != 0) return false;
        if (opcode == prm::opcode::rdma_write || opcode == prm::opcode::nop) return true;
        if (chunks != 0) return false;
        const bool fetches = opcode == prm::opcode::rdma_read ||
                             (opcode >= prm::opcode::atomic_cs && opcode <= prm::opcode::atomic_masked_fa);
        return !fetches || results < 1u << qp.log_sra_max;
    }

    // Executes one WQE. False when there is none, or it must wait.
    bool start(Qp& qp) {
        qp.chaos->flights.emplace_back();
        if (step(hca_, qp, effects_) == Step::executed) return true;
        qp.chaos->flights.pop_back();
        return false;
    }

    // Moves something that is in flight.
    void progress(Qp& qp) {
        auto& flights = qp.chaos->flights;
        const size_t from = random_() % flights.size();
        for (size_t i = 0; i < flights.size(); i++) {
            InFlight& f = flights[(from + i) % flights.size()];
            if (f.chunks.empty()) continue;
            return ChaosEffects::land(qp, f);
        }
        // Responses come in the order of the requests.
        for (InFlight& f : flights) {
            if (f.has_result && random_() % 2 == 0) return ChaosEffects::deliver(qp, f);
            if (f.has_result) break;
        }
        if (!flights.front().has_result) retire(qp);
    }

    void retire(Qp& qp) {
        const Completion c = qp.chaos->flights.front().completion;
        qp.chaos->flights.pop_front();
        Effects now;
        now.complete(qp, c);
    }

    void close(Qp& qp) {
        if (!qp.chaos->open) return;
        qp.chaos->open = false;
        end_burst(hca_, qp);
    }

    Hca& hca_;
    std::unique_ptr<std::atomic<uint32_t>[]> ring_;
    std::atomic<uint32_t> tail_{0};
    uint32_t head_ = 0;
    std::atomic<bool> stopping_{false};
    Doze doze_;
    std::mt19937_64 random_;
    ChaosEffects effects_;
    std::vector<Qp*> active_;
    std::thread thread_;
};

}  // namespace

std::unique_ptr<Engine> make_chaos_engine(Hca& hca) { return std::make_unique<ChaosEngine>(hca); }

}  // namespace pgas::softhca
