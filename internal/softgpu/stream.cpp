// A thread per stream works off its operations. The default stream has CUDA's legacy meaning: it waits for the work of
// all blocking streams and they wait for it.
#include "stream.h"

#include <atomic>
#include <map>

#include "device.h"
#include "impl.h"
#include "pool.h"
#include "simt.h"

namespace softgpu {
namespace {

constexpr size_t stream_stack = 512 << 10;

struct stream_set {
    std::mutex m;  // also makes the capture of dependencies and the enqueueing one step
    std::map<stream*, std::shared_ptr<stream>> live;
    std::vector<std::shared_ptr<stream>> leaving;  // destroyed, thread not yet joined
    std::shared_ptr<stream> null_stream;
    std::atomic<bool> down{false};
    std::atomic<uint32_t> threads{0};
};

stream_set& set() {
    static auto* s = new stream_set;  // never destroyed: threads may outlive static destructors
    return *s;
}

void work_off(stream* s) {
    signal_stack alternate;
    std::unique_lock<std::mutex> hold(s->m);
    for (;;) {
        s->work.wait(hold, [s] { return !s->ops.empty() || s->closing; });
        if (s->ops.empty()) break;
        stream_op op = std::move(s->ops.front());
        s->ops.pop_front();
        hold.unlock();
        for (stream_point& p : op.after) p.in->wait(p.number);
        if (op.always || (!sticky_error() && !shutting_down())) op.run(*s);
        op = {};
        hold.lock();
        s->completed++;
        s->done.notify_all();
    }
    hold.unlock();
    block_thread_destroy(s->block);
    s->block = nullptr;
    hold.lock();
    s->exited = true;
    s->done.notify_all();
}

void* stream_main(void* arg) {
    work_off(static_cast<stream*>(arg));
    return nullptr;
}

int start(const std::shared_ptr<stream>& s) {
    if (!start_thread(&s->thread, stream_main, s.get(), stream_stack)) return CUDA_ERROR_OUT_OF_MEMORY;
    set().threads++;
    return CUDA_SUCCESS;
}

void join(const std::shared_ptr<stream>& s) {
    pthread_join(s->thread, nullptr);
    set().threads--;
}

// Joins destroyed streams whose threads have come to their end; all of them if wait is set.
void reap(bool wait) {
    std::vector<std::shared_ptr<stream>> ready;
    {
        std::lock_guard<std::mutex> hold(set().m);
        auto& leaving = set().leaving;
        for (size_t i = 0; i < leaving.size();) {
            std::unique_lock<std::mutex> one(leaving[i]->m);
            bool take = wait || leaving[i]->exited;
            one.unlock();
            if (!take) {
                i++;
                continue;
            }
            ready.push_back(leaving[i]);
            leaving.erase(leaving.begin() + long(i));
        }
    }
    for (auto& s : ready) join(s);
}

void close_stream(const std::shared_ptr<stream>& s) {
    std::lock_guard<std::mutex> hold(s->m);
    s->closing = true;
    s->work.notify_all();
}

std::shared_ptr<stream> make_null_stream_locked() {
    stream_set& all = set();
    if (!all.null_stream) {
        auto s = std::make_shared<stream>();
        if (start(s)) return nullptr;
        all.null_stream = s;
    }
    return all.null_stream;
}

stream_point tail(const std::shared_ptr<stream>& s) {
    std::lock_guard<std::mutex> hold(s->m);
    return {s, s->enqueued};
}

void add_legacy_order_locked(const std::shared_ptr<stream>& s, stream_op* op) {
    stream_set& all = set();
    auto add = [op](const std::shared_ptr<stream>& other) {
        if (!other->idle()) op->after.push_back(tail(other));
    };
    if (s == all.null_stream) {
        for (auto& [key, other] : all.live)
            if (!(other->flags & CU_STREAM_NON_BLOCKING)) add(other);
    } else if (!(s->flags & CU_STREAM_NON_BLOCKING) && all.null_stream) {
        add(all.null_stream);
    }
}

std::vector<stream_point> all_tails() {
    stream_set& all = set();
    std::lock_guard<std::mutex> hold(all.m);
    std::vector<stream_point> points;
    for (auto& [key, s] : all.live) points.push_back(tail(s));
    for (auto& s : all.leaving) points.push_back(tail(s));
    if (all.null_stream) points.push_back(tail(all.null_stream));
    return points;
}

}  // namespace

void stream::wait(uint64_t number) {
    std::unique_lock<std::mutex> hold(m);
    done.wait(hold, [&] { return completed >= number; });
}

bool stream::idle() {
    std::lock_guard<std::mutex> hold(m);
    return completed == enqueued;
}

void start_streams() { set().down = false; }
bool shutting_down() { return set().down.load(std::memory_order_relaxed); }
uint32_t stream_threads() { return set().threads.load(); }

uint32_t stream_count() {
    std::lock_guard<std::mutex> hold(set().m);
    return uint32_t(set().live.size());
}

void shutdown_streams() {
    stream_set& all = set();
    all.down = true;
    std::vector<std::shared_ptr<stream>> streams;
    {
        std::lock_guard<std::mutex> hold(all.m);
        for (auto& [key, s] : all.live) all.leaving.push_back(s);
        all.live.clear();
        if (all.null_stream) all.leaving.push_back(all.null_stream);
        all.null_stream = nullptr;
        streams = all.leaving;
    }
    for (auto& s : streams) {
        std::lock_guard<std::mutex> hold(s->m);
        int none = 0;
        if (s->running) s->running->error.compare_exchange_strong(none, CUDA_ERROR_DEINITIALIZED);
        s->closing = true;
        s->work.notify_all();
    }
    reap(true);
}

void wait_for_all_streams() {
    for (stream_point& p : all_tails()) p.in->wait(p.number);
}

std::shared_ptr<stream> find_stream(CUstream handle) {
    stream_set& all = set();
    std::lock_guard<std::mutex> hold(all.m);
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) return make_null_stream_locked();
    auto it = all.live.find(reinterpret_cast<stream*>(handle));
    return it == all.live.end() ? nullptr : it->second;
}

stream_point enqueue(const std::shared_ptr<stream>& s, stream_op op) {
    std::lock_guard<std::mutex> all(set().m);
    add_legacy_order_locked(s, &op);
    std::lock_guard<std::mutex> hold(s->m);
    s->ops.push_back(std::move(op));
    s->work.notify_one();
    return {s, ++s->enqueued};
}

void run_synchronous(std::function<void()> f) {
    stream_set& all = set();
    std::shared_ptr<stream> null_stream;
    {
        std::lock_guard<std::mutex> hold(all.m);
        bool idle = !all.null_stream || all.null_stream->idle();
        for (auto& [key, s] : all.live) idle = idle && ((s->flags & CU_STREAM_NON_BLOCKING) || s->idle());
        if (!idle) null_stream = make_null_stream_locked();
    }
    if (!null_stream) {
        f();
        return;
    }
    stream_point p = enqueue(null_stream, {[f](stream&) { f(); }, {}, false});
    p.in->wait(p.number);
}

void run_in_stream(stream& s, launch* job) {
    if (!s.block) s.block = block_thread_create();
    int r = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (s.block) {
        {
            std::lock_guard<std::mutex> hold(s.m);
            s.running = job;
        }
        if (shutting_down()) job->error = CUDA_ERROR_DEINITIALIZED;
        r = run_launch(s.block, job);
        std::lock_guard<std::mutex> hold(s.m);
        s.running = nullptr;
    }
    if (r && r != CUDA_ERROR_DEINITIALIZED) set_sticky(r);
}

namespace impl {

CUresult cuStreamCreate(CUstream* out, unsigned flags) {
    if (!out || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    reap(false);
    auto s = std::make_shared<stream>();
    s->flags = flags;
    int r = start(s);
    if (r) return r;
    std::lock_guard<std::mutex> hold(set().m);
    set().live[s.get()] = s;
    *out = reinterpret_cast<CUstream>(s.get());
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream handle) {
    std::shared_ptr<stream> s;
    {
        std::lock_guard<std::mutex> hold(set().m);
        auto it = set().live.find(reinterpret_cast<stream*>(handle));
        if (it == set().live.end()) return CUDA_ERROR_INVALID_HANDLE;
        s = it->second;
        set().live.erase(it);
        set().leaving.push_back(s);
    }
    close_stream(s);
    reap(false);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
    auto s = find_stream(handle);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    s->wait(tail(s).number);
    return sticky_error();
}

CUresult cuStreamQuery(CUstream handle) {
    auto s = find_stream(handle);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!s->idle()) return CUDA_ERROR_NOT_READY;
    return sticky_error();
}

}  // namespace impl
}  // namespace softgpu
