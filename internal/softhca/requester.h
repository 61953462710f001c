// The requester: fetches WQEs, checks them, sends requests over the link, and completes.
#pragma once

#include "hca.h"

namespace pgas::softhca {

struct Completion {
    prm::cqe_opcode opcode = prm::cqe_opcode::req;
    uint8_t send_opcode = 0;
    prm::syndrome syndrome = prm::syndrome::local_qp_op;  // error opcodes only
    uint8_t vendor = 0;
    uint16_t wqe_counter = 0;
    uint32_t qpn = 0;
    uint32_t user_index = 0;
    uint32_t byte_count = 0;
    uint32_t imm_raw = 0;
    bool solicited = false;
    bool wanted = true;  // false: only the order of completions matters, no CQE is written
};

// Writes one CQE. False when the CQ has overrun; its status is then 9.
bool write_cqe(const CqView& cq, const Completion& c, SharedCounters& counters);

// One WQE as fetched.
constexpr uint32_t max_segments = prm::max_ds;
struct Wqe {
    alignas(16) uint8_t bytes[prm::max_ds * prm::ds_bytes];
    uint16_t index = 0;
    uint32_t blocks = 1;  // BBs
    uint32_t ds = 0;
    prm::opcode opcode = prm::opcode::nop;
    uint8_t opmod = 0;
    prm::fence_mode fence = prm::fence_mode::none;
    prm::completion_mode completion = prm::completion_mode::on_error;
    bool solicited = false;
    Iov iov[max_segments];
    uint32_t iovs = 0;
    Request request;
    bool remote = false;  // request is to be sent
};

// What one step did.
enum class Step { idle, executed, stalled };

// Executes at most one WQE of a queue pair that the caller holds; the caller has called begin_burst.
Step step(Hca& hca, Qp& qp, Effects& effects);

// How many BBs wait, by the doorbell record. More than the ring has is an error that step reports.
uint16_t waiting(const Qp& qp);

// Fetches the ctrl segment's fence and opcode of the next WQE; false when none waits.
bool peek(const Qp& qp, prm::fence_mode* fence, prm::opcode* opcode);

// Guards of the requester and of its link. end_burst rings bells.
void begin_burst(Qp& qp);
void end_burst(Hca& hca, Qp& qp);
void ring_bells(Hca& hca, Qp& qp);

// parse.cpp: 0 or the syndrome of a WQE that is malformed or names memory it may not use.
uint8_t parse_wqe(Hca& hca, Qp& qp, Wqe& wqe);

// Checks a key and finds its entry. 0, or the reason: see KeyError.
enum class KeyError : uint8_t { ok, no_key, wrong_pd, no_access, out_of_range };
KeyError check_key(Shared* s, uint32_t key, uint32_t pd, uint64_t va, uint64_t length, uint32_t access,
                   MkeyShared** out);

// responder.cpp: the responder's side, on the peer's shared state.
class PeerView {
  public:
    virtual ~PeerView() = default;
    virtual Shared* peer() = 0;
    // The peer's memory as this process sees it; null when it must be mapped first.
    virtual uint8_t* resolve(const MemRef& ref, uint64_t offset, bool* refused) = 0;
    virtual void kick() = 0;  // wakes the peer's service thread
};
Answer respond(PeerView& view, Qp& requester, QpShared& target, Request& request, Effects& effects);

// receive.cpp: the part of it that consumes a receive WQE.
Answer respond_receive(PeerView& view, Qp& requester, QpShared& target, Request& request, Effects& effects);
void flush_receive(Hca& hca, Qp& qp);

// atomics.cpp: executes on the word and returns the old value, in the operand's size.
uint64_t execute_atomic(uint8_t* word, const Atomic& op);

uint32_t packets(uint64_t length, uint32_t mtu);

}  // namespace pgas::softhca
