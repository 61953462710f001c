package layout

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A BitStruct is a big-endian hardware structure: 32-bit words with bit fields.
type BitStruct struct {
	Name   string // CamelCase
	Doc    string
	Size   int // bytes
	Fields []BitField
}

// A BitField is one member of a BitStruct. Its Pos is written as hardware papers do:
//
//	"0x0c:23..0"  bits 23..0 of the 32-bit word at byte 0x0c, bit 31 being the most significant
//	"0x0c:5"      one bit
//	"0x38:64"     a 64-bit number at byte 0x38
//	"0x10:16B"    16 raw bytes
//	"0x18"        the BitStruct named by Struct
type BitField struct {
	Name    string // snake_case
	Pos     string
	Struct  string // name of an earlier BitStruct
	Sources string // letters of the table's Sources
	Doc     string
	Alias   bool // overlaps other fields on purpose
}

// A Range is a BitField's place: bits from the start of the struct, most significant bit of the first byte first.
type Range struct{ Off, Width int }

// Range resolves Pos. Nested structs resolve to their whole size.
func (t Table) Range(f BitField) (Range, error) {
	word, rest, hasBits := strings.Cut(f.Pos, ":")
	at, err := strconv.ParseUint(word, 0, 16)
	if err != nil {
		return Range{}, fmt.Errorf("field %s: bad position %q", f.Name, f.Pos)
	}
	off := int(at) * 8
	switch {
	case f.Struct != "" && !hasBits:
		inner, ok := t.bitStruct(f.Struct)
		if !ok {
			return Range{}, fmt.Errorf("field %s: unknown struct %q", f.Name, f.Struct)
		}
		return Range{off, inner.Size * 8}, nil
	case rest == "64":
		return Range{off, 64}, nil
	case strings.HasSuffix(rest, "B"):
		n, err := strconv.Atoi(strings.TrimSuffix(rest, "B"))
		if err != nil || n < 1 {
			return Range{}, fmt.Errorf("field %s: bad position %q", f.Name, f.Pos)
		}
		return Range{off, n * 8}, nil
	}
	hiText, loText, isRange := strings.Cut(rest, "..")
	if !isRange {
		loText = hiText
	}
	hi, errHi := strconv.Atoi(hiText)
	lo, errLo := strconv.Atoi(loText)
	if errHi != nil || errLo != nil || hi > 31 || lo < 0 || lo > hi || at%4 != 0 {
		return Range{}, fmt.Errorf("field %s: bad position %q", f.Name, f.Pos)
	}
	return Range{off + 31 - hi, hi - lo + 1}, nil
}

func (t Table) bitStruct(name string) (BitStruct, bool) {
	for _, s := range t.Bits {
		if s.Name == name {
			return s, true
		}
	}
	return BitStruct{}, false
}

// checkBits refuses fields outside their struct and overlaps that are not declared.
func (t Table) checkBits(s BitStruct) error {
	var errs []error
	names := map[string]bool{}
	owner := make([]string, s.Size*8)
	for _, f := range s.Fields {
		errs = append(errs, claim(names, "struct "+s.Name+" field", f.Name))
		r, err := t.Range(f)
		if err != nil {
			errs = append(errs, fmt.Errorf("struct %s: %w", s.Name, err))
			continue
		}
		if r.Off+r.Width > len(owner) {
			errs = append(errs, fmt.Errorf("struct %s: field %s ends at bit %d of %d", s.Name, f.Name, r.Off+r.Width, len(owner)))
			continue
		}
		if strings.Trim(f.Sources, t.sourceKeys()) != "" {
			errs = append(errs, fmt.Errorf("struct %s: field %s names unknown sources %q", s.Name, f.Name, f.Sources))
		}
		for i := r.Off; i < r.Off+r.Width && !f.Alias; i++ {
			if owner[i] != "" {
				errs = append(errs, fmt.Errorf("struct %s: fields %s and %s overlap", s.Name, owner[i], f.Name))
				break
			}
			owner[i] = f.Name
		}
	}
	return errors.Join(errs...)
}

func (t Table) sourceKeys() string {
	var keys string
	for _, s := range t.Sources {
		keys += s.Key
	}
	return keys
}
