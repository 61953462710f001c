#include "job.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tsan {

namespace prm = pgas::prm;
namespace wire = pgas::wire;

namespace {

constexpr size_t arena_bytes = size_t(8) << 20;

// A command mailbox; set() takes the field and, for nested structs, the byte where they lie.
struct mailbox {
    uint8_t in[prm::create_qp_in::size] = {};
    uint8_t out[prm::query_qp_out::size] = {};
    size_t in_size;

    mailbox(prm::cmd op, size_t size) : in_size(size) { set(prm::cmd_in::opcode, static_cast<uint64_t>(op)); }
    void set(prm::field f, uint64_t v, uint32_t at = 0) {
        require(prm::set(in, prm::at(f, at), v), "mailbox: value too wide");
    }
};

uint32_t log2_of(uint32_t n) {
    uint32_t l = 0;
    while ((1u << l) < n) ++l;
    return l;
}

}  // namespace

void require(bool ok, const std::string& what) {
    if (ok) return;
    std::fprintf(stderr, "tsan job: %s: %s\n", what.c_str(), std::strerror(errno));
    std::exit(2);
}

// Where one queue lies in the arena, which is one umem.
struct pe::queue_memory {
    uint8_t *sq, *cqe, *dbr, *cq_dbr;
};

void* pe::take(size_t bytes, size_t align) {
    arena_used_ = (arena_used_ + align - 1) & ~(align - 1);
    require(arena_used_ + bytes <= arena_bytes, "arena is full");
    void* p = arena_ + arena_used_;
    arena_used_ += bytes;
    return p;
}

pe::pe(uint32_t rank, const options& o) : o_(o), rank_(rank), api_(softhca_table()) {
    void* m = mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(m != MAP_FAILED, "mmap");
    arena_ = static_cast<uint8_t*>(m);
    world_ = static_cast<wire::world*>(take(sizeof *world_));
    peers_ = static_cast<wire::peer*>(take(sizeof *peers_ * o.pes));
    queues_ = static_cast<wire::queue*>(take(sizeof *queues_ * o.pes * o.contexts));
    record_ = static_cast<wire::status_record*>(take(sizeof *record_));
    control_ = static_cast<wire::control*>(take(sizeof *control_));
    world_->layout_hash = wire::layout_hash;
    world_->my_pe = rank;
    world_->n_pes = o.pes;
    world_->n_contexts = o.contexts;
    world_->peers = reinterpret_cast<uint64_t>(peers_);
    world_->status = reinterpret_cast<uint64_t>(record_);
    world_->control = reinterpret_cast<uint64_t>(control_);
    world_->timeout_ns = o.timeout_ns;
    for (auto& s : world_->seg) {
        s.base = reinterpret_cast<uint64_t>(take(o.segment_bytes, 4096));
        s.size = o.segment_bytes;
    }
    if (o.path != wire::path::ibgda) return;
    world_->queues = reinterpret_cast<uint64_t>(queues_);
    int n = 0;
    ibv_device** list = api_->ibv_get_device_list(&n);
    require(list && n > 0, "get_device_list");
    mlx5dv_context_attr attr{};
    attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
    context_ = api_->mlx5dv_open_device(list[0], &attr);
    require(context_ != nullptr, "open_device");
    api_->ibv_free_device_list(list);
    pd_ = api_->ibv_alloc_pd(context_);
    require(pd_ != nullptr, "alloc_pd");
    register_segments();
    create_queues();
}

void pe::register_segments() {
    unsigned access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    for (auto& s : world_->seg) {
        ibv_mr* mr = api_->ibv_reg_mr_iova2(pd_, reinterpret_cast<void*>(s.base), s.size, 0, access);
        require(mr != nullptr, "reg_mr");
        s.lkey = prm::bswap32(mr->lkey);
        mrs_.push_back(mr);
    }
}

uint32_t pe::create_cq(const queue_memory& m) {
    uint32_t eqn = 0;
    require(api_->mlx5dv_devx_query_eqn(context_, 0, &eqn) == 0, "query_eqn");
    mailbox b(prm::cmd::create_cq, prm::create_cq_in::size);
    constexpr uint32_t at = prm::create_cq_in::cqc;
    b.set(prm::cqc::dbr_umem_valid, 1, at);
    b.set(prm::cqc::cc, 1, at);
    b.set(prm::cqc::oi, 1, at);
    b.set(prm::cqc::dbr_umem_id, umem_->umem_id, at);
    b.set(prm::cqc::uar_page, uar_->page_id, at);
    b.set(prm::cqc::c_eqn, eqn, at);
    b.set(prm::cqc::dbr_addr, uint64_t(m.cq_dbr - arena_), at);
    b.set(prm::create_cq_in::cq_umem_offset, uint64_t(m.cqe - arena_));
    b.set(prm::create_cq_in::cq_umem_id, umem_->umem_id);
    b.set(prm::create_cq_in::cq_umem_valid, 1);
    mlx5dv_devx_obj* o = api_->mlx5dv_devx_obj_create(context_, b.in, b.in_size, b.out, prm::create_cq_out::size);
    require(o != nullptr, "CREATE_CQ");
    objects_.push_back(o);
    return uint32_t(prm::get(b.out, prm::create_cq_out::cqn));
}

uint32_t pe::create_qp(const queue_memory& m, uint32_t cqn, mlx5dv_devx_obj** object) {
    mlx5dv_pd pd{};
    mlx5dv_obj which{};
    which.pd = {pd_, &pd};
    require(api_->mlx5dv_init_obj(&which, MLX5DV_OBJ_PD) == 0, "init_obj");
    mailbox b(prm::cmd::create_qp, prm::create_qp_in::size);
    constexpr uint32_t at = prm::create_qp_in::qpc;
    b.set(prm::qpc::st, uint64_t(prm::service_type::rc), at);
    b.set(prm::qpc::pm_state, uint64_t(prm::pm_state::migrated), at);
    b.set(prm::qpc::pd, pd.pdn, at);
    b.set(prm::qpc::log_sq_size, log2_of(o_.depth), at);
    b.set(prm::qpc::uar_page, uar_->page_id, at);
    b.set(prm::qpc::cqn_snd, cqn, at);
    b.set(prm::qpc::rq_type, uint64_t(prm::rq_type::none), at);
    b.set(prm::qpc::dbr_addr, uint64_t(m.dbr - arena_), at);
    b.set(prm::qpc::dbr_umem_id, umem_->umem_id, at);
    b.set(prm::qpc::dbr_umem_valid, 1, at);
    b.set(prm::create_qp_in::wq_umem_offset, uint64_t(m.sq - arena_));
    b.set(prm::create_qp_in::wq_umem_id, umem_->umem_id);
    b.set(prm::create_qp_in::wq_umem_valid, 1);
    *object = api_->mlx5dv_devx_obj_create(context_, b.in, b.in_size, b.out, prm::create_qp_out::size);
    require(*object != nullptr, "CREATE_QP");
    return uint32_t(prm::get(b.out, prm::create_qp_out::qpn));
}

void pe::create_queues() {
    uint32_t count = o_.pes * o_.contexts;
    std::vector<queue_memory> memory(count);
    for (auto& m : memory) {
        m.sq = static_cast<uint8_t*>(take(size_t(o_.depth) * 64, 4096));
        m.cqe = static_cast<uint8_t*>(take(64));
        m.dbr = static_cast<uint8_t*>(take(64));
        m.cq_dbr = static_cast<uint8_t*>(take(64));
        std::memset(m.cqe, 0xff, 64);
    }
    mlx5dv_devx_umem_in in{};
    in.addr = arena_;
    in.size = arena_bytes;
    in.access = IBV_ACCESS_LOCAL_WRITE;
    in.pgsz_bitmap = 4096;
    umem_ = api_->mlx5dv_devx_umem_reg_ex(context_, &in);
    require(umem_ != nullptr, "umem_reg");
    uar_ = api_->mlx5dv_devx_alloc_uar(context_, PGAS_MLX5_UAR_NC_DEDICATED);
    require(uar_ != nullptr, "alloc_uar");
    auto* sink = static_cast<uint8_t*>(take(wire::sink_slots * 8 * count, 4096));
    sink_mr_ = api_->ibv_reg_mr_iova2(pd_, sink, wire::sink_slots * 8 * count, 0, IBV_ACCESS_LOCAL_WRITE);
    require(sink_mr_ != nullptr, "reg_mr of the sink");
    for (uint32_t i = 0; i < count; ++i) {
        mlx5dv_devx_obj* qp = nullptr;
        uint32_t qpn = create_qp(memory[i], create_cq(memory[i]), &qp);
        qps_.push_back(qp);
        qpns_.push_back(qpn);
        wire::queue& q = queues_[i];
        q.sq = reinterpret_cast<uint64_t>(memory[i].sq);
        q.cqe = reinterpret_cast<uint64_t>(memory[i].cqe);
        q.dbr = reinterpret_cast<uint64_t>(memory[i].dbr);
        q.db = reinterpret_cast<uint64_t>(uar_->reg_addr);
        q.qpn = qpn;
        q.depth = o_.depth;
        q.sink = uint64_t(i) * wire::sink_slots * 8;
        q.sink_map = reinterpret_cast<uint64_t>(sink) + q.sink;
        q.sink_lkey = prm::bswap32(sink_mr_->lkey);
        q.max_msg = o_.max_msg;
    }
}

void pe::connect(uint32_t queue, const pe& to, uint32_t remote_queue) {
    ibv_gid gid{};
    require(api_->ibv_query_gid(to.context_, 1, 0, &gid) == 0, "query_gid");
    constexpr uint32_t at = prm::modify_qp_in::qpc;
    constexpr uint32_t path = at + prm::qpc::primary_address_path;
    auto modify = [&](mailbox& b, const char* what) {
        b.set(prm::modify_qp_in::qpn, qpns_[queue]);
        require(api_->mlx5dv_devx_obj_modify(qps_[queue], b.in, b.in_size, b.out, prm::modify_qp_out::size) == 0, what);
    };
    mailbox init(prm::cmd::rst2init_qp, prm::modify_qp_in::size);
    init.set(prm::qpc::pm_state, uint64_t(prm::pm_state::migrated), at);
    init.set(prm::qpc::rre, 1, at);
    init.set(prm::qpc::rwe, 1, at);
    init.set(prm::qpc::rae, 1, at);
    init.set(prm::qpc::atomic_mode, uint64_t(prm::atomic_mode::up_to8b), at);
    init.set(prm::ads::vhca_port_num, 1, path);
    modify(init, "RST2INIT");
    mailbox rtr(prm::cmd::init2rtr_qp, prm::modify_qp_in::size);
    rtr.set(prm::qpc::mtu, uint64_t(prm::mtu::bytes1024), at);
    rtr.set(prm::qpc::log_msg_max, prm::log_msg_max, at);
    rtr.set(prm::qpc::remote_qpn, to.qpns_[remote_queue], at);
    rtr.set(prm::qpc::log_rra_max, 4, at);
    rtr.set(prm::qpc::min_rnr_nak, 12, at);
    rtr.set(prm::ads::vhca_port_num, 1, path);
    rtr.set(prm::ads::hop_limit, 64, path);
    std::memcpy(rtr.in + path + prm::byte_of(prm::ads::rgid_rip), gid.raw, 16);
    modify(rtr, "INIT2RTR");
    mailbox rts(prm::cmd::rtr2rts_qp, prm::modify_qp_in::size);
    rts.set(prm::qpc::log_sra_max, 4, at);
    rts.set(prm::qpc::retry_count, 7, at);
    rts.set(prm::qpc::rnr_retry, 7, at);
    rts.set(prm::ads::ack_timeout, 20, path);
    modify(rts, "RTR2RTS");
}

void pe::abort(pgas::status s) { __atomic_store_n(&control_->abort, static_cast<uint32_t>(s), __ATOMIC_RELEASE); }

pe::~pe() {
    if (context_) {
        for (auto* q : qps_) require(api_->mlx5dv_devx_obj_destroy(q) == 0, "destroy QP");
        for (auto* o : objects_) require(api_->mlx5dv_devx_obj_destroy(o) == 0, "destroy CQ");
        api_->mlx5dv_devx_free_uar(uar_);
        require(api_->mlx5dv_devx_umem_dereg(umem_) == 0, "umem_dereg");
        for (auto* m : mrs_) require(api_->ibv_dereg_mr(m) == 0, "dereg_mr");
        require(api_->ibv_dereg_mr(sink_mr_) == 0, "dereg_mr of the sink");
        require(api_->ibv_dealloc_pd(pd_) == 0, "dealloc_pd");
        require(api_->ibv_close_device(context_) == 0, "close_device");
    }
    munmap(arena_, arena_bytes);
}

job::job(const options& o) {
    for (uint32_t i = 0; i < o.pes; ++i) pes_.push_back(std::make_unique<pe>(i, o));
    for (auto& from : pes_) {
        for (auto& to : pes_) {
            wire::peer& p = from->peers_[to->rank_];
            p.path = o.path;
            for (uint32_t s = 0; s < wire::segments; ++s) {
                p.map[s] = to->world_->seg[s].base;
                p.rkey[s] = o.path == wire::path::ibgda ? prm::bswap32(to->mrs_[s]->rkey) : 0;
            }
            if (o.path != wire::path::ibgda) continue;
            for (uint32_t c = 0; c < o.contexts; ++c) {
                from->connect(c * o.pes + to->rank_, *to, c * o.pes + from->rank_);
            }
        }
    }
}

}  // namespace tsan
