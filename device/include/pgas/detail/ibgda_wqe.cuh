// The ibgda path, bytes: which WQEs the library posts, and which CQE words a poller reads. The segments themselves come
// from prm_wqe.cuh.
#pragma once

#include "../memory_model.cuh"
#include "prm_wqe.cuh"

namespace pgas {
namespace detail {

PGAS_DEVICE const uint32_t* cqe_word(const wire::queue* q, uint32_t offset) {
    return reinterpret_cast<const uint32_t*>(q->cqe + offset);
}

// The send counter is the second word of the doorbell record.
PGAS_DEVICE uint32_t* send_counter(const wire::queue* q) {
    return reinterpret_cast<uint32_t*>(q->dbr + prm::word_of(prm::qp_dbr::send_counter));
}

// Fields of the first 8 bytes of a control segment, as one little-endian load reads them.
PGAS_DEVICE uint16_t ctrl_index(uint64_t ctrl) {
    return uint16_t(prm::extract(prm::ctrl_seg::wqe_index, prm::bswap32(uint32_t(ctrl))));
}
PGAS_DEVICE uint32_t ctrl_ds(uint64_t ctrl) {
    return prm::extract(prm::ctrl_seg::ds, prm::bswap32(uint32_t(ctrl >> 32)));
}

// When a WQE makes a CQE: at the end of a reservation always, inside it only if it fails.
enum class cqe_request { on_error, always };

// Writes one WQE, segment by segment, into the ring. It may wrap between any two segments.
struct wqe_writer {
    const wire::queue* q;
    uint64_t index;

    PGAS_DEVICE void put(uint32_t i, prm::seg s) const {
        uint64_t bb = q->sq + ((index + i / 4) & (q->depth - 1)) * wire::wqe_bytes;
        mm::st_wqe16(reinterpret_cast<void*>(bb + (i % 4) * 16), s.w[0], s.w[1], s.w[2], s.w[3]);
    }
    PGAS_DEVICE void ctrl(prm::opcode op, uint32_t opmod, uint32_t ds, cqe_request ce,
                          prm::fence_mode fence = prm::fence_mode::none) const {
        auto completion = ce == cqe_request::always ? prm::completion_mode::always : prm::completion_mode::on_error;
        put(0, prm::ctrl(op, opmod, uint32_t(index), q->qpn, ds, prm::ctrl_flags(fence, completion)));
    }
};

constexpr uint32_t max_inline = 28;  // what fits behind ctrl and raddr in one BB

// RDMA WRITE, one BB. The payload is copied into the WQE: its source may be reused at once, and needs no key.
PGAS_DEVICE void write_inline(wqe_writer w, uint64_t address, wire::be32 rkey, const void* src, uint32_t n,
                              cqe_request ce) {
    uint32_t words[7] = {};
    auto* bytes = static_cast<const uint8_t*>(src);
    PGAS_UNROLL
    for (uint32_t i = 0; i < max_inline; ++i) {  // unrolled, so that words[] stays in registers
        if (i < n) words[i / 4] |= uint32_t(bytes[i]) << (8 * (i % 4));
    }
    bool two = n > 12;
    if (two) w.put(3, prm::seg{{words[3], words[4], words[5], words[6]}});
    w.put(2, prm::inline_data(n, words[0], words[1], words[2]));
    w.put(1, prm::raddr(address, rkey));
    w.ctrl(prm::opcode::rdma_write, 0, two ? 4 : 3, ce);
}

// RDMA WRITE or READ of n bytes, 0 < n <= max_msg; one BB.
PGAS_DEVICE void transfer(wqe_writer w, prm::opcode op, uint64_t address, wire::be32 rkey, uint32_t n, wire::be32 lkey,
                          uint64_t iova, cqe_request ce) {
    w.put(2, prm::data(n, lkey, iova));
    w.put(1, prm::raddr(address, rkey));
    w.ctrl(op, 0, 3, ce);
}

// Adds to a 64-bit word; one BB. The old value lands in the sink.
PGAS_DEVICE void fetch_add64(wqe_writer w, uint64_t address, wire::be32 rkey, uint64_t value, wire::be32 sink_lkey,
                             uint64_t sink) {
    w.put(3, prm::data(8, sink_lkey, sink));
    w.put(2, prm::masked_fa64(value, 0));
    w.put(1, prm::raddr(address, rkey));
    w.ctrl(prm::opcode::atomic_masked_fa, prm::opmod_masked64, 4, cqe_request::always);
}

// Sets a 64-bit word; two BBs: a compare-and-swap that compares no bits and swaps all.
PGAS_DEVICE void swap64(wqe_writer w, uint64_t address, wire::be32 rkey, uint64_t value, wire::be32 sink_lkey,
                        uint64_t sink) {
    w.put(4, prm::data(8, sink_lkey, sink));
    w.put(3, prm::masked_cs64_mask(~uint64_t(0), 0));
    w.put(2, prm::masked_cs64(value, 0));
    w.put(1, prm::raddr(address, rkey));
    w.ctrl(prm::opcode::atomic_masked_cs, prm::opmod_masked64, 5, cqe_request::always);
}

// Holds later WQEs back until earlier READs have completed; one BB.
PGAS_DEVICE void fenced_nop(wqe_writer w) {
    w.ctrl(prm::opcode::nop, 0, 1, cqe_request::always, prm::fence_mode::fence);
}

}  // namespace detail
}  // namespace pgas
