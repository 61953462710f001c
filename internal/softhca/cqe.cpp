// Writing completions.
#include <algorithm>

#include "requester.h"

namespace pgas::softhca {
namespace {

// Takes the next slot. False on overrun.
bool take_slot(const CqView& cq, uint32_t log_size, uint32_t* slot, SharedCounters& counters) {
    CqShared& s = *cq.shared;
    if (s.flags.load(std::memory_order_relaxed) & cq_ignore_overrun) {
        *slot = s.producer.fetch_add(1, std::memory_order_relaxed);
        return true;
    }
    uint32_t p = s.producer.load(std::memory_order_relaxed);
    for (;;) {
        if (s.status.load(std::memory_order_relaxed) != 0) return false;
        const uint32_t raw = __atomic_load_n(reinterpret_cast<const uint32_t*>(cq.dbr), __ATOMIC_ACQUIRE);
        const uint32_t ci = __builtin_bswap32(raw) & 0xffffff;
        if (((p - ci) & 0xffffff) >= (1u << log_size)) {
            s.status.store(static_cast<uint32_t>(prm::cq_status::overflow), std::memory_order_relaxed);
            counters.add(count_cq_overruns);
            return false;
        }
        if (s.producer.compare_exchange_weak(p, p + 1, std::memory_order_relaxed)) {
            *slot = p;
            return true;
        }
    }
}

void encode(const Completion& c, uint32_t owner, uint8_t out[prm::cqe::size]) {
    std::memset(out, 0, prm::cqe::size);
    const bool error = c.opcode == prm::cqe_opcode::req_err || c.opcode == prm::cqe_opcode::resp_err;
    put(out, prm::cqe::srqn_uidx, c.user_index);
    std::memcpy(out + prm::byte_of(prm::cqe::imm), &c.imm_raw, 4);
    put(out, prm::cqe::byte_cnt, c.byte_count);
    if (error) {
        put(out, prm::err_cqe::vendor_err_synd, c.vendor);
        put(out, prm::err_cqe::syndrome, static_cast<uint8_t>(c.syndrome));
    }
    put(out, prm::cqe::send_opcode, c.send_opcode);
    put(out, prm::cqe::qpn, c.qpn);
    put(out, prm::cqe::wqe_counter, c.wqe_counter);
    put(out, prm::cqe::opcode, static_cast<uint8_t>(c.opcode));
    put(out, prm::cqe::solicited, c.solicited);
    put(out, prm::cqe::owner, owner);
}

}  // namespace

bool write_cqe(const CqView& cq, const Completion& c, SharedCounters& counters) {
    CqShared& s = *cq.shared;
    const uint32_t log_size = s.log_size.load(std::memory_order_relaxed);
    uint32_t slot = 0;
    if (!take_slot(cq, log_size, &slot, counters)) return false;
    uint8_t bytes[prm::cqe::size];
    encode(c, (slot >> log_size) & 1, bytes);
    const bool collapsed = s.flags.load(std::memory_order_relaxed) & cq_collapsed;
    uint8_t* at = cq.ring + (collapsed ? 0 : (slot & ((1u << log_size) - 1)) * prm::cqe_bytes);
    // Software polls the word at 0x3c, so it goes last and releases the rest.
    constexpr uint32_t last = 0x3c;
    for (uint32_t i = 0; i < last; i += 4) {
        uint32_t v;
        std::memcpy(&v, bytes + i, 4);
        __atomic_store_n(reinterpret_cast<uint32_t*>(at + i), v, __ATOMIC_RELAXED);
    }
    uint32_t v;
    std::memcpy(&v, bytes + last, 4);
    __atomic_store_n(reinterpret_cast<uint32_t*>(at + last), v, __ATOMIC_RELEASE);
    return true;
}

}  // namespace pgas::softhca
