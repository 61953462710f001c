package softhca_test

import (
	"encoding/binary"

	"github.com/pgas-go/pgas/internal/prm"
)

// WQE bytes are built by hand here, so that they do not share a mistake with the code under test.

const (
	signaled = 0x08
	fenced   = 0x40
)

func ctrl(op prm.Opcode, opmod, flags byte, imm uint32, segs ...[]byte) []byte {
	var body []byte
	for _, s := range segs {
		body = append(body, s...)
	}
	w := make([]byte, 16, 16+len(body))
	w[0], w[3] = opmod, byte(op)
	w[7] = byte(1 + len(body)/16)
	w[11] = flags
	binary.BigEndian.PutUint32(w[12:], imm)
	return append(w, body...)
}

func raddr(va uint64, rkey uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, va), rkey), 0)
}

func data(n, lkey uint32, va uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, n), lkey), va)
}

func inline(b []byte) []byte {
	out := append(binary.BigEndian.AppendUint32(nil, uint32(len(b))|1<<31), b...)
	for len(out)%16 != 0 {
		out = append(out, 0)
	}
	return out
}

func pair64(a, b uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, a), b)
}

func quad32(a, b, c, d uint32) []byte {
	return pair64(uint64(a)<<32|uint64(b), uint64(c)<<32|uint64(d))
}

func write(n, lkey uint32, from uint64, rkey uint32, to uint64) []byte {
	return ctrl(prm.OpcodeRdmaWrite, 0, signaled, 0, raddr(to, rkey), data(n, lkey, from))
}

func read(n, lkey uint32, to uint64, rkey uint32, from uint64) []byte {
	return ctrl(prm.OpcodeRdmaRead, 0, signaled, 0, raddr(from, rkey), data(n, lkey, to))
}

func fetchAdd(add uint64, lkey uint32, result uint64, rkey uint32, at uint64) []byte {
	return ctrl(prm.OpcodeAtomicFa, 0, signaled, 0, raddr(at, rkey), pair64(add, 0), data(8, lkey, result))
}

func nop() []byte { return ctrl(prm.OpcodeNop, 0, signaled, 0) }
