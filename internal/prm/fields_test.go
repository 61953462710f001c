package prm

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/layout"
	"github.com/pgas-go/pgas/internal/prm/table"
)

// top are the generated structs by the name of the table.
var top = map[string]any{
	"CmdIn": CmdIn, "CmdOut": CmdOut, "CmdHcaCap": CmdHcaCap, "AtomicCaps": AtomicCaps, "RoceCap": RoceCap,
	"CmdHcaCap2": CmdHcaCap2, "QueryHcaCapIn": QueryHcaCapIn, "QueryHcaCapOut": QueryHcaCapOut, "Cqc": Cqc,
	"CreateCqIn": CreateCqIn, "CreateCqOut": CreateCqOut, "ModifyCqIn": ModifyCqIn, "QueryCqIn": QueryCqIn,
	"QueryCqOut": QueryCqOut, "DestroyCqIn": DestroyCqIn, "Ads": Ads, "Qpc": Qpc, "CreateQpIn": CreateQpIn,
	"CreateQpOut": CreateQpOut, "ModifyQpIn": ModifyQpIn, "ModifyQpOut": ModifyQpOut, "Qp2errIn": Qp2errIn,
	"Qp2rstIn": Qp2rstIn, "QueryQpIn": QueryQpIn, "QueryQpOut": QueryQpOut, "DestroyQpIn": DestroyQpIn, "Mkc": Mkc,
	"CreateMkeyIn": CreateMkeyIn, "CreateMkeyOut": CreateMkeyOut, "DestroyMkeyIn": DestroyMkeyIn,
	"AllocPdIn": AllocPdIn, "AllocPdOut": AllocPdOut, "DeallocPdIn": DeallocPdIn, "Umem": Umem, "Mtt": Mtt,
	"CreateUmemIn": CreateUmemIn, "CreateUmemOut": CreateUmemOut, "QuerySpecialContextsIn": QuerySpecialContextsIn,
	"QuerySpecialContextsOut": QuerySpecialContextsOut, "HcaVportContext": HcaVportContext,
	"QueryHcaVportContextIn": QueryHcaVportContextIn, "QueryHcaVportContextOut": QueryHcaVportContextOut,
	"RoceAddr": RoceAddr, "QueryRoceAddressIn": QueryRoceAddressIn, "QueryRoceAddressOut": QueryRoceAddressOut,
	"CtrlSeg": CtrlSeg, "RaddrSeg": RaddrSeg, "DataSeg": DataSeg, "InlineSeg": InlineSeg, "AtomicSeg": AtomicSeg,
	"MaskedCs32Seg": MaskedCs32Seg, "MaskedFa32Seg": MaskedFa32Seg, "MaskedCs64Seg": MaskedCs64Seg,
	"MaskedCs64MaskSeg": MaskedCs64MaskSeg, "MaskedFa64Seg": MaskedFa64Seg, "WaitSeg": WaitSeg, "Doorbell": Doorbell,
	"QpDbr": QpDbr, "CqDbr": CqDbr, "Cqe": Cqe, "ErrCqe": ErrCqe,
}

// leaves collects every Field of a generated struct, nested ones included.
func leaves(v any) []Field {
	if f, ok := v.(Field); ok {
		return []Field{f}
	}
	var out []Field
	for i := range reflect.ValueOf(v).NumField() {
		out = append(out, leaves(reflect.ValueOf(v).Field(i).Interface())...)
	}
	return out
}

// expect collects the places of a table struct by an own walk over the table.
func expect(t *testing.T, tab layout.Table, name string, base int) []Field {
	t.Helper()
	var out []Field
	for _, s := range tab.Bits {
		if s.Name != name {
			continue
		}
		for _, f := range s.Fields {
			r, err := tab.Range(f)
			require.NoError(t, err)
			if f.Struct != "" {
				out = append(out, expect(t, tab, f.Struct, base+r.Off)...)
				continue
			}
			out = append(out, Field{layout.SnakeName(name) + "." + f.Name, uint32(base + r.Off), uint32(r.Width)})
		}
	}
	return out
}

func TestGeneratedFieldsFollowTheTable(t *testing.T) {
	tab := table.Table()
	require.Len(t, tab.Bits, len(top))
	for _, s := range tab.Bits {
		require.Contains(t, top, s.Name)
		require.Equal(t, expect(t, tab, s.Name, 0), leaves(top[s.Name]), s.Name)
	}
	require.Equal(t, tab.Hash(), LayoutHash)
}

// TestFieldsAreReachable sets and reads every number field at its largest value in an otherwise empty mailbox.
func TestFieldsAreReachable(t *testing.T) {
	tab := table.Table()
	for _, s := range tab.Bits {
		for _, f := range leaves(top[s.Name]) {
			m := NewMailbox(s.Size)
			if f.Width > 64 || (f.Width > 32 && f.Width < 64) {
				raw := make([]byte, f.Width/8)
				for i := range raw {
					raw[i] = byte(i + 1)
				}
				require.NoError(t, m.SetBytes(f, raw))
				require.Equal(t, raw, m.Bytes(f), f.Name)
				continue
			}
			require.NoError(t, m.Set(f, f.Max()), f.Name)
			require.Equal(t, f.Max(), m.Get(f), f.Name)
			require.Equal(t, int(f.Width), ones(m), f.Name)
		}
	}
}

func ones(m Mailbox) int {
	n := 0
	for i := range len(m) * 8 {
		n += bit(m, i)
	}
	return n
}

// bit numbers bits as Field does.
func bit(m Mailbox, i int) int { return int(m[i/8]>>(7-i%8)) & 1 }
