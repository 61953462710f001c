// CREATE_QP, QUERY_QP, DESTROY_QP.
#include "chaos.h"
#include "engine.h"
#include "hca.h"

namespace pgas::softhca {
namespace {

constexpr uint8_t ok = static_cast<uint8_t>(prm::cmd_status::ok);
constexpr uint8_t bad_param = static_cast<uint8_t>(prm::cmd_status::bad_param);
constexpr uint8_t bad_resource = static_cast<uint8_t>(prm::cmd_status::bad_resource);
constexpr uint8_t exceed_lim = static_cast<uint8_t>(prm::cmd_status::exceed_lim);

void set_ref(MemRef& ref, const Umem* umem, const uint8_t* at) {
    ref.mem.store(umem->mem->id, std::memory_order_relaxed);
    ref.offset.store(static_cast<uint64_t>(at - umem->mem->base), std::memory_order_relaxed);
    ref.local_va.store(reinterpret_cast<uintptr_t>(at), std::memory_order_relaxed);
}

bool only_known(const uint8_t* context) {
    namespace f = prm::qpc;
    Reader r(context, f::size);
    r.skip({f::st,
            f::pm_state,
            f::pd,
            f::mtu,
            f::log_msg_max,
            f::log_rq_size,
            f::log_rq_stride,
            f::no_sq,
            f::log_sq_size,
            f::ts_format,
            f::uar_page,
            f::user_index,
            f::log_page_size,
            f::cqn_snd,
            f::cqn_rcv,
            f::dbr_addr,
            f::rq_type,
            f::dbr_umem_valid,
            f::dbr_umem_id,
            f::rre,
            f::rwe,
            f::rae,
            f::atomic_mode,
            f::log_ack_req_freq,
            f::log_sra_max,
            f::log_rra_max});
    return r.rest_is_zero();
}

}  // namespace

Qp::~Qp() = default;

uint8_t Hca::create_qp(Context* ctx, const uint8_t* in, uint8_t* out, mlx5dv_devx_obj** obj) {
    Reader cmd(in, prm::create_qp_in::size);
    uint8_t context[prm::qpc::size];
    cmd.take_bytes(prm::create_qp_in::qpc, context, sizeof context);
    cmd.skip({prm::cmd_in::opcode, prm::cmd_in::uid, prm::create_qp_in::wq_umem_offset, prm::create_qp_in::wq_umem_id,
              prm::create_qp_in::wq_umem_valid});
    if (!cmd.rest_is_zero() || !only_known(context)) return bad_param;
    if (config_->max_qp != 0 && live_qps_ >= config_->max_qp) return exceed_lim;
    // Slots are reused but never freed: a doorbell may be on its way to a queue pair that goes away.
    Qp* qp = nullptr;
    for (auto& q : qp_store_) {
        if (q->qpn.load(std::memory_order_relaxed) == 0) qp = qp == nullptr ? q.get() : qp;
    }
    if (qp == nullptr) {
        if (qp_store_.size() >= max_qps) return exceed_lim;
        auto fresh = std::make_unique<Qp>();
        fresh->hca = this;
        fresh->index = static_cast<uint32_t>(qp_store_.size());
        fresh->shared = &shared_->qps[fresh->index];
        qp = fresh.get();
        qp_store_.push_back(std::move(fresh));
        qps_[qp->index].store(qp, std::memory_order_release);
        shared_->qp_high.store(qp->index + 1, std::memory_order_release);
    }
    lock_qp(qp);
    std::memcpy(qp->context, context, sizeof context);
    const uint8_t status = build_qp(ctx, in, qp);
    if (status == ok) publish_qp(qp);
    qp->owner.exchange(0);
    if (status != ok) return status;
    put(out, prm::create_qp_out::qpn, qp->obj.number);
    *obj = &qp->obj;
    return ok;
}

// Takes what the context names, without side effects until all of it is there.
uint8_t Hca::build_qp(Context* ctx, const uint8_t* in, Qp* qp) {
    namespace f = prm::qpc;
    const uint8_t* c = qp->context;
    if (get32(c, f::st) != static_cast<uint32_t>(prm::service_type::rc)) return bad_param;
    const auto rq = static_cast<prm::rq_type>(get32(c, f::rq_type));
    if (rq != prm::rq_type::own && rq != prm::rq_type::none) return bad_param;
    if (get32(c, f::ts_format) > 1) return bad_param;
    if (get32(c, f::no_sq) == 0 && get32(c, f::log_sq_size) > config_->log_max_qp_sz) return exceed_lim;
    qp->pd = find_pd(ctx, get32(c, f::pd));
    qp->uar = find_uar(ctx, get32(c, f::uar_page));
    qp->send_cq = find_own_cq(ctx, get32(c, f::cqn_snd));
    qp->recv_cq = rq == prm::rq_type::own ? find_own_cq(ctx, get32(c, f::cqn_rcv)) : nullptr;
    if (qp->pd == nullptr || qp->uar == nullptr || qp->send_cq == nullptr) return bad_resource;
    if (rq == prm::rq_type::own && qp->recv_cq == nullptr) return bad_resource;
    return place_queues(ctx, in, qp);
}

// With one umem the receive queue comes first and the send queue follows.
uint8_t Hca::place_queues(Context* ctx, const uint8_t* in, Qp* qp) {
    namespace f = prm::qpc;
    const uint8_t* c = qp->context;
    const bool has_rq = qp->recv_cq != nullptr, has_sq = get32(c, f::no_sq) == 0;
    const uint32_t stride = get32(c, f::log_rq_stride) + 4, log_rq = get32(c, f::log_rq_size);
    const uint64_t rq_bytes = has_rq ? 1ull << (stride + log_rq) : 0;
    const uint64_t sq_bytes = has_sq ? uint64_t{prm::bb_bytes} << get32(c, f::log_sq_size) : 0;
    uint8_t status = ok;
    uint8_t* ring =
        umem_range(ctx, get32(in, prm::create_qp_in::wq_umem_id), prm::get(in, prm::create_qp_in::wq_umem_offset),
                   rq_bytes + sq_bytes, prm::bb_bytes, &qp->wq_umem, &status);
    if (ring == nullptr) return status;
    if (has_sq && rq_bytes % prm::bb_bytes != 0) return bad_param;
    uint8_t* dbr = umem_range(ctx, get32(c, f::dbr_umem_id), prm::get(c, f::dbr_addr), prm::qp_dbr_bytes, 8,
                              &qp->dbr_umem, &status);
    if (dbr == nullptr) return status;
    qp->sq = ring + rq_bytes;
    qp->depth = has_sq ? 1u << get32(c, f::log_sq_size) : 0;
    qp->dbr = dbr;
    QpShared& s = *qp->shared;
    s.has_rq.store(has_rq, std::memory_order_relaxed);
    s.rq_log_size.store(log_rq, std::memory_order_relaxed);
    s.rq_log_stride.store(stride, std::memory_order_relaxed);
    s.rcq.store(has_rq ? qp->recv_cq->obj.number : 0, std::memory_order_relaxed);
    set_ref(s.rq, qp->wq_umem, ring);
    set_ref(s.rq_dbr, qp->dbr_umem, dbr);
    return ok;
}

void Hca::publish_qp(Qp* qp) {
    namespace f = prm::qpc;
    qp->pd->refs++;
    qp->send_cq->refs++;
    if (qp->recv_cq != nullptr) qp->recv_cq->refs++;
    qp->wq_umem->refs++;
    qp->dbr_umem->refs++;
    qp->uar->users++;
    live_qps_++;
    for (uint32_t i = 0; i < counter_total; i++) {
        counters_.add(static_cast<Counter>(i), qp->counters.value[i].exchange(0));  // of the slot's last user
    }
    counters_.add(count_doorbells, qp->doorbells.exchange(0));
    qp->user_index = get32(qp->context, f::user_index);
    QpShared& s = *qp->shared;
    s.user_index.store(qp->user_index, std::memory_order_relaxed);
    s.pd.store(qp->pd->number, std::memory_order_relaxed);
    reset_qp(qp);
    uint32_t number = 0;
    while (number == 0) number = (next_generation() << log_max_qps | qp->index) & 0xffffff;
    qp->obj.number = number;
    qp->uar_page.store(qp->uar->page_id, std::memory_order_relaxed);
    s.ident.store(number, std::memory_order_release);
    qp->qpn.store(number, std::memory_order_release);
}

// Back to the beginning: counters 0, no peer. The caller holds the queue pair and nobody else is inside.
void Hca::reset_qp(Qp* qp) {
    QpShared& s = *qp->shared;
    s.state.store(static_cast<uint32_t>(prm::qp_state::rst), std::memory_order_release);
    for (A32* word : {&s.remote_qpn, &s.access, &s.atomic_mode, &s.min_rnr_nak, &s.rq_head, &s.expected_psn}) {
        word->store(0, std::memory_order_relaxed);
    }
    s.remote_gid_hi.store(0, std::memory_order_relaxed);
    s.remote_gid_lo.store(0, std::memory_order_relaxed);
    s.mtu.store(256, std::memory_order_relaxed);
    s.log_msg_max.store(0, std::memory_order_relaxed);
    qp->link.reset();
    qp->remote = Address{};
    qp->remote_qpn = 0;
    qp->next = 0;
    qp->psn = 0;
    qp->first_error_seen = false;
    qp->delayed = false;
    qp->stall = Stall::none;
    qp->wake.store(0, std::memory_order_relaxed);
    qp->last_doorbell.store(-1, std::memory_order_relaxed);
}

uint8_t Hca::query_qp(Qp* qp, uint8_t* out) {
    namespace f = prm::qpc;
    lock_qp(qp);
    uint8_t* c = out + prm::query_qp_out::qpc;
    std::memcpy(c, qp->context, f::size);
    QpShared& s = *qp->shared;
    const uint32_t raw = __atomic_load_n(reinterpret_cast<const uint32_t*>(qp->dbr + 4), __ATOMIC_ACQUIRE);
    const uint32_t rq = __atomic_load_n(reinterpret_cast<const uint32_t*>(qp->dbr), __ATOMIC_ACQUIRE);
    put(c, f::state, s.state.load());
    put(c, f::hw_sq_wqebb_counter, qp->next);
    put(c, f::sw_sq_wqebb_counter, __builtin_bswap32(raw));
    put(c, f::hw_rq_counter, s.rq_head.load());
    put(c, f::sw_rq_counter, __builtin_bswap32(rq));
    put(c, f::next_send_psn, qp->psn);
    put(c, f::last_acked_psn, qp->psn - 1);
    put(c, f::next_rcv_psn, s.expected_psn.load());
    put(c, f::cur_retry_count, qp->retries_left);
    put(c, f::cur_rnr_retry, qp->rnr_left);
    put(c, f::data_in_order, config_->mode != Mode::chaos);
    unlock_qp(qp);
    return ok;
}

uint8_t Hca::destroy_qp(Qp* qp) {
    lock_qp(qp);
    engine_->settle(*qp);
    QpShared& s = *qp->shared;
    s.ident.store(0, std::memory_order_seq_cst);
    qp->qpn.store(0, std::memory_order_seq_cst);
    if (quiesce_one(&s) != 0) {
        s.ident.store(qp->obj.number);
        qp->qpn.store(qp->obj.number);
        unlock_qp(qp);
        return static_cast<uint8_t>(prm::cmd_status::resource_busy);
    }
    reset_qp(qp);
    qp->depth = 0;
    qp->pd->refs--;
    qp->send_cq->refs--;
    if (qp->recv_cq != nullptr) qp->recv_cq->refs--;
    qp->wq_umem->refs--;
    qp->dbr_umem->refs--;
    live_qps_--;
    UarPage* uar = qp->uar;
    unlock_qp(qp);
    unuse_uar(uar);
    return ok;
}

}  // namespace pgas::softhca
