// Receive queues: SEND and WRITE with immediate consume a receive WQE and make a completion at the responder.
#include <algorithm>

#include "engine.h"
#include "place.h"
#include "requester.h"

namespace pgas::softhca {
namespace {

struct ReceiveWqe {
    Iov iov[32];
    uint32_t iovs = 0;
    uint64_t capacity = 0;
};

struct ReceiveQueue {
    uint8_t* ring = nullptr;
    const uint8_t* dbr = nullptr;
    CqView cq;
};

// Maps what the receive side needs. ack when all is there.
Reply map_queue(PeerView& view, QpShared& target, ReceiveQueue* q) {
    bool refused = false;
    q->cq.shared = find_cq(view.peer(), target.rcq.load(std::memory_order_relaxed));
    if (q->cq.shared == nullptr) return Reply::nak_operation;
    uint8_t* parts[4] = {
        view.resolve(target.rq, 0, &refused),
        view.resolve(target.rq_dbr, 0, &refused),
        view.resolve(q->cq.shared->ring, 0, &refused),
        view.resolve(q->cq.shared->dbr, 0, &refused),
    };
    if (refused) return Reply::nak_operation;
    if (std::count(parts, parts + 4, nullptr) != 0) return Reply::again;
    q->ring = parts[0];
    q->dbr = parts[1];
    q->cq.ring = parts[2];
    q->cq.dbr = parts[3];
    return Reply::ack;
}

// Receive WQEs posted and not consumed.
uint16_t posted(const QpShared& qp, const uint8_t* dbr) {
    const uint32_t raw = __atomic_load_n(reinterpret_cast<const uint32_t*>(dbr), __ATOMIC_ACQUIRE);
    return static_cast<uint16_t>((__builtin_bswap32(raw) & 0xffff) - qp.rq_head.load(std::memory_order_relaxed));
}

// Reads the scatter list of the head WQE. ack, again, or nak_access when a key is bad.
Reply load_receive(PeerView& view, QpShared& target, const uint8_t* ring, ReceiveWqe* out) {
    const uint32_t stride = 1u << target.rq_log_stride.load(std::memory_order_relaxed);
    const uint32_t mask = (1u << target.rq_log_size.load(std::memory_order_relaxed)) - 1;
    const uint8_t* wqe = ring + (target.rq_head.load(std::memory_order_relaxed) & mask) * stride;
    const uint32_t pd = target.pd.load(std::memory_order_relaxed);
    for (uint32_t at = 0; at < stride && out->iovs < 32; at += prm::ds_bytes) {
        const uint32_t lkey = get32(wqe + at, prm::data_seg::lkey), n = get32(wqe + at, prm::data_seg::byte_count);
        if (lkey == prm::invalid_lkey) break;
        if (n == 0) continue;
        const uint64_t va = prm::get(wqe + at, prm::data_seg::addr);
        MkeyShared* key = nullptr;
        if (check_key(view.peer(), lkey, pd, va, n, acc_local_write, &key) != KeyError::ok) return Reply::nak_access;
        bool refused = false;
        uint8_t* base = view.resolve(key->mem, va - key->start.load(std::memory_order_relaxed), &refused);
        if (base == nullptr) return refused ? Reply::nak_operation : Reply::again;
        out->iov[out->iovs++] = {base, n};
        out->capacity += n;
    }
    return Reply::ack;
}

void move_to_err(PeerView& view, QpShared& target) {
    target.state.store(static_cast<uint32_t>(prm::qp_state::err), std::memory_order_release);
    view.peer()->dirty.store(1, std::memory_order_release);
    view.kick();
}

Completion responder_completion(const QpShared& target, prm::cqe_opcode op, uint16_t index) {
    Completion c;
    c.opcode = op;
    c.qpn = target.ident.load(std::memory_order_relaxed);
    c.user_index = target.user_index.load(std::memory_order_relaxed);
    c.wqe_counter = index;
    return c;
}

// The responder cannot take the message: it completes its receive WQE in error, and the requester gets a NAK.
Answer receive_error(PeerView& view, Qp& requester, QpShared& target, const ReceiveQueue& q, prm::syndrome why,
                     Reply nak) {
    const uint32_t head = target.rq_head.load(std::memory_order_relaxed);
    Completion c = responder_completion(target, prm::cqe_opcode::resp_err, static_cast<uint16_t>(head));
    c.syndrome = why;
    target.rq_head.store(head + 1, std::memory_order_relaxed);
    move_to_err(view, target);
    write_cqe(q.cq, c, requester.hca->counters());
    requester.link_bell = true;
    return {nak};
}

void scatter(Qp& requester, const ReceiveWqe& w, const Request& r, Effects& fx) {
    uint32_t to = 0;
    uint64_t used = 0;
    for (uint32_t i = 0; i < r.iovs; i++) {
        uint8_t* from = r.iov[i].base;
        uint64_t left = r.iov[i].length;
        while (left > 0) {
            const uint64_t n = std::min(left, w.iov[to].length - used);
            const Iov piece = {from, n, r.iov[i].transient};
            fx.write(requester, w.iov[to].base + used, &piece, 1, false);
            from += n;
            left -= n;
            used += n;
            if (used == w.iov[to].length) {
                to++;
                used = 0;
            }
        }
    }
}

}  // namespace

Answer respond_receive(PeerView& view, Qp& requester, QpShared& target, Request& r, Effects& fx) {
    const uint8_t timer = static_cast<uint8_t>(target.min_rnr_nak.load(std::memory_order_relaxed));
    if (target.has_rq.load(std::memory_order_relaxed) == 0) return {Reply::rnr, timer};
    ReceiveQueue q;
    const Reply mapped = map_queue(view, target, &q);
    if (mapped != Reply::ack) return {mapped};
    const uint16_t n = posted(target, q.dbr);
    if (n == 0 || n > 1u << target.rq_log_size.load(std::memory_order_relaxed)) return {Reply::rnr, timer};
    ReceiveWqe w;
    if (r.verb == Verb::send) {
        const Reply loaded = load_receive(view, target, q.ring, &w);
        if (loaded == Reply::again) return {Reply::again};
        if (loaded != Reply::ack) {
            return receive_error(view, requester, target, q, prm::syndrome::local_prot, Reply::nak_operation);
        }
        if (w.capacity < r.length) {
            return receive_error(view, requester, target, q, prm::syndrome::local_length, Reply::nak_invalid);
        }
    }
    const uint32_t head = target.rq_head.load(std::memory_order_relaxed);
    target.rq_head.store(head + 1, std::memory_order_relaxed);
    const uint32_t psn = r.psn + packets(r.length, target.mtu.load(std::memory_order_relaxed));
    target.expected_psn.store(psn & 0xffffff, std::memory_order_relaxed);
    if (r.verb == Verb::send) {
        scatter(requester, w, r, fx);
    } else if (r.length > 0) {
        fx.write(requester, reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(r.va)), r.iov, r.iovs, false);
    }
    const auto op = r.verb == Verb::write_imm ? prm::cqe_opcode::resp_wr_imm
                    : r.has_imm               ? prm::cqe_opcode::resp_send_imm
                                              : prm::cqe_opcode::resp_send;
    Completion c = responder_completion(target, op, static_cast<uint16_t>(head));
    c.byte_count = static_cast<uint32_t>(r.length);
    c.imm_raw = r.imm_raw;
    c.solicited = r.solicited;
    fx.settle(requester);
    requester.link_bell = true;
    if (!write_cqe(q.cq, c, requester.hca->counters())) {
        move_to_err(view, target);
        return {Reply::nak_operation};
    }
    return {Reply::ack};
}

// Completes the posted receive WQEs of a queue pair in ERR. The caller holds it and no requester is inside.
void flush_receive(Hca& hca, Qp& qp) {
    QpShared& s = *qp.shared;
    if (s.has_rq.load(std::memory_order_relaxed) == 0 || qp.recv_cq == nullptr) return;
    const uint8_t* dbr = reinterpret_cast<const uint8_t*>(s.rq_dbr.local_va.load(std::memory_order_relaxed));
    const uint32_t size = 1u << s.rq_log_size.load(std::memory_order_relaxed);
    uint32_t n = std::min<uint32_t>(posted(s, dbr), size);
    for (; n > 0; n--) {
        const uint32_t head = s.rq_head.load(std::memory_order_relaxed);
        Completion c = responder_completion(s, prm::cqe_opcode::resp_err, static_cast<uint16_t>(head));
        c.syndrome = prm::syndrome::wr_flush;
        s.rq_head.store(head + 1, std::memory_order_relaxed);
        if (!write_cqe(qp.recv_cq->view, c, hca.counters())) return;
        hca.counters().add(count_cqe_errors);
    }
    hca.ring_own_bell();
}

}  // namespace pgas::softhca
