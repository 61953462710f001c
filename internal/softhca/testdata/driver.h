// The driver's side, in C++: open, create, connect, post, ring.
#pragma once

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

constexpr uint32_t bytes = 16384;
constexpr uint64_t cq_at = 0, dbr_at = 4096, sq_at = 8192;

const pgas_mlx5_api* api;

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

}  // namespace
