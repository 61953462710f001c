package gen

import (
	"strings"

	"github.com/pgas-go/pgas/internal/layout"
)

// writeSources writes the legend of the source letters.
func writeSources(w *writer, t layout.Table, prefix string) {
	if len(t.Sources) == 0 {
		return
	}
	w.f("%sSources of the layouts, by letter:\n", prefix)
	for _, s := range t.Sources {
		w.f("%s  %s  %s\n", prefix, s.Key, s.Name)
	}
	w.f("%s\n", strings.TrimRight(prefix, " "))
	w.f("%sUNCONFIRMED marks a statement that no source text was found for.\n", prefix)
}

// fieldDoc is the field's doc with its position and its sources.
func fieldDoc(f layout.BitField) string {
	doc := f.Pos
	if f.Sources != "" {
		doc += " [" + f.Sources + "]"
	}
	if f.Doc != "" {
		doc += " " + f.Doc
	}
	return doc
}

// goBits writes a struct of Field values, a constructor for any place in a mailbox, and the struct at place 0.
func goBits(w *writer, t layout.Table, s layout.BitStruct) {
	lower := strings.ToLower(s.Name[:1]) + s.Name[1:]
	w.f("// %sSize is in bytes.\nconst %sSize = %d\n\n", s.Name, s.Name, s.Size)
	w.f("// %sLayout has the fields of %s.\ntype %sLayout struct {\n", s.Name, s.Doc, s.Name)
	for _, f := range s.Fields {
		typ := "Field"
		if f.Struct != "" {
			typ = f.Struct + "Layout"
		}
		w.f("%s %s // %s\n", layout.GoName(f.Name), typ, fieldDoc(f))
	}
	w.f("}\n\n")
	w.f("// %s is %s.\nvar %s = %sAt(0)\n\n", s.Name, s.Doc, s.Name, lower)
	w.f("func %sAt(base uint32) %sLayout {\nreturn %sLayout{\n", lower, s.Name, s.Name)
	for _, f := range s.Fields {
		r := bitRange(t, f)
		if f.Struct != "" {
			inner := strings.ToLower(f.Struct[:1]) + f.Struct[1:]
			w.f("%s: %sAt(base + %#x),\n", layout.GoName(f.Name), inner, r.Off/8)
			continue
		}
		w.f("%s: Field{%q, base*8 + %d, %d},\n", layout.GoName(f.Name), layout.SnakeName(s.Name)+"."+f.Name, r.Off, r.Width)
	}
	w.f("}\n}\n\n")
}

// bitRange cannot fail after Check.
func bitRange(t layout.Table, f layout.BitField) layout.Range {
	r, err := t.Range(f)
	if err != nil {
		panic(err)
	}
	return r
}
