package prm

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSetRefusesWideValues(t *testing.T) {
	m := NewMailbox(CreateQpInSize)
	f := CreateQpIn.Qpc.LogSqSize
	err := m.Set(f, 16)
	var fe *FieldError
	require.ErrorAs(t, err, &fe)
	require.Equal(t, f, fe.Field)
	require.EqualError(t, err, "prm field qpc.log_sq_size: value is wider than the field, at most 0xf: "+
		"byte 0x22, 4 bits, value 0x10, mailbox 272 bytes")
	require.Equal(t, NewMailbox(CreateQpInSize), m, "a refused value writes nothing")
}

func TestFieldsOutsideTheMailbox(t *testing.T) {
	short := NewMailbox(16)
	var fe *FieldError
	require.ErrorAs(t, short.Set(CreateQpIn.Qpc.Pd, 1), &fe)
	require.ErrorAs(t, short.SetBytes(RoceAddr.SourceL3Address.At(4), make([]byte, 16)), &fe)
	require.ErrorAs(t, short.SetBytes(RoceAddr.SourceL3Address, make([]byte, 4)), &fe)
	require.ErrorAs(t, short.SetBytes(CtrlSeg.Ds, []byte{1}), &fe)
	require.ErrorAs(t, short.Set(RoceAddr.SourceL3Address, 1), &fe)
	require.ErrorAs(t, short.Set(Field{"crossing", 24, 16}, 1), &fe)
	for _, read := range []func(){
		func() { short.Get(CreateQpIn.Qpc.Pd) },
		func() { short.Bytes(RoceAddr.SourceL3Address.At(4)) },
		func() { short.Bytes(CtrlSeg.Ds) },
	} {
		require.Panics(t, read)
	}
}

func TestCommand(t *testing.T) {
	_, err := NewCommand(CmdDestroyQp, DestroyQpInSize).Set(DestroyQpIn.Qpn, 1<<24).Set(DestroyQpIn.Qpn, 1).Bytes()
	var fe *FieldError
	require.ErrorAs(t, err, &fe)
	require.Equal(t, uint64(1<<24), fe.Value, "the first error stays")
	require.ErrorContains(t, err, "build command destroy_qp: prm field destroy_qp_in.qpn")

	_, err = NewCommand(CmdNop, CmdInSize).SetBytes(CmdIn.Opcode, nil).Bytes()
	require.ErrorAs(t, err, &fe)

	b, err := NewCommand(CmdDestroyQp, DestroyQpInSize).Set(DestroyQpIn.Qpn, 0x123456).Bytes()
	require.NoError(t, err)
	require.Equal(t, []byte{5, 1, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0, 0, 0, 0}, b)
}

func TestCheckAnswer(t *testing.T) {
	require.NoError(t, CheckAnswer(CmdCreateQp, make([]byte, CreateQpOutSize)))
	require.ErrorContains(t, CheckAnswer(CmdCreateQp, make([]byte, 8)), "answer of 8 bytes, need 16")
	out := NewMailbox(CmdOutSize)
	require.NoError(t, out.Set(CmdOut.Status, uint64(CmdStatusBadQpState)))
	require.NoError(t, out.Set(CmdOut.Syndrome, 0xabcd))
	err := CheckAnswer(CmdRtr2rtsQp, out)
	var ce *CommandError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, CommandError{CmdRtr2rtsQp, CmdStatusBadQpState, 0xabcd}, *ce)
	require.EqualError(t, err, "mlx5 command rtr2rts_qp: status bad_qp_state (0x10), syndrome 0xabcd")
	require.Equal(t, "cmd_status(0x77)", CmdStatus(0x77).String())
}

// allFields are the number fields of all structs; the fuzzer picks one by index.
func allFields() []Field {
	var out []Field
	for _, name := range []string{"CreateQpIn", "CreateCqIn", "CreateMkeyIn", "QueryRoceAddressOut", "CtrlSeg", "Cqe", "Mtt"} {
		for _, f := range leaves(top[name]) {
			if f.Width <= 32 || f.Width == 64 {
				out = append(out, f)
			}
		}
	}
	return out
}

func FuzzMailbox(f *testing.F) {
	fields := allFields()
	f.Add(bytes.Repeat([]byte{0xff}, 272), uint16(0), uint64(0))
	f.Add(make([]byte, 272), uint16(20), uint64(0xffffffff))
	f.Add([]byte{1, 2, 3}, uint16(7), uint64(1))
	f.Add(bytes.Repeat([]byte{0xa5}, 64), uint16(len(fields)-1), ^uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, pick uint16, v uint64) {
		field := fields[int(pick)%len(fields)]
		m := Mailbox(bytes.Clone(data))
		err := m.Set(field, v)
		if err != nil {
			var fe *FieldError
			require.True(t, errors.As(err, &fe))
			require.Equal(t, Mailbox(data), m, "a refused value writes nothing")
			require.True(t, v > field.Max() || int(field.Off+field.Width) > 8*len(data) || len(data)%4 != 0, err.Error())
			return
		}
		require.Equal(t, v, m.Get(field))
		for i := range 8 * len(data) {
			at := i - int(field.Off)
			want := bit(data, i)
			if at >= 0 && at < int(field.Width) {
				want = int(v>>(int(field.Width)-1-at)) & 1
			}
			require.Equal(t, want, bit(m, i), "%s bit %d", field.Name, i)
		}
	})
}
