// Package wire holds the structs that the host program writes and kernels read, or the reverse. Everything in it is
// generated, together with device/include/pgas/detail/wire.cuh, from the table in internal/wire/table. World.LayoutHash
// lets a kernel that was built from another table be refused instead of hanging.
package wire

//go:generate go run ../cmd/genlayout -table wire -go wire_gen.go -cuh ../../device/include/pgas/detail/wire.cuh
