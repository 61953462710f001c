#include "requester.h"

#include <algorithm>

#include "engine.h"
#include "place.h"
#include "service.h"

namespace pgas::softhca {
namespace {

constexpr uint8_t vendor_syndrome = 0x88;  // mlx5 values are private; this one says "software HCA"

uint16_t record(const Qp& qp) {
    const uint32_t raw = __atomic_load_n(reinterpret_cast<const uint32_t*>(qp.dbr + 4), __ATOMIC_ACQUIRE);
    return static_cast<uint16_t>(__builtin_bswap32(raw));
}

// Copies from the ring; a WQE may wrap at any 16-byte boundary.
void fetch(const Qp& qp, uint16_t index, uint32_t from, uint32_t bytes, uint8_t* out) {
    const uint32_t ring = qp.depth * prm::bb_bytes;
    const uint32_t at = ((index & (qp.depth - 1)) * prm::bb_bytes + from) & (ring - 1);
    const uint32_t first = std::min(bytes, ring - at);
    std::memcpy(out, qp.sq + at, first);
    std::memcpy(out + first, qp.sq, bytes - first);
}

void stall(Hca& hca, Qp& qp, Stall why, uint64_t us, bool timed = true) {
    qp.stall = why;
    qp.due = Clock::time_point::max();
    if (!timed) return;
    qp.due = Clock::now() + std::chrono::microseconds(us);
    hca.service().arm(qp.index, qp.due);
}

uint64_t scaled(Hca& hca, double us) { return static_cast<uint64_t>(us / hca.config().time_scale) + 1; }

void fail(Hca& hca, Qp& qp, Effects& fx, const Wqe& wqe, prm::syndrome why) {
    Completion c;
    c.opcode = prm::cqe_opcode::req_err;
    c.send_opcode = static_cast<uint8_t>(wqe.opcode);
    c.syndrome = why;
    c.vendor = vendor_syndrome;
    c.wqe_counter = wqe.index;
    c.qpn = qp.shared->ident.load(std::memory_order_relaxed);
    c.user_index = qp.user_index;
    qp.stall = Stall::none;
    qp.delayed = false;
    qp.first_error_seen = true;
    qp.next = static_cast<uint16_t>(qp.next + wqe.blocks);
    qp.counters.add(count_cqe_errors);
    hca.fail_qp(qp.shared);
    fx.complete(qp, c);
}

// A QP in ERR completes everything with "flushed", also what is rung later.
Step flush_one(Hca& hca, Qp& qp, Effects& fx) {
    const uint16_t n = waiting(qp);
    if (n == 0) return Step::idle;
    Wqe wqe;
    wqe.index = qp.next;
    if (n > qp.depth) {
        qp.next = record(qp);  // nothing in the ring can be trusted
        return Step::executed;
    }
    uint8_t ctrl[16];
    fetch(qp, qp.next, 0, sizeof ctrl, ctrl);
    if (get32(ctrl, prm::ctrl_seg::wqe_index) == qp.next) {
        const uint32_t ds = std::max(1u, get32(ctrl, prm::ctrl_seg::ds));
        wqe.blocks = std::min<uint32_t>((ds + 3) / 4, n);
    }
    const auto mode = static_cast<prm::completion_mode>(get32(ctrl, prm::ctrl_seg::completion));
    wqe.opcode = static_cast<prm::opcode>(get32(ctrl, prm::ctrl_seg::opcode));
    qp.counters.add(count_wqe_flushed);
    if (mode == prm::completion_mode::first_error && qp.first_error_seen) {
        qp.next = static_cast<uint16_t>(qp.next + wqe.blocks);
        return Step::executed;
    }
    fail(hca, qp, fx, wqe, prm::syndrome::wr_flush);
    return Step::executed;
}

Counter opcode_counter(prm::opcode op) {
    switch (op) {
        case prm::opcode::rdma_write:
            return count_wqe_write;
        case prm::opcode::rdma_write_imm:
            return count_wqe_write_imm;
        case prm::opcode::rdma_read:
            return count_wqe_read;
        case prm::opcode::atomic_cs:
            return count_wqe_atomic_cs;
        case prm::opcode::atomic_fa:
            return count_wqe_atomic_fa;
        case prm::opcode::atomic_masked_cs:
            return count_wqe_masked_cs;
        case prm::opcode::atomic_masked_fa:
            return count_wqe_masked_fa;
        case prm::opcode::send:
            return count_wqe_send;
        case prm::opcode::send_imm:
            return count_wqe_send_imm;
        case prm::opcode::dump:
            return count_wqe_dump;
        default:
            return count_wqe_nop;
    }
}

void succeed(Qp& qp, Effects& fx, const Wqe& wqe) {
    qp.retries_left = qp.retry_count;
    qp.rnr_left = qp.rnr_retry;
    qp.delayed = false;
    qp.next = static_cast<uint16_t>(qp.next + wqe.blocks);
    qp.counters.add(opcode_counter(wqe.opcode));
    Completion c;
    c.send_opcode = static_cast<uint8_t>(wqe.opcode);
    c.wqe_counter = wqe.index;
    c.qpn = qp.shared->ident.load(std::memory_order_relaxed);
    c.user_index = qp.user_index;
    c.wanted = wqe.completion >= prm::completion_mode::always;
    if (wqe.remote && (wqe.request.verb == Verb::read || wqe.request.verb == Verb::atomic)) {
        c.byte_count = static_cast<uint32_t>(wqe.request.length);
    }
    fx.complete(qp, c);
}

void count_bytes(Qp& qp, const Request& r) {
    switch (r.verb) {
        case Verb::write:
        case Verb::write_imm:
            qp.counters.add(count_bytes_written, r.length);
            break;
        case Verb::read:
            qp.counters.add(count_bytes_read, r.length);
            break;
        case Verb::send:
            qp.counters.add(count_bytes_sent, r.length);
            break;
        case Verb::atomic:
            break;
    }
}

Answer send(Hca& hca, Qp& qp, Wqe& wqe, Effects& fx) {
    Config& config = hca.config();
    if (config.drop_request != 0) {
        const uint64_t n = config.requests.fetch_add(1, std::memory_order_relaxed) + 1;
        if (n >= config.drop_request && n - config.drop_request < config.drop_count) {
            qp.counters.add(count_faults_injected);
            return {Reply::silent};
        }
    }
    if (!qp.link_open || hca.shared()->port_down.load(std::memory_order_relaxed) != 0) return {Reply::silent};
    wqe.request.psn = qp.psn;
    return qp.link->execute(qp, wqe.request, fx);
}

Step no_answer(Hca& hca, Qp& qp) {
    if (qp.ack_timeout == 0) {
        stall(hca, qp, Stall::silent, 0, false);
    } else {
        stall(hca, qp, Stall::silent, scaled(hca, 4.096 * static_cast<double>(1ull << qp.ack_timeout)));
    }
    hca.service().reconnect(qp.index);
    return Step::stalled;
}

Step not_ready(Hca& hca, Qp& qp, Effects& fx, const Wqe& wqe, uint8_t timer) {
    static const uint32_t us[32] = {655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
                                    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
                                    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};
    qp.counters.add(count_nak_rnr);
    if (qp.rnr_left == 0) {
        fail(hca, qp, fx, wqe, prm::syndrome::rnr_retry);
        return Step::executed;
    }
    if (qp.rnr_retry != 7) qp.rnr_left--;
    qp.counters.add(count_retries);
    stall(hca, qp, Stall::rnr, scaled(hca, us[timer & 31]));
    return Step::stalled;
}

Step conclude(Hca& hca, Qp& qp, Effects& fx, Wqe& wqe, Answer answer) {
    switch (answer.reply) {
        case Reply::duplicate:
            qp.counters.add(count_duplicates);
            [[fallthrough]];
        case Reply::ack:
            qp.psn = (qp.psn + packets(wqe.request.verb == Verb::atomic ? 1 : wqe.request.length, qp.mtu)) & 0xffffff;
            count_bytes(qp, wqe.request);
            succeed(qp, fx, wqe);
            return Step::executed;
        case Reply::silent:
            return no_answer(hca, qp);
        case Reply::again:
            stall(hca, qp, Stall::wire, 1000000);
            return Step::stalled;
        case Reply::rnr:
            return not_ready(hca, qp, fx, wqe, answer.rnr_timer);
        case Reply::nak_invalid:
            qp.counters.add(count_nak_invalid);
            fail(hca, qp, fx, wqe, prm::syndrome::remote_inv_req);
            return Step::executed;
        case Reply::nak_access:
            qp.counters.add(count_nak_access);
            fail(hca, qp, fx, wqe, prm::syndrome::remote_access);
            return Step::executed;
        case Reply::nak_operation:
            break;
    }
    fail(hca, qp, fx, wqe, prm::syndrome::remote_op);
    return Step::executed;
}

// Is the stall over, and did it exhaust the retries?
bool stall_over(Qp& qp, bool* exhausted) {
    const bool woken = qp.wake.exchange(0, std::memory_order_acquire) != 0;
    if (Clock::now() < qp.due && !(woken && qp.stall == Stall::wire)) return false;
    if (qp.stall == Stall::silent) {
        qp.counters.add(count_timeouts);
        if (qp.retries_left == 0) {
            *exhausted = true;
        } else {
            qp.retries_left--;
            qp.counters.add(count_retries);
        }
    }
    qp.stall = Stall::none;
    return true;
}

// Faults that count WQEs. Returns the syndrome of an injected error, or 0.
uint8_t injected(Hca& hca, Qp& qp) {
    Config& config = hca.config();
    if (!config.counts_wqes()) return 0;
    const uint64_t n = config.wqes.fetch_add(1, std::memory_order_relaxed) + 1;
    if (config.port_down != 0 && n == config.port_down) {
        qp.counters.add(count_faults_injected);
        hca.port_goes_down();
    }
    if (config.error_wqe == 0 || n != config.error_wqe) return 0;
    qp.counters.add(count_faults_injected);
    return config.error_syndrome;
}

// Reads the WQE at `next` into wqe. Returns 0 or a syndrome.
uint8_t load_wqe(Hca& hca, Qp& qp, uint16_t n, Wqe& wqe) {
    constexpr uint8_t bad = static_cast<uint8_t>(prm::syndrome::local_qp_op);
    wqe.index = qp.next;
    if (n > qp.depth) {
        wqe.blocks = n;
        return bad;
    }
    fetch(qp, qp.next, 0, prm::ds_bytes, wqe.bytes);
    wqe.ds = get32(wqe.bytes, prm::ctrl_seg::ds);
    wqe.opcode = static_cast<prm::opcode>(get32(wqe.bytes, prm::ctrl_seg::opcode));
    if (get32(wqe.bytes, prm::ctrl_seg::wqe_index) != qp.next || wqe.ds == 0) return bad;
    wqe.blocks = (wqe.ds + 3) / 4;
    if (wqe.blocks > n) {
        wqe.blocks = n;
        return bad;
    }
    fetch(qp, qp.next, prm::ds_bytes, (wqe.ds - 1) * prm::ds_bytes, wqe.bytes + prm::ds_bytes);
    return parse_wqe(hca, qp, wqe);
}

}  // namespace

uint16_t waiting(const Qp& qp) { return static_cast<uint16_t>(record(qp) - qp.next); }

bool peek(const Qp& qp, prm::fence_mode* fence, prm::opcode* opcode) {
    const uint16_t n = waiting(qp);
    if (n == 0 || n > qp.depth) return false;
    uint8_t ctrl[16];
    fetch(qp, qp.next, 0, sizeof ctrl, ctrl);
    *fence = static_cast<prm::fence_mode>(get32(ctrl, prm::ctrl_seg::fence));
    *opcode = static_cast<prm::opcode>(get32(ctrl, prm::ctrl_seg::opcode));
    return true;
}

uint32_t packets(uint64_t length, uint32_t mtu) {
    return length <= mtu ? 1 : static_cast<uint32_t>((length + mtu - 1) / mtu);
}

Step step(Hca& hca, Qp& qp, Effects& fx) {
    const auto state = static_cast<prm::qp_state>(qp.shared->state.load(std::memory_order_acquire));
    if (qp.depth == 0) return Step::idle;
    if (state == prm::qp_state::err) {
        qp.stall = Stall::none;
        return flush_one(hca, qp, fx);
    }
    if (state != prm::qp_state::rts) return Step::idle;
    const uint16_t n = waiting(qp);
    if (n == 0) return Step::idle;
    bool exhausted = false;
    if (qp.stall != Stall::none && !stall_over(qp, &exhausted)) return Step::stalled;
    if (hca.config().delay_us != 0 && !qp.delayed) {
        qp.delayed = true;
        stall(hca, qp, Stall::delay, hca.config().delay_us);
        return Step::stalled;
    }
    Wqe wqe;
    uint8_t bad = load_wqe(hca, qp, n, wqe);
    if (bad == 0 && exhausted) bad = static_cast<uint8_t>(prm::syndrome::transport_retry);
    if (bad == 0) bad = injected(hca, qp);
    if (bad != 0) {
        fail(hca, qp, fx, wqe, static_cast<prm::syndrome>(bad));
        return Step::executed;
    }
    if (wqe.remote) return conclude(hca, qp, fx, wqe, send(hca, qp, wqe, fx));
    succeed(qp, fx, wqe);
    return Step::executed;
}

void begin_burst(Qp& qp) {
    qp.link_open = qp.link != nullptr && qp.link->begin(qp);
    // One full barrier for both guards: whoever retires a key sees the guards, or we see that it is retired.
    const uint32_t v = qp.shared->local_guard.load(std::memory_order_relaxed);
    qp.shared->local_guard.exchange(v + 1, std::memory_order_seq_cst);
}

void end_burst(Hca& hca, Qp& qp) {
    if (qp.link_open) qp.link->end(qp);
    qp.link_open = false;
    const uint32_t v = qp.shared->local_guard.load(std::memory_order_relaxed);
    qp.shared->local_guard.store(v + 1, std::memory_order_release);
    ring_bells(hca, qp);
}

void ring_bells(Hca& hca, Qp& qp) {
    const bool link_bell = qp.link_bell, own_bell = qp.own_bell;
    qp.link_bell = qp.own_bell = false;
    if (link_bell && qp.link) qp.link->ring_bell(hca.counters());
    if (own_bell) hca.ring_own_bell();
}

void Effects::write(Qp& qp, uint8_t* dst, const Iov* from, uint32_t n, bool) {
    for (uint32_t i = 0; i < n; i++) {
        place(dst, from[i].base, from[i].length);
        dst += from[i].length;
    }
    qp.link_bell = true;
}

void Effects::read(Qp& qp, const Iov* to, uint32_t n, const uint8_t* src) {
    for (uint32_t i = 0; i < n; i++) {
        place(to[i].base, src, to[i].length);
        src += to[i].length;
    }
    qp.own_bell = true;
}

void Effects::result(Qp& qp, const Iov* to, uint32_t n, const uint8_t* bytes) { Effects::read(qp, to, n, bytes); }

void Effects::complete(Qp& qp, const Completion& c) {
    if (!c.wanted || qp.send_cq == nullptr) return;
    qp.counters.add(count_cqes);
    qp.own_bell = true;
    if (write_cqe(qp.send_cq->view, c, qp.hca->counters())) return;
    qp.hca->fail_qp(qp.shared);
}

}  // namespace pgas::softhca
