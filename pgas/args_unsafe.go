package pgas

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/cuda"
)

// DeviceWorld is a kernel argument: the kernel's pgas::world parameter.
type DeviceWorld struct{ addr uint64 }

// Device returns the argument for a kernel's pgas::world parameter.
func (w *World) Device() DeviceWorld { return DeviceWorld{w.shared.deviceWorld()} }

// packArgs turns launch arguments into kernel parameters. sizes are those of the kernel's parameters, nil when the
// driver cannot tell.
func (w *World) packArgs(kernel string, args []any, sizes []int) (*cuda.Args, error) {
	op := "launch " + kernel
	if sizes != nil && len(args) != len(sizes) {
		return nil, errs.Arg(op, "number of arguments", len(args), fmt.Sprint(len(sizes)))
	}
	if len(args) > cuda.MaxArgs {
		return nil, errs.Arg(op, "number of arguments", len(args), fmt.Sprintf("at most %d", cuda.MaxArgs))
	}
	var packed cuda.Args
	for i, arg := range args {
		if err := w.packArg(&packed, op, i, arg); err != nil {
			return nil, err
		}
		if have := packed.Sizes()[i]; sizes != nil && have != sizes[i] {
			return nil, errs.Arg(op, fmt.Sprintf("argument %d", i), fmt.Sprintf("%T, %d bytes", arg, have),
				fmt.Sprintf("%d bytes, as the kernel's parameter", sizes[i]))
		}
	}
	return &packed, nil
}

func (w *World) packArg(packed *cuda.Args, op string, i int, arg any) error {
	name := fmt.Sprintf("argument %d", i)
	switch v := arg.(type) {
	case nil:
		return errs.Arg(op, name, "nil", "a number, a handle or a World's Device()")
	case DeviceWorld:
		if v.addr != w.shared.deviceWorld() {
			return errs.Arg(op, name, "Device() of another World", "that of the World which loaded the kernel")
		}
		packed.U64(v.addr)
		return nil
	case Handle:
		b, off, _ := v.handle()
		if b == nil || b.w == nil {
			return b.check(op, name)
		}
		if b.w != w {
			return errs.Arg(op, name, "a handle of another World", "a handle of the World which loaded the kernel")
		}
		if err := b.check(op, name); err != nil {
			return err
		}
		packed.U64(b.addr(off))
		return nil
	}
	t := reflect.TypeOf(arg)
	if reason := elemReason(t, ""); reason != "" {
		return &TypeError{Op: op + ": " + name, Type: t.String(), Reason: reason}
	}
	// A copy of the value in memory of its own gives its bytes, as the kernel reads them.
	copied := reflect.New(t)
	copied.Elem().Set(reflect.ValueOf(arg))
	packed.Bytes(unsafe.Slice((*byte)(copied.UnsafePointer()), int(t.Size())))
	return nil
}
