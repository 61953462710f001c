package prm

import (
	"errors"
	"fmt"
)

// A DoorbellValue is the 8 bytes stored in a doorbell register. Two forms are in use and hardware takes both: the
// first 8 bytes of the last WQE (rdma-core, Linux), and the next free index with DS 0 (NVSHMEM, DOCA, UCX on GPUs).
type DoorbellValue struct {
	Index  uint16
	Opcode Opcode // form 2: 0
	Qpn    uint32
	Ds     uint8 // form 2: 0
}

// Next is the producer counter that the doorbell announces, for both forms: Index + ceil(Ds/4). That both forms
// follow this one rule is derived from their software, not stated by a source.
func (d DoorbellValue) Next() uint16 { return d.Index + uint16(bbs(int(d.Ds))) }

// Encode returns the 8 bytes in memory order, or a *FieldError.
func (d DoorbellValue) Encode() ([]byte, error) {
	m := NewMailbox(DoorbellSize)
	return m, errors.Join(m.Set(Doorbell.WqeIndex, uint64(d.Index)), m.Set(Doorbell.Opcode, uint64(d.Opcode)),
		m.Set(Doorbell.Qpn, uint64(d.Qpn)), m.Set(Doorbell.Ds, uint64(d.Ds)))
}

// DecodeDoorbell reads the 8 bytes of a doorbell.
func DecodeDoorbell(b []byte) (DoorbellValue, error) {
	if len(b) < DoorbellSize {
		return DoorbellValue{}, fmt.Errorf("decode doorbell: %d bytes, need %d", len(b), DoorbellSize)
	}
	m := Mailbox(b)
	return DoorbellValue{
		Index: uint16(m.Get(Doorbell.WqeIndex)), Opcode: Opcode(m.Get(Doorbell.Opcode)),
		Qpn: uint32(m.Get(Doorbell.Qpn)), Ds: uint8(m.Get(Doorbell.Ds)),
	}, nil
}

// String is for dumps.
func (d DoorbellValue) String() string {
	return fmt.Sprintf("doorbell qpn %#x index %#x opcode %s ds %d", d.Qpn, d.Index, d.Opcode, d.Ds)
}
