// Events, and the stream operations that are no launches: copies, sets, memory waits and writes, host functions.
#include <cstring>
#include <map>

#include "config.h"
#include "device.h"
#include "impl.h"
#include "memory.h"
#include "simt.h"
#include "stream.h"

namespace softgpu {
namespace {

struct event_set {
    std::mutex m;
    std::map<event*, std::shared_ptr<event>> live;
};

event_set& events() {
    static auto* s = new event_set;
    return *s;
}

std::shared_ptr<event> find_event(CUevent handle) {
    std::lock_guard<std::mutex> hold(events().m);
    auto it = events().live.find(reinterpret_cast<event*>(handle));
    return it == events().live.end() ? nullptr : it->second;
}

stream_point place_of(event& e) {
    std::lock_guard<std::mutex> hold(e.m);
    return e.at;
}

bool reached(const stream_point& p) {
    if (!p.in) return true;  // never recorded
    std::lock_guard<std::mutex> hold(p.in->m);
    return p.in->completed >= p.number;
}

struct word_wait {
    const uint64_t* word;
    uint64_t value;
    unsigned kind;
};

bool fulfilled(const word_wait& w) {
    uint64_t v = __atomic_load_n(w.word, __ATOMIC_ACQUIRE);
    switch (w.kind) {
        case CU_STREAM_WAIT_VALUE_GEQ:
            return int64_t(v - w.value) >= 0;
        case CU_STREAM_WAIT_VALUE_EQ:
            return v == w.value;
        default:
            return (v & w.value) != 0;
    }
}

int fulfilled_or_over(void* ctx) {
    return fulfilled(*static_cast<word_wait*>(ctx)) || sticky_error() || shutting_down();
}

bool memop_allowed(CUdeviceptr addr, int* error) {
    *error = !options().memops              ? CUDA_ERROR_NOT_SUPPORTED
             : addr % 8 || !covers(addr, 8) ? CUDA_ERROR_INVALID_VALUE
                                            : CUDA_SUCCESS;
    return *error == CUDA_SUCCESS;
}

void* at(CUdeviceptr p) { return reinterpret_cast<void*>(p); }

void copy_now(void* dst, const void* src, size_t bytes) {
    memmove(dst, src, bytes);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    simt_notify();
}

// The copy in stream order. Pageable host memory may change or go as soon as the call returns, so it is staged before
// (source) or waited for (destination), as CUDA does.
CUresult copy_async(CUstream handle, void* dst, const void* src, size_t bytes) {
    auto s = find_stream(handle);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!is_pinned(src, bytes)) {
        auto* from = static_cast<const char*>(src);
        auto staged = std::make_shared<std::vector<char>>(from, from + bytes);
        enqueue(s, {[=](stream&) { copy_now(dst, staged->data(), bytes); }, {}, false});
        return CUDA_SUCCESS;
    }
    stream_point p = enqueue(s, {[=](stream&) { copy_now(dst, src, bytes); }, {}, false});
    if (!is_pinned(dst, bytes)) {
        p.in->wait(p.number);
        return sticky_error();
    }
    return CUDA_SUCCESS;
}

CUresult copy_sync(void* dst, const void* src, size_t bytes) {
    run_synchronous([=] { copy_now(dst, src, bytes); });
    return sticky_error();
}

void set_now(void* dst, unsigned char value, size_t bytes) {
    memset(dst, value, bytes);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    simt_notify();
}

}  // namespace

uint32_t event_count() {
    std::lock_guard<std::mutex> hold(events().m);
    return uint32_t(events().live.size());
}

void drop_all_events() {
    std::lock_guard<std::mutex> hold(events().m);
    events().live.clear();
}

namespace impl {

CUresult cuEventCreate(CUevent* out, unsigned flags) {
    if (!out || (flags & ~3u)) return CUDA_ERROR_INVALID_VALUE;
    auto e = std::make_shared<event>();
    e->flags = flags;
    std::lock_guard<std::mutex> hold(events().m);
    events().live[e.get()] = e;
    *out = reinterpret_cast<CUevent>(e.get());
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent handle) {
    std::lock_guard<std::mutex> hold(events().m);
    return events().live.erase(reinterpret_cast<event*>(handle)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
    auto e = find_event(handle);
    auto s = find_stream(stream_handle);
    if (!e || !s) return CUDA_ERROR_INVALID_HANDLE;
    auto stamp = [e](stream&) {
        uint64_t now = simt_globaltimer();
        std::lock_guard<std::mutex> hold(e->m);
        e->time = now;
    };
    stream_point p = enqueue(s, {stamp, {}, true});
    std::lock_guard<std::mutex> hold(e->m);
    e->at = p;
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent handle) {
    auto e = find_event(handle);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    stream_point p = place_of(*e);
    if (p.in) p.in->wait(p.number);
    return sticky_error();
}

CUresult cuEventQuery(CUevent handle) {
    auto e = find_event(handle);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (!reached(place_of(*e))) return CUDA_ERROR_NOT_READY;
    return sticky_error();
}

CUresult cuEventElapsedTime(float* ms, CUevent start_handle, CUevent end_handle) {
    auto a = find_event(start_handle), b = find_event(end_handle);
    if (!ms) return CUDA_ERROR_INVALID_VALUE;
    if (!a || !b || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_HANDLE;
    stream_point pa = place_of(*a), pb = place_of(*b);
    if (!pa.in || !pb.in) return CUDA_ERROR_INVALID_HANDLE;
    if (!reached(pa) || !reached(pb)) return CUDA_ERROR_NOT_READY;
    std::lock_guard<std::mutex> ha(a->m);
    uint64_t ta = a->time, tb = ta;
    if (a != b) {
        std::lock_guard<std::mutex> hb(b->m);
        tb = b->time;
    }
    *ms = float(double(int64_t(tb - ta)) * 1e-6);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags) {
    auto e = find_event(handle);
    auto s = find_stream(stream_handle);
    if (!e || !s) return CUDA_ERROR_INVALID_HANDLE;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    stream_point p = place_of(*e);
    if (p.in && p.in != s) enqueue(s, {[](stream&) {}, {p}, false});
    return CUDA_SUCCESS;
}

CUresult cuStreamWriteValue64(CUstream handle, CUdeviceptr addr, cuuint64_t value, unsigned flags) {
    int error;
    auto s = find_stream(handle);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!memop_allowed(addr, &error)) return error;
    if (flags > CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) return CUDA_ERROR_INVALID_VALUE;
    enqueue(s, {[=](stream&) {
                    __atomic_store_n(static_cast<uint64_t*>(at(addr)), value, __ATOMIC_RELEASE);
                    simt_notify();
                },
                {},
                false});
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitValue64(CUstream handle, CUdeviceptr addr, cuuint64_t value, unsigned flags) {
    int error;
    auto s = find_stream(handle);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!memop_allowed(addr, &error)) return error;
    unsigned kind = flags & ~unsigned(CU_STREAM_WAIT_VALUE_FLUSH);
    if (kind == CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_NOT_SUPPORTED;
    if (kind > CU_STREAM_WAIT_VALUE_AND) return CUDA_ERROR_INVALID_VALUE;
    enqueue(s, {[=](stream&) {
                    word_wait w{static_cast<const uint64_t*>(at(addr)), value, kind};
                    while (!softgpu_bell_wait(softgpu_bell(), fulfilled_or_over, &w, 1000000000)) {
                    }
                },
                {},
                false});
    return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn fn, void* user) {
    auto s = find_stream(handle);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!fn) return CUDA_ERROR_INVALID_VALUE;
    enqueue(s, {[=](stream&) { fn(user); }, {}, false});
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr dst, const void* src, size_t bytes) {
    if (!covers(dst, bytes) || (bytes && !src)) return CUDA_ERROR_INVALID_VALUE;
    return copy_sync(at(dst), src, bytes);
}

CUresult cuMemcpyDtoH(void* dst, CUdeviceptr src, size_t bytes) {
    if (!covers(src, bytes) || (bytes && !dst)) return CUDA_ERROR_INVALID_VALUE;
    return copy_sync(dst, at(src), bytes);
}

CUresult cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
    if (!covers(dst, bytes) || !covers(src, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return copy_sync(at(dst), at(src), bytes);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void* src, size_t bytes, CUstream s) {
    if (!covers(dst, bytes) || (bytes && !src)) return CUDA_ERROR_INVALID_VALUE;
    return copy_async(s, at(dst), src, bytes);
}

CUresult cuMemcpyDtoHAsync(void* dst, CUdeviceptr src, size_t bytes, CUstream s) {
    if (!covers(src, bytes) || (bytes && !dst)) return CUDA_ERROR_INVALID_VALUE;
    return copy_async(s, dst, at(src), bytes);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream s) {
    if (!covers(dst, bytes) || !covers(src, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return copy_async(s, at(dst), at(src), bytes);
}

CUresult cuMemsetD8(CUdeviceptr dst, unsigned char value, size_t bytes) {
    if (!covers(dst, bytes)) return CUDA_ERROR_INVALID_VALUE;
    run_synchronous([=] { set_now(at(dst), value, bytes); });
    return sticky_error();
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream handle) {
    auto s = find_stream(handle);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!covers(dst, bytes)) return CUDA_ERROR_INVALID_VALUE;
    enqueue(s, {[=](stream&) { set_now(at(dst), value, bytes); }, {}, false});
    return CUDA_SUCCESS;
}

}  // namespace impl
}  // namespace softgpu
