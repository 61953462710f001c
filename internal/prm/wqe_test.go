package prm

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawWqe draws a WQE that hardware would take.
func drawWqe(t *rapid.T) Wqe {
	w := Wqe{
		Index: rapid.Uint16().Draw(t, "index"), Qpn: rapid.Uint32Max(1<<24-1).Draw(t, "qpn"),
		Fence:      FenceMode(rapid.Uint8Max(4).Draw(t, "fence")),
		Completion: CompletionMode(rapid.Uint8Max(3).Draw(t, "completion")), Solicited: rapid.Bool().Draw(t, "solicited"),
		Signature: rapid.Uint8().Draw(t, "signature"), Stream: rapid.Uint16().Draw(t, "stream"), Imm: rapid.Uint32().Draw(t, "imm"),
		Opcode: rapid.SampledFrom([]Opcode{
			OpcodeNop, OpcodeRdmaWrite, OpcodeRdmaWriteImm, OpcodeRdmaRead, OpcodeSend, OpcodeSendImm, OpcodeAtomicCs, OpcodeAtomicFa,
			OpcodeAtomicMaskedCs, OpcodeAtomicMaskedFa, OpcodeDump, OpcodeWait, OpcodeUmr,
		}).Draw(t, "opcode"),
	}
	switch w.Opcode {
	case OpcodeNop, OpcodeUmr:
		w.Rest = drawRest(t)
		return w
	case OpcodeWait:
		w.Wait = &Wait{rapid.Uint32().Draw(t, "max_index"), rapid.Uint32().Draw(t, "cqn")}
		return w
	case OpcodeAtomicMaskedCs, OpcodeAtomicMaskedFa:
		w.Opmod = rapid.SampledFrom([]uint8{OpmodMasked32, OpmodMasked64}).Draw(t, "opmod")
	}
	if w.Opcode != OpcodeSend && w.Opcode != OpcodeSendImm && w.Opcode != OpcodeDump {
		w.Remote = &Remote{rapid.Uint64().Draw(t, "raddr"), rapid.Uint32().Draw(t, "rkey")}
	}
	if layout, ok := operands(w.Opcode, w.Opmod); ok {
		w.Atomic = &Atomic{}
		for _, o := range layout.fields {
			*o.of(w.Atomic) = rapid.Uint64Max(o.field.Max()).Draw(t, o.field.Name)
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "segments") {
		w.Local = append(w.Local, drawLocal(t))
	}
	return w
}

func drawRest(t *rapid.T) []byte {
	n := rapid.IntRange(0, 3).Draw(t, "rest")
	if n == 0 {
		return nil
	}
	return rapid.SliceOfN(rapid.Byte(), n*DsBytes, n*DsBytes).Draw(t, "bytes")
}

func drawLocal(t *rapid.T) Local {
	if rapid.Bool().Draw(t, "is_inline") {
		return Local{Inline: rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "inline")}
	}
	return Local{
		Bytes: rapid.Uint32Max(1<<31-1).Draw(t, "bytes"), Lkey: rapid.Uint32().Draw(t, "lkey"), Address: rapid.Uint64().Draw(t, "address"),
	}
}

func TestWqeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWqe(t)
		b, err := w.Encode()
		require.NoError(t, err)
		require.Len(t, b, w.Bbs()*BbBytes)
		back, err := DecodeWqe(b)
		require.NoError(t, err)
		require.Equal(t, w, back)
	})
}

// TestRingWqe puts a WQE at any index of a small ring, across the end if it must.
func TestRingWqe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWqe(t)
		b, err := w.Encode()
		require.NoError(t, err)
		ring := make([]byte, 16*BbBytes)
		for i := range b {
			ring[(int(w.Index)*BbBytes+i)%len(ring)] = b[i]
		}
		got, err := RingWqe(ring, w.Index)
		require.NoError(t, err)
		back, err := DecodeWqe(got)
		require.NoError(t, err)
		require.Equal(t, w, back)
	})
}

func TestRingWqeRefuses(t *testing.T) {
	_, err := RingWqe(make([]byte, 3*BbBytes), 0)
	require.ErrorContains(t, err, "ring of 192 bytes is not a power of two")
	_, err = RingWqe(nil, 0)
	require.ErrorContains(t, err, "ring of 0 bytes")
	ring := make([]byte, BbBytes)
	_, err = RingWqe(ring, 0)
	require.ErrorContains(t, err, "ds makes 0 bytes")
	ring[7] = 5
	_, err = RingWqe(ring, 0)
	require.ErrorContains(t, err, "ds makes 80 bytes, the ring has 64")
}

func TestDecodeWqeRefuses(t *testing.T) {
	with := func(op Opcode, opmod, ds uint8, word4 uint32) []byte {
		b := make([]byte, 256)
		b[0], b[3], b[7] = opmod, byte(op), ds
		binary.BigEndian.PutUint32(b[32:], word4)
		return b
	}
	for text, b := range map[string][]byte{
		"8 bytes, a control segment has 16":                     make([]byte, 8),
		"ds is 0 or past the bytes given: 256 bytes":            with(OpcodeNop, 0, 0, 0),
		"ds 17 at byte 0x0: ds is 0 or past the bytes given":    with(OpcodeNop, 0, 17, 0),
		"remote address segment needs 16 bytes, 0 are left":     with(OpcodeRdmaWrite, 0, 1, 0),
		"operands needs 16 bytes, 0 are left":                   with(OpcodeAtomicFa, 0, 2, 0),
		"operands needs 32 bytes, 16 are left":                  with(OpcodeAtomicMaskedCs, OpmodMasked64, 3, 0),
		"opmod 0x3 does not go with the opcode":                 with(OpcodeAtomicMaskedCs, 3, 5, 0),
		"opmod 0x8 does not go with the opcode":                 with(OpcodeAtomicCs, 8, 5, 0),
		"at byte 0x20: inline data needs 48 bytes, 32 are left": with(OpcodeRdmaWrite, 0, 4, 0x80000000|29),
		"wait segment needs 16 bytes":                           with(OpcodeWait, 0, 1, 0),
	} {
		_, err := DecodeWqe(b)
		var we *WqeError
		require.ErrorAs(t, err, &we, text)
		require.ErrorContains(t, err, text)
	}
}

func TestEncodeWqeRefuses(t *testing.T) {
	for text, w := range map[string]Wqe{
		"prm field ctrl_seg.qpn": {Qpn: 1 << 24},
		"64 DS, at most 63":      {Rest: make([]byte, 63*DsBytes)},
		"rest of 15 bytes":       {Rest: make([]byte, 15)},
		"opmod 0x0":              {Opcode: OpcodeAtomicMaskedCs, Atomic: &Atomic{}},
		"data_seg.byte_count":    {Opcode: OpcodeSend, Local: []Local{{Bytes: 1 << 31}}},
		"masked_fa32_seg.add":    {Opcode: OpcodeAtomicMaskedFa, Opmod: OpmodMasked32, Atomic: &Atomic{Operand: 1 << 32}},
	} {
		_, err := w.Encode()
		require.ErrorContains(t, err, text)
	}
	_, err := Wqe{Opcode: OpcodeSend, Local: []Local{{Inline: make([]byte, 1024)}}}.Encode()
	require.Error(t, err)
}

func TestWqeString(t *testing.T) {
	w := Wqe{
		Opcode: OpcodeAtomicMaskedCs, Opmod: OpmodMasked64, Index: 0xffff, Qpn: 0x1234, Completion: CompletionModeAlways,
		Fence: FenceModeFence, Remote: &Remote{0x1000, 0xaa01}, Atomic: &Atomic{1, 2, 3, 4, 0},
		Local: []Local{{Bytes: 8, Lkey: 5, Address: 0x2000}, {Inline: make([]byte, 20)}},
	}
	require.Equal(t, "atomic_masked_cs index 0xffff qpn 0x1234 ds 7 opmod 0x9 cqe always fence fence; "+
		"remote 0x1000 rkey 0xaa01; swap 0x1 compare 0x2 swap_mask 0x3 compare_mask 0x4; local 0x2000 lkey 0x5 8 bytes; "+
		"inline 20 bytes 00000000000000000000000000000000 and 4 bytes more", w.String())
	require.Contains(t, Wqe{Opcode: 0x77}.String(), "opcode(0x77)")
	require.Contains(t, Wqe{Opcode: OpcodeWait, Wait: &Wait{6, 7}, Solicited: true, Imm: 8}.String(),
		"solicited imm 0x8; wait for index 0x6 of cqn 0x7")
	require.Contains(t, Wqe{Rest: make([]byte, 16)}.String(), "; other 0000")
}

func FuzzWQE(f *testing.F) {
	for _, w := range []Wqe{
		{Opcode: OpcodeNop, Index: 13, Qpn: 0x1234},
		{Opcode: OpcodeRdmaWrite, Remote: &Remote{1, 2}, Local: []Local{{Inline: []byte("0123456789abc")}, {Bytes: 1}}},
		{Opcode: OpcodeAtomicMaskedCs, Opmod: OpmodMasked64, Remote: &Remote{}, Atomic: &Atomic{SwapMask: 1}, Local: []Local{{Bytes: 8}}},
		{Opcode: OpcodeUmr, Rest: make([]byte, 48)},
	} {
		b, err := w.Encode()
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte{0x08, 0, 0, 0x15, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := DecodeCqe(b); err == nil {
			once, err := c.Encode()
			require.NoError(t, err)
			again, err := DecodeCqe(once)
			require.NoError(t, err)
			require.Equal(t, c, again)
			require.NotEmpty(t, c.String())
		}
		w, err := DecodeWqe(b)
		if err != nil {
			return
		}
		require.NotEmpty(t, w.String())
		once, err := w.Encode()
		require.NoError(t, err)
		again, err := DecodeWqe(once)
		require.NoError(t, err)
		require.Equal(t, w, again)
		twice, err := again.Encode()
		require.NoError(t, err)
		require.Equal(t, once, twice)
	})
}

func TestDecodeShort(t *testing.T) {
	_, err := DecodeCqe(make([]byte, 63))
	require.EqualError(t, err, "decode CQE: 63 bytes, need 64")
	_, err = DecodeDoorbell(make([]byte, 7))
	require.EqualError(t, err, "decode doorbell: 7 bytes, need 8")
	require.Equal(t, "doorbell qpn 0x1234 index 0x5 opcode rdma_write ds 3",
		DoorbellValue{Index: 5, Opcode: OpcodeRdmaWrite, Qpn: 0x1234, Ds: 3}.String())
	require.Equal(t, uint16(1), DoorbellValue{Index: 0xffff, Ds: 5}.Next(), "the counter wraps")
}
