package errs

import "fmt"

// CompletionError is an error CQE, as an mlx5 NIC (or the software HCA) writes it. Syndromes and opcodes are those of
// the mlx5 PRM, as in rdma-core mlx5dv.h and Linux include/linux/mlx5/cq.h.
type CompletionError struct {
	QPN            uint32
	Context        int
	Peer           int
	WQEIndex       uint64 // 64-bit index of the failed WQE, in basic blocks
	Opcode         uint8  // send opcode of the failed WQE
	Syndrome       uint8
	VendorSyndrome uint8
	Detail         string // what the software HCA knows beyond the syndrome; empty on hardware
}

// Error reads "qp 0x11 (context 0, PE 3) wqe 482 (rdma write): remote access error (syndrome 0x13, vendor 0x88)".
func (e *CompletionError) Error() string {
	s := fmt.Sprintf("qp %#x (context %d, PE %d) wqe %d (%s): %s (syndrome %#02x, vendor %#02x)", e.QPN, e.Context,
		e.Peer, e.WQEIndex, OpcodeName(e.Opcode), SyndromeName(e.Syndrome), e.Syndrome, e.VendorSyndrome)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Is matches ErrCompletion.
func (e *CompletionError) Is(target error) bool { return target == ErrCompletion }

// SyndromeName names a CQE syndrome (CQE byte 0x37).
func SyndromeName(s uint8) string {
	switch s {
	case 0x01:
		return "local length error"
	case 0x02:
		return "local QP operation error"
	case 0x04:
		return "local protection error"
	case 0x05:
		return "flushed, an earlier WQE of the queue failed"
	case 0x06:
		return "memory window bind error"
	case 0x10:
		return "bad response"
	case 0x11:
		return "local access error"
	case 0x12:
		return "remote invalid request"
	case 0x13:
		return "remote access error"
	case 0x14:
		return "remote operation error"
	case 0x15:
		return "transport retries exceeded, the peer does not answer"
	case 0x16:
		return "receiver-not-ready retries exceeded"
	case 0x22:
		return "remote aborted"
	}
	return "unknown error"
}

// OpcodeName names an mlx5 send opcode.
func OpcodeName(op uint8) string {
	switch op {
	case 0x00:
		return "nop"
	case 0x08:
		return "rdma write"
	case 0x09:
		return "rdma write with immediate"
	case 0x0a:
		return "send"
	case 0x0b:
		return "send with immediate"
	case 0x10:
		return "rdma read"
	case 0x11:
		return "compare and swap"
	case 0x12:
		return "fetch and add"
	case 0x14:
		return "masked compare and swap"
	case 0x15:
		return "masked fetch and add"
	case 0x23:
		return "dump"
	}
	return fmt.Sprintf("opcode %#02x", op)
}
