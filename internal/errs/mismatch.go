package errs

import (
	"fmt"
	"sort"
	"strings"
)

// MismatchError says that PEs do not agree on a value that must be equal everywhere.
type MismatchError struct {
	What   string         // the value: "heap size (bytes)", "alloc request"
	Values map[int]string // by PE; PEs that did not tell are absent
}

// Error groups PEs by value, the group of the lowest PE first:
// "mismatch between PEs: heap size: 64M on PE 0, 2, 3; 32M on PE 1".
func (e *MismatchError) Error() string {
	pes := make([]int, 0, len(e.Values))
	for pe := range e.Values {
		pes = append(pes, pe)
	}
	sort.Ints(pes)
	groups := make(map[string][]int)
	var order []string
	for _, pe := range pes {
		v := e.Values[pe]
		if len(groups[v]) == 0 {
			order = append(order, v)
		}
		groups[v] = append(groups[v], pe)
	}
	parts := make([]string, 0, len(order))
	for _, v := range order {
		parts = append(parts, fmt.Sprintf("%s on PE %s", v, PEList(groups[v])))
	}
	return fmt.Sprintf("mismatch between PEs: %s: %s", e.What, strings.Join(parts, "; "))
}

// Is matches ErrMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

// CheckEqual compares one value per PE (index is the PE). It returns nil if all are equal, else a MismatchError.
func CheckEqual(what string, values []string) error {
	equal := true
	for _, v := range values {
		equal = equal && v == values[0]
	}
	if equal {
		return nil
	}
	m := make(map[int]string, len(values))
	for pe, v := range values {
		m[pe] = v
	}
	return &MismatchError{What: what, Values: m}
}
