package prm

import "fmt"

// wqeWriter fills segments and keeps the first error.
type wqeWriter struct {
	m   Mailbox
	at  int
	err error
}

func (w *wqeWriter) set(f Field, v uint64) {
	if w.err == nil {
		w.err = w.m.Set(f.At(uint32(w.at)), v)
	}
}

// Encode returns the WQE as hardware reads it, padded with zeros to whole BBs. It returns an error that wraps a
// *FieldError when a value does not fit, or says which segment does not go with the opcode.
func (w Wqe) Encode() ([]byte, error) {
	ds := w.Ds()
	if ds > MaxDs {
		return nil, fmt.Errorf("encode WQE %s index %#x: %d DS, at most %d", w.Opcode, w.Index, ds, MaxDs)
	}
	out := &wqeWriter{m: NewMailbox(bbs(ds) * BbBytes)}
	w.control(out, ds)
	if err := w.body(out); err != nil {
		return nil, fmt.Errorf("encode WQE %s index %#x: %w", w.Opcode, w.Index, err)
	}
	if out.err != nil {
		return nil, fmt.Errorf("encode WQE %s index %#x: %w", w.Opcode, w.Index, out.err)
	}
	return out.m, nil
}

func (w Wqe) control(out *wqeWriter, ds int) {
	out.set(CtrlSeg.Opmod, uint64(w.Opmod))
	out.set(CtrlSeg.WqeIndex, uint64(w.Index))
	out.set(CtrlSeg.Opcode, uint64(w.Opcode))
	out.set(CtrlSeg.Qpn, uint64(w.Qpn))
	out.set(CtrlSeg.Ds, uint64(ds))
	out.set(CtrlSeg.Signature, uint64(w.Signature))
	out.set(CtrlSeg.DciStream, uint64(w.Stream))
	out.set(CtrlSeg.Fence, uint64(w.Fence))
	out.set(CtrlSeg.Completion, uint64(w.Completion))
	if w.Solicited {
		out.set(CtrlSeg.Solicited, 1)
	}
	out.set(CtrlSeg.Imm, uint64(w.Imm))
	out.at += CtrlSegSize
}

func (w Wqe) body(out *wqeWriter) error {
	if w.Remote != nil {
		out.set(RaddrSeg.Raddr, w.Remote.Address)
		out.set(RaddrSeg.Rkey, uint64(w.Remote.Rkey))
		out.at += RaddrSegSize
	}
	if w.Atomic != nil {
		layout, ok := operands(w.Opcode, w.Opmod)
		if !ok {
			return fmt.Errorf("atomic operands do not go with opmod %#x", w.Opmod)
		}
		for _, o := range layout.fields {
			out.set(o.field, *o.of(w.Atomic))
		}
		out.at += layout.bytes
	}
	if w.Wait != nil {
		out.set(WaitSeg.MaxIndex, uint64(w.Wait.MaxIndex))
		out.set(WaitSeg.Cqn, uint64(w.Wait.Cqn))
		out.at += WaitSegSize
	}
	for _, l := range w.Local {
		if err := l.encode(out); err != nil {
			return err
		}
	}
	if len(w.Rest)%DsBytes != 0 {
		return fmt.Errorf("rest of %d bytes is not whole DS of %d", len(w.Rest), DsBytes)
	}
	copy(out.m[out.at:], w.Rest)
	return nil
}

func (l Local) encode(out *wqeWriter) error {
	if l.Inline == nil {
		out.set(DataSeg.ByteCount, uint64(l.Bytes))
		out.set(DataSeg.Lkey, uint64(l.Lkey))
		out.set(DataSeg.Addr, l.Address)
		out.at += DataSegSize
		return nil
	}
	if len(l.Inline) > InlineMaxBytes {
		return fmt.Errorf("%d bytes inline, at most %d", len(l.Inline), InlineMaxBytes)
	}
	out.set(InlineSeg.InlineFlag, 1)
	out.set(InlineSeg.ByteCount, uint64(len(l.Inline)))
	copy(out.m[out.at+InlineSegSize:], l.Inline)
	out.at += l.segments() * DsBytes
	return nil
}
