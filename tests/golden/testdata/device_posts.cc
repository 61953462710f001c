// Posts every operation of the device library on a queue that nobody executes, starting at the index given, and prints
// what a NIC would find: one line an operation with the WQE bytes, the doorbell record and the doorbells.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "pgas/pgas.cuh"

namespace wire = pgas::wire;
namespace prm = pgas::prm;

static std::string doorbells;

struct fake {
    alignas(64) uint8_t sq[4 * 64] = {};
    alignas(64) uint8_t cqe[64];
    alignas(64) uint8_t dbr[8] = {};
    uint64_t db = 0;
    alignas(4096) uint8_t heap[3][4096] = {};
    wire::queue queue{};
    wire::peer peer{};
    wire::world world{};
    wire::status_record record{};
    wire::control control{};

    explicit fake(uint64_t index) {
        std::memset(cqe, 0xff, sizeof cqe);
        queue.sq = reinterpret_cast<uint64_t>(sq);
        queue.cqe = reinterpret_cast<uint64_t>(cqe);
        queue.dbr = reinterpret_cast<uint64_t>(dbr);
        queue.db = reinterpret_cast<uint64_t>(&db);
        queue.qpn = 0x1234;
        queue.depth = 4;
        queue.sink = 0x200;
        queue.sink_map = reinterpret_cast<uint64_t>(heap[0]);
        queue.sink_lkey = prm::bswap32(0x11223304);
        queue.max_msg = 64;
        queue.reserved = queue.ready = queue.rung = queue.completed = index;
        peer.path = wire::path::ibgda;
        world.layout_hash = wire::layout_hash;
        world.n_pes = 1;
        world.n_contexts = 1;
        for (uint32_t i = 0; i < 3; ++i) {
            world.seg[i] = {reinterpret_cast<uint64_t>(heap[i]), 4096, prm::bswap32(0x11223301 + i), 0};
            peer.rkey[i] = prm::bswap32(0xaabbcc01 + i);
        }
        world.peers = reinterpret_cast<uint64_t>(&peer);
        world.queues = reinterpret_cast<uint64_t>(&queue);
        world.status = reinterpret_cast<uint64_t>(&record);
        world.control = reinterpret_cast<uint64_t>(&control);
        world.timeout_ns = 1000000000;
    }
};

static void print(const char* name, uint64_t index, const std::function<pgas::status(fake&, pgas::context)>& post) {
    fake f(index);
    doorbells.clear();
    pgas::status s = post(f, pgas::world{&f.world}.context(0));
    std::printf("%s %llx %u ", name, static_cast<unsigned long long>(index), static_cast<uint32_t>(s));
    for (uint8_t b : f.sq) std::printf("%02x", b);
    std::printf(" ");
    for (uint8_t b : f.dbr) std::printf("%02x", b);
    std::printf(" %s %llx\n", doorbells.c_str(), static_cast<unsigned long long>(f.queue.ready - index));
}

int main(int argc, char** argv) {
    pgas::mm::hooks().doorbell = [](volatile void*, uint64_t v) {
        char text[17];
        for (int i = 0; i < 8; ++i) std::snprintf(text + 2 * i, 3, "%02x", static_cast<unsigned>(v >> (8 * i) & 0xff));
        doorbells += text;
    };
    auto t = pgas::thread();
    for (int i = 1; i < argc; ++i) {
        uint64_t index = std::strtoull(argv[i], nullptr, 16);
        print("put", index, [&](fake& f, pgas::context c) {
            return pgas::put_bytes_nbi(t, c, f.heap[0] + 16, f.heap[1] + 8, 64, 0);
        });
        print("put_inline", index, [&](fake& f, pgas::context c) {
            for (int k = 0; k < 28; ++k) f.heap[1][k] = uint8_t(k + 1);
            return pgas::put_bytes_nbi(t, c, f.heap[0] + 3, f.heap[1], 13, 0);
        });
        print("put_split", index,
              [&](fake& f, pgas::context c) { return pgas::put_bytes_nbi(t, c, f.heap[0], f.heap[1], 150, 0); });
        print("get", index, [&](fake& f, pgas::context c) {
            return pgas::get_bytes_nbi(t, c, f.heap[1] + 8, f.heap[0] + 16, 33, 0);
        });
        print("signal_add", index, [&](fake& f, pgas::context c) {
            return pgas::signal(t, c, 0, pgas::signal_add(reinterpret_cast<uint64_t*>(f.heap[2]) + 8, 5));
        });
        print("signal_set", index, [&](fake& f, pgas::context c) {
            return pgas::signal(t, c, 0,
                                pgas::signal_set(reinterpret_cast<uint64_t*>(f.heap[2]) + 8, 0x0102030405060708));
        });
        print("put_signal", index, [&](fake& f, pgas::context c) {
            return pgas::put_signal_bytes_nbi(t, c, f.heap[0], f.heap[1], 100, 0,
                                              pgas::signal_set(reinterpret_cast<uint64_t*>(f.heap[2]), 7));
        });
        print("put_nothing", index,
              [&](fake& f, pgas::context c) { return pgas::put_bytes_nbi(t, c, f.heap[0], f.heap[1], 0, 0); });
        print("fence_after_get", index, [&](fake& f, pgas::context c) {
            pgas::get_bytes_nbi(t, c, f.heap[1], f.heap[0], 32, 0);
            return pgas::fence(c, 0);
        });
    }
}
