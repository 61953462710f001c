// Builds mlx5 send WQEs, doorbell values and doorbell records, and reads CQEs.
//
// Every builder returns one 16-byte segment by value, in registers, ready for one 16-byte store. Segments of a WQE
// follow each other; ctrl comes first. Numbers are in host order unless their type is be32.
#pragma once

#include "prm.cuh"

namespace pgas {
namespace prm {

// Holds a big-endian value: its bytes in memory are in network order. Keys travel this way.
using be32 = uint32_t;

// One 16-byte unit of a WQE (a "DS").
struct alignas(16) seg {
    be32 w[4];
};
static_assert(sizeof(seg) == ds_bytes, "a segment is one DS");

// Four words, or two 64-bit numbers, in host order.
PGAS_PRM_FN seg seg_of(uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3) {
    return seg{{bswap32(w0), bswap32(w1), bswap32(w2), bswap32(w3)}};
}

PGAS_PRM_FN seg seg_of(uint64_t first, uint64_t second) {
    return seg_of(static_cast<uint32_t>(first >> 32), static_cast<uint32_t>(first), static_cast<uint32_t>(second >> 32),
                  static_cast<uint32_t>(second));
}

// The byte ctrl_seg.fm_ce_se.
PGAS_PRM_FN constexpr uint32_t ctrl_flags(fence_mode fence, completion_mode completion) {
    return place(ctrl_seg::fence, static_cast<uint32_t>(fence)) |
           place(ctrl_seg::completion, static_cast<uint32_t>(completion));
}

// The control segment. `index` is the BB counter of this WQE; its low 16 bits are used. `ds` counts all segments,
// this one included. `imm` is stored as it is.
PGAS_PRM_FN seg ctrl(opcode op, uint32_t opmod, uint32_t index, uint32_t qpn, uint32_t ds, uint32_t flags,
                     be32 imm = 0) {
    const uint32_t w0 = place(ctrl_seg::opmod, opmod) | place(ctrl_seg::wqe_index, index) |
                        place(ctrl_seg::opcode, static_cast<uint32_t>(op));
    const uint32_t w1 = place(ctrl_seg::qpn, qpn) | place(ctrl_seg::ds, ds);
    return seg{{bswap32(w0), bswap32(w1), bswap32(flags), imm}};
}

// Where a WRITE, READ or atomic goes.
PGAS_PRM_FN seg raddr(uint64_t address, be32 rkey) {
    return seg{{bswap32(static_cast<uint32_t>(address >> 32)), bswap32(static_cast<uint32_t>(address)), rkey, 0}};
}

// Local memory: the source of a WRITE, the destination of a READ or of an atomic's old value. `bytes` is 1 to 2^31-1.
PGAS_PRM_FN seg data(uint32_t bytes, be32 lkey, uint64_t address) {
    return seg{{bswap32(place(data_seg::byte_count, bytes)), lkey, bswap32(static_cast<uint32_t>(address >> 32)),
                bswap32(static_cast<uint32_t>(address))}};
}

// The first 16 bytes of inline data: the header and up to 12 raw bytes, given as three words as they lie in memory.
// Later bytes follow in segments without a header.
PGAS_PRM_FN seg inline_data(uint32_t bytes, uint32_t raw0, uint32_t raw1 = 0, uint32_t raw2 = 0) {
    return seg{{bswap32(inline_flag | place(inline_seg::byte_count, bytes)), raw0, raw1, raw2}};
}

// The operands of ATOMIC_CS, and of ATOMIC_FA with compare 0.
PGAS_PRM_FN seg atomic(uint64_t swap_or_add, uint64_t compare) { return seg_of(swap_or_add, compare); }

// The operands of a 4-byte ATOMIC_MASKED_CS: new = (old & ~swap_mask) | (swap & swap_mask) if old and compare agree
// in the bits of compare_mask.
PGAS_PRM_FN seg masked_cs32(uint32_t swap, uint32_t compare, uint32_t swap_mask, uint32_t compare_mask) {
    return seg_of(swap, compare, swap_mask, compare_mask);
}

// The operands of an 8-byte ATOMIC_MASKED_CS: two segments.
PGAS_PRM_FN seg masked_cs64(uint64_t swap, uint64_t compare) { return seg_of(swap, compare); }
PGAS_PRM_FN seg masked_cs64_mask(uint64_t swap_mask, uint64_t compare_mask) { return seg_of(swap_mask, compare_mask); }

// The operands of ATOMIC_MASKED_FA. Carries do not cross a bit that is set in boundary; 0 is an ordinary addition.
PGAS_PRM_FN seg masked_fa32(uint32_t add, uint32_t boundary) { return seg_of(add, boundary, 0u, 0u); }
PGAS_PRM_FN seg masked_fa64(uint64_t add, uint64_t boundary) { return seg_of(add, boundary); }

// BBs that a WQE of `ds` segments takes.
PGAS_PRM_FN constexpr uint32_t bbs(uint32_t ds) { return (ds * ds_bytes + bb_bytes - 1) / bb_bytes; }

// The 8 bytes for a doorbell register, for one little-endian 64-bit store. Form 2: the next free BB, opcode and DS 0.
PGAS_PRM_FN uint64_t doorbell_value(uint32_t next_index, uint32_t qpn) {
    const uint32_t w0 = place(doorbell::wqe_index, next_index);
    const uint32_t w1 = place(doorbell::qpn, qpn);
    return static_cast<uint64_t>(bswap32(w1)) << 32 | bswap32(w0);
}

// The send word of a QP's doorbell record, at byte word_of(qp_dbr::send_counter).
PGAS_PRM_FN be32 send_dbr(uint32_t next_index) { return bswap32(place(qp_dbr::send_counter, next_index)); }

// What the last word of a CQE says. A poller loads the 32 bits at byte `cqe_status_word` once, because the counter
// and the opcode must belong together.
constexpr uint32_t cqe_status_word = word_of(cqe::wqe_counter);
PGAS_PRM_FN constexpr uint32_t cqe_counter(uint32_t word) { return extract(cqe::wqe_counter, word); }
PGAS_PRM_FN constexpr cqe_opcode cqe_op(uint32_t word) { return static_cast<cqe_opcode>(extract(cqe::opcode, word)); }

}  // namespace prm
}  // namespace pgas
