// One thread per HCA that sleeps in poll: timers of stalled queue pairs, the wire's sockets, and queue pairs that a
// peer moved to ERR. It executes queue pairs only through the engine.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "hca.h"

namespace pgas::softhca {

class Service {
  public:
    explicit Service(Hca& hca);
    ~Service();
    bool start();  // false: no descriptor or thread
    void stop();
    // Rings the queue pair's engine at `due`.
    void arm(uint32_t qp_index, Clock::time_point due);
    // Connects the queue pair if its link is gone.
    void reconnect(uint32_t qp_index);
    void kick();
    int kick_fd() const { return kick_fd_; }

  private:
    void loop();
    void run_timers();
    void run_reconnects();
    int64_t ns_to_next();

    Hca& hca_;
    int kick_fd_ = -1;
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    std::set<std::pair<Clock::time_point, uint32_t>> timers_;
    std::set<uint32_t> reconnects_;
    std::thread thread_;
};

}  // namespace pgas::softhca
