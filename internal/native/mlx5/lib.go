// Package mlx5 calls libibverbs and libmlx5 (or the software HCA) through one C table with the vendors' signatures.
// It has no policy: thin methods, typed errors. Command mailboxes are byte slices built by internal/prm.
//
// The mlx5dv DevX interface and its structs are as in rdma-core mlx5dv.h.
package mlx5

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "calls.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/pgas-go/pgas/internal/errs"
)

// Lib is one filled table. It is safe for concurrent use.
type Lib struct {
	t C.pgas_mlx5_table
}

var vendor = sync.OnceValues(load)

// Load opens libibverbs.so.1 and libmlx5.so.1 and resolves every symbol. The libraries stay loaded for the life of
// the process, so later calls return the same Lib. Where a library or a required symbol is missing the error is an
// *errs.UnsupportedError.
func Load() (*Lib, error) { return vendor() }

func load() (*Lib, error) {
	table := (*C.struct_pgas_mlx5_api)(C.calloc(1, C.sizeof_struct_pgas_mlx5_api))
	var reason [512]C.char
	if C.pgas_mlx5_load(table, &reason[0], C.size_t(len(reason))) != 0 {
		C.free(unsafe.Pointer(table))
		return nil, &errs.UnsupportedError{
			Feature: "mlx5 NIC",
			Need:    "libibverbs.so.1 and libmlx5.so.1 with the DevX calls (rdma-core 22 or newer)",
			Have:    C.GoString(&reason[0]),
			Fix:     "install rdma-core (Debian: apt-get install ibverbs-providers)",
		}
	}
	return &Lib{t: table}, nil
}

// FromTable wraps a struct pgas_mlx5_api that lives as long as the process, for example that of the software HCA.
func FromTable(table unsafe.Pointer) *Lib {
	return &Lib{t: C.pgas_mlx5_table(table)}
}

// Device describes one RDMA device of the machine.
type Device struct {
	Name string // as in ibv_devices
	MLX5 bool   // libmlx5 drives it
}

// Devices lists the RDMA devices in the order of ibv_get_device_list. None is not an error.
func (l *Lib) Devices() ([]Device, error) {
	var out []Device
	err := l.eachDevice(func(d *C.struct_ibv_device, info Device) (bool, error) {
		out = append(out, info)
		return true, nil
	})
	return out, err
}

func (l *Lib) eachDevice(visit func(*C.struct_ibv_device, Device) (bool, error)) error {
	var n C.int
	list, err := C.pgas_mlx5_get_device_list(l.t, &n)
	if list == nil {
		return sysError("ibv_get_device_list", err)
	}
	defer C.pgas_mlx5_free_device_list(l.t, list)
	for i := range n {
		d := C.pgas_mlx5_device_at(list, i)
		info := Device{
			Name: C.GoString(C.pgas_mlx5_get_device_name(l.t, d)),
			MLX5: C.pgas_mlx5_is_supported(l.t, d) != 0,
		}
		if more, err := visit(d, info); err != nil || !more {
			return err
		}
	}
	return nil
}

// Open opens the named device for DevX. Objects belong to the Context that made them; close them before it.
func (l *Lib) Open(name string) (*Context, error) {
	var ctx *Context
	var names []string
	err := l.eachDevice(func(d *C.struct_ibv_device, info Device) (bool, error) {
		names = append(names, info.Name)
		if info.Name != name {
			return true, nil
		}
		c, err := C.pgas_mlx5_open(l.t, d)
		if c == nil {
			return false, sysError("mlx5dv_open_device "+name, err)
		}
		ctx = &Context{lib: l, c: c, name: name}
		return false, nil
	})
	if err == nil && ctx == nil {
		err = fmt.Errorf("open %s: no such RDMA device, there are %q [see ibv_devices]", name, names)
	}
	return ctx, err
}
