package mlx5

import (
	"errors"
	"fmt"
	"syscall"
)

// CommandError says that the firmware refused a command. Status names are as in Linux mlx5 core; the syndrome's
// meaning is private to the firmware.
type CommandError struct {
	Op       string        // the library call
	Opcode   uint16        // of the command
	Errno    syscall.Errno // what the library returned
	Status   uint8         // out mailbox byte 0; 0 when the command did not reach the firmware
	Syndrome uint32        // out mailbox word 1
}

var statusNames = map[uint8]string{
	0x01: "internal error", 0x02: "bad operation", 0x03: "bad parameter", 0x04: "bad system state",
	0x05: "bad resource", 0x06: "resource busy", 0x08: "limits exceeded", 0x09: "bad resource state",
	0x0a: "bad index", 0x0f: "no resources", 0x10: "bad QP state", 0x30: "bad packet", 0x40: "bad size",
	0x50: "bad input length", 0x51: "bad output length",
}

var opcodeNames = map[uint16]string{
	0x100: "QUERY_HCA_CAP", 0x200: "CREATE_MKEY", 0x202: "DESTROY_MKEY", 0x203: "QUERY_SPECIAL_CONTEXTS",
	0x400: "CREATE_CQ", 0x401: "DESTROY_CQ", 0x402: "QUERY_CQ", 0x403: "MODIFY_CQ", 0x500: "CREATE_QP",
	0x501: "DESTROY_QP", 0x502: "RST2INIT_QP", 0x503: "INIT2RTR_QP", 0x504: "RTR2RTS_QP", 0x505: "RTS2RTS_QP",
	0x506: "SQERR2RTS_QP", 0x507: "2ERR_QP", 0x50a: "2RST_QP", 0x50b: "QUERY_QP", 0x50e: "INIT2INIT_QP",
	0x760: "QUERY_ROCE_ADDRESS", 0x762: "QUERY_HCA_VPORT_CONTEXT", 0x800: "ALLOC_PD", 0x801: "DEALLOC_PD",
}

func (e *CommandError) Error() string {
	name, ok := opcodeNames[e.Opcode]
	if !ok {
		name = fmt.Sprintf("command 0x%x", e.Opcode)
	}
	if e.Status == 0 {
		return fmt.Sprintf("%s: %s: %v (errno %d), not sent to the firmware", e.Op, name, e.Errno, int(e.Errno))
	}
	status, ok := statusNames[e.Status]
	if !ok {
		status = "unknown status"
	}
	return fmt.Sprintf("%s: %s: %s (status 0x%x, syndrome 0x%x)", e.Op, name, status, e.Status, e.Syndrome)
}

// Unwrap returns the errno, so errors.Is(err, syscall.EREMOTEIO) works.
func (e *CommandError) Unwrap() error { return e.Errno }

// SysError is a failed library call that is no firmware command.
type SysError struct {
	Op    string
	Errno syscall.Errno
}

func (e *SysError) Error() string {
	return fmt.Sprintf("%s: %v (errno %d)", e.Op, e.Errno, int(e.Errno))
}

// Unwrap returns the errno.
func (e *SysError) Unwrap() error { return e.Errno }

func sysError(op string, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) || errno == 0 {
		errno = syscall.EIO // the library failed without saying why
	}
	return &SysError{Op: op, Errno: errno}
}

func codeError(op string, rc int) error {
	if rc == 0 {
		return nil
	}
	if rc < 0 {
		rc = int(syscall.EIO)
	}
	return &SysError{Op: op, Errno: syscall.Errno(rc)}
}
