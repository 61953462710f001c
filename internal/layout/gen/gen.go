// Package gen writes the Go file and the C++ header of a layout table.
package gen

import (
	"bytes"
	"fmt"
	"go/format"

	"github.com/pgas-go/pgas/internal/layout"
)

// Generate returns the Go file of package `name` and the header of namespace pgas::name. The result depends on the
// table only.
func Generate(name string, t layout.Table) (goText, cuhText []byte, err error) {
	if err := t.Check(); err != nil {
		return nil, nil, err
	}
	raw := goFile(name, t)
	goText, err = format.Source(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("generated Go does not parse: %w\n%s", err, raw)
	}
	return goText, cppFile(name, t), nil
}

type writer struct{ bytes.Buffer }

func (w *writer) f(format string, args ...any) { fmt.Fprintf(&w.Buffer, format, args...) }

// comment is " // doc" or nothing.
func comment(doc string) string {
	if doc == "" {
		return ""
	}
	return " // " + doc
}

// members cannot fail after Check.
func members(t layout.Table, s layout.Struct) []layout.Member {
	m, err := t.Members(s)
	if err != nil {
		panic(err)
	}
	return m
}

func hasBigEndian(t layout.Table) bool {
	for _, s := range t.Structs {
		for _, f := range s.Fields {
			if f.Type == "be32" {
				return true
			}
		}
	}
	return false
}
