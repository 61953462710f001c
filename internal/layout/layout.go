// Package layout describes binary layouts that Go and C++ share, and hashes them so that both sides can refuse to
// talk when they were generated from different tables.
//
// It holds data types, their checks and the hash. internal/wire/table and internal/prm/table hold the tables;
// internal/cmd/genlayout turns a table into one Go file and one C++ header. The tables are packages of their own so
// that the generator runs when the generated files are missing or stale.
package layout

// A Field is one member of a Struct. Fields follow each other without gaps; a table spells its padding out in fields
// whose name starts with "pad".
type Field struct {
	Name  string // snake_case, the C++ name; Go's is derived
	Type  string // "u8".."u64", "i32", "be32", or the name of an enum or of an earlier Struct
	Count int    // 0 or 1: a scalar; more: an array
	Doc   string // one line
}

// A Struct is a C-layout struct. Size and Align are asserted in both languages.
type Struct struct {
	Name   string // CamelCase, used in Go; C++ uses its snake_case
	Doc    string
	Align  int // bytes
	Size   int // bytes
	Fields []Field
}

// A Const is one named integer.
type Const struct {
	Name  string // CamelCase
	Value uint64
	Doc   string
}

// An Enum is a group of constants with one underlying type ("u32" and so on). C++ gets an enum class.
type Enum struct {
	Name   string
	Type   string
	Doc    string
	Values []Const
}

// A Table is everything one generated pair of files holds.
type Table struct {
	Structs []Struct
	Bits    []BitStruct
	Enums   []Enum
	Consts  []Const
	Sources []Source
}

// A Source is a public text that a table's facts come from. Fields name it by one letter.
type Source struct{ Key, Name string }
