// Package leak keeps account of what pgas owns: queues, memory registrations, mappings, modules, sockets. Owners call
// Track when they create something and Release when they destroy it; tests ask what is left.
package leak

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Resource is something that is owned and not yet released.
type Resource struct {
	ID     uint64 // ascending in order of creation
	Kind   string // "qp", "umem", "mapping", ...
	Detail string // which one: a number, a size, a peer
	Stack  string // where it was created; empty unless stacks were on
}

// String reads "qp 0x11 (context 0, PE 3)", with the stack on the following lines if there is one.
func (r Resource) String() string {
	s := strings.TrimSpace(r.Kind + " " + r.Detail)
	if r.Stack != "" {
		s += "\n" + r.Stack
	}
	return s
}

var (
	mu     sync.Mutex
	live   = make(map[uint64]Resource)
	lastID uint64
	stacks atomic.Bool
)

// Token is the duty to release one resource. The zero Token has none.
type Token struct{ id uint64 }

// Track records a resource. It costs well under a microsecond without stacks; it is not for data paths.
func Track(kind, detail string) Token {
	r := Resource{Kind: kind, Detail: detail}
	if stacks.Load() {
		r.Stack = callers()
	}
	mu.Lock()
	defer mu.Unlock()
	lastID++
	r.ID = lastID
	live[r.ID] = r
	return Token{r.ID}
}

// Release ends the record. It reports false if the resource was released before, which is a bug of the owner.
func (t Token) Release() bool {
	mu.Lock()
	defer mu.Unlock()
	_, ok := live[t.id]
	delete(live, t.id)
	return ok
}

// Stacks turns the recording of creation stacks on or off for later Track calls, and returns the old setting.
func Stacks(on bool) bool { return stacks.Swap(on) }

// Live lists what is not released, oldest first.
func Live() []Resource {
	mu.Lock()
	defer mu.Unlock()
	return slices.SortedFunc(maps.Values(live), func(a, b Resource) int { return cmp.Compare(a.ID, b.ID) })
}

// Count returns the number of live resources by kind.
func Count() map[string]int {
	counts := make(map[string]int)
	for _, r := range Live() {
		counts[r.Kind]++
	}
	return counts
}

// TB is the part of testing.TB that Check needs.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Cleanup(func())
}

// Check makes the test fail at its end for every resource that was created after this call and is still live then. It
// turns stacks on for the test. Do not use it in parallel tests: their resources cannot be told apart.
func Check(t TB) {
	t.Helper()
	mu.Lock()
	first := lastID + 1
	mu.Unlock()
	before := Stacks(true)
	t.Cleanup(func() {
		t.Helper()
		Stacks(before)
		for _, r := range Live() {
			if r.ID >= first {
				t.Errorf("leak: %v", r)
			}
		}
	})
}

// callers prints the stack above Track.
func callers() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var b strings.Builder
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return strings.TrimRight(b.String(), "\n")
		}
	}
}
