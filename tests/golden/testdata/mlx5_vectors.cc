// Builds the vectors of mlx5.txt with the device headers, compiled for the host, and prints "name hex" lines.
// With the argument "fields" it reads "first_bit width value" lines instead and prints 64 bytes, filled with 0xa5,
// after set(), and what get() reads back.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "pgas/detail/prm_wqe.cuh"
#include "pgas/detail/wire.cuh"

namespace prm = pgas::prm;

namespace {

constexpr uint32_t kQpn = 0x1234;

void print(const std::string& name, const void* bytes, size_t n) {
    std::printf("%s ", name.c_str());
    for (size_t i = 0; i < n; i++) std::printf("%02x", static_cast<const uint8_t*>(bytes)[i]);
    std::printf("\n");
}

// A command mailbox under construction.
class mailbox {
  public:
    mailbox(prm::cmd op, uint32_t size) : bytes_(size) { set(prm::cmd_in::opcode, static_cast<uint64_t>(op)); }
    mailbox& set(prm::field f, uint64_t v) {
        if (!prm::set(bytes_.data(), f, v)) std::fprintf(stderr, "value %#" PRIx64 " is too wide\n", v);
        return *this;
    }
    mailbox& copy(prm::field f, std::initializer_list<uint8_t> raw) {
        std::copy(raw.begin(), raw.end(), bytes_.begin() + prm::byte_of(f));
        return *this;
    }
    void print_as(const char* name) const { print(name, bytes_.data(), bytes_.size()); }

  private:
    std::vector<uint8_t> bytes_;
};

prm::field cqc(prm::field f) { return prm::at(f, prm::create_cq_in::cqc); }
prm::field qpc(prm::field f) { return prm::at(f, prm::create_qp_in::qpc); }
prm::field path(prm::field f) { return prm::at(f, prm::modify_qp_in::qpc + prm::qpc::primary_address_path); }

void queues() {
    mailbox(prm::cmd::create_cq, prm::create_cq_in::size)
        .set(prm::create_cq_in::cq_umem_id, 0x21)
        .set(prm::create_cq_in::cq_umem_offset, 0x2000)
        .set(prm::create_cq_in::cq_umem_valid, 1)
        .set(cqc(prm::cqc::cc), 1)
        .set(cqc(prm::cqc::oi), 1)
        .set(cqc(prm::cqc::dbr_umem_valid), 1)
        .set(cqc(prm::cqc::dbr_umem_id), 0x21)
        .set(cqc(prm::cqc::dbr_addr), 0x3000)
        .set(cqc(prm::cqc::log_cq_size), 10)
        .set(cqc(prm::cqc::uar_page), 0x345)
        .set(cqc(prm::cqc::c_eqn), 7)
        .set(cqc(prm::cqc::log_page_size), 4)
        .print_as("create_cq");
    mailbox(prm::cmd::create_qp, prm::create_qp_in::size)
        .set(prm::create_qp_in::wq_umem_id, 0x22)
        .set(prm::create_qp_in::wq_umem_offset, 0x10000)
        .set(prm::create_qp_in::wq_umem_valid, 1)
        .set(qpc(prm::qpc::st), static_cast<uint64_t>(prm::service_type::rc))
        .set(qpc(prm::qpc::pm_state), static_cast<uint64_t>(prm::pm_state::migrated))
        .set(qpc(prm::qpc::pd), 0x1b)
        .set(qpc(prm::qpc::uar_page), 0x346)
        .set(qpc(prm::qpc::user_index), 5)
        .set(qpc(prm::qpc::cqn_snd), 0x401)
        .set(qpc(prm::qpc::log_sq_size), 10)
        .set(qpc(prm::qpc::rq_type), static_cast<uint64_t>(prm::rq_type::none))
        .set(qpc(prm::qpc::ts_format), static_cast<uint64_t>(prm::ts_format::default_format))
        .set(qpc(prm::qpc::dbr_umem_valid), 1)
        .set(qpc(prm::qpc::dbr_umem_id), 0x22)
        .set(qpc(prm::qpc::dbr_addr), 0x20000)
        .print_as("create_qp");
}

mailbox init2rtr(prm::mtu mtu) {
    mailbox m(prm::cmd::init2rtr_qp, prm::modify_qp_in::size);
    m.set(prm::modify_qp_in::qpn, kQpn)
        .set(qpc(prm::qpc::mtu), static_cast<uint64_t>(mtu))
        .set(qpc(prm::qpc::log_msg_max), prm::log_msg_max)
        .set(qpc(prm::qpc::remote_qpn), 0x5678)
        .set(qpc(prm::qpc::min_rnr_nak), 12)
        .set(qpc(prm::qpc::log_rra_max), 4)
        .set(qpc(prm::qpc::next_rcv_psn), 0x111);
    return m;
}

void transitions() {
    mailbox(prm::cmd::rst2init_qp, prm::modify_qp_in::size)
        .set(prm::modify_qp_in::qpn, kQpn)
        .set(qpc(prm::qpc::pm_state), static_cast<uint64_t>(prm::pm_state::migrated))
        .set(qpc(prm::qpc::rre), 1)
        .set(qpc(prm::qpc::rwe), 1)
        .set(qpc(prm::qpc::rae), 1)
        .set(qpc(prm::qpc::atomic_mode), static_cast<uint64_t>(prm::atomic_mode::up_to8b))
        .set(path(prm::ads::vhca_port_num), 1)
        .print_as("rst2init");
    init2rtr(prm::mtu::bytes4096).set(path(prm::ads::rlid), 0x2a).set(path(prm::ads::sl), 2).print_as("init2rtr_ib");
    init2rtr(prm::mtu::bytes1024)
        .set(path(prm::ads::src_addr_index), 3)
        .set(path(prm::ads::hop_limit), 64)
        .set(path(prm::ads::tclass), 0x68)
        .set(path(prm::ads::dscp), 0x1a)
        .set(path(prm::ads::udp_sport), 0xc123)
        .set(path(prm::ads::eth_prio), 3)
        .copy(path(prm::ads::rmac), {0x0c, 0x42, 0xa1, 0xb2, 0xc3, 0xd4})
        .copy(path(prm::ads::rgid_rip), {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2})
        .print_as("init2rtr_roce");
    mailbox(prm::cmd::rtr2rts_qp, prm::modify_qp_in::size)
        .set(prm::modify_qp_in::qpn, kQpn)
        .set(qpc(prm::qpc::log_sra_max), 4)
        .set(qpc(prm::qpc::next_send_psn), 0x222)
        .set(qpc(prm::qpc::retry_count), 7)
        .set(qpc(prm::qpc::rnr_retry), 7)
        .set(path(prm::ads::ack_timeout), 20)
        .print_as("rtr2rts");
}

void rights() {
    const struct {
        const char* name;
        prm::field right;
    } all[] = {{"rst2init_rre", prm::qpc::rre}, {"rst2init_rwe", prm::qpc::rwe}, {"rst2init_rae", prm::qpc::rae}};
    for (const auto& r : all) {
        mailbox(prm::cmd::rst2init_qp, prm::modify_qp_in::size)
            .set(prm::modify_qp_in::qpn, kQpn)
            .set(qpc(r.right), 1)
            .print_as(r.name);
    }
}

// Segments are written one after the other into zeroed BBs.
void print_wqe(const std::string& name, std::initializer_list<prm::seg> segs) {
    std::vector<uint8_t> bytes(prm::bbs(static_cast<uint32_t>(segs.size())) * prm::bb_bytes);
    std::memcpy(bytes.data(), segs.begin(), segs.size() * sizeof(prm::seg));
    print(name, bytes.data(), bytes.size());
}

constexpr uint32_t kSignaled = prm::ctrl_flags(prm::fence_mode::none, prm::completion_mode::always);

prm::seg remote(uint64_t low) { return prm::raddr(0x7f0011220000 + low, prm::bswap32(0xaabbcc01)); }
prm::seg local(uint32_t bytes) { return prm::data(bytes, prm::bswap32(0x11223301), 0x7e0000001000); }
prm::seg head(prm::opcode op, uint32_t index, uint32_t ds, uint32_t flags = kSignaled, uint32_t opmod = 0) {
    return prm::ctrl(op, opmod, index, kQpn, ds, flags);
}

void masked_cs_8(const std::string& name, uint32_t index) {
    print_wqe(name, {head(prm::opcode::atomic_masked_cs, index, 5, kSignaled, prm::opmod_masked64), remote(0x3340),
                     prm::masked_cs64(0xaa, 0xbb), prm::masked_cs64_mask(0xff, ~0ull), local(8)});
}

void wqes() {
    const uint8_t raw[8] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    uint32_t words[2];
    std::memcpy(words, raw, sizeof words);
    const uint32_t fenced = prm::ctrl_flags(prm::fence_mode::fence, prm::completion_mode::always);

    print_wqe("write", {head(prm::opcode::rdma_write, 5, 3), remote(0x3344), local(4096)});
    print_wqe("write_inline",
              {head(prm::opcode::rdma_write, 6, 3, 0), remote(0x3344), prm::inline_data(8, words[0], words[1])});
    print_wqe("read", {head(prm::opcode::rdma_read, 7, 3), remote(0x3344), local(64)});
    print_wqe("atomic_cs", {head(prm::opcode::atomic_cs, 8, 4), remote(0x3340),
                            prm::atomic(0x0102030405060708, 0x1112131415161718), local(8)});
    print_wqe("atomic_fa", {head(prm::opcode::atomic_fa, 9, 4), remote(0x3340), prm::atomic(1, 0), local(8)});
    print_wqe("masked_fa_4", {head(prm::opcode::atomic_masked_fa, 10, 4, kSignaled, prm::opmod_masked32),
                              remote(0x3340), prm::masked_fa32(1, 0), local(4)});
    masked_cs_8("masked_cs_8", 11);
    masked_cs_8("masked_cs_8_fffe", 0xfffe);
    masked_cs_8("masked_cs_8_ffff", 0xffff);
    print_wqe("masked_fa_8", {head(prm::opcode::atomic_masked_fa, 12, 4, kSignaled, prm::opmod_masked64),
                              remote(0x3340), prm::masked_fa64(1, 1ull << 63), local(8)});
    print_wqe("masked_cs_4", {head(prm::opcode::atomic_masked_cs, 15, 4, kSignaled, prm::opmod_masked32),
                              remote(0x3340), prm::masked_cs32(1, 2, 3, 4), local(4)});
    const uint8_t twelve[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    uint32_t three[3];
    std::memcpy(three, twelve, sizeof three);
    print_wqe("write_imm", {prm::ctrl(prm::opcode::rdma_write_imm, 0, 16, kQpn, 3, kSignaled, prm::bswap32(0xdeadbeef)),
                            remote(0x3344), prm::inline_data(12, three[0], three[1], three[2])});
    print_wqe("nop", {head(prm::opcode::nop, 13, 1)});
    print_wqe("dump", {head(prm::opcode::dump, 14, 2, fenced), local(1)});
}

void completions() {
    uint8_t cqe[prm::cqe_bytes] = {};
    bool ok = prm::set(cqe, prm::cqe::srqn_uidx, 5);
    ok &= prm::set(cqe, prm::cqe::send_opcode, static_cast<uint64_t>(prm::opcode::rdma_write));
    ok &= prm::set(cqe, prm::cqe::qpn, kQpn);
    ok &= prm::set(cqe, prm::cqe::wqe_counter, 5);
    if (ok) print("cqe_success", cqe, sizeof cqe);
    ok &= prm::set(cqe, prm::cqe::opcode, static_cast<uint64_t>(prm::cqe_opcode::req_err));
    ok &= prm::set(cqe, prm::err_cqe::syndrome, static_cast<uint64_t>(prm::syndrome::remote_access));
    ok &= prm::set(cqe, prm::err_cqe::vendor_err_synd, 0x88);
    uint32_t word;
    std::memcpy(&word, cqe + prm::cqe_status_word, sizeof word);
    word = prm::bswap32(word);
    ok &= prm::cqe_counter(word) == 5 && prm::cqe_op(word) == prm::cqe_opcode::req_err;
    if (ok) print("cqe_error", cqe, sizeof cqe);
}

void doorbells() {
    uint8_t form1[prm::doorbell::size] = {};
    bool ok = prm::set(form1, prm::doorbell::wqe_index, 5);
    ok &= prm::set(form1, prm::doorbell::opcode, static_cast<uint64_t>(prm::opcode::rdma_write));
    ok &= prm::set(form1, prm::doorbell::qpn, kQpn);
    ok &= prm::set(form1, prm::doorbell::ds, 3);
    if (ok) print("doorbell_form1", form1, sizeof form1);
    const uint64_t form2 = prm::doorbell_value(6, kQpn);
    print("doorbell_form2", &form2, sizeof form2);
    const uint32_t qp[2] = {0, prm::send_dbr(6)};
    print("qp_dbr", qp, sizeof qp);
    uint8_t cq[prm::cq_dbr::size] = {};
    if (prm::set(cq, prm::cq_dbr::set_ci, 1)) print("cq_dbr", cq, sizeof cq);
}

// Indices are 64-bit counters; the builders take their low bits.
void wraps() {
    for (uint64_t index : {0xfffeull, 0xffffull, 0x10000ull, 0xffffffffull, 0x100000000ull}) {
        char tag[24];
        std::snprintf(tag, sizeof tag, "_%" PRIx64, index);
        print_wqe(std::string("nop") + tag, {head(prm::opcode::nop, static_cast<uint32_t>(index), 1)});
        const uint64_t db = prm::doorbell_value(static_cast<uint32_t>(index + 1), kQpn);
        print(std::string("doorbell") + tag, &db, sizeof db);
        const uint32_t qp[2] = {0, prm::send_dbr(static_cast<uint32_t>(index + 1))};
        print(std::string("qp_dbr") + tag, qp, sizeof qp);
    }
}

void fields() {
    uint32_t first = 0, width = 0;
    uint64_t value = 0;
    while (std::scanf("%" SCNu32 " %" SCNu32 " %" SCNu64, &first, &width, &value) == 3) {
        uint8_t buffer[64];
        std::memset(buffer, 0xa5, sizeof buffer);
        const prm::field f = prm::make_field(first, width);
        const bool ok = prm::set(buffer, f, value);
        print(ok ? "ok" : "refused", buffer, sizeof buffer);
        std::printf("%" PRIu64 "\n", prm::get(buffer, f));
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::string(argv[1]) == "fields") {
        fields();
        return 0;
    }
    queues();
    transitions();
    rights();
    wqes();
    completions();
    doorbells();
    wraps();
    std::printf("layout_hash_wire %016" PRIx64 "\nlayout_hash_prm %016" PRIx64 "\n", uint64_t{pgas::wire::layout_hash},
                uint64_t{pgas::prm::layout_hash});
    return 0;
}
