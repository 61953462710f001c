// CREATE_CQ, QUERY_CQ, DESTROY_CQ.
#include "hca.h"

namespace pgas::softhca {
namespace {

constexpr uint8_t ok = static_cast<uint8_t>(prm::cmd_status::ok);
constexpr uint8_t bad_param = static_cast<uint8_t>(prm::cmd_status::bad_param);
constexpr uint8_t bad_resource = static_cast<uint8_t>(prm::cmd_status::bad_resource);
constexpr uint8_t exceed_lim = static_cast<uint8_t>(prm::cmd_status::exceed_lim);
constexpr uint8_t busy = static_cast<uint8_t>(prm::cmd_status::resource_busy);

void set_ref(MemRef& ref, const Umem* umem, const uint8_t* at) {
    ref.mem.store(umem->mem->id, std::memory_order_relaxed);
    ref.offset.store(static_cast<uint64_t>(at - umem->mem->base), std::memory_order_relaxed);
    ref.local_va.store(reinterpret_cast<uintptr_t>(at), std::memory_order_relaxed);
}

}  // namespace

uint8_t Hca::create_cq(Context* ctx, const uint8_t* in, uint8_t* out, mlx5dv_devx_obj** obj) {
    namespace f = prm::cqc;
    Reader cmd(in, prm::create_cq_in::size);
    auto cq = std::make_unique<Cq>();
    cmd.take_bytes(prm::create_cq_in::cqc, cq->context, f::size);
    cmd.skip({prm::cmd_in::opcode, prm::cmd_in::uid, prm::create_cq_in::cq_umem_valid});
    const uint32_t umem_id = cmd.take32(prm::create_cq_in::cq_umem_id);
    const uint64_t offset = cmd.take(prm::create_cq_in::cq_umem_offset);
    Reader r(cq->context, f::size);
    const uint32_t log_size = r.take32(f::log_cq_size), uar_page = r.take32(f::uar_page), eqn = r.take32(f::c_eqn);
    const uint32_t collapsed = r.take32(f::cc), overrun = r.take32(f::oi), dbr_umem = r.take32(f::dbr_umem_id);
    const uint64_t dbr_addr = r.take(f::dbr_addr);
    r.skip({f::dbr_umem_valid, f::log_page_size, f::cq_period, f::cq_max_count, f::cq_period_mode});
    const uint32_t timestamps = r.take32(f::cq_timestamp_format);
    if (!cmd.rest_is_zero() || !r.rest_is_zero() || timestamps > 1) return bad_param;
    if (eqn != completion_eqn) return bad_resource;
    if (log_size > config_->log_max_cq_sz) return exceed_lim;
    UarPage* uar = find_uar(ctx, uar_page);
    if (uar == nullptr) return bad_resource;
    uint8_t status = ok;
    uint8_t* ring =
        umem_range(ctx, umem_id, offset, uint64_t{prm::cqe_bytes} << log_size, prm::cqe_bytes, &cq->ring_umem, &status);
    if (ring == nullptr) return status;
    uint8_t* dbr = umem_range(ctx, dbr_umem, dbr_addr, prm::cq_dbr_bytes, 8, &cq->dbr_umem, &status);
    if (dbr == nullptr) return status;
    if (!(cq->ring_umem->access & IBV_ACCESS_LOCAL_WRITE)) return bad_param;  // the device could not write CQEs
    uint32_t index = 0;
    while (index < cqs_.size() && cqs_[index] != nullptr) index++;
    if (index == cqs_.size()) {
        if (cqs_.size() >= max_cqs) return exceed_lim;
        cqs_.emplace_back();
    }
    CqShared& s = shared_->cqs[index];
    cq->index = index;
    cq->uar = uar;
    cq->view = {&s, ring, dbr};
    set_ref(s.ring, cq->ring_umem, ring);
    set_ref(s.dbr, cq->dbr_umem, dbr);
    s.status.store(0, std::memory_order_relaxed);
    s.producer.store(0, std::memory_order_relaxed);
    s.log_size.store(log_size, std::memory_order_relaxed);
    s.flags.store((collapsed ? cq_collapsed : 0) | (overrun ? cq_ignore_overrun : 0), std::memory_order_relaxed);
    cq->obj.number = (next_generation() << log_max_cqs | index) & 0xffffff;
    s.ident.store(cq->obj.number, std::memory_order_release);
    cq->ring_umem->refs++;
    cq->dbr_umem->refs++;
    uar->users++;
    live_cqs_++;
    put(out, prm::create_cq_out::cqn, cq->obj.number);
    *obj = &cq->obj;
    cqs_[index] = std::move(cq);
    return ok;
}

Cq* Hca::find_own_cq(Context* ctx, uint32_t cqn) {
    const uint32_t index = cqn & (max_cqs - 1);
    if (index >= cqs_.size() || cqs_[index] == nullptr) return nullptr;
    Cq* cq = cqs_[index].get();
    return cq->obj.number == cqn && cq->obj.ctx == ctx ? cq : nullptr;
}

uint8_t Hca::query_cq(Cq* cq, uint8_t* out) {
    namespace f = prm::cqc;
    uint8_t* c = out + prm::query_cq_out::cqc;
    std::memcpy(c, cq->context, f::size);
    const uint32_t raw = __atomic_load_n(reinterpret_cast<const uint32_t*>(cq->view.dbr), __ATOMIC_ACQUIRE);
    put(c, f::status, cq->view.shared->status.load());
    put(c, f::producer_counter, cq->view.shared->producer.load());
    put(c, f::consumer_counter, __builtin_bswap32(raw));
    return ok;
}

uint8_t Hca::destroy_cq(Cq* cq) {
    if (cq->refs != 0) return busy;
    cq->view.shared->ident.store(0, std::memory_order_seq_cst);
    if (quiesce() != 0) return busy;
    cq->ring_umem->refs--;
    cq->dbr_umem->refs--;
    unuse_uar(cq->uar);
    live_cqs_--;
    cqs_[cq->index].reset();
    return ok;
}

}  // namespace pgas::softhca
