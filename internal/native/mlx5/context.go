package mlx5

// #include "calls.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"syscall"
	"unsafe"
)

// Context is one opened device. Methods may be called from several goroutines; Close must be the last call.
type Context struct {
	lib  *Lib
	c    *C.struct_ibv_context
	name string
}

// Name returns the device name.
func (c *Context) Name() string { return c.name }

// Close closes the device. Objects that are still open are dropped, as the kernel does; the software HCA counts them
// (softhca.Counts.ObjectsLeaked).
func (c *Context) Close() error {
	return codeError("ibv_close_device "+c.name, int(C.pgas_mlx5_close(c.lib.t, c.c)))
}

// GeneralCmd sends a whole command mailbox and fills out. A refusal by the firmware is a *CommandError.
func (c *Context) GeneralCmd(in, out []byte) error {
	const op = "mlx5dv_devx_general_cmd"
	if err := checkMailboxes(op, in, out); err != nil {
		return err
	}
	rc := C.pgas_mlx5_general_cmd(c.lib.t, c.c, unsafe.Pointer(&in[0]), C.size_t(len(in)), unsafe.Pointer(&out[0]),
		C.size_t(len(out)))
	return commandError(op, in, out, syscall.Errno(rc))
}

// Obj is a firmware object (CQ, QP, MKEY, ...) made by CreateObj.
type Obj struct {
	lib *Lib
	o   *C.struct_mlx5dv_devx_obj
}

// CreateObj sends a CREATE_* or ALLOC_* mailbox. Its number is in out. The caller destroys the object.
func (c *Context) CreateObj(in, out []byte) (*Obj, error) {
	const op = "mlx5dv_devx_obj_create"
	if err := checkMailboxes(op, in, out); err != nil {
		return nil, err
	}
	o, err := C.pgas_mlx5_obj_create(c.lib.t, c.c, unsafe.Pointer(&in[0]), C.size_t(len(in)), unsafe.Pointer(&out[0]),
		C.size_t(len(out)))
	if o == nil {
		errno := syscall.EIO
		errors.As(err, &errno)
		return nil, commandError(op, in, out, errno)
	}
	return &Obj{lib: c.lib, o: o}, nil
}

// Modify sends a MODIFY_* mailbox, for example RST2INIT_QP; the object number in it must be the object's.
func (o *Obj) Modify(in, out []byte) error {
	const op = "mlx5dv_devx_obj_modify"
	if err := checkMailboxes(op, in, out); err != nil {
		return err
	}
	rc := C.pgas_mlx5_obj_modify(o.lib.t, o.o, unsafe.Pointer(&in[0]), C.size_t(len(in)), unsafe.Pointer(&out[0]),
		C.size_t(len(out)))
	return commandError(op, in, out, syscall.Errno(rc))
}

// Query sends a QUERY_* mailbox; the object number in it must be the object's.
func (o *Obj) Query(in, out []byte) error {
	const op = "mlx5dv_devx_obj_query"
	if err := checkMailboxes(op, in, out); err != nil {
		return err
	}
	rc := C.pgas_mlx5_obj_query(o.lib.t, o.o, unsafe.Pointer(&in[0]), C.size_t(len(in)), unsafe.Pointer(&out[0]),
		C.size_t(len(out)))
	return commandError(op, in, out, syscall.Errno(rc))
}

// Destroy frees the object. After an error the object still exists.
func (o *Obj) Destroy() error {
	return codeError("mlx5dv_devx_obj_destroy", int(C.pgas_mlx5_obj_destroy(o.lib.t, o.o)))
}

// checkMailboxes refuses what cannot be a mailbox: the header alone has 8 bytes in and 8 bytes out.
func checkMailboxes(op string, in, out []byte) error {
	if len(in) < 8 || len(out) < 8 {
		return &SysError{Op: op, Errno: syscall.EINVAL}
	}
	return nil
}

func commandError(op string, in, out []byte, errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	e := &CommandError{Op: op, Opcode: binary.BigEndian.Uint16(in), Errno: errno}
	if errno == syscall.EREMOTEIO {
		e.Status, e.Syndrome = out[0], binary.BigEndian.Uint32(out[4:])
	}
	return e
}
