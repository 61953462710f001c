// The ibgda path, bytes: WQEs, the send doorbell and the CQE words that a poller reads.
//
// Layouts are those of rdma-core's mlx5dv.h; the numbers come from the generated prm.cuh. A WQE is a row of 16-byte
// segments, four to a basic block (BB). Everything in it is big-endian.
#pragma once

#include "../memory_model.cuh"
#include "prm.cuh"

namespace pgas {
namespace detail {

// CQE words by byte offset, and the CQE opcodes a requester can see.
constexpr uint32_t cqe_syndromes = 0x34;
constexpr uint32_t cqe_opcode_qpn = 0x38;
constexpr uint32_t cqe_counter_opcode = 0x3c;
constexpr uint32_t cqe_requester_error = 0xd;
constexpr uint32_t cqe_responder_error = 0xe;
constexpr uint32_t cqe_invalid = 0xf;

PGAS_DEVICE const uint32_t* cqe_word(const wire::queue* q, uint32_t offset) {
    return reinterpret_cast<const uint32_t*>(q->cqe + offset);
}

// The send counter is the second word of the doorbell record.
PGAS_DEVICE uint32_t* send_counter(const wire::queue* q) { return reinterpret_cast<uint32_t*>(q->dbr) + 1; }

// The 8-byte send doorbell that names the next free index (form 2: DS 0).
PGAS_DEVICE uint64_t doorbell(uint32_t qpn, uint64_t end) {
    uint32_t index = mm::bswap32(uint32_t(end & 0xffff) << 8);
    return uint64_t(mm::bswap32(qpn << 8)) << 32 | index;
}

// Fields of the first 8 bytes of a control segment, as one little-endian load reads them.
PGAS_DEVICE uint16_t ctrl_index(uint64_t ctrl) { return uint16_t(mm::bswap32(uint32_t(ctrl)) >> 8); }
PGAS_DEVICE uint32_t ctrl_ds(uint64_t ctrl) { return mm::bswap32(uint32_t(ctrl >> 32)) & 0x3f; }

enum class cqe_request : uint32_t { on_error = 0x00, always = 0x08 };
constexpr uint32_t fence_reads = 0x40;  // start only after all earlier READs and ATOMICs of the queue have completed

// Writes one WQE, segment by segment, into the ring. It may wrap between any two segments.
struct wqe_writer {
    const wire::queue* q;
    uint64_t index;

    PGAS_DEVICE void segment(uint32_t i, uint32_t a, uint32_t b, uint32_t c, uint32_t d) const {
        uint64_t bb = q->sq + ((index + i / 4) & (q->depth - 1)) * wire::wqe_bytes;
        mm::st_wqe16(reinterpret_cast<void*>(bb + (i % 4) * 16), a, b, c, d);
    }
    // Opcode and opmod, DS, completion request and fence mode.
    PGAS_DEVICE void ctrl(uint32_t opcode, uint32_t opmod, uint32_t ds, cqe_request ce, uint32_t fence = 0) const {
        segment(0, mm::bswap32(opmod << 24 | uint32_t(index & 0xffff) << 8 | opcode), mm::bswap32(q->qpn << 8 | ds),
                mm::bswap32(static_cast<uint32_t>(ce) | fence), 0);
    }
    PGAS_DEVICE void raddr(uint32_t i, uint64_t address, wire::be32 rkey) const {
        segment(i, mm::bswap32(uint32_t(address >> 32)), mm::bswap32(uint32_t(address)), rkey, 0);
    }
    PGAS_DEVICE void data(uint32_t i, uint32_t bytes, wire::be32 lkey, uint64_t iova) const {
        segment(i, mm::bswap32(bytes), lkey, mm::bswap32(uint32_t(iova >> 32)), mm::bswap32(uint32_t(iova)));
    }
    // Two 64-bit operands of an atomic.
    PGAS_DEVICE void operands(uint32_t i, uint64_t first, uint64_t second) const {
        segment(i, mm::bswap32(uint32_t(first >> 32)), mm::bswap32(uint32_t(first)),
                mm::bswap32(uint32_t(second >> 32)), mm::bswap32(uint32_t(second)));
    }
};

constexpr uint32_t max_inline = 28;  // what fits behind ctrl and raddr in one BB

// RDMA WRITE, one BB. The payload is copied into the WQE: its source may be reused at once, and needs no key.
PGAS_DEVICE void write_inline(wqe_writer w, uint64_t address, wire::be32 rkey, const void* src, uint32_t n,
                              cqe_request ce) {
    uint32_t words[8] = {mm::bswap32(n | 0x80000000u)};
    auto* bytes = static_cast<const uint8_t*>(src);
    PGAS_UNROLL
    for (uint32_t i = 0; i < max_inline; ++i) {  // unrolled, so that words[] stays in registers
        if (i < n) words[1 + i / 4] |= uint32_t(bytes[i]) << (8 * (i % 4));
    }
    bool two = n > 12;
    w.segment(2, words[0], words[1], words[2], words[3]);
    if (two) w.segment(3, words[4], words[5], words[6], words[7]);
    w.raddr(1, address, rkey);
    w.ctrl(op_rdma_write, 0, two ? 4 : 3, ce);
}

// RDMA WRITE or READ of n bytes, 0 < n <= max_msg; one BB.
PGAS_DEVICE void transfer(wqe_writer w, uint32_t opcode, uint64_t address, wire::be32 rkey, uint32_t n,
                          wire::be32 lkey, uint64_t iova, cqe_request ce) {
    w.data(2, n, lkey, iova);
    w.raddr(1, address, rkey);
    w.ctrl(opcode, 0, 3, ce);
}

// Adds to a 64-bit word; one BB. The old value lands in the queue's sink.
PGAS_DEVICE void fetch_add64(wqe_writer w, uint64_t address, wire::be32 rkey, uint64_t value, wire::be32 sink_lkey,
                             uint64_t sink) {
    w.data(3, 8, sink_lkey, sink);
    w.operands(2, value, 0);
    w.raddr(1, address, rkey);
    w.ctrl(op_masked_fetch_add, opmod_8_bytes, 4, cqe_request::always);
}

// Sets a 64-bit word; two BBs: a compare-and-swap that compares no bits and swaps all.
PGAS_DEVICE void swap64(wqe_writer w, uint64_t address, wire::be32 rkey, uint64_t value, wire::be32 sink_lkey,
                        uint64_t sink) {
    w.data(4, 8, sink_lkey, sink);
    w.operands(3, ~uint64_t(0), 0);  // swap mask, compare mask
    w.operands(2, value, 0);         // swap, compare
    w.raddr(1, address, rkey);
    w.ctrl(op_masked_compare_swap, opmod_8_bytes, 5, cqe_request::always);
}

// Holds later WQEs back until earlier READs have completed; one BB.
PGAS_DEVICE void fenced_nop(wqe_writer w) { w.ctrl(op_nop, 0, 1, cqe_request::always, fence_reads); }

}  // namespace detail
}  // namespace pgas
