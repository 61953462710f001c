package table

import "github.com/pgas-go/pgas/internal/layout"

// capabilities are the structs of QUERY_HCA_CAP. Positions of a capability are relative to its struct.
func capabilities() []layout.BitStruct {
	return []layout.BitStruct{
		generalCap(), atomicCap(), roceCap(), generalCap2(),
		input("QueryHcaCapIn", "QUERY_HCA_CAP; op_mod is cap_type << 1 | (1 current, 0 maximum)", 16,
			f("other_function", "0x08:31", "KRND", "0"),
			f("function_id", "0x08:15..0", "KRND", "0"),
		),
		output("QueryHcaCapOut", "the answer of QUERY_HCA_CAP; the capability structs share one place", 4112,
			alias(nested("general", "0x10", "CmdHcaCap", "KRUNDP", "type 0")),
			alias(nested("atomic", "0x10", "AtomicCaps", "KRUND", "type 3")),
			alias(nested("roce", "0x10", "RoceCap", "KRND", "type 4")),
			alias(nested("general2", "0x10", "CmdHcaCap2", "SD", "type 0x20")),
		),
	}
}

func generalCap() layout.BitStruct {
	return layout.BitStruct{Name: "CmdHcaCap", Size: 256, Doc: "the general capabilities (type 0), selected fields", Fields: []layout.BitField{
		f("hca_cap_2", "0x04:31", "KRNDP", "GENERAL_2 capabilities exist"),
		f("vhca_id", "0x04:15..0", "KRUNDP", "function id"),
		f("qp_data_in_order", "0x0c:29", "RND", "qpc.data_in_order is meaningful in QUERY_QP"),
		f("log_max_srq_sz", "0x10:31..24", "KRUNDP", ""),
		f("log_max_qp_sz", "0x10:23..16", "KRUNDP", "max WQEBBs in an SQ = 1<<this (typically 15 → 32768)"),
		f("log_max_qp", "0x10:4..0", "KRUNDP", ""),
		f("log_max_cq_sz", "0x18:23..16", "KRUNDP", "max CQEs = 1<<this (22 typical, UNCONFIRMED)"),
		f("log_max_cq", "0x18:4..0", "KRUNDP", ""),
		f("log_max_eq_sz", "0x1c:31..24", "KRUNDP", ""),
		f("relaxed_ordering_write", "0x1c:23", "KRNDP", "mkey may set relaxed_ordering_write"),
		f("relaxed_ordering_read", "0x1c:22", "KP", "mkey may set relaxed_ordering_read; newer headers put a different meaning at 0x64:21"),
		f("log_max_mkey", "0x1c:21..16", "KRUNDP", ""),
		f("log_max_eq", "0x1c:3..0", "KRUNDP", ""),
		f("fixed_buffer_size", "0x20:23", "KRUNDP", ""),
		f("log_max_mrw_sz", "0x20:22..16", "KRUNDP", ""),
		f("null_mkey", "0x20:6", "KRUNDP", "QUERY_SPECIAL_CONTEXTS.null_mkey valid"),
		f("log_max_ra_req_dc", "0x24:21..16", "KRUNDP", "bounds a DCI's requests"),
		f("log_max_ra_res_dc", "0x24:5..0", "KRUNDP", "bounds a DCT's responses"),
		f("log_max_ra_req_qp", "0x28:21..16", "KRUNDP", "bounds qpc.log_sra_max"),
		f("log_max_ra_res_qp", "0x28:5..0", "KRUNDP", "bounds qpc.log_rra_max"),
		f("max_qp_cnt", "0x30:25..16", "KRUNDP", ""),
		f("port_type", "0x34:9..8", "KRUNDP", "0 = IB, 1 = Ethernet"),
		f("num_ports", "0x34:7..0", "KRUNDP", ""),
		f("log_max_msg", "0x38:28..24", "KRUNDP", "kernel reports max_msg_sz = 1<<this (30 → 1 GiB)"),
		f("multi_path_rc_rdma", "0x38:21", "RUND", "also dp_ordering_ooo_rw_rc"),
		f("cqe_version", "0x3c:3..0", "KRUNDP", "1: CQE word 0x20 carries user_index; 0: SRQ number"),
		f("compact_address_vector", "0x40:31", "KRUNDP", "DC address vector may be 16 bytes"),
		f("umr_fence", "0x40:21..20", "KRUNDP", "fence the kernel must use before UMR"),
		f("sctr_data_cqe", "0x40:10", "KRUNDP", "scatter-to-CQE supported (cs_req/cs_res)"),
		f("dct", "0x40:5", "KRUNDP", "DC transport"),
		f("roce", "0x40:2", "KRUNDP", "query ROCE caps"),
		f("atomic", "0x40:1", "KRUNDP", "query ATOMIC caps"),
		f("cq_oi", "0x44:31", "KRUNDP", "overrun-ignore CQs supported"),
		f("rc", "0x44:0", "KRUNDP", ""),
		f("uar_4k", "0x48:31", "KRUNDP", "UARs are 4 KiB"),
		f("umem_uid_0", "0x48:13", "KRND", ""),
		f("log_pg_sz", "0x48:7..0", "KRUNDP", "log2 of the device page size"),
		f("bf", "0x4c:31", "KRUNDP", "BlueFlame supported"),
		f("log_bf_reg_size", "0x4c:20..16", "KRUNDP", "log2 size of one BF register (two halves)"),
		f("max_wqe_sz_sq", "0x50:15..0", "KRUNDP", "bytes; kernel also caps at 512 for its own WQEs"),
		f("max_wqe_sz_rq", "0x54:15..0", "KRUNDP", ""),
		f("max_wqe_sz_sq_dc", "0x58:15..0", "KRUNDP", "bytes"),
		f("log_max_pd", "0x64:20..16", "KRUNDP", ""),
		f("dp_ordering_ooo_all_rc", "0x64:11", "RU", ""),
		f("log_max_rmp", "0x70:28..24", "KRUNDP", ""),
		f("sq_ts_format", "0x88:31..30", "KRP", "0 free-running, 1 real-time, 2 both"),
		f("rq_ts_format", "0x88:29..28", "KRP", "as sq_ts_format"),
		f("log_max_uctx", "0x8c:28..24", "K", ">0 means DevX user contexts exist"),
		f("log_max_umem", "0x8c:20..16", "K", ""),
		f("log_uar_page_sz", "0x90:15..0", "KRUNDP", ""),
		f("num_of_uars_per_page", "0xa4:31..0", "KRUNDP", "UARs per (system) UAR page"),
		f("log_max_dci_stream_channels", "0xb0:20..16", "KUP", ""),
		f("cqe_128_always", "0xb4:2", "KRUNDP", ""),
		f("log_max_xrq", "0xbc:4..0", "KRUNDP", ""),
	}}
}

func atomicCap() layout.BitStruct {
	return layout.BitStruct{Name: "AtomicCaps", Size: 256, Doc: "the atomic capabilities (type 3)", Fields: []layout.BitField{
		f("atomic_req_8b_endianness_mode", "0x08:31..30", "KRUND", "endianness of 8-byte standard atomics as configured by the PF driver: 0 big-endian (\"network\"), 1 host (little) endian"),
		f("supported_atomic_req_8b_endianness_mode_1", "0x08:25", "KRUND", "mode 1 can be configured (kernel turns it on at start)"),
		f("atomic_operations", "0x10:15..0", "KRUND", "bit0 CAS, bit1 FAA, bit2 masked/extended CAS, bit3 masked/extended FAA"),
		f("atomic_size_qp", "0x14:15..0", "KRUND", "operand sizes for RC as a bit mask in bytes: 0x4 → 4 B, 0x8 → 8 B, 0x10 → 16 B … (1 byte is encoded 0)"),
		f("atomic_size_dc", "0x18:15..0", "KRUND", "operand sizes for DC, coded likewise"),
		f("fetch_add_pci_atomic", "0x50:31..16", "RUND", "size mask the device can issue as PCIe FetchAdd"),
		f("swap_pci_atomic", "0x50:15..0", "RUND", "PCIe Swap"),
		f("compare_swap_pci_atomic", "0x54:31..16", "RUND", "PCIe CAS"),
	}}
}

func roceCap() layout.BitStruct {
	return layout.BitStruct{Name: "RoceCap", Size: 256, Doc: "the RoCE capabilities (type 4)", Fields: []layout.BitField{
		f("roce_apm", "0x00:31", "K", ""),
		f("sw_r_roce_src_udp_port", "0x00:27", "KRND", ""),
		f("fl_rc_qp_when_roce_disabled", "0x00:26", "KRND", "force-loopback RC QPs allowed without RoCE"),
		f("fl_rc_qp_when_roce_enabled", "0x00:25", "KRND", "force-loopback RC QPs allowed "),
		f("qp_ts_format", "0x00:1..0", "KRND", "0 free-running, 1 real-time, 2 both"),
		f("l3_type", "0x10:19..16", "KD", ""),
		f("roce_version", "0x10:7..0", "KD", "bit mask of supported versions"),
		f("r_roce_dest_udp_port", "0x14:15..0", "KD", "4791"),
		f("r_roce_max_src_udp_port", "0x18:31..16", "KD", "range for ads.udp_sport"),
		f("r_roce_min_src_udp_port", "0x18:15..0", "KD", "(0xc000)"),
		f("roce_address_table_size", "0x1c:15..0", "KD", "number of GID entries"),
	}}
}

func generalCap2() layout.BitStruct {
	return layout.BitStruct{Name: "CmdHcaCap2", Size: 256, Doc: "the general capabilities, second part (type 0x20)", Fields: []layout.BitField{
		f("dp_ordering_force", "0x10:23", "U", ""),
		f("send_dbr_mode_no_dbr_int", "0x5c:31", "S", ""),
		f("send_dbr_mode_no_dbr_ext", "0x5c:30", "SD", "QPs without a send doorbell record; which NICs have it is UNCONFIRMED"),
	}}
}
