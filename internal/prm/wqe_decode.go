package prm

import "fmt"

// wqeReader walks over the segments of one WQE.
type wqeReader struct {
	m   Mailbox // exactly DS * 16 bytes
	at  int
	out Wqe
}

// DecodeWqe reads a WQE that lies in one piece; bytes after its last segment are ignored. RingWqe takes one out of a
// ring. It returns a *WqeError when the segments do not fit the opcode. Reserved bits and padding are not kept.
func DecodeWqe(b []byte) (Wqe, error) {
	r := wqeReader{m: b}
	if len(b) < CtrlSegSize {
		return Wqe{}, &WqeError{Reason: fmt.Sprintf("%d bytes, a control segment has %d", len(b), CtrlSegSize)}
	}
	r.control()
	ds := int(r.m.Get(CtrlSeg.Ds))
	if ds == 0 || ds*DsBytes > len(b) {
		err := r.fail("ds is 0 or past the bytes given: %d bytes", len(b))
		err.Ds = ds
		return Wqe{}, err
	}
	r.m, r.at = r.m[:ds*DsBytes], CtrlSegSize
	if err := r.segments(); err != nil {
		return Wqe{}, err
	}
	return r.out, nil
}

func (r *wqeReader) fail(format string, args ...any) *WqeError {
	return &WqeError{
		Opcode: r.out.Opcode, Index: r.out.Index, Ds: len(r.m) / DsBytes, At: r.at, Reason: fmt.Sprintf(format, args...),
	}
}

// get reads a field of the segment at the current place. The caller has checked that the segment is there.
func (r *wqeReader) get(f Field) uint64 { return r.m.Get(f.At(uint32(r.at))) }

func (r *wqeReader) control() {
	r.out = Wqe{
		Opcode: Opcode(r.get(CtrlSeg.Opcode)), Opmod: uint8(r.get(CtrlSeg.Opmod)), Index: uint16(r.get(CtrlSeg.WqeIndex)),
		Qpn: uint32(r.get(CtrlSeg.Qpn)), Fence: FenceMode(r.get(CtrlSeg.Fence)),
		Completion: CompletionMode(r.get(CtrlSeg.Completion)), Solicited: r.get(CtrlSeg.Solicited) == 1,
		Signature: uint8(r.get(CtrlSeg.Signature)), Stream: uint16(r.get(CtrlSeg.DciStream)), Imm: uint32(r.get(CtrlSeg.Imm)),
	}
}

func (r *wqeReader) segments() *WqeError {
	switch r.out.Opcode {
	case OpcodeRdmaWrite, OpcodeRdmaWriteImm, OpcodeRdmaRead:
		if err := r.remote(); err != nil {
			return err
		}
		return r.locals()
	case OpcodeAtomicCs, OpcodeAtomicFa, OpcodeAtomicMaskedCs, OpcodeAtomicMaskedFa:
		if err := r.remote(); err != nil {
			return err
		}
		if err := r.atomic(); err != nil {
			return err
		}
		return r.locals()
	case OpcodeSend, OpcodeSendImm, OpcodeSendInval, OpcodeDump:
		return r.locals()
	case OpcodeWait:
		if err := r.need(WaitSegSize, "wait segment"); err != nil {
			return err
		}
		r.out.Wait = &Wait{MaxIndex: uint32(r.get(WaitSeg.MaxIndex)), Cqn: uint32(r.get(WaitSeg.Cqn))}
		r.at += WaitSegSize
	}
	if r.at < len(r.m) {
		r.out.Rest = append([]byte(nil), r.m[r.at:]...)
	}
	return nil
}

func (r *wqeReader) need(bytes int, what string) *WqeError {
	if r.at+bytes > len(r.m) {
		return r.fail("%s needs %d bytes, %d are left", what, bytes, len(r.m)-r.at)
	}
	return nil
}

func (r *wqeReader) remote() *WqeError {
	if err := r.need(RaddrSegSize, "remote address segment"); err != nil {
		return err
	}
	r.out.Remote = &Remote{Address: r.get(RaddrSeg.Raddr), Rkey: uint32(r.get(RaddrSeg.Rkey))}
	r.at += RaddrSegSize
	return nil
}

func (r *wqeReader) atomic() *WqeError {
	layout, ok := operands(r.out.Opcode, r.out.Opmod)
	if !ok {
		return r.fail("opmod %#x does not go with the opcode", r.out.Opmod)
	}
	if err := r.need(layout.bytes, "operands"); err != nil {
		return err
	}
	a := &Atomic{}
	for _, o := range layout.fields {
		*o.of(a) = r.get(o.field)
	}
	r.out.Atomic = a
	r.at += layout.bytes
	return nil
}

func (r *wqeReader) locals() *WqeError {
	for r.at < len(r.m) {
		if r.get(DataSeg.InlineFlag) == 0 {
			r.out.Local = append(r.out.Local, Local{
				Bytes: uint32(r.get(DataSeg.ByteCount)), Lkey: uint32(r.get(DataSeg.Lkey)), Address: r.get(DataSeg.Addr),
			})
			r.at += DataSegSize
			continue
		}
		n := int(r.get(InlineSeg.ByteCount))
		l := Local{Inline: make([]byte, n)}
		if err := r.need(l.segments()*DsBytes, "inline data"); err != nil {
			return err
		}
		copy(l.Inline, r.m[r.at+InlineSegSize:])
		r.out.Local = append(r.out.Local, l)
		r.at += l.segments() * DsBytes
	}
	return nil
}

// operandLayout tells where the operands of an atomic lie after the remote address segment.
type operandLayout struct {
	bytes  int
	fields []operandField
}

type operandField struct {
	field Field
	of    func(*Atomic) *uint64
}

type operandKey struct {
	op    Opcode
	opmod uint8
}

var operandLayouts = makeOperandLayouts()

func operands(op Opcode, opmod uint8) (operandLayout, bool) {
	l, ok := operandLayouts[operandKey{op, opmod}]
	return l, ok
}

func makeOperandLayouts() map[operandKey]operandLayout {
	operand := func(a *Atomic) *uint64 { return &a.Operand }
	compare := func(a *Atomic) *uint64 { return &a.Compare }
	swapMask := func(a *Atomic) *uint64 { return &a.SwapMask }
	compareMask := func(a *Atomic) *uint64 { return &a.CompareMask }
	boundary := func(a *Atomic) *uint64 { return &a.Boundary }
	return map[operandKey]operandLayout{
		{OpcodeAtomicCs, 0}: {AtomicSegSize, []operandField{{AtomicSeg.SwapAdd, operand}, {AtomicSeg.Compare, compare}}},
		{OpcodeAtomicFa, 0}: {AtomicSegSize, []operandField{{AtomicSeg.SwapAdd, operand}}},
		{OpcodeAtomicMaskedCs, OpmodMasked32}: {MaskedCs32SegSize, []operandField{
			{MaskedCs32Seg.Swap, operand}, {MaskedCs32Seg.Compare, compare},
			{MaskedCs32Seg.SwapMask, swapMask}, {MaskedCs32Seg.CompareMask, compareMask},
		}},
		{OpcodeAtomicMaskedFa, OpmodMasked32}: {MaskedFa32SegSize, []operandField{
			{MaskedFa32Seg.Add, operand}, {MaskedFa32Seg.Boundary, boundary},
		}},
		{OpcodeAtomicMaskedCs, OpmodMasked64}: {MaskedCs64SegSize + MaskedCs64MaskSegSize, []operandField{
			{MaskedCs64Seg.Swap, operand}, {MaskedCs64Seg.Compare, compare},
			{MaskedCs64MaskSeg.SwapMask.At(MaskedCs64SegSize), swapMask},
			{MaskedCs64MaskSeg.CompareMask.At(MaskedCs64SegSize), compareMask},
		}},
		{OpcodeAtomicMaskedFa, OpmodMasked64}: {MaskedFa64SegSize, []operandField{
			{MaskedFa64Seg.Add, operand}, {MaskedFa64Seg.Boundary, boundary},
		}},
	}
}
