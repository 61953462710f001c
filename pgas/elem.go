package pgas

import (
	"fmt"
	"reflect"
	"sync"
)

// A TypeError says why a Go type cannot be the element of symmetric memory. It matches ErrInvalid.
type TypeError struct {
	Op     string
	Type   string // the element type asked for
	Reason string // which part of it is wrong
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("%s: element type %s cannot be shared: %s [use fixed-size numbers, or arrays and structs of them]",
		e.Op, e.Type, e.Reason)
}

// Is matches ErrInvalid.
func (e *TypeError) Is(target error) bool { return target == ErrInvalid }

var elemReasons sync.Map // reflect.Type -> string, empty when the type is fine

// checkElem refuses a T whose bytes would mean something else on another PE or in a kernel: pointers, and types whose
// size depends on the machine.
func checkElem[T any](op string) error {
	t := reflect.TypeFor[T]()
	reason, known := elemReasons.Load(t)
	if !known {
		reason = elemReason(t, "")
		if reason == "" && t.Size() == 0 {
			reason = "it has no bytes"
		}
		elemReasons.Store(t, reason)
	}
	if reason == "" {
		return nil
	}
	return &TypeError{Op: op, Type: t.String(), Reason: reason.(string)}
}

// elemReason returns why t is not fixed-size and pointer-free, or "". where names the part of a struct.
func elemReason(t reflect.Type, where string) string {
	at := func(what string) string {
		if where == "" {
			return "it is " + what
		}
		return where + " is " + what
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return ""
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		return at(fmt.Sprintf("%s, whose size depends on the machine", t))
	case reflect.Array:
		return elemReason(t.Elem(), where+"[...]")
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if reason := elemReason(f.Type, where+"."+f.Name); reason != "" {
				return reason
			}
		}
		return ""
	}
	return at(fmt.Sprintf("a %s (%s), which holds an address of one process", t.Kind(), t))
}
