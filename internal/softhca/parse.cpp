// From WQE bytes to a request: the checks that a requester does before it sends anything.
#include "requester.h"

namespace pgas::softhca {
namespace {

constexpr uint8_t bad_wqe = static_cast<uint8_t>(prm::syndrome::local_qp_op);
constexpr uint8_t bad_length = static_cast<uint8_t>(prm::syndrome::local_length);
constexpr uint8_t bad_key = static_cast<uint8_t>(prm::syndrome::local_prot);

// Walks the segments of one WQE.
struct Parser {
    Hca& hca;
    Qp& qp;
    Wqe& wqe;
    uint32_t at = prm::ds_bytes;  // byte offset

    uint32_t end() const { return wqe.ds * prm::ds_bytes; }
    const uint8_t* take(uint32_t bytes) {
        if (end() - at < bytes) return nullptr;
        const uint8_t* p = wqe.bytes + at;
        at += bytes;
        return p;
    }
    bool done() const { return at == end(); }
};

bool ctrl_ok(Qp& qp, Wqe& wqe) {
    const uint32_t word1 = load_be32(wqe.bytes + 4), word2 = load_be32(wqe.bytes + 8);
    if (word1 >> 8 != qp.shared->ident.load(std::memory_order_relaxed)) return false;
    if (word1 & 0xc0) return false;    // above DS
    if (word2 & ~0xeeu) return false;  // signature, DCI stream, reserved bits of fm_ce_se
    wqe.opmod = static_cast<uint8_t>(get32(wqe.bytes, prm::ctrl_seg::opmod));
    wqe.fence = static_cast<prm::fence_mode>(get32(wqe.bytes, prm::ctrl_seg::fence));
    wqe.completion = static_cast<prm::completion_mode>(get32(wqe.bytes, prm::ctrl_seg::completion));
    wqe.solicited = get32(wqe.bytes, prm::ctrl_seg::solicited) != 0;
    const bool imm = wqe.opcode == prm::opcode::rdma_write_imm || wqe.opcode == prm::opcode::send_imm;
    if (!imm && load_be32(wqe.bytes + 12) != 0) return false;
    return wqe.fence <= prm::fence_mode::fence_and_small;
}

bool take_remote(Parser& p) {
    const uint8_t* seg = p.take(prm::raddr_seg::size);
    if (seg == nullptr || load_be32(seg + 12) != 0) return false;
    p.wqe.request.va = prm::get(seg, prm::raddr_seg::raddr);
    p.wqe.request.rkey = get32(seg, prm::raddr_seg::rkey);
    return true;
}

// One data segment or inline block. The keys are checked later: structure first.
struct Sge {
    uint32_t lkey;
    uint64_t addr;
};

bool take_data(Parser& p, Sge* sge, bool inline_allowed) {
    Wqe& w = p.wqe;
    const uint8_t* seg = p.take(prm::ds_bytes);
    if (seg == nullptr) return false;
    Iov& iov = w.iov[w.iovs];
    if (!get32(seg, prm::data_seg::inline_flag)) {
        iov = {nullptr, get32(seg, prm::data_seg::byte_count)};
        *sge = {get32(seg, prm::data_seg::lkey), prm::get(seg, prm::data_seg::addr)};
        if (iov.length == 0) return false;
    } else {
        const uint32_t length = load_be32(seg) & ~prm::inline_flag;
        if (!inline_allowed || length > prm::inline_max_bytes) return false;
        const uint32_t bytes = (prm::inline_seg::size + length + prm::ds_bytes - 1) / prm::ds_bytes * prm::ds_bytes;
        if (p.take(bytes - prm::ds_bytes) == nullptr) return false;
        iov = {const_cast<uint8_t*>(seg) + prm::inline_seg::size, length, true};
        *sge = {0, 0};
    }
    w.request.length += iov.length;
    w.iovs++;
    return true;
}

// The rest of the WQE is data. Returns 0 or a syndrome.
uint8_t take_list(Parser& p, bool inline_allowed, uint32_t access) {
    Sge sges[max_segments];
    Wqe& w = p.wqe;
    while (!p.done()) {
        if (!take_data(p, &sges[w.iovs], inline_allowed)) return bad_wqe;
    }
    if (w.request.length > p.qp.max_message) return bad_length;
    for (uint32_t i = 0; i < w.iovs; i++) {
        if (w.iov[i].base != nullptr) continue;
        MkeyShared* key = nullptr;
        const uint32_t pd = p.qp.shared->pd.load(std::memory_order_relaxed);
        if (check_key(p.hca.shared(), sges[i].lkey, pd, sges[i].addr, w.iov[i].length, access, &key) != KeyError::ok) {
            return bad_key;
        }
        const uint64_t offset = sges[i].addr - key->start.load(std::memory_order_relaxed);
        w.iov[i].base = reinterpret_cast<uint8_t*>(key->mem.local_va.load(std::memory_order_relaxed) + offset);
    }
    w.request.iov = w.iov;
    w.request.iovs = w.iovs;
    return 0;
}

uint8_t parse_rdma(Parser& p, Verb verb, uint32_t access) {
    Wqe& w = p.wqe;
    w.remote = true;
    w.request.verb = verb;
    w.request.solicited = w.solicited;
    if (w.opmod != 0) return bad_wqe;
    if (verb == Verb::write_imm || w.opcode == prm::opcode::send_imm) {
        w.request.has_imm = true;
        std::memcpy(&w.request.imm_raw, w.bytes + 12, 4);
    }
    if (verb != Verb::send && !take_remote(p)) return bad_wqe;
    const uint8_t bad = take_list(p, verb != Verb::read, access);
    if (bad != 0) return bad;
    const bool is_write = verb == Verb::write || verb == Verb::write_imm;
    if (is_write && w.request.length == 0 && p.hca.config().no_zero_write) return bad_wqe;
    return 0;
}

// The operands: standard ones are 8 bytes, masked ones 4 or 8 by opmod.
bool take_operands(Parser& p, Atomic& a) {
    const uint8_t* seg = p.take(prm::ds_bytes);
    if (seg == nullptr) return false;
    a.swap = p.wqe.opcode == prm::opcode::atomic_cs || p.wqe.opcode == prm::opcode::atomic_masked_cs;
    a.extended = p.wqe.opcode == prm::opcode::atomic_masked_cs || p.wqe.opcode == prm::opcode::atomic_masked_fa;
    if (!a.extended) {
        if (p.wqe.opmod != 0) return false;
        a.swap_add = prm::get(seg, prm::atomic_seg::swap_add);
        a.compare = prm::get(seg, prm::atomic_seg::compare);
        return true;
    }
    if (p.wqe.opmod == prm::opmod_masked32) {
        a.size = 4;
        a.swap_add = load_be32(seg);
        (a.swap ? a.compare : a.boundary) = load_be32(seg + 4);
        if (a.swap) {
            a.swap_mask = load_be32(seg + 8);
            a.compare_mask = load_be32(seg + 12);
        }
        return a.swap || load_be64(seg + 8) == 0;
    }
    if (p.wqe.opmod != prm::opmod_masked64) return false;
    a.swap_add = load_be64(seg);
    (a.swap ? a.compare : a.boundary) = load_be64(seg + 8);
    if (!a.swap) return true;
    const uint8_t* masks = p.take(prm::ds_bytes);
    if (masks == nullptr) return false;
    a.swap_mask = prm::get(masks, prm::masked_cs64_mask_seg::swap_mask);
    a.compare_mask = prm::get(masks, prm::masked_cs64_mask_seg::compare_mask);
    return true;
}

uint8_t parse_atomic(Parser& p) {
    Wqe& w = p.wqe;
    w.remote = true;
    w.request.verb = Verb::atomic;
    if (p.hca.config().no_atomics) return bad_wqe;
    if (!take_remote(p) || !take_operands(p, w.request.atomic)) return bad_wqe;
    const uint8_t bad = take_list(p, false, acc_local_write);
    if (bad != 0) return bad;
    return w.iovs == 1 && w.request.length == w.request.atomic.size ? 0 : bad_wqe;
}

uint8_t parse_dump(Parser& p) {
    if (p.wqe.opmod != 0) return bad_wqe;
    const uint8_t bad = take_list(p, false, 0);
    return bad == 0 && p.wqe.iovs != 1 ? bad_wqe : bad;
}

}  // namespace

KeyError check_key(Shared* s, uint32_t key, uint32_t pd, uint64_t va, uint64_t length, uint32_t access,
                   MkeyShared** out) {
    MkeyShared* m = &s->mkeys[(key >> 8) & (max_mkeys - 1)];
    if (key == 0 || m->key.load(std::memory_order_acquire) != key) return KeyError::no_key;
    if (m->pd.load(std::memory_order_relaxed) != pd) return KeyError::wrong_pd;
    if ((m->access.load(std::memory_order_relaxed) & access) != access) return KeyError::no_access;
    const uint64_t start = m->start.load(std::memory_order_relaxed), all = m->length.load(std::memory_order_relaxed);
    if (va < start || va - start > all || length > all - (va - start)) return KeyError::out_of_range;
    *out = m;
    return KeyError::ok;
}

uint8_t parse_wqe(Hca& hca, Qp& qp, Wqe& wqe) {
    if (!ctrl_ok(qp, wqe)) return bad_wqe;
    wqe.request = Request{};
    wqe.iovs = 0;
    Parser p{hca, qp, wqe};
    switch (wqe.opcode) {
        case prm::opcode::nop:
            return wqe.opmod == 0 ? 0 : bad_wqe;
        case prm::opcode::rdma_write:
            return parse_rdma(p, Verb::write, 0);
        case prm::opcode::rdma_write_imm:
            return parse_rdma(p, Verb::write_imm, 0);
        case prm::opcode::rdma_read:
            return parse_rdma(p, Verb::read, acc_local_write);
        case prm::opcode::send:
        case prm::opcode::send_imm:
            return parse_rdma(p, Verb::send, 0);
        case prm::opcode::atomic_cs:
        case prm::opcode::atomic_fa:
        case prm::opcode::atomic_masked_cs:
        case prm::opcode::atomic_masked_fa:
            return parse_atomic(p);
        case prm::opcode::dump:
            return parse_dump(p);
        default:
            return bad_wqe;
    }
}

}  // namespace pgas::softhca
