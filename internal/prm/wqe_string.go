package prm

import (
	"fmt"
	"strings"
)

// maxShownBytes limits how much inline data and unknown bytes a dump shows.
const maxShownBytes = 16

// String is one line for dumps and error reports.
func (w Wqe) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s index %#x qpn %#x ds %d", w.Opcode, w.Index, w.Qpn, w.Ds())
	if w.Opmod != 0 {
		fmt.Fprintf(&b, " opmod %#x", w.Opmod)
	}
	if w.Completion != CompletionModeOnError {
		fmt.Fprintf(&b, " cqe %s", w.Completion)
	}
	if w.Fence != FenceModeNone {
		fmt.Fprintf(&b, " fence %s", w.Fence)
	}
	if w.Solicited {
		b.WriteString(" solicited")
	}
	if w.Imm != 0 {
		fmt.Fprintf(&b, " imm %#x", w.Imm)
	}
	if w.Remote != nil {
		fmt.Fprintf(&b, "; remote %#x rkey %#x", w.Remote.Address, w.Remote.Rkey)
	}
	if w.Atomic != nil {
		b.WriteString("; " + w.Atomic.describe(w.Opcode))
	}
	if w.Wait != nil {
		fmt.Fprintf(&b, "; wait for index %#x of cqn %#x", w.Wait.MaxIndex, w.Wait.Cqn)
	}
	for _, l := range w.Local {
		b.WriteString("; " + l.String())
	}
	if len(w.Rest) > 0 {
		fmt.Fprintf(&b, "; other %s", shown(w.Rest))
	}
	return b.String()
}

func (a Atomic) describe(op Opcode) string {
	switch op {
	case OpcodeAtomicCs:
		return fmt.Sprintf("swap %#x compare %#x", a.Operand, a.Compare)
	case OpcodeAtomicFa:
		return fmt.Sprintf("add %#x", a.Operand)
	case OpcodeAtomicMaskedFa:
		return fmt.Sprintf("add %#x boundary %#x", a.Operand, a.Boundary)
	}
	return fmt.Sprintf("swap %#x compare %#x swap_mask %#x compare_mask %#x", a.Operand, a.Compare, a.SwapMask, a.CompareMask)
}

// String describes the segment.
func (l Local) String() string {
	if l.Inline != nil {
		return fmt.Sprintf("inline %d bytes %s", len(l.Inline), shown(l.Inline))
	}
	return fmt.Sprintf("local %#x lkey %#x %d bytes", l.Address, l.Lkey, l.Bytes)
}

func shown(b []byte) string {
	if len(b) > maxShownBytes {
		return fmt.Sprintf("%x and %d bytes more", b[:maxShownBytes], len(b)-maxShownBytes)
	}
	return fmt.Sprintf("%x", b)
}
