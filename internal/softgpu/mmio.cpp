// Register ranges of software devices. Stores find their range without a lock, because lanes make them; a range goes
// away only when no store is in it.
#include <sched.h>

#include <mutex>

#include "simt.h"

namespace softgpu {
namespace {

struct mmio_range {
    std::atomic<uintptr_t> base{0};  // 0: free
    uintptr_t end = 0;
    void (*store)(void*, uint64_t, uint64_t) = nullptr;
    void* ctx = nullptr;
    std::atomic<uint32_t> running{0};
};

constexpr uint32_t max_ranges = 256;
mmio_range ranges[max_ranges];
std::atomic<uint32_t> used{0};  // ranges below this index may be in use
std::mutex change;

mmio_range* enter(uintptr_t addr) {
    uint32_t n = used.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        mmio_range& r = ranges[i];
        uintptr_t base = r.base.load(std::memory_order_acquire);
        if (!base || addr < base) continue;
        r.running.fetch_add(1, std::memory_order_seq_cst);
        if (r.base.load(std::memory_order_seq_cst) == base && addr < r.end) return &r;
        r.running.fetch_sub(1, std::memory_order_release);
    }
    return nullptr;
}

}  // namespace

uint32_t mmio_count() {
    uint32_t n = 0;
    for (mmio_range& r : ranges) n += r.base.load() != 0;
    return n;
}

}  // namespace softgpu

using namespace softgpu;

void simt_mmio_store64(volatile void* addr, uint64_t value) {
    block_thread* t = this_block;
    if (t) progress(t);
    mmio_range* r = enter(reinterpret_cast<uintptr_t>(addr));
    if (!r) {
        __atomic_store_n(static_cast<volatile uint64_t*>(addr), value, __ATOMIC_RELEASE);
        return;
    }
    if (t) t->in_handler = true;
    r->store(r->ctx, reinterpret_cast<uintptr_t>(addr) - r->base.load(std::memory_order_relaxed), value);
    if (t) t->in_handler = false;
    r->running.fetch_sub(1, std::memory_order_release);
}

int softgpu_mmio_register(void* base, size_t len, void (*store)(void*, uint64_t, uint64_t), void* ctx) {
    uintptr_t b = reinterpret_cast<uintptr_t>(base);
    if (!b || !len || !store) return -1;
    std::lock_guard<std::mutex> hold(change);
    mmio_range* place = nullptr;
    uint32_t index = 0;
    for (uint32_t i = 0; i < max_ranges; i++) {
        uintptr_t other = ranges[i].base.load();
        if (other && b < ranges[i].end && other < b + len) return -1;
        if (!other && !place) {
            place = &ranges[i];
            index = i;
        }
    }
    if (!place) return -1;
    place->end = b + len;
    place->store = store;
    place->ctx = ctx;
    place->base.store(b, std::memory_order_seq_cst);
    if (used.load() <= index) used.store(index + 1, std::memory_order_release);
    return 0;
}

int softgpu_mmio_unregister(void* base) {
    uintptr_t b = reinterpret_cast<uintptr_t>(base);
    std::lock_guard<std::mutex> hold(change);
    for (mmio_range& r : ranges) {
        if (!b || r.base.load() != b) continue;
        r.base.store(0, std::memory_order_seq_cst);
        while (r.running.load(std::memory_order_seq_cst)) sched_yield();
        return 0;
    }
    return -1;
}
