// Device protocols between threads, for ThreadSanitizer. Each scenario checks values too, but its point is the order of
// memory accesses: payload, WQEs and sources are plain memory, so a missing release or acquire anywhere between the
// writer and the reader is a data race that ThreadSanitizer reports, whatever x86 makes of it.
//
//     scenarios NAME HCA-SPEC [ROUNDS]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "job.h"

using pgas::status;
using tsan::job;
using tsan::options;
using tsan::require;

namespace {

uint64_t rounds = 300;

void ok(status s, const char* what) {
    require(s == status::ok, std::string(what) + ": status " + std::to_string(static_cast<uint32_t>(s)));
}

void run(uint32_t threads, const std::function<void(uint32_t)>& body) {
    std::vector<std::thread> all;
    for (uint32_t i = 0; i < threads; ++i) all.emplace_back(body, i);
    for (auto& t : all) t.join();
}

void fill(uint64_t* p, uint64_t words, uint64_t round) {
    for (uint64_t i = 0; i < words; ++i) p[i] = round * 1000 + i;
}

void check(const uint64_t* p, uint64_t words, uint64_t round) {
    for (uint64_t i = 0; i < words; ++i) require(p[i] == round * 1000 + i, "payload");
}

// Several posters of PE 0, one queue, each with its own box and signals; PE 1 checks and acknowledges.
void put_signal(pgas::wire::path path, uint32_t depth, bool add, uint64_t words) {
    constexpr uint32_t posters = 3;
    options o;
    o.path = path;
    o.depth = depth;
    job j(o);
    run(2 * posters, [&](uint32_t id) {
        uint32_t i = id / 2;
        tsan::pe& me = j[id % 2];
        pgas::context c = me.world().context(0);
        uint64_t* box = me.device<uint64_t>(uint64_t(i) * 8192);
        uint64_t* src = me.device<uint64_t>(65536 + uint64_t(i) * 8192);
        for (uint64_t r = 1; r <= rounds; ++r) {
            if (id % 2 == 0) {
                fill(src, words, r);
                auto u = add ? pgas::signal_add(me.signal(i), 1) : pgas::signal_set(me.signal(i), r);
                ok(pgas::put_signal_nbi(pgas::thread(), c, box, src, words, 1, u), "put_signal_nbi");
                ok(pgas::wait_until(c, me.signal(16 + i), pgas::ge(r)), "wait for the acknowledgement");
                ok(pgas::quiet(c, 1), "quiet");
            } else {
                ok(pgas::wait_until(c, me.signal(i), pgas::ge(r)), "wait for data");
                check(box, words, r);
                ok(pgas::signal(pgas::thread(), c, 0, pgas::signal_set(me.signal(16 + i), r)), "acknowledge");
            }
        }
    });
}

// A get brings what the owner wrote before it signalled; a blocking put frees its source.
void get_and_put(pgas::wire::path path) {
    options o;
    o.path = path;
    job j(o);
    run(2, [&](uint32_t id) {
        tsan::pe& me = j[id];
        pgas::context c = me.world().context(0);
        uint64_t* box = me.device<uint64_t>(0);
        uint64_t* copy = me.device<uint64_t>(8192);
        for (uint64_t r = 1; r <= rounds; ++r) {
            if (id == 1) {
                fill(box, 64, r);
                ok(pgas::signal(pgas::thread(), c, 0, pgas::signal_set(me.signal(0), r)), "signal");
                ok(pgas::wait_until(c, me.signal(1), pgas::ge(r)), "wait for the reader");
                check(me.device<uint64_t>(16384), 64, r);
                ok(pgas::signal(pgas::thread(), c, 0, pgas::signal_set(me.signal(2), r)), "signal");
            } else {
                ok(pgas::wait_until(c, me.signal(0), pgas::ge(r)), "wait for the writer");
                ok(pgas::get(pgas::thread(), c, copy, box, 64, 1), "get");
                check(copy, 64, r);
                uint64_t one = 0;
                ok(pgas::g(c, &one, box + 7, 1), "g");
                require(one == r * 1000 + 7, "g: value");
                ok(pgas::put(pgas::thread(), c, me.device<uint64_t>(16384), copy, 64, 1), "put");
                fill(copy, 64, 0);  // the source is free again
                ok(pgas::signal(pgas::thread(), c, 1, pgas::signal_set(me.signal(1), r)), "signal");
                ok(pgas::wait_until(c, me.signal(2), pgas::ge(r)), "wait for the writer's check");
            }
        }
    });
}

// All threads of both PEs add to one word through a queue of two slots.
void contended_adds() {
    constexpr uint32_t threads = 6;
    options o;
    o.depth = 2;
    job j(o);
    run(threads, [&](uint32_t id) {
        tsan::pe& me = j[id % 2];
        pgas::context c = me.world().context(0);
        for (uint64_t r = 0; r < rounds; ++r) {
            ok(pgas::signal(pgas::thread(), c, 0, pgas::signal_add(me.signal(0), 1)), "add");
        }
        ok(pgas::quiet(c, 0), "quiet");
    });
    require(pgas::test(j[0].world().context(0), j[0].signal(0), pgas::eq(threads * rounds)), "sum");
}

// A message cut into many pieces of a small queue, then its signal.
void split_message() {
    options o;
    o.depth = 4;
    o.max_msg = 64;
    job j(o);
    run(2, [&](uint32_t id) {
        tsan::pe& me = j[id];
        pgas::context c = me.world().context(0);
        uint64_t* box = me.device<uint64_t>(0);
        uint64_t* src = me.device<uint64_t>(65536);
        for (uint64_t r = 1; r <= rounds / 10 + 1; ++r) {
            if (id == 0) {
                fill(src, 300, r);
                ok(pgas::put_signal(pgas::thread(), c, box, src, 300, 1, pgas::signal_set(me.signal(0), r)),
                   "put_signal");
                ok(pgas::wait_until(c, me.signal(1), pgas::ge(r)), "wait");
            } else {
                ok(pgas::wait_until(c, me.signal(0), pgas::ge(r)), "wait");
                check(box, 300, r);
                ok(pgas::signal(pgas::thread(), c, 0, pgas::signal_set(me.signal(1), r)), "acknowledge");
            }
        }
    });
}

// What one thread of a PE put, another thread completes by quiet and reports on another context.
void quiet_by_another() {
    options o;
    o.contexts = 2;
    job j(o);
    uint64_t handed = 0;
    run(3, [&](uint32_t id) {
        tsan::pe& me = j[id == 2 ? 1 : 0];
        pgas::context c0 = me.world().context(0), c1 = me.world().context(1);
        uint64_t* box = me.device<uint64_t>(0);
        uint64_t* src = me.device<uint64_t>(65536);
        for (uint64_t r = 1; r <= rounds; ++r) {
            if (id == 0) {
                fill(src, 100, r);
                ok(pgas::put_nbi(pgas::thread(), c0, box, src, 100, 1), "put_nbi");
                __atomic_store_n(&handed, r, __ATOMIC_RELEASE);
                ok(pgas::wait_until(c0, me.signal(0), pgas::ge(r)), "wait");
            } else if (id == 1) {
                while (__atomic_load_n(&handed, __ATOMIC_ACQUIRE) < r) std::this_thread::yield();
                ok(pgas::quiet(c0, 1), "quiet");
                ok(pgas::signal(pgas::thread(), c1, 1, pgas::signal_set(me.signal(1), r)), "signal");
                ok(pgas::wait_until(c1, me.signal(0), pgas::ge(r)), "wait");
            } else {
                ok(pgas::wait_until(c0, me.signal(1), pgas::ge(r)), "wait");
                check(box, 100, r);
                ok(pgas::signal(pgas::thread(), c0, 0, pgas::signal_set(me.signal(0), r)), "acknowledge");
            }
        }
    });
}

}  // namespace

int main(int argc, char** argv) {
    using pgas::wire::path;
    const std::map<std::string, std::function<void()>> scenarios = {
        {"put_signal_add", [] { put_signal(path::ibgda, 8, true, 100); }},
        {"put_signal_set", [] { put_signal(path::ibgda, 8, false, 100); }},
        {"put_signal_inline", [] { put_signal(path::ibgda, 4, true, 2); }},
        {"put_signal_depth2", [] { put_signal(path::ibgda, 2, false, 100); }},
        {"put_signal_p2p", [] { put_signal(path::p2p, 8, false, 100); }},
        {"put_signal_add_p2p", [] { put_signal(path::p2p, 8, true, 100); }},
        {"get_and_put", [] { get_and_put(path::ibgda); }},
        {"get_and_put_p2p", [] { get_and_put(path::p2p); }},
        {"contended_adds", contended_adds},
        {"split_message", split_message},
        {"quiet_by_another", quiet_by_another},
    };
    if (argc < 3 || scenarios.count(argv[1]) == 0) {
        std::fprintf(stderr, "usage: scenarios NAME HCA-SPEC [ROUNDS]; names:");
        for (auto& s : scenarios) std::fprintf(stderr, " %s", s.first.c_str());
        std::fprintf(stderr, "\n");
        return 2;
    }
    if (argc > 3) rounds = std::strtoull(argv[3], nullptr, 10);
    char err[256];
    if (softhca_configure(argv[2], err, sizeof err) != 0) {
        std::fprintf(stderr, "scenarios: %s\n", err);
        return 2;
    }
    pgas::mm::hooks().doorbell = [](volatile void* reg, uint64_t value) {
        softhca_mmio_store(const_cast<void*>(reg), value);
    };
    pgas::mm::hooks().pause = [] { std::this_thread::yield(); };
    scenarios.at(argv[1])();
    std::printf("%s %s: ok, %llu rounds\n", argv[1], argv[2], static_cast<unsigned long long>(rounds));
    return 0;
}
