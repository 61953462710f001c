// Package wire holds the structs that the host program writes and kernels read, or the reverse. Everything in it is
// generated, together with device/include/pgas/detail/wire.cuh, from the table in internal/wire/table. World.LayoutHash
// lets a kernel that was built from another table be refused instead of hanging.
package wire

//go:generate go run ../cmd/genlayout -table wire -go wire_gen.go -cuh ../../device/include/pgas/detail/wire.cuh

import "encoding/binary"

// Big turns a number into its big-endian form.
func Big(v uint32) Be32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return Be32(binary.NativeEndian.Uint32(b[:]))
}

// Value turns the big-endian form back into the number.
func (b Be32) Value() uint32 {
	var n [4]byte
	binary.NativeEndian.PutUint32(n[:], uint32(b))
	return binary.BigEndian.Uint32(n[:])
}
