package prm

import (
	"fmt"
)

// A Wqe is a send WQE in the form that people read: tests, golden files and error reports use it. Kernels build
// theirs with device/include/pgas/detail/prm_wqe.cuh.
type Wqe struct {
	Opcode     Opcode
	Opmod      uint8  // OpmodMasked32 or OpmodMasked64 for masked atomics, else 0
	Index      uint16 // BB counter
	Qpn        uint32
	Fence      FenceMode
	Completion CompletionMode
	Solicited  bool
	Signature  uint8
	Stream     uint16 // DCI stream channel
	Imm        uint32 // the last word of the control segment, as it would be read in network order

	Remote *Remote // RDMA_WRITE, RDMA_READ and atomics
	Atomic *Atomic // atomics
	Wait   *Wait   // WAIT
	Local  []Local // data and inline segments
	Rest   []byte  // segments that this decoder does not know, whole DS
}

// Remote is the remote address segment.
type Remote struct {
	Address uint64
	Rkey    uint32
}

// Atomic holds the operands of an atomic, standard or masked, of 4 or 8 bytes.
type Atomic struct {
	Operand     uint64 // swap, or add
	Compare     uint64 // ATOMIC_CS and ATOMIC_MASKED_CS
	SwapMask    uint64 // ATOMIC_MASKED_CS
	CompareMask uint64 // ATOMIC_MASKED_CS
	Boundary    uint64 // ATOMIC_MASKED_FA
}

// Wait is the segment of a WAIT.
type Wait struct{ MaxIndex, Cqn uint32 }

// Local is one data segment, or one inline segment when Inline is not nil.
type Local struct {
	Inline  []byte // at most InlineMaxBytes
	Bytes   uint32 // 31 bits
	Lkey    uint32
	Address uint64
}

// A WqeError is a WQE whose segments do not make sense.
type WqeError struct {
	Opcode Opcode
	Index  uint16
	Ds     int
	At     int // byte offset in the WQE
	Reason string
}

func (e *WqeError) Error() string {
	return fmt.Sprintf("decode WQE %s index %#x ds %d at byte %#x: %s", e.Opcode, e.Index, e.Ds, e.At, e.Reason)
}

// Ds is the number of 16-byte units.
func (w Wqe) Ds() int {
	n := 1 + len(w.Rest)/DsBytes
	if w.Remote != nil {
		n++
	}
	if w.Atomic != nil {
		n += w.operandSegments()
	}
	if w.Wait != nil {
		n++
	}
	for _, l := range w.Local {
		n += l.segments()
	}
	return n
}

// Bbs is the number of 64-byte basic blocks: the next WQE's index is Index + Bbs.
func (w Wqe) Bbs() int { return bbs(w.Ds()) }

func bbs(ds int) int { return (ds*DsBytes + BbBytes - 1) / BbBytes }

func (w Wqe) operandSegments() int {
	if w.Opcode == OpcodeAtomicMaskedCs && w.Opmod == OpmodMasked64 {
		return 2
	}
	return 1
}

func (l Local) segments() int {
	if l.Inline == nil {
		return 1
	}
	return (InlineSegSize + len(l.Inline) + DsBytes - 1) / DsBytes
}

// RingWqe copies the WQE with the given index out of a send queue ring. A WQE may wrap from the end of the ring to
// its start. The ring is a power of two of BBs.
func RingWqe(ring []byte, index uint16) ([]byte, error) {
	n := len(ring) / BbBytes
	if n == 0 || n&(n-1) != 0 || len(ring)%BbBytes != 0 {
		return nil, fmt.Errorf("read WQE %#x: ring of %d bytes is not a power of two of %d-byte BBs", index, len(ring), BbBytes)
	}
	start := int(index) % n * BbBytes
	size := int(Mailbox(ring).Get(CtrlSeg.Ds.At(uint32(start)))) * DsBytes
	if size == 0 || size > len(ring) {
		return nil, fmt.Errorf("read WQE %#x: ds makes %d bytes, the ring has %d", index, size, len(ring))
	}
	head := min(size, len(ring)-start)
	return append(append([]byte(nil), ring[start:start+head]...), ring[:size-head]...), nil
}
