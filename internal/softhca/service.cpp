#include "service.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine.h"
#include "wire_shm.h"

namespace pgas::softhca {

Service::Service(Hca& hca) : hca_(hca) {}

Service::~Service() { stop(); }

bool Service::start() {
    kick_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (kick_fd_ < 0) return false;
    // Signals are for the program's own threads.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool ok = true;
    try {
        thread_ = std::thread([this] { loop(); });
    } catch (const std::system_error&) {
        ok = false;
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    return ok;
}

void Service::stop() {
    if (thread_.joinable()) {
        stopping_.store(true);
        kick();
        thread_.join();
    }
    if (kick_fd_ >= 0) close(kick_fd_);
    kick_fd_ = -1;
}

void Service::kick() {
    const uint64_t one = 1;
    // A full counter means that the thread has been woken already.
    [[maybe_unused]] const ssize_t n = write(kick_fd_, &one, sizeof one);
}

void Service::arm(uint32_t qp_index, Clock::time_point due) {
    bool first = false;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto at = timers_.insert({due, qp_index}).first;
        first = at == timers_.begin();
    }
    if (first) kick();
}

void Service::reconnect(uint32_t qp_index) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        reconnects_.insert(qp_index);
    }
    kick();
}

int64_t Service::ns_to_next() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (timers_.empty()) return -1;
    const auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(timers_.begin()->first - Clock::now()).count();
    return left < 0 ? 0 : left;
}

void Service::run_timers() {
    for (;;) {
        uint32_t index = 0;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (timers_.empty() || timers_.begin()->first > Clock::now()) return;
            index = timers_.begin()->second;
            timers_.erase(timers_.begin());
        }
        if (Qp* qp = hca_.at(index)) hca_.engine().ring(*qp, -1);
    }
}

void Service::run_reconnects() {
    std::set<uint32_t> todo;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        todo.swap(reconnects_);
    }
    for (uint32_t index : todo) hca_.try_link(index);
}

void Service::loop() {
    std::vector<pollfd> fds;
    while (!stopping_.load()) {
        fds.assign(1, pollfd{kick_fd_, POLLIN, 0});
        hca_.wire().add_descriptors(&fds);
        const int64_t ns = ns_to_next();
        const timespec ts = {ns / 1000000000, ns % 1000000000};
        const int n = ppoll(fds.data(), fds.size(), ns < 0 ? nullptr : &ts, nullptr);
        if (stopping_.load()) return;
        if (n > 0 && fds[0].revents != 0) {
            uint64_t count = 0;
            [[maybe_unused]] const ssize_t got = read(kick_fd_, &count, sizeof count);
        }
        if (n > 0) hca_.wire().handle(fds);
        if (hca_.shared()->dirty.exchange(0, std::memory_order_acquire) != 0) hca_.flush_failed();
        run_reconnects();
        run_timers();
    }
}

}  // namespace pgas::softhca
