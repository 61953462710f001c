package layout

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	for camel, snake := range map[string]string{
		"PeerLost": "peer_lost", "P2p": "p2p", "World": "world", "CmdHcaCap2": "cmd_hca_cap2", "UpTo8b": "up_to8b",
	} {
		require.Equal(t, snake, SnakeName(camel))
	}
	require.Equal(t, "MyPe", GoName("my_pe"))
	require.Equal(t, "A", GoName("a"))
	require.True(t, Field{Name: "pad"}.IsPad())
	require.True(t, Field{Name: "pad12"}.IsPad())
	require.False(t, Field{Name: "padding"}.IsPad())
	require.False(t, Field{Name: "page"}.IsPad())
}

func TestMembers(t *testing.T) {
	inner := Struct{Name: "Inner", Align: 4, Size: 8, Fields: []Field{{Name: "a", Type: "u32"}, {Name: "b", Type: "Kind"}}}
	outer := Struct{Name: "Outer", Align: 64, Size: 64, Fields: []Field{
		{Name: "x", Type: "u16", Count: 2}, {Name: "in", Type: "Inner", Count: 3}, {Name: "pad", Type: "u32"}, {Name: "y", Type: "u64", Count: 4},
	}}
	tab := Table{Structs: []Struct{inner, outer}, Enums: []Enum{{Name: "Kind", Type: "u32"}}}
	require.NoError(t, tab.Check())
	m, err := tab.Members(outer)
	require.NoError(t, err)
	require.Equal(t, []int{0, 4, 28, 32}, []int{m[0].Offset, m[1].Offset, m[2].Offset, m[3].Offset})
	require.Equal(t, []int{4, 24, 4, 32}, []int{m[0].Size, m[1].Size, m[2].Size, m[3].Size})
}

func structOf(align, size int, fields ...Field) Table {
	return Table{Structs: []Struct{{Name: "S", Align: align, Size: size, Fields: fields}}}
}

func bitsOf(size int, fields ...BitField) Table {
	return Table{
		Bits:    []BitStruct{{Name: "B", Size: size, Fields: fields}},
		Sources: []Source{{Key: "K", Name: "a source"}},
	}
}

func TestCheckRefuses(t *testing.T) {
	for text, tab := range map[string]Table{
		"field b at 0x4 is not aligned to 8":          structOf(8, 16, Field{Name: "a", Type: "u32"}, Field{Name: "b", Type: "u64"}),
		"fields end at 4, size is 8":                  structOf(4, 8, Field{Name: "a", Type: "u32"}),
		"fields end at 12, size is 12, alignment 8":   structOf(8, 12, Field{Name: "a", Type: "u32", Count: 3}),
		"field a needs alignment 8, the struct has 4": structOf(4, 8, Field{Name: "a", Type: "u64"}),
		"field a has unknown type \"S\"":              structOf(8, 8, Field{Name: "a", Type: "S"}),
		"name used twice":                             structOf(4, 8, Field{Name: "a", Type: "u32"}, Field{Name: "a", Type: "u32"}),
		"\"register\" is a C++ keyword":               structOf(4, 4, Field{Name: "register", Type: "u32"}),
		"fields a and b overlap":                      bitsOf(4, BitField{Name: "a", Pos: "0x00:7..4"}, BitField{Name: "b", Pos: "0x00:4..0"}),
		"field a ends at bit 64 of 32":                bitsOf(4, BitField{Name: "a", Pos: "0x04:0"}),
		"bad position \"0x02:3\"":                     bitsOf(4, BitField{Name: "a", Pos: "0x02:3"}),
		"bad position \"0x00:3..4\"":                  bitsOf(4, BitField{Name: "a", Pos: "0x00:3..4"}),
		"bad position \"0x00:32\"":                    bitsOf(4, BitField{Name: "a", Pos: "0x00:32"}),
		"bad position \"0x00\"":                       bitsOf(4, BitField{Name: "a", Pos: "0x00"}),
		"bad position \"x:1\"":                        bitsOf(4, BitField{Name: "a", Pos: "x:1"}),
		"bad position \"0x00:xB\"":                    bitsOf(4, BitField{Name: "a", Pos: "0x00:xB"}),
		"unknown struct \"Nope\"":                     bitsOf(4, BitField{Name: "a", Pos: "0x00", Struct: "Nope"}),
		"unknown sources \"KX\"":                      bitsOf(4, BitField{Name: "a", Pos: "0x00:1", Sources: "KX"}),
		"enum E: V = 0x100 does not fit in u8":        {Enums: []Enum{{Name: "E", Type: "u8", Values: []Const{{Name: "V", Value: 256}}}}},
		"enum E: V and W are both 0x1":                {Enums: []Enum{{Name: "E", Type: "u8", Values: []Const{{Name: "V", Value: 1}, {Name: "W", Value: 1}}}}},
		"underlying type \"word\" is not an integer":  {Enums: []Enum{{Name: "E", Type: "word"}}},
		"constant Size: name used twice":              {Consts: []Const{{Name: "Size"}, {Name: "Size"}}},
	} {
		require.ErrorContains(t, tab.Check(), text)
	}
}

func TestRange(t *testing.T) {
	tab := Table{Bits: []BitStruct{{Name: "Inner", Size: 12}}}
	for pos, want := range map[string]Range{
		"0x0c:23..0": {0x0c*8 + 8, 24}, "0x0c:5": {0x0c*8 + 26, 1}, "0x38:64": {0x38 * 8, 64}, "0x10:16B": {0x80, 128}, "0x26:6B": {0x130, 48},
	} {
		r, err := tab.Range(BitField{Pos: pos})
		require.NoError(t, err)
		require.Equal(t, want, r, pos)
	}
	r, err := tab.Range(BitField{Pos: "0x18", Struct: "Inner"})
	require.NoError(t, err)
	require.Equal(t, Range{0x18 * 8, 96}, r)
}

// TestHashSeesLayoutOnly: every change of the layout changes the hash, a change of a comment does not.
func TestHashSeesLayoutOnly(t *testing.T) {
	base := func() Table {
		return Table{
			Structs: []Struct{{Name: "S", Align: 4, Size: 8, Fields: []Field{{Name: "a", Type: "u32"}, {Name: "b", Type: "u32"}}}},
			Bits:    []BitStruct{{Name: "B", Size: 4, Fields: []BitField{{Name: "x", Pos: "0x00:1"}}}},
			Enums:   []Enum{{Name: "E", Type: "u32", Values: []Const{{Name: "V", Value: 1}}}},
			Consts:  []Const{{Name: "C", Value: 2}},
		}
	}
	seen := map[uint64]int{base().Hash(): -1}
	for i, change := range []func(*Table){
		func(t *Table) {
			t.Structs[0].Fields[0], t.Structs[0].Fields[1] = t.Structs[0].Fields[1], t.Structs[0].Fields[0]
		},
		func(t *Table) { t.Structs[0].Fields[0].Type = "be32" },
		func(t *Table) { t.Structs[0].Fields[1].Count = 2 },
		func(t *Table) { t.Structs[0].Align = 8 },
		func(t *Table) { t.Bits[0].Fields[0].Pos = "0x00:2" },
		func(t *Table) { t.Enums[0].Values[0].Value = 3 },
		func(t *Table) { t.Consts[0].Value = 3 },
	} {
		tab := base()
		change(&tab)
		require.NotContains(t, seen, tab.Hash(), i)
		seen[tab.Hash()] = i
	}
	doc := base()
	doc.Structs[0].Doc, doc.Structs[0].Fields[0].Doc = "new", "new"
	require.Equal(t, base().Hash(), doc.Hash())
}
