// Package prm holds the mlx5 hardware layouts: command mailboxes, WQEs, CQEs, doorbells and doorbell records.
//
// Positions, opcodes and codes are generated, together with device/include/pgas/detail/prm.cuh, from the table in
// internal/prm/table, which also names the public source of each fact. Everything the hardware reads or writes is
// big-endian; a position "0x0c:23..0" means bits 23..0 of the 32-bit word at byte 0x0c.
package prm

//go:generate go run ../cmd/genlayout -table prm -go prm_gen.go -cuh ../../device/include/pgas/detail/prm.cuh
