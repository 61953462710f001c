// QUERY_HCA_CAP and the queries about the port.
#include "hca.h"

namespace pgas::softhca {
namespace {

constexpr uint8_t ok = static_cast<uint8_t>(prm::cmd_status::ok);
constexpr uint8_t bad_param = static_cast<uint8_t>(prm::cmd_status::bad_param);
constexpr uint8_t bad_index = static_cast<uint8_t>(prm::cmd_status::bad_index);

void general(const Config& c, const DeviceInfo& d, uint8_t* cap) {
    namespace f = prm::cmd_hca_cap;
    put(cap, f::hca_cap_2, 1);
    put(cap, f::vhca_id, 1);
    put(cap, f::log_max_qp_sz, c.log_max_qp_sz);
    put(cap, f::log_max_qp, log_max_qps);
    put(cap, f::log_max_cq_sz, c.log_max_cq_sz);
    put(cap, f::log_max_cq, log_max_cqs);
    put(cap, f::relaxed_ordering_write, 1);
    put(cap, f::relaxed_ordering_read, 1);
    put(cap, f::log_max_mkey, log_max_mkeys);
    put(cap, f::log_max_ra_req_qp, 4);
    put(cap, f::log_max_ra_res_qp, 4);
    put(cap, f::port_type, static_cast<uint8_t>(d.config.infiniband ? prm::port_type::ib : prm::port_type::eth));
    put(cap, f::num_ports, 1);
    put(cap, f::log_max_msg, c.log_max_msg);
    put(cap, f::cqe_version, 1);
    put(cap, f::roce, !d.config.infiniband);
    put(cap, f::atomic, !c.no_atomics);
    put(cap, f::cq_oi, 1);
    put(cap, f::rc, 1);
    put(cap, f::uar_4k, 1);
    put(cap, f::log_pg_sz, 12);
    put(cap, f::bf, (c.no_uar & 1) == 0);
    put(cap, f::log_bf_reg_size, 9);
    put(cap, f::max_wqe_sz_sq, 1024);
    put(cap, f::max_wqe_sz_rq, 512);
    put(cap, f::log_max_pd, 16);
    put(cap, f::log_max_uctx, 16);
    put(cap, f::log_max_umem, 16);
    put(cap, f::num_of_uars_per_page, 1);
}

void atomics(const Config& c, uint8_t* cap) {
    namespace f = prm::atomic_caps;
    if (c.no_atomics) return;
    put(cap, f::atomic_req_8b_endianness_mode, 1);
    put(cap, f::supported_atomic_req_8b_endianness_mode_1, 1);
    put(cap, f::atomic_operations,
        prm::atomic_op_cs | prm::atomic_op_fa | prm::atomic_op_masked_cs | prm::atomic_op_masked_fa);
    put(cap, f::atomic_size_qp, 4 | 8);
}

void roce(const DeviceInfo& d, uint8_t* cap) {
    namespace f = prm::roce_cap;
    put(cap, f::fl_rc_qp_when_roce_enabled, 1);
    put(cap, f::qp_ts_format, 0);
    put(cap, f::roce_version,
        1 << static_cast<int>(prm::roce_version::v1) | 1 << static_cast<int>(prm::roce_version::v2));
    put(cap, f::r_roce_dest_udp_port, 4791);
    put(cap, f::r_roce_min_src_udp_port, 0xc000);
    put(cap, f::r_roce_max_src_udp_port, 0xffff);
    put(cap, f::roce_address_table_size, d.gids.size());
}

}  // namespace

uint8_t Hca::query_hca_cap(const uint8_t* in, uint8_t* out) {
    Reader r(in, prm::query_hca_cap_in::size);
    r.skip({prm::cmd_in::opcode, prm::cmd_in::uid});
    const uint32_t op_mod = r.take32(prm::cmd_in::op_mod);
    if (!r.rest_is_zero()) return bad_param;
    uint8_t* cap = out + prm::query_hca_cap_out::general;
    switch (static_cast<prm::cap_type>(op_mod >> 1)) {
        case prm::cap_type::general:
            general(*config_, *device_, cap);
            return ok;
        case prm::cap_type::atomic:
            atomics(*config_, cap);
            return ok;
        case prm::cap_type::roce:
            if (device_->config.infiniband) return bad_param;
            roce(*device_, cap);
            return ok;
        case prm::cap_type::general2:
            return ok;  // nothing of it is supported
        default:
            return bad_param;
    }
}

uint8_t Hca::query_vport_context(const uint8_t* in, uint8_t* out) {
    Reader r(in, prm::query_hca_vport_context_in::size);
    r.skip({prm::cmd_in::opcode, prm::cmd_in::uid});
    const uint32_t port = r.take32(prm::query_hca_vport_context_in::port_num);
    if (port > 1 || !r.rest_is_zero()) return bad_param;
    if (!device_->config.infiniband) return bad_param;
    put(out + prm::query_hca_vport_context_out::context, prm::hca_vport_context::lid, device_->lid);
    return ok;
}

uint8_t Hca::query_roce_address(const uint8_t* in, uint8_t* out) {
    Reader r(in, prm::query_roce_address_in::size);
    r.skip({prm::cmd_in::opcode, prm::cmd_in::uid});
    const uint32_t index = r.take32(prm::query_roce_address_in::roce_address_index);
    const uint32_t port = r.take32(prm::query_roce_address_in::vhca_port_num);
    if (port > 1 || !r.rest_is_zero() || device_->config.infiniband) return bad_param;
    if (index >= device_->gids.size()) return bad_index;
    uint8_t* a = out + prm::query_roce_address_out::roce_address;
    if (!device_->gid(index, a)) return ok;  // a hole reads as zeros
    const GidKind kind = device_->gids[index];
    const bool v2 = kind == GidKind::link_local_v2 || kind == GidKind::ipv4_v2;
    std::memcpy(a + prm::byte_of(prm::roce_addr::source_mac), device_->mac, 6);
    put(a, prm::roce_addr::roce_l3_type, kind == GidKind::ipv4_v2 ? 0 : 1);
    put(a, prm::roce_addr::roce_version, static_cast<uint8_t>(v2 ? prm::roce_version::v2 : prm::roce_version::v1));
    return ok;
}

}  // namespace pgas::softhca
