// Two PEs as threads of one process on the software HCA, for ThreadSanitizer: each posts "payload, then flag" to the
// other and reads the payload plainly once it acquired the flag.
//
//   tsan MODE ok       the right protocol: no report
//   tsan MODE record   the doorbell record is stored relaxed: the engine thread's reads of the WQEs race
//   tsan MODE flag     the waiter reads the flag relaxed: its reads of the payload race
#include "driver.h"

namespace {

constexpr int rounds = 200;
constexpr uint32_t payload = 4096, flag_at = 8192;
bool relaxed_record, relaxed_flag;

void ring(Pe& pe) {
    auto* record = reinterpret_cast<uint32_t*>(pe.queues + dbr_at + 4);
    __atomic_store_n(record, __builtin_bswap32(pe.next), relaxed_record ? __ATOMIC_RELAXED : __ATOMIC_RELEASE);
    const uint64_t value = uint64_t{__builtin_bswap32(pe.qpn << 8)} << 32 | __builtin_bswap32(uint32_t{pe.next} << 8);
    check(softhca_mmio_store(pe.uar->reg_addr, value) == 0, "doorbell");
}

void wait_complete(Pe& pe) {
    auto* word = reinterpret_cast<uint32_t*>(pe.queues + cq_at + 0x3c);
    for (;;) {
        const uint32_t v = __builtin_bswap32(__atomic_load_n(word, __ATOMIC_ACQUIRE));
        check(((v >> 4) & 0xf) != 0xd, "error CQE");
        if ((v & 0xf0) == 0 && v >> 16 == static_cast<uint16_t>(pe.next - 1) && pe.next != 0) return;
        sched_yield();
    }
}

void run(Pe& me, Pe& peer) {
    uint8_t* source = me.mem + bytes / 4;
    auto* seen = reinterpret_cast<uint64_t*>(me.mem + flag_at);
    for (uint64_t round = 1; round <= rounds; round++) {
        std::memset(source, static_cast<int>(round), payload);
        std::memcpy(source + flag_at, &round, sizeof round);
        post_write(me, peer.mr->rkey, 0, payload, false);
        post_write(me, peer.mr->rkey, flag_at, 8, true);
        ring(me);
        while (__atomic_load_n(seen, relaxed_flag ? __ATOMIC_RELAXED : __ATOMIC_ACQUIRE) < round) sched_yield();
        for (uint32_t i = 0; i < payload; i++) check(me.mem[i] == static_cast<uint8_t>(round), "payload");
        wait_complete(me);
        // Tell the peer that its payload was read, before it overwrites it.
        static std::atomic<uint64_t> read[2];
        const int self = me.qpn < peer.qpn;
        read[self].store(round, std::memory_order_release);
        while (read[!self].load(std::memory_order_acquire) < round) sched_yield();
    }
}

}  // namespace

int main(int argc, char** argv) {
    check(argc == 3, "usage: tsan MODE ok|record|flag");
    relaxed_record = std::string(argv[2]) == "record";
    relaxed_flag = std::string(argv[2]) == "flag";
    char err[256];
    check(softhca_configure((std::string("mode=") + argv[1]).c_str(), err, sizeof err) == 0, err);
    api = softhca_table();
    ibv_device** list = api->ibv_get_device_list(nullptr);
    Pe a, b;
    open(a, list[0]);
    open(b, list[0]);
    api->ibv_free_device_list(list);
    std::memset(a.queues + cq_at, 0xff, 64);
    std::memset(b.queues + cq_at, 0xff, 64);
    connect(a, b);
    connect(b, a);
    std::thread other([&] { run(b, a); });
    run(a, b);
    other.join();
    for (Pe* pe : {&a, &b}) {
        check(api->mlx5dv_devx_obj_destroy(pe->qp) == 0, "destroy QP");
        check(api->mlx5dv_devx_obj_destroy(pe->cq) == 0, "destroy CQ");
        check(api->mlx5dv_devx_umem_dereg(pe->umem) == 0, "umem");
        check(api->ibv_dereg_mr(pe->mr) == 0, "mr");
        api->mlx5dv_devx_free_uar(pe->uar);
        check(api->ibv_dealloc_pd(pe->pd) == 0, "pd");
        check(api->ibv_close_device(pe->ctx) == 0, "close");
        std::free(pe->mem);
        std::free(pe->queues);
    }
    std::puts("done");
    return 0;
}
