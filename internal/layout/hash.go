package layout

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// Text is the canonical text of a table: every name, type, count and value, no comments. Two tables with the same
// text have the same layout.
func (t Table) Text() string {
	var b strings.Builder
	for _, c := range t.Consts {
		fmt.Fprintf(&b, "const %s %d\n", c.Name, c.Value)
	}
	for _, e := range t.Enums {
		fmt.Fprintf(&b, "enum %s %s\n", e.Name, e.Type)
		for _, v := range e.Values {
			fmt.Fprintf(&b, " %s %d\n", v.Name, v.Value)
		}
	}
	for _, s := range t.Structs {
		fmt.Fprintf(&b, "struct %s %d %d\n", s.Name, s.Size, s.Align)
		for _, f := range s.Fields {
			fmt.Fprintf(&b, " %s %s %d\n", f.Name, f.Type, f.N())
		}
	}
	for _, s := range t.Bits {
		fmt.Fprintf(&b, "bits %s %d\n", s.Name, s.Size)
		for _, f := range s.Fields {
			fmt.Fprintf(&b, " %s %s %s\n", f.Name, f.Pos, f.Struct)
		}
	}
	return b.String()
}

// Hash is FNV-1a (64 bits) of Text.
func (t Table) Hash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(t.Text()))
	return h.Sum64()
}
