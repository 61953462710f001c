// The state of an HCA that its peers work on: one memfd per HCA. A requester in another process executes the
// responder's side on this memory, so everything here is atomic and free of pointers that only one process knows
// (the local_* words are used by the owning process only).
#pragma once

#include <atomic>
#include <cstdint>

namespace pgas::softhca {

constexpr uint32_t log_max_qps = 14, log_max_cqs = 14, log_max_mkeys = 15;
constexpr uint32_t max_qps = 1u << log_max_qps, max_cqs = 1u << log_max_cqs, max_mkeys = 1u << log_max_mkeys;

using A32 = std::atomic<uint32_t>;
using A64 = std::atomic<uint64_t>;

// Access bits of a memory key and of a QP.
constexpr uint32_t acc_local_write = 1, acc_remote_write = 2, acc_remote_read = 4, acc_remote_atomic = 8,
                   acc_relaxed = 16;

// A place in an umem or MR: which memory object, and where in it.
struct MemRef {
    A64 mem;       // memory object number, 0 none
    A64 offset;    // bytes from its start
    A64 local_va;  // address in the owning process
};

struct alignas(64) QpShared {
    A32 ident;  // QPN; 0: free
    A32 state;  // prm::qp_state
    A32 remote_qpn;
    A32 pd;
    A32 access;  // acc_remote_*
    A32 atomic_mode;
    A32 min_rnr_nak;
    A32 log_msg_max;
    A64 remote_gid_hi, remote_gid_lo;
    A32 user_index;
    A32 mtu;  // bytes

    // Guards: odd while an engine uses memory on behalf of this QP. Whoever takes memory or a state away first makes
    // it invalid, then waits until every guard was even once.
    alignas(64) A32 local_guard;   // the owner's engine, as requester
    alignas(64) A32 remote_guard;  // the connected requester
    A32 holder;                    // its client number, to release the guard when it died
    A32 expected_psn;
    A32 rq_head;  // receive WQEs consumed

    alignas(64) MemRef rq;
    MemRef rq_dbr;
    A32 rq_log_size;
    A32 rq_log_stride;  // log2 bytes
    A32 has_rq;
    A32 rcq;  // CQN for receive completions
};

struct alignas(64) MkeyShared {
    A32 key;  // index << 8 | variant; 0: free
    A32 pd;
    A32 access;
    A32 pad;
    A64 start, length;
    MemRef mem;
};

struct alignas(64) CqShared {
    A32 ident;  // CQN; 0: free
    A32 status;
    A32 flags;  // cq_collapsed, cq_ignore_overrun
    A32 log_size;
    A32 producer;
    alignas(64) MemRef ring;
    MemRef dbr;
};

constexpr uint32_t cq_collapsed = 1, cq_ignore_overrun = 2;

// Work that a peer leaves for the owner's service thread: a QP that went to ERR and must flush.
constexpr uint32_t event_slots = 256;

struct Shared {
    A64 magic;
    A32 alive;      // 0 once the owner closed
    A32 qp_high;    // QP slots ever used
    A32 port_down;  // the port answers nobody
    A32 dirty;      // some QP was moved to ERR by a peer
    QpShared qps[max_qps];
    CqShared cqs[max_cqs];
    MkeyShared mkeys[max_mkeys];
};

constexpr uint64_t shared_magic = 0x70676173'68636131ull;

// The bell of a PE, lent by the software GPU: {sleepers, seq} in shared memory.
struct Bell {
    A32 sleepers;
    A32 seq;
};

static_assert(A32::is_always_lock_free && A64::is_always_lock_free, "shared between processes");

inline QpShared* find_qp(Shared* s, uint32_t qpn) {
    QpShared* qp = &s->qps[qpn & (max_qps - 1)];
    return qpn != 0 && qp->ident.load(std::memory_order_acquire) == qpn ? qp : nullptr;
}

inline CqShared* find_cq(Shared* s, uint32_t cqn) {
    CqShared* cq = &s->cqs[cqn & (max_cqs - 1)];
    return cqn != 0 && cq->ident.load(std::memory_order_acquire) == cqn ? cq : nullptr;
}

}  // namespace pgas::softhca
