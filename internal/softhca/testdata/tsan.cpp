// Two PEs as threads of one process on the software HCA, for ThreadSanitizer: each posts "payload, then flag" to the
// other and reads the payload plainly once it acquired the flag.
//
//   tsan MODE ok       the right protocol: no report
//   tsan MODE record   the doorbell record is stored relaxed: the engine thread's reads of the WQEs race
//   tsan MODE flag     the waiter reads the flag relaxed: its reads of the payload race
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "../mailbox.h"
#include "../softhca.h"

namespace prm = pgas::prm;
using pgas::softhca::put;

namespace {

constexpr int rounds = 200;
constexpr uint32_t payload = 4096, flag_at = 8192, bytes = 16384;
constexpr uint64_t cq_at = 0, dbr_at = 4096, sq_at = 8192;

const pgas_mlx5_api* api;
bool relaxed_record, relaxed_flag;

void check(bool ok, const char* what) {
    if (ok) return;
    std::fprintf(stderr, "failed: %s\n", what);
    std::exit(3);
}

struct Pe {
    ibv_context* ctx;
    ibv_pd* pd;
    mlx5dv_devx_uar* uar;
    ibv_mr* mr;
    mlx5dv_devx_umem* umem;
    mlx5dv_devx_obj *cq, *qp;
    uint32_t qpn;
    uint8_t* mem;
    uint8_t* queues;
    uint16_t next = 0;
};

uint8_t* pages(size_t n) {
    void* p = std::aligned_alloc(4096, n);
    std::memset(p, 0, n);
    return static_cast<uint8_t*>(p);
}

uint32_t create(Pe& pe, const uint8_t* in, mlx5dv_devx_obj** obj) {
    uint8_t out[16];
    *obj = api->mlx5dv_devx_obj_create(pe.ctx, in, 272, out, sizeof out);
    check(*obj != nullptr, "create");
    return static_cast<uint32_t>(prm::get(out, prm::create_qp_out::qpn));
}

void open(Pe& pe, ibv_device* device) {
    mlx5dv_context_attr attr = {MLX5DV_CONTEXT_FLAGS_DEVX, 0};
    pe.ctx = api->mlx5dv_open_device(device, &attr);
    check(pe.ctx != nullptr, "open");
    pe.pd = api->ibv_alloc_pd(pe.ctx);
    pe.uar = api->mlx5dv_devx_alloc_uar(pe.ctx, PGAS_MLX5_UAR_NC_DEDICATED);
    pe.mem = pages(bytes);
    pe.queues = pages(1 << 16);
    pe.mr = api->ibv_reg_mr_iova2(pe.pd, pe.mem, bytes, 0, 15);
    mlx5dv_devx_umem_in umem = {pe.queues, 1 << 16, IBV_ACCESS_LOCAL_WRITE, ~4095ull, 0, -1};
    pe.umem = api->mlx5dv_devx_umem_reg_ex(pe.ctx, &umem);
    check(pe.mr != nullptr && pe.umem != nullptr, "register");
    mlx5dv_pd pd;
    mlx5dv_obj obj = {};
    obj.pd.in = pe.pd;
    obj.pd.out = &pd;
    api->mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD);
    uint8_t in[272] = {};
    put(in, prm::cmd_in::opcode, 0x400);
    uint8_t* c = in + prm::create_cq_in::cqc;
    put(c, prm::cqc::cc, 1);
    put(c, prm::cqc::oi, 1);
    put(c, prm::cqc::dbr_umem_id, pe.umem->umem_id);
    put(c, prm::cqc::dbr_addr, dbr_at + 64);
    put(c, prm::cqc::uar_page, pe.uar->page_id);
    put(c, prm::cqc::c_eqn, 7);
    put(in, prm::create_cq_in::cq_umem_id, pe.umem->umem_id);
    put(in, prm::create_cq_in::cq_umem_offset, cq_at);
    const uint32_t cqn = create(pe, in, &pe.cq);
    std::memset(in, 0, sizeof in);
    put(in, prm::cmd_in::opcode, 0x500);
    uint8_t* q = in + prm::create_qp_in::qpc;
    put(q, prm::qpc::pm_state, 3);
    put(q, prm::qpc::pd, pd.pdn);
    put(q, prm::qpc::uar_page, pe.uar->page_id);
    put(q, prm::qpc::cqn_snd, cqn);
    put(q, prm::qpc::log_sq_size, 6);
    put(q, prm::qpc::rq_type, 3);
    put(q, prm::qpc::dbr_umem_id, pe.umem->umem_id);
    put(q, prm::qpc::dbr_addr, dbr_at);
    put(in, prm::create_qp_in::wq_umem_id, pe.umem->umem_id);
    put(in, prm::create_qp_in::wq_umem_offset, sq_at);
    pe.qpn = create(pe, in, &pe.qp);
}

void modify(Pe& pe, uint16_t op, uint8_t* in) {
    uint8_t out[16];
    put(in, prm::cmd_in::opcode, op);
    put(in, prm::modify_qp_in::qpn, pe.qpn);
    check(api->mlx5dv_devx_obj_modify(pe.qp, in, 272, out, sizeof out) == 0, "modify");
}

void connect(Pe& pe, Pe& peer) {
    uint8_t init[272] = {}, rtr[272] = {}, rts[272] = {};
    uint8_t* q = init + prm::modify_qp_in::qpc;
    put(q, prm::qpc::rwe, 1);
    put(q + prm::qpc::primary_address_path, prm::ads::vhca_port_num, 1);
    modify(pe, 0x502, init);
    q = rtr + prm::modify_qp_in::qpc;
    put(q, prm::qpc::mtu, 5);
    put(q, prm::qpc::log_msg_max, 30);
    put(q, prm::qpc::remote_qpn, peer.qpn);
    uint8_t* path = q + prm::qpc::primary_address_path;
    put(path, prm::ads::vhca_port_num, 1);
    put(path, prm::ads::src_addr_index, 3);
    put(path, prm::ads::hop_limit, 1);
    ibv_gid_entry gid;
    check(api->_ibv_query_gid_ex(peer.ctx, 1, 3, &gid, 0, sizeof gid) == 0, "gid");
    std::memcpy(path + prm::byte_of(prm::ads::rgid_rip), gid.gid.raw, 16);
    modify(pe, 0x503, rtr);
    put(rts + prm::modify_qp_in::qpc, prm::qpc::retry_count, 7);
    modify(pe, 0x504, rts);
}

void post_write(Pe& pe, uint32_t rkey, uint32_t at, uint32_t n, bool signaled) {
    uint8_t* w = pe.queues + sq_at + (pe.next & 63) * 64;
    std::memset(w, 0, 64);
    put(w, prm::ctrl_seg::wqe_index, pe.next);
    put(w, prm::ctrl_seg::opcode, 8);
    put(w, prm::ctrl_seg::qpn, pe.qpn);
    put(w, prm::ctrl_seg::ds, 3);
    put(w, prm::ctrl_seg::completion, signaled ? 2 : 0);
    put(w + 16, prm::raddr_seg::raddr, at);
    put(w + 16, prm::raddr_seg::rkey, rkey);
    put(w + 32, prm::data_seg::byte_count, n);
    put(w + 32, prm::data_seg::lkey, pe.mr->lkey);
    put(w + 32, prm::data_seg::addr, at + bytes / 4);
    pe.next++;
}

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
