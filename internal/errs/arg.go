package errs

import "fmt"

// ArgError says which argument of a call is wrong and what would be right. Nothing was done.
type ArgError struct {
	Op   string // the call
	Arg  string // the argument's name
	Got  any    // its value
	Want string // what is accepted, with numbers: "0..3", "at most 4096 bytes"
}

// Error reads "put: pe is 7, want 0..3".
func (e *ArgError) Error() string {
	return fmt.Sprintf("%s: %s is %v, want %s", e.Op, e.Arg, e.Got, e.Want)
}

// Is matches ErrInvalid.
func (e *ArgError) Is(target error) bool { return target == ErrInvalid }

// Arg makes an ArgError.
func Arg(op, arg string, got any, want string) error {
	return &ArgError{Op: op, Arg: arg, Got: got, Want: want}
}

// PE checks a PE number against the size of the job. It returns nil or an ArgError.
func PE(op string, pe, size int) error {
	if pe >= 0 && pe < size {
		return nil
	}
	return Arg(op, "pe", pe, fmt.Sprintf("0..%d", size-1))
}
