package prm

import "fmt"

// A Command builds the input mailbox of a command. The first value that does not fit is kept as the error, so calls
// can follow each other without a check after each.
type Command struct {
	In  Mailbox
	op  Cmd
	err error
}

// NewCommand starts a command of size bytes; sizes are the constants that end in InSize.
func NewCommand(op Cmd, size int) *Command {
	c := &Command{In: NewMailbox(size), op: op}
	return c.Set(CmdIn.Opcode, uint64(op))
}

// Set writes a number.
func (c *Command) Set(f Field, v uint64) *Command {
	if c.err == nil {
		c.err = c.In.Set(f, v)
	}
	return c
}

// SetBytes writes raw bytes.
func (c *Command) SetBytes(f Field, b []byte) *Command {
	if c.err == nil {
		c.err = c.In.SetBytes(f, b)
	}
	return c
}

// Bytes returns the mailbox, or the first error: it wraps a *FieldError.
func (c *Command) Bytes() ([]byte, error) {
	if c.err != nil {
		return nil, fmt.Errorf("build command %s: %w", c.op, c.err)
	}
	return c.In, nil
}

// A CommandError is a command that the firmware, or the software HCA, refused.
type CommandError struct {
	Cmd      Cmd
	Status   CmdStatus
	Syndrome uint32 // firmware-specific
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("mlx5 command %s: status %s (%#x), syndrome %#x", e.Cmd, e.Status, uint8(e.Status), e.Syndrome)
}

// CheckAnswer looks at the header of an output mailbox. It returns a *CommandError when the status is not ok.
func CheckAnswer(op Cmd, out []byte) error {
	if len(out) < CmdOutSize {
		return fmt.Errorf("mlx5 command %s: answer of %d bytes, need %d", op, len(out), CmdOutSize)
	}
	m := Mailbox(out)
	if s := CmdStatus(m.Get(CmdOut.Status)); s != CmdStatusOk {
		return &CommandError{Cmd: op, Status: s, Syndrome: uint32(m.Get(CmdOut.Syndrome))}
	}
	return nil
}
