package platform

import (
	"errors"
	"slices"
)

// Undo collects what must be undone, in the order in which it was done. It makes half-built objects as easy to free as
// whole ones: push after each step, Run once.
type Undo struct{ steps []func() error }

// Push adds a step.
func (u *Undo) Push(step func() error) { u.steps = append(u.steps, step) }

// Run undoes everything, last step first, and goes on after errors. A second Run does nothing.
func (u *Undo) Run() error {
	var failed []error
	for _, step := range slices.Backward(u.steps) {
		if err := step(); err != nil {
			failed = append(failed, err)
		}
	}
	u.steps = nil
	return errors.Join(failed...)
}

// Fail undoes everything and returns cause alone: an error of the clean-up must not hide what went wrong first.
func (u *Undo) Fail(cause error) error {
	_ = u.Run()
	return cause
}
