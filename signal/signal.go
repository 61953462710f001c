// Package signal has what the host side knows about signal words: the comparisons a waiter may ask for, the two
// updates a sender may make, and exact loads and stores of one word.
//
// A signal word is 64 bits, 8-byte aligned, on a cache line of its own, and lives in the signal segment of the symmetric
// heap. One word has one kind of writer: either p2p stores and CPU or GPU atomics, or one NIC.
package signal

import "fmt"

// Bytes between two signal words of one allocation.
const Stride = 64

// A Cmp is how a waiter compares a word with its value. The numbers are those of pgas::cmp in device code.
type Cmp uint32

const (
	Eq Cmp = iota // equal
	Ne            // not equal
	Gt            // greater
	Ge            // greater or equal
	Lt            // less
	Le            // less or equal
)

var cmpNames = [...]string{"==", "!=", ">", ">=", "<", "<="}

// Valid reports whether c is one of the six comparisons.
func (c Cmp) Valid() bool { return c <= Le }

func (c Cmp) String() string {
	if c.Valid() {
		return cmpNames[c]
	}
	return fmt.Sprintf("cmp(%d)", uint32(c))
}

// A Cond is what a waiter waits for. Words are unsigned 64-bit values.
type Cond struct {
	Cmp   Cmp
	Value uint64
}

// Holds reports whether a word with the value seen satisfies c.
func (c Cond) Holds(seen uint64) bool {
	switch c.Cmp {
	case Eq:
		return seen == c.Value
	case Ne:
		return seen != c.Value
	case Gt:
		return seen > c.Value
	case Ge:
		return seen >= c.Value
	case Lt:
		return seen < c.Value
	case Le:
		return seen <= c.Value
	}
	return false
}

func (c Cond) String() string { return fmt.Sprintf("%s %d", c.Cmp, c.Value) }

// An Op is how a sender changes a word.
type Op uint32

const (
	Set Op = iota // the word becomes the value
	Add           // the value is added, modulo 2^64, in one step
)

// Valid reports whether o is Set or Add.
func (o Op) Valid() bool { return o <= Add }

func (o Op) String() string {
	switch o {
	case Set:
		return "set"
	case Add:
		return "add"
	}
	return fmt.Sprintf("op(%d)", uint32(o))
}

// An Update is one change of a word.
type Update struct {
	Op    Op
	Value uint64
}

func (u Update) String() string { return fmt.Sprintf("%s %d", u.Op, u.Value) }
