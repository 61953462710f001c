// The responder's side of RC: the checks in the order of the IB specification (as Linux rxe cites it), then the
// effect. It runs on the requester's thread and works on the peer's shared state.
#include <algorithm>

#include "requester.h"

namespace pgas::softhca {
namespace {

// After a fatal NAK the responder's queue pair fails too.
Answer fatal(PeerView& view, QpShared& target, Reply reply) {
    uint32_t state = target.state.load(std::memory_order_relaxed);
    while (state == static_cast<uint32_t>(prm::qp_state::rtr) || state == static_cast<uint32_t>(prm::qp_state::rts)) {
        if (target.state.compare_exchange_weak(state, static_cast<uint32_t>(prm::qp_state::err))) {
            view.peer()->dirty.store(1, std::memory_order_release);
            view.kick();
            break;
        }
    }
    return {reply};
}

uint32_t needed_access(Verb verb) {
    switch (verb) {
        case Verb::write:
        case Verb::write_imm:
            return acc_remote_write;
        case Verb::read:
            return acc_remote_read;
        case Verb::atomic:
            return acc_remote_atomic;
        case Verb::send:
            return 0;
    }
    return 0;
}

// Is the operation allowed by the queue pair?
bool enabled(const QpShared& target, const Request& r) {
    const uint32_t need = needed_access(r.verb);
    if ((target.access.load(std::memory_order_relaxed) & need) != need) return false;
    if (r.verb != Verb::atomic) return true;
    const auto mode = static_cast<prm::atomic_mode>(target.atomic_mode.load(std::memory_order_relaxed));
    return r.atomic.size == 8 ? mode != prm::atomic_mode::none : mode >= prm::atomic_mode::up_to8b;
}

Answer finish_atomic(Qp& requester, Request& r, uint8_t* word, Effects& fx) {
    const uint64_t old = execute_atomic(word, r.atomic);
    // 8-byte results arrive in host order, 4-byte extended ones big-endian, as peers find on hardware in mode 1.
    uint8_t bytes[8];
    if (r.atomic.size == 8) {
        std::memcpy(bytes, &old, 8);
    } else {
        const uint32_t be = __builtin_bswap32(static_cast<uint32_t>(old));
        std::memcpy(bytes, &be, 4);
    }
    requester.link_bell = true;
    fx.result(requester, r.iov, r.iovs, bytes);
    return {Reply::ack};
}

// Finds the memory that a request names. Returns ack when *at is set.
Answer find_memory(PeerView& view, QpShared& target, Request& r, uint8_t** at, bool* relaxed) {
    MkeyShared* key = nullptr;
    const uint32_t pd = target.pd.load(std::memory_order_relaxed);
    const KeyError e = check_key(view.peer(), r.rkey, pd, r.va, r.length, needed_access(r.verb), &key);
    if (e != KeyError::ok) return fatal(view, target, Reply::nak_access);
    if (r.verb == Verb::atomic && r.va % r.atomic.size != 0) return fatal(view, target, Reply::nak_invalid);
    bool refused = false;
    *at = view.resolve(key->mem, r.va - key->start.load(std::memory_order_relaxed), &refused);
    *relaxed = key->access.load(std::memory_order_relaxed) & acc_relaxed;
    if (*at != nullptr) return {Reply::ack};
    return refused ? fatal(view, target, Reply::nak_operation) : Answer{Reply::again};
}

// Compares PSNs: below 0 the request is a duplicate, above 0 something is missing before it.
int32_t psn_distance(uint32_t psn, uint32_t expected) { return static_cast<int32_t>((psn - expected) << 8) >> 8; }

}  // namespace

Answer respond(PeerView& view, Qp& requester, QpShared& target, Request& r, Effects& fx) {
    const auto state = static_cast<prm::qp_state>(target.state.load(std::memory_order_acquire));
    if (state != prm::qp_state::rtr && state != prm::qp_state::rts) return {Reply::silent};
    const int32_t ahead = psn_distance(r.psn, target.expected_psn.load(std::memory_order_relaxed));
    if (ahead > 0) return {Reply::silent};  // a PSN NAK: the requester sends again, in vain
    const bool duplicate = ahead < 0;
    if (duplicate && r.verb != Verb::read) return {Reply::duplicate};
    if (!enabled(target, r)) return fatal(view, target, Reply::nak_invalid);
    if (r.length > 1ull << target.log_msg_max.load(std::memory_order_relaxed)) {
        return fatal(view, target, Reply::nak_invalid);
    }
    if (r.verb == Verb::send) return respond_receive(view, requester, target, r, fx);
    uint8_t* at = nullptr;
    bool relaxed = false;
    if (r.length > 0) {
        const Answer a = find_memory(view, target, r, &at, &relaxed);
        if (a.reply != Reply::ack) return a;
    }
    if (r.verb == Verb::write_imm) {
        // The receive WQE first: without one nothing of the message may land.
        Request landed = r;
        landed.va = reinterpret_cast<uintptr_t>(at);
        return respond_receive(view, requester, target, landed, fx);
    }
    const uint32_t step = packets(r.verb == Verb::atomic ? 1 : r.length, target.mtu.load(std::memory_order_relaxed));
    if (!duplicate) target.expected_psn.store((r.psn + step) & 0xffffff, std::memory_order_relaxed);
    if (r.verb == Verb::atomic) return finish_atomic(requester, r, at, fx);
    if (r.length > 0) {
        if (r.verb == Verb::write) {
            fx.write(requester, at, r.iov, r.iovs, relaxed);
        } else {
            fx.read(requester, r.iov, r.iovs, at);
        }
    }
    return {duplicate ? Reply::duplicate : Reply::ack};
}

}  // namespace pgas::softhca
