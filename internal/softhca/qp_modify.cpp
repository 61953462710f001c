// The queue pair's state machine.
#include "engine.h"
#include "hca.h"
#include "wire_shm.h"

namespace pgas::softhca {
namespace {

namespace f = prm::qpc;
using prm::cmd;
using prm::qp_state;

constexpr uint8_t ok = static_cast<uint8_t>(prm::cmd_status::ok);
constexpr uint8_t bad_param = static_cast<uint8_t>(prm::cmd_status::bad_param);
constexpr uint8_t bad_index = static_cast<uint8_t>(prm::cmd_status::bad_index);
constexpr uint8_t bad_qp_state = static_cast<uint8_t>(prm::cmd_status::bad_qp_state);

constexpr prm::field in_path(prm::field x) { return prm::at(x, f::primary_address_path); }

struct Transition {
    cmd op;
    qp_state from, to;
    uint32_t optional;  // opt_param_mask bits that may be set
};

constexpr uint32_t access_bits = prm::opt_param_rre | prm::opt_param_rae | prm::opt_param_rwe;
const Transition transitions[] = {
    {cmd::rst2init_qp, qp_state::rst, qp_state::init, 0},
    {cmd::init2init_qp, qp_state::init, qp_state::init,
     access_bits | prm::opt_param_pkey_index | prm::opt_param_primary_port},
    {cmd::init2rtr_qp, qp_state::init, qp_state::rtr, access_bits | prm::opt_param_pkey_index},
    {cmd::rtr2rts_qp, qp_state::rtr, qp_state::rts, access_bits | prm::opt_param_pm_state | prm::opt_param_rnr_timeout},
    {cmd::rts2rts_qp, qp_state::rts, qp_state::rts, access_bits | prm::opt_param_pm_state | prm::opt_param_rnr_timeout},
    {cmd::sqerr2rts_qp, qp_state::sqer, qp_state::rts, access_bits | prm::opt_param_rnr_timeout},
};

const Transition* find_transition(cmd op) {
    for (const Transition& t : transitions) {
        if (t.op == op) return &t;
    }
    return nullptr;
}

void copy_field(uint8_t* to, const uint8_t* from, prm::field x) { put(to, x, prm::get(from, x)); }

// The access rights, all of them (mandatory) or those that the mask names.
void take_access(Qp* qp, const uint8_t* c, uint32_t mask) {
    QpShared& s = *qp->shared;
    uint32_t access = s.access.load(std::memory_order_relaxed);
    const auto set = [&](uint32_t bit, prm::field x, uint32_t right) {
        if ((mask & bit) == 0) return;
        access = get32(c, x) ? access | right : access & ~right;
        copy_field(qp->context, c, x);
    };
    set(prm::opt_param_rre, f::rre, acc_remote_read);
    set(prm::opt_param_rwe, f::rwe, acc_remote_write);
    set(prm::opt_param_rae, f::rae, acc_remote_atomic);
    s.access.store(access, std::memory_order_relaxed);
    if ((mask & prm::opt_param_rae) != 0) {
        s.atomic_mode.store(get32(c, f::atomic_mode), std::memory_order_relaxed);
        copy_field(qp->context, c, f::atomic_mode);
    }
}

// Clears what a transition may name; what is left is reserved or belongs to another transition.
bool only_known(cmd op, const uint8_t* context) {
    namespace a = prm::ads;
    Reader r(context, f::size);
    // Peers repeat identity in later transitions; the device ignores it there.
    r.skip({f::st, f::pm_state, f::rre, f::rwe, f::rae, f::atomic_mode, in_path(a::vhca_port_num),
            in_path(a::pkey_index), f::min_rnr_nak});
    if (op == cmd::init2rtr_qp) {
        r.skip({f::mtu,
                f::log_msg_max,
                f::remote_qpn,
                f::next_rcv_psn,
                f::log_rra_max,
                in_path(a::fl),
                in_path(a::grh),
                in_path(a::mlid),
                in_path(a::rlid),
                in_path(a::src_addr_index),
                in_path(a::stat_rate),
                in_path(a::hop_limit),
                in_path(a::tclass),
                in_path(a::flow_label),
                in_path(a::dscp),
                in_path(a::udp_sport),
                in_path(a::eth_prio),
                in_path(a::sl),
                in_path(a::rmac_47_32),
                in_path(a::rmac_31_0),
                in_path(a::ack_timeout)});
        uint8_t gid[16];
        r.take_bytes(f::primary_address_path + prm::byte_of(a::rgid_rip), gid, sizeof gid);
    }
    if (op == cmd::rtr2rts_qp || op == cmd::rts2rts_qp || op == cmd::sqerr2rts_qp) {
        r.skip({f::next_send_psn, f::log_sra_max, f::retry_count, f::rnr_retry, f::log_ack_req_freq,
                in_path(a::ack_timeout)});
    }
    return r.rest_is_zero();
}

uint8_t to_init(Qp* qp, const uint8_t* c) {
    if (get32(c, in_path(prm::ads::vhca_port_num)) != 1) return bad_param;
    if (get32(c, in_path(prm::ads::pkey_index)) != 0) return bad_index;
    if (get32(c, f::atomic_mode) > static_cast<uint32_t>(prm::atomic_mode::up_to8b)) return bad_param;
    copy_field(qp->context, c, f::pm_state);
    take_access(qp, c, access_bits);
    return ok;
}

uint8_t to_rtr(Qp* qp, const uint8_t* c, const Config& config) {
    const uint32_t mtu = get32(c, f::mtu), log_msg = get32(c, f::log_msg_max);
    if (mtu < 1 || mtu > 5) return bad_param;
    if (log_msg > prm::log_msg_max || log_msg > config.log_max_msg) return bad_param;
    if (get32(c, f::log_rra_max) > 4) return bad_param;
    QpShared& s = *qp->shared;
    for (prm::field x : {f::mtu, f::log_msg_max, f::remote_qpn, f::next_rcv_psn, f::log_rra_max, f::min_rnr_nak}) {
        copy_field(qp->context, c, x);
    }
    std::memcpy(qp->context + f::primary_address_path, c + f::primary_address_path, prm::ads::size);
    qp->remote_qpn = get32(c, f::remote_qpn);
    qp->mtu = 128u << mtu;
    qp->max_message = 1ull << log_msg;
    s.mtu.store(qp->mtu, std::memory_order_relaxed);
    s.log_msg_max.store(log_msg, std::memory_order_relaxed);
    s.min_rnr_nak.store(get32(c, f::min_rnr_nak), std::memory_order_relaxed);
    s.expected_psn.store(get32(c, f::next_rcv_psn), std::memory_order_relaxed);
    s.remote_gid_hi.store(qp->remote.hi(), std::memory_order_relaxed);
    s.remote_gid_lo.store(qp->remote.lo(), std::memory_order_relaxed);
    s.remote_qpn.store(qp->remote_qpn, std::memory_order_release);
    return ok;
}

uint8_t to_rts(Qp* qp, const uint8_t* c) {
    if (get32(c, f::log_sra_max) > 4) return bad_param;
    for (prm::field x : {f::next_send_psn, f::log_sra_max, f::retry_count, f::rnr_retry, f::log_ack_req_freq,
                         in_path(prm::ads::ack_timeout)}) {
        copy_field(qp->context, c, x);
    }
    qp->psn = get32(c, f::next_send_psn);
    qp->log_sra_max = get32(c, f::log_sra_max);
    qp->retry_count = static_cast<uint8_t>(get32(c, f::retry_count));
    qp->rnr_retry = static_cast<uint8_t>(get32(c, f::rnr_retry));
    qp->ack_timeout = static_cast<uint8_t>(get32(c, in_path(prm::ads::ack_timeout)));
    qp->retries_left = qp->retry_count;
    qp->rnr_left = qp->rnr_retry;
    return ok;
}

}  // namespace

// Where the path leads. RoCE goes by GID, InfiniBand by LID or, with a GRH, by GID.
uint8_t Hca::check_path(const uint8_t* ads, Address* to) {
    namespace a = prm::ads;
    if (get32(ads, a::vhca_port_num) != 1) return bad_param;
    const bool ib = device_->config.infiniband;
    const bool by_lid = ib && get32(ads, a::grh) == 0;
    if (by_lid) {
        to->by_lid = true;
        to->lid = static_cast<uint16_t>(get32(ads, a::rlid));
        return to->lid != 0 && get32(ads, a::udp_sport) == 0 ? ok : bad_param;
    }
    const uint32_t index = get32(ads, a::src_addr_index);
    uint8_t own[16];
    if (index >= device_->gids.size() || !device_->gid(index, own)) return bad_index;
    const GidKind kind = device_->gids[index];
    const bool v2 = kind == GidKind::link_local_v2 || kind == GidKind::ipv4_v2;
    if (!v2 && get32(ads, a::udp_sport) != 0) return bad_param;
    if (!ib && (get32(ads, a::grh) != 0 || get32(ads, a::hop_limit) == 0)) return bad_param;
    std::memcpy(to->gid, ads + prm::byte_of(a::rgid_rip), sizeof to->gid);
    return to->hi() == 0 && to->lo() == 0 ? bad_param : ok;
}

uint8_t Hca::to_error_or_reset(Qp* qp, cmd op, const uint8_t* in) {
    Reader r(in, prm::qp2err_in::size);
    r.skip({prm::cmd_in::opcode, prm::cmd_in::uid, prm::qp2err_in::qpn});
    if (!r.rest_is_zero()) return bad_param;
    lock_qp(qp);
    engine_->settle(*qp);
    uint8_t status = ok;
    if (op == cmd::qp2err) {
        fail_qp(qp->shared);
    } else {
        qp->shared->state.store(static_cast<uint32_t>(qp_state::rst), std::memory_order_seq_cst);
        if (quiesce_one(qp->shared) == 0) {
            reset_qp(qp);
        } else {
            status = static_cast<uint8_t>(prm::cmd_status::resource_busy);
        }
    }
    unlock_qp(qp);
    return status;
}

uint8_t Hca::modify_qp(Qp* qp, cmd op, const uint8_t* in) {
    if (op == cmd::qp2err || op == cmd::qp2rst) return to_error_or_reset(qp, op, in);
    const Transition* t = find_transition(op);
    Reader r(in, prm::modify_qp_in::size);
    uint8_t c[f::size];
    r.take_bytes(prm::modify_qp_in::qpc, c, sizeof c);
    r.skip({prm::cmd_in::opcode, prm::cmd_in::uid, prm::modify_qp_in::qpn});
    const uint32_t mask = r.take32(prm::modify_qp_in::opt_param_mask);
    if (t == nullptr || !r.rest_is_zero()) return bad_param;
    if (static_cast<qp_state>(qp->shared->state.load()) != t->from) return bad_qp_state;
    if ((mask & ~t->optional) != 0 || !only_known(op, c)) return bad_param;
    Address to;
    std::shared_ptr<Link> link;
    if (op == cmd::init2rtr_qp) {
        const uint8_t status = check_path(c + f::primary_address_path, &to);
        if (status != ok) return status;
        // A peer that is not there is no error: its silence will be, as on hardware.
        link = wire_->connect(to, 2000);
    }
    lock_qp(qp);
    uint8_t status = ok;
    switch (op) {
        case cmd::rst2init_qp:
            status = to_init(qp, c);
            break;
        case cmd::init2rtr_qp:
            qp->remote = to;
            qp->link = std::move(link);
            status = to_rtr(qp, c, *config_);
            break;
        case cmd::rtr2rts_qp:
            status = to_rts(qp, c);
            break;
        default:
            break;
    }
    if (status == ok) {
        take_access(qp, c, mask);
        if (mask & prm::opt_param_rnr_timeout) {
            qp->shared->min_rnr_nak.store(get32(c, f::min_rnr_nak), std::memory_order_relaxed);
            copy_field(qp->context, c, f::min_rnr_nak);
        }
        // A peer may have moved it to ERR meanwhile; that wins.
        uint32_t from = static_cast<uint32_t>(t->from);
        qp->shared->state.compare_exchange_strong(from, static_cast<uint32_t>(t->to), std::memory_order_acq_rel);
    }
    if (t->from == qp_state::rts || t->from == qp_state::sqer) {
        unlock_qp(qp);
    } else {
        // Doorbells that came too early stay ignored, so the engine is not rung.
        qp->owner.exchange(0, std::memory_order_seq_cst);
    }
    return status;
}

}  // namespace pgas::softhca
