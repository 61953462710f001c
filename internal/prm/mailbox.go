package prm

import (
	"encoding/binary"
	"fmt"
)

// A Field is the place of one value in a big-endian hardware structure. Off and Width count bits; bit 0 is the most
// significant bit of the first byte.
type Field struct {
	Name  string // struct and field, as in "qpc.log_sq_size"
	Off   uint32
	Width uint32
}

// At moves the field by a number of bytes: for a struct that lies inside a buffer at that offset.
func (f Field) At(bytes uint32) Field {
	f.Off += 8 * bytes
	return f
}

// Byte is the offset of the field's first byte.
func (f Field) Byte() int { return int(f.Off / 8) }

// Max is the largest value that the field holds. It is 2^64-1 for fields of 64 bits and more.
func (f Field) Max() uint64 {
	if f.Width >= 64 {
		return ^uint64(0)
	}
	return 1<<f.Width - 1
}

// A FieldError says why a value cannot be put into a field or taken from it.
type FieldError struct {
	Field  Field
	Len    int    // bytes in the mailbox
	Value  uint64 // the value refused, when Reason is about a value
	Reason string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("prm field %s: %s: byte %#x, %d bits, value %#x, mailbox %d bytes",
		e.Field.Name, e.Reason, e.Field.Byte(), e.Field.Width, e.Value, e.Len)
}

// A Mailbox is a command, an answer, a WQE or a CQE as the hardware sees it.
type Mailbox []byte

// NewMailbox returns size zero bytes. Reserved bits must be 0, so this is where every command starts.
func NewMailbox(size int) Mailbox { return make(Mailbox, size) }

func (m Mailbox) refuse(f Field, v uint64, reason string) *FieldError {
	return &FieldError{Field: f, Len: len(m), Value: v, Reason: reason}
}

// word checks that f is a number inside m and returns the byte offset of its 32-bit word, or of its 64 bits.
func (m Mailbox) word(f Field) (int, *FieldError) {
	at := int(f.Off / 32 * 4)
	switch {
	case f.Width == 0 || f.Width > 64 || (f.Width > 32 && f.Width != 64):
		return 0, m.refuse(f, 0, "not a number [use Bytes]")
	case f.Width == 64 && f.Off%8 == 0:
		at = int(f.Off / 8)
	case f.Off%32+f.Width > 32:
		return 0, m.refuse(f, 0, "crosses a 32-bit word")
	}
	need := 4
	if f.Width == 64 {
		need = 8
	}
	if at+need > len(m) {
		return 0, m.refuse(f, 0, "outside the mailbox")
	}
	return at, nil
}

// Set writes v and leaves every other bit alone. It returns a *FieldError, and writes nothing, when v is wider than
// the field or the field is not in the mailbox.
func (m Mailbox) Set(f Field, v uint64) error {
	at, err := m.word(f)
	if err != nil {
		err.Value = v
		return err
	}
	if v > f.Max() {
		return m.refuse(f, v, fmt.Sprintf("value is wider than the field, at most %#x", f.Max()))
	}
	if f.Width == 64 {
		binary.BigEndian.PutUint64(m[at:], v)
		return nil
	}
	shift := 32 - f.Off%32 - f.Width
	mask := uint32(f.Max()) << shift
	old := binary.BigEndian.Uint32(m[at:])
	binary.BigEndian.PutUint32(m[at:], old&^mask|uint32(v)<<shift)
	return nil
}

// Get reads a number. It panics with a *FieldError when the field is not in the mailbox: sizes are constants, so
// that is a mistake in the program.
func (m Mailbox) Get(f Field) uint64 {
	at, err := m.word(f)
	if err != nil {
		panic(err)
	}
	if f.Width == 64 {
		return binary.BigEndian.Uint64(m[at:])
	}
	shift := 32 - f.Off%32 - f.Width
	return uint64(binary.BigEndian.Uint32(m[at:])>>shift) & f.Max()
}

// SetBytes writes raw bytes, such as a GID or a MAC. It returns a *FieldError when the lengths differ.
func (m Mailbox) SetBytes(f Field, b []byte) error {
	at := f.Byte()
	switch {
	case f.Off%8 != 0 || f.Width%8 != 0:
		return m.refuse(f, 0, "not whole bytes [use Set]")
	case at+int(f.Width/8) > len(m):
		return m.refuse(f, 0, "outside the mailbox")
	case len(b) != int(f.Width/8):
		return m.refuse(f, 0, fmt.Sprintf("%d bytes for a field of %d bytes", len(b), f.Width/8))
	}
	copy(m[at:], b)
	return nil
}

// Bytes returns the bytes of a field, not a copy. It panics with a *FieldError as Get does.
func (m Mailbox) Bytes(f Field) []byte {
	at, n := f.Byte(), int(f.Width/8)
	if f.Off%8 != 0 || f.Width%8 != 0 {
		panic(m.refuse(f, 0, "not whole bytes [use Get]"))
	}
	if at+n > len(m) {
		panic(m.refuse(f, 0, "outside the mailbox"))
	}
	return m[at : at+n : at+n]
}
