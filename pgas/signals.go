package pgas

import "github.com/pgas-go/pgas/signal"

// A Cond is what a waiter waits for; make one with Eq, Ne, Gt, Ge, Lt or Le.
type Cond = signal.Cond

// Eq waits for a word equal to v.
func Eq(v uint64) Cond { return Cond{Cmp: signal.Eq, Value: v} }

// Ne waits for a word other than v.
func Ne(v uint64) Cond { return Cond{Cmp: signal.Ne, Value: v} }

// Gt waits for a word greater than v, unsigned.
func Gt(v uint64) Cond { return Cond{Cmp: signal.Gt, Value: v} }

// Ge waits for a word of at least v, unsigned. Generation counters want this one.
func Ge(v uint64) Cond { return Cond{Cmp: signal.Ge, Value: v} }

// Lt waits for a word less than v, unsigned.
func Lt(v uint64) Cond { return Cond{Cmp: signal.Lt, Value: v} }

// Le waits for a word of at most v, unsigned.
func Le(v uint64) Cond { return Cond{Cmp: signal.Le, Value: v} }

// An Update is how a signal changes a word; make one with Set or Add.
type Update = signal.Update

// Set makes the word v.
func Set(v uint64) Update { return Update{Op: signal.Set, Value: v} }

// Add adds v to the word, modulo 2^64, in one step.
func Add(v uint64) Update { return Update{Op: signal.Add, Value: v} }
