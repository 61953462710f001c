#include "engine.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "pgas/pgas.cuh"

namespace {

using pgas::context;
using pgas::status;
using namespace pgas::detail;
namespace mm = pgas::mm;
namespace wire = pgas::wire;

constexpr size_t max_slot = 64 * 1024;
constexpr size_t max_slots = 64;

uint32_t code(status s) { return static_cast<uint32_t>(s); }

pgas::signal_update update_of(uint64_t word, int add, uint64_t value) {
    return {add != 0 ? update::add : update::set, reinterpret_cast<uint64_t*>(word), value};
}

// One part of the staging memory, and the queue position that must complete before it may be used again.
struct stage_slot {
    uint8_t* mem;
    wire::queue* q = nullptr;
    uint32_t pe = 0;
    uint64_t end = 0;
};

}  // namespace

struct pgas_engine {
    const wire::world* world;
    size_t slot_bytes = 0;
    std::vector<stage_slot> slots;
    size_t next = 0;
    std::mutex staging;

    context on(uint64_t timeout_ns) const { return {world, 0, timeout_ns}; }

    bool nic(context c, uint32_t pe, bool signals) const {
        return valid(c, pe) && path_to(c, pe, signals) != wire::path::p2p;
    }
    bool needs_staging(context c, const void* p, uint64_t n, uint32_t pe, bool signals) const {
        return nic(c, pe, signals) && n > max_inline && !local(world, p, n).ok;
    }

    status claim(context c, stage_slot** out) {
        if (slots.empty()) return status::invalid;
        stage_slot& s = slots[next];
        next = (next + 1) % slots.size();
        *out = &s;
        return s.q ? wait_completed(c, s.q, s.pe, wire::op::put, s.end) : status::ok;
    }

    // Copies the source piece by piece into staging memory and posts each piece; the last one carries the signal.
    status put_staged(context c, uint8_t* dst, const uint8_t* src, uint64_t n, uint32_t pe, pgas::signal_update u) {
        std::lock_guard<std::mutex> lock(staging);
        if (!locate(world, dst, n).found()) return refuse(c, wire::op::put, pe, dst, n);
        for (uint64_t sent = 0; sent < n;) {
            stage_slot* slot = nullptr;
            status s = claim(c, &slot);
            if (s != status::ok) return s;
            uint64_t piece = std::min<uint64_t>(n - sent, slot_bytes);
            std::copy_n(src + sent, piece, slot->mem);
            bool last = sent + piece == n;
            s = put_any(pgas::thread(), c, dst + sent, slot->mem, piece, pe, last ? u : no_signal(), false);
            if (s != status::ok) return s;
            slot->q = queue_of(c, pe);
            slot->pe = pe;
            slot->end = mm::ld_acquire<mm::scope::gpu>(&slot->q->ready);
            sent += piece;
        }
        return status::ok;
    }

    status get_staged(context c, uint8_t* dst, const uint8_t* src, uint64_t n, uint32_t pe) {
        std::lock_guard<std::mutex> lock(staging);
        if (!locate(world, src, n).found()) return refuse(c, wire::op::get, pe, src, n);
        for (uint64_t got = 0; got < n;) {
            // Fill as many slots as there are, then empty them in the same order: reads of one queue complete in order.
            size_t used = 0;
            uint64_t issued = got;
            size_t first = next;
            while (issued < n && used < slots.size()) {
                stage_slot* slot = nullptr;
                status s = claim(c, &slot);
                if (s != status::ok) return s;
                uint64_t piece = std::min<uint64_t>(n - issued, slot_bytes);
                s = get_any(pgas::thread(), c, slot->mem, src + issued, piece, pe, false);
                if (s != status::ok) return s;
                slot->q = queue_of(c, pe);
                slot->pe = pe;
                slot->end = mm::ld_acquire<mm::scope::gpu>(&slot->q->ready);
                issued += piece;
                ++used;
            }
            if (used == 0) return status::invalid;
            for (size_t i = 0; i < used; ++i) {
                stage_slot& slot = slots[(first + i) % slots.size()];
                status s = wait_completed(c, slot.q, pe, wire::op::get, slot.end);
                if (s != status::ok) return s;
                uint64_t piece = std::min<uint64_t>(n - got, slot_bytes);
                std::copy_n(slot.mem, piece, dst + got);
                got += piece;
            }
        }
        return status::ok;
    }

    uint32_t put(uint64_t dst, const void* src, uint64_t n, uint32_t pe, pgas::signal_update u, bool blocking,
                 uint64_t timeout_ns) {
        context c = on(timeout_ns);
        auto* to = reinterpret_cast<uint8_t*>(dst);
        if (needs_staging(c, src, n, pe, u.what != update::none)) {
            return code(put_staged(c, to, static_cast<const uint8_t*>(src), n, pe, u));
        }
        return code(put_any(pgas::thread(), c, to, src, n, pe, u, blocking));
    }
};

extern "C" {

void pgas_engine_set_hooks(const pgas_engine_hooks* h) {
    mm::hooks() = {h->doorbell, h->pause, h->notify, h->ring_bell};
}

pgas_engine* pgas_engine_new(const void* world, void* stage, size_t stage_bytes) {
    auto* e = new pgas_engine{};
    e->world = static_cast<const wire::world*>(world);
    e->slot_bytes = std::min(max_slot, stage_bytes / 4 & ~size_t(63));
    if (e->slot_bytes != 0) {
        size_t count = std::min(max_slots, stage_bytes / e->slot_bytes);
        for (size_t i = 0; i < count; ++i) {
            e->slots.push_back({static_cast<uint8_t*>(stage) + i * e->slot_bytes});
        }
    }
    return e;
}

void pgas_engine_free(pgas_engine* e) { delete e; }

uint32_t pgas_engine_put(pgas_engine* e, uint64_t dst, const void* src, uint64_t n, uint32_t pe, uint64_t timeout_ns) {
    return e->put(dst, src, n, pe, no_signal(), true, timeout_ns);
}

uint32_t pgas_engine_put_nbi(pgas_engine* e, uint64_t dst, const void* src, uint64_t n, uint32_t pe,
                             uint64_t timeout_ns) {
    return e->put(dst, src, n, pe, no_signal(), false, timeout_ns);
}

uint32_t pgas_engine_get(pgas_engine* e, void* dst, uint64_t src, uint64_t n, uint32_t pe, uint64_t timeout_ns) {
    context c = e->on(timeout_ns);
    auto* from = reinterpret_cast<const uint8_t*>(src);
    if (valid(c, pe) && n != 0 && e->nic(c, pe, false) && !local(e->world, dst, n).ok) {
        return code(e->get_staged(c, static_cast<uint8_t*>(dst), from, n, pe));
    }
    return code(get_any(pgas::thread(), c, dst, from, n, pe, true));
}

uint32_t pgas_engine_put_signal(pgas_engine* e, uint64_t dst, const void* src, uint64_t n, uint64_t word, int add,
                                uint64_t value, uint32_t pe, uint64_t timeout_ns) {
    pgas::signal_update u = update_of(word, add, value);
    context c = e->on(timeout_ns);
    if (valid(c, pe) && !signal_place(c, u).found()) return code(refuse(c, wire::op::put_signal, pe, u.word, 8));
    return e->put(dst, src, n, pe, u, true, timeout_ns);
}

uint32_t pgas_engine_signal(pgas_engine* e, uint64_t word, int add, uint64_t value, uint32_t pe, uint64_t timeout_ns) {
    return code(issue_signal(e->on(timeout_ns), pe, update_of(word, add, value)));
}

uint32_t pgas_engine_fetch_add(pgas_engine* e, uint64_t word, uint64_t value, uint32_t pe, uint64_t timeout_ns,
                               uint64_t* old) {
    return code(pgas::fetch_add(e->on(timeout_ns), old, reinterpret_cast<uint64_t*>(word), value, pe));
}

uint32_t pgas_engine_fence(pgas_engine* e, uint32_t pe, uint64_t timeout_ns) {
    return code(pgas::fence(e->on(timeout_ns), pe));
}

uint32_t pgas_engine_quiet(pgas_engine* e, uint32_t pe, uint64_t timeout_ns) {
    context c = e->on(timeout_ns);
    if (!valid(c, pe)) return code(refuse(c, wire::op::quiet, pe, nullptr, 0));
    mm::fence_system();
    if (c.w->queues == 0) return code(status::ok);
    wire::queue* q = queue_of(c, pe);
    uint64_t end = mm::ld_acquire<mm::scope::gpu>(&q->ready);
    // Not wait_completed(): a caller that slices its deadline must not leave a timeout in the status record.
    return code(wait(c.w, timeout_ns, [&]() -> poll_result {
        if (mm::ld_acquire<mm::scope::gpu>(&q->completed) >= end) return done(status::ok);
        status s = poll(c, q, pe, wire::op::quiet);
        if (s != status::ok) return done(s);
        return mm::ld_acquire<mm::scope::gpu>(&q->completed) >= end ? done(status::ok) : pending();
    }));
}

uint32_t pgas_engine_check(pgas_engine* e) {
    context c = e->on(0);
    status first = status::ok;
    for (uint32_t pe = 0; c.w->queues != 0 && pe < c.w->n_pes && first == status::ok; ++pe) {
        first = poll(c, queue_of(c, pe), pe, wire::op::wait);
    }
    return code(first);
}

}  // extern "C"
