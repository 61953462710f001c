// Streams and events.
#ifndef PGAS_SOFTGPU_STREAM_H
#define PGAS_SOFTGPU_STREAM_H

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <pthread.h>

#include "cuda_api.h"

namespace softgpu {

struct block_thread;
struct launch;
struct stream;

// A place in a stream: reached when the operation with that number is done.
struct stream_point {
    std::shared_ptr<stream> in;
    uint64_t number = 0;
};

struct stream_op {
    std::function<void(stream&)> run;
    std::vector<stream_point> after;
    bool always = false;  // also after an error: waiters depend on it
};

struct stream {
    unsigned flags = 0;
    std::mutex m;
    std::condition_variable work, done;
    std::deque<stream_op> ops;
    uint64_t enqueued = 0, completed = 0;
    bool closing = false;
    launch* running = nullptr;  // guarded by m
    pthread_t thread{};
    bool exited = false;
    block_thread* block = nullptr;  // made at the first launch

    void wait(uint64_t number);
    bool idle();
};

struct event {
    unsigned flags = 0;
    std::mutex m;
    stream_point at;    // of the latest record
    uint64_t time = 0;  // ns, of that record, once reached
};

void start_streams();
void shutdown_streams();  // ends running kernels, drops waiting work, joins all threads
bool shutting_down();
void wait_for_all_streams();
uint32_t stream_count(), stream_threads(), event_count();
void drop_all_events();

// Finds a live stream; the special handles name the default stream.
std::shared_ptr<stream> find_stream(CUstream s);
// Adds work and returns its place; with legacy ordering between the default stream and blocking streams.
stream_point enqueue(const std::shared_ptr<stream>& s, stream_op op);
// Runs f at once if that is the same as enqueueing it on the default stream and waiting; else does that.
void run_synchronous(std::function<void()> f);

// Runs a launch in a stream's thread; sets the sticky error when it fails.
void run_in_stream(stream& s, launch* job);

}  // namespace softgpu

#endif
