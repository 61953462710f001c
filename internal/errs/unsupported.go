package errs

import "strings"

// UnsupportedError says what is needed for a feature, what was found instead, and how to get it.
type UnsupportedError struct {
	Feature string // what was asked for
	Need    string // what it takes
	Have    string // what was found
	Fix     string // what to change; may be empty
}

// Error reads "feature: not supported: need X, have Y (fix)".
func (e *UnsupportedError) Error() string {
	var b strings.Builder
	b.WriteString(e.Feature + ": not supported")
	switch {
	case e.Need != "" && e.Have != "":
		b.WriteString(": need " + e.Need + ", have " + e.Have)
	case e.Need != "":
		b.WriteString(": need " + e.Need)
	case e.Have != "":
		b.WriteString(": have " + e.Have)
	}
	if e.Fix != "" {
		b.WriteString(" (" + e.Fix + ")")
	}
	return b.String()
}

// Is matches ErrNotSupported.
func (e *UnsupportedError) Is(target error) bool { return target == ErrNotSupported }
