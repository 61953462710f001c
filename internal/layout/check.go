package layout

import (
	"errors"
	"fmt"
	"slices"
)

// A Member is a Field with the offset that C gives it.
type Member struct {
	Field
	Offset int // bytes
	Size   int // bytes, all elements
}

type sizeAlign struct{ size, align int }

var scalars = map[string]sizeAlign{
	"u8": {1, 1}, "u16": {2, 2}, "u32": {4, 4}, "u64": {8, 8}, "i32": {4, 4}, "be32": {4, 4},
}

// IsScalar tells whether a type name is a built-in integer.
func IsScalar(typ string) bool { _, ok := scalars[typ]; return ok }

// keywords are C++ words that a snake_case name could hit by accident.
var keywords = []string{
	"and", "or", "xor", "not", "new", "delete", "default", "register", "signed", "unsigned", "int", "long", "short",
	"char", "float", "double", "bool", "void", "if", "else", "for", "while", "do", "switch", "case", "break",
	"continue", "return", "goto", "this", "class", "struct", "union", "enum", "namespace", "template", "operator",
	"private", "public", "protected", "friend", "virtual", "static", "extern", "inline", "const", "volatile", "export",
}

// Check refuses a table that C++ and Go could lay out differently, or that does not compile.
func (t Table) Check() error {
	var errs []error
	top := map[string]bool{}
	for _, c := range t.Consts {
		errs = append(errs, claim(top, "constant", c.Name))
	}
	for _, e := range t.Enums {
		errs = append(errs, claim(top, "enum", e.Name), e.check())
	}
	for _, s := range t.Structs {
		errs = append(errs, claim(top, "struct", s.Name))
		_, err := t.Members(s)
		errs = append(errs, err)
	}
	for _, s := range t.Bits {
		errs = append(errs, claim(top, "struct", s.Name), t.checkBits(s))
	}
	return errors.Join(errs...)
}

// claim enters a name into a scope and refuses the second use and C++ keywords.
func claim(scope map[string]bool, kind, name string) error {
	snake := SnakeName(name)
	if scope[snake] {
		return fmt.Errorf("%s %s: name used twice", kind, name)
	}
	scope[snake] = true
	if slices.Contains(keywords, snake) {
		return fmt.Errorf("%s %s: %q is a C++ keyword", kind, name, snake)
	}
	return nil
}

func (e Enum) check() error {
	sa, ok := scalars[e.Type]
	if !ok {
		return fmt.Errorf("enum %s: underlying type %q is not an integer", e.Name, e.Type)
	}
	var errs []error
	names, values := map[string]bool{}, map[uint64]string{}
	for _, v := range e.Values {
		errs = append(errs, claim(names, "enum "+e.Name, v.Name))
		if sa.size < 8 && v.Value>>(8*sa.size) != 0 {
			errs = append(errs, fmt.Errorf("enum %s: %s = %#x does not fit in %s", e.Name, v.Name, v.Value, e.Type))
		}
		if other, dup := values[v.Value]; dup {
			errs = append(errs, fmt.Errorf("enum %s: %s and %s are both %#x", e.Name, other, v.Name, v.Value))
		}
		values[v.Value] = v.Name
	}
	return errors.Join(errs...)
}

// typeSize resolves a type name among the scalars, the enums, and the structs before `before`.
func (t Table) typeSize(typ, before string) (sizeAlign, bool) {
	if sa, ok := scalars[typ]; ok {
		return sa, true
	}
	for _, e := range t.Enums {
		if e.Name == typ {
			return scalars[e.Type], true
		}
	}
	for _, s := range t.Structs {
		if s.Name == before {
			break
		}
		if s.Name == typ {
			return sizeAlign{s.Size, s.Align}, true
		}
	}
	return sizeAlign{}, false
}

// Members returns the fields of s with their offsets. It fails when C would insert padding that the table does not
// spell out, or when the sizes do not add up.
func (t Table) Members(s Struct) ([]Member, error) {
	var members []Member
	names := map[string]bool{}
	off := 0
	for _, f := range s.Fields {
		sa, ok := t.typeSize(f.Type, s.Name)
		switch {
		case !ok:
			return nil, fmt.Errorf("struct %s: field %s has unknown type %q", s.Name, f.Name, f.Type)
		case off%sa.align != 0:
			return nil, fmt.Errorf("struct %s: field %s at %#x is not aligned to %d: add padding", s.Name, f.Name, off, sa.align)
		case sa.align > s.Align:
			return nil, fmt.Errorf("struct %s: field %s needs alignment %d, the struct has %d", s.Name, f.Name, sa.align, s.Align)
		}
		if err := claim(names, "struct "+s.Name+" field", f.Name); err != nil {
			return nil, err
		}
		size := sa.size * f.N()
		members = append(members, Member{Field: f, Offset: off, Size: size})
		off += size
	}
	if off != s.Size || s.Align == 0 || s.Size%s.Align != 0 {
		return nil, fmt.Errorf("struct %s: fields end at %d, size is %d, alignment %d", s.Name, off, s.Size, s.Align)
	}
	return members, nil
}
