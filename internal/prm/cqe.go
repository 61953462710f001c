package prm

import "fmt"

// A Completion is a 64-byte CQE in the form that people read.
type Completion struct {
	Opcode     CqeOpcode
	Owner      uint8
	Format     uint8 // 1: 32 bytes inline; 2: 64 bytes inline; 3: compressed
	Solicited  bool
	Signature  uint8
	WqeCounter uint16 // index of the first BB of the completed WQE
	SendOpcode Opcode // requester completions: the WQE's opcode
	Qpn        uint32
	UserIndex  uint32 // srqn_uidx: user_index when cqe_version is 1
	ByteCount  uint32
	Imm        uint32 // success only
	Timestamp  uint64 // success only

	Syndrome       Syndrome // errors only, as the three below
	VendorSyndrome uint8
	HwSyndrome     uint8
	HwSyndromeType uint8
}

// IsError tells whether the CQE reports a failure; then the queue pair is in the error state.
func (c Completion) IsError() bool {
	return c.Opcode == CqeOpcodeReqErr || c.Opcode == CqeOpcodeRespErr
}

// DecodeCqe reads a CQE. It fails only when there are fewer than 64 bytes; a CQE that hardware never wrote has the
// opcode CqeOpcodeInvalid.
func DecodeCqe(b []byte) (Completion, error) {
	if len(b) < CqeSize {
		return Completion{}, fmt.Errorf("decode CQE: %d bytes, need %d", len(b), CqeSize)
	}
	m := Mailbox(b)
	c := Completion{
		Opcode: CqeOpcode(m.Get(Cqe.Opcode)), Owner: uint8(m.Get(Cqe.Owner)), Format: uint8(m.Get(Cqe.Format)),
		Solicited: m.Get(Cqe.Solicited) == 1, Signature: uint8(m.Get(Cqe.Signature)),
		WqeCounter: uint16(m.Get(Cqe.WqeCounter)), SendOpcode: Opcode(m.Get(Cqe.SendOpcode)), Qpn: uint32(m.Get(Cqe.Qpn)),
		UserIndex: uint32(m.Get(Cqe.SrqnUidx)), ByteCount: uint32(m.Get(Cqe.ByteCnt)),
	}
	if c.IsError() {
		c.Syndrome = Syndrome(m.Get(ErrCqe.Syndrome))
		c.VendorSyndrome = uint8(m.Get(ErrCqe.VendorErrSynd))
		c.HwSyndrome = uint8(m.Get(ErrCqe.HwErrSynd))
		c.HwSyndromeType = uint8(m.Get(ErrCqe.HwSyndType))
		return c, nil
	}
	c.Imm, c.Timestamp = uint32(m.Get(Cqe.Imm)), m.Get(Cqe.Timestamp)
	return c, nil
}

// Encode returns the 64 bytes that hardware would write. It returns a *FieldError when a value does not fit.
func (c Completion) Encode() ([]byte, error) {
	w := &wqeWriter{m: NewMailbox(CqeSize)}
	w.set(Cqe.Opcode, uint64(c.Opcode))
	w.set(Cqe.Owner, uint64(c.Owner))
	w.set(Cqe.Format, uint64(c.Format))
	if c.Solicited {
		w.set(Cqe.Solicited, 1)
	}
	w.set(Cqe.Signature, uint64(c.Signature))
	w.set(Cqe.WqeCounter, uint64(c.WqeCounter))
	w.set(Cqe.SendOpcode, uint64(c.SendOpcode))
	w.set(Cqe.Qpn, uint64(c.Qpn))
	w.set(Cqe.SrqnUidx, uint64(c.UserIndex))
	w.set(Cqe.ByteCnt, uint64(c.ByteCount))
	if c.IsError() {
		w.set(ErrCqe.Syndrome, uint64(c.Syndrome))
		w.set(ErrCqe.VendorErrSynd, uint64(c.VendorSyndrome))
		w.set(ErrCqe.HwErrSynd, uint64(c.HwSyndrome))
		w.set(ErrCqe.HwSyndType, uint64(c.HwSyndromeType))
	} else {
		w.set(Cqe.Imm, uint64(c.Imm))
		w.set(Cqe.Timestamp, c.Timestamp)
	}
	return w.m, w.err
}

// String is one line for dumps and error reports.
func (c Completion) String() string {
	s := fmt.Sprintf("cqe %s of %s wqe_counter %#x qpn %#x user_index %#x owner %d",
		c.Opcode, c.SendOpcode, c.WqeCounter, c.Qpn, c.UserIndex, c.Owner)
	if c.IsError() {
		return s + fmt.Sprintf(" syndrome %s (%#x) vendor %#x hw %#x type %#x",
			c.Syndrome, uint8(c.Syndrome), c.VendorSyndrome, c.HwSyndrome, c.HwSyndromeType)
	}
	return s + fmt.Sprintf(" %d bytes", c.ByteCount)
}
