// Package table is the only place where the mlx5 hardware layouts are written down. It is apart from package prm so
// that the generator does not depend on what it generates.
//
// Facts come from public headers and drivers, named by one letter per source. A layout that a source lacks or keeps
// reserved does not carry its letter. UNCONFIRMED marks a statement that no source text was found for.
package table

import "github.com/pgas-go/pgas/internal/layout"

// Table returns the mlx5 layouts.
func Table() layout.Table {
	var bits []layout.BitStruct
	for _, part := range [][]layout.BitStruct{
		headers(), capabilities(), completionQueues(), queuePairs(), memory(), ports(), workQueues(), doorbells(), completions(),
	} {
		bits = append(bits, part...)
	}
	return layout.Table{Bits: bits, Enums: enums(), Consts: consts(), Sources: sources()}
}

func sources() []layout.Source {
	return []layout.Source{
		{Key: "K", Name: "Linux 6.1 include/linux/mlx5 (mlx5_ifc.h, qp.h, cq.h, device.h, driver.h)"},
		{Key: "R", Name: "rdma-core providers/mlx5 (mlx5_ifc.h)"},
		{Key: "H", Name: "rdma-core 44 infiniband/mlx5dv.h"},
		{Key: "U", Name: "openucx/ucx src/uct/ib/mlx5"},
		{Key: "N", Name: "NVIDIA/nvshmem src/modules/transport/ibgda and its headers"},
		{Key: "D", Name: "NVIDIA-DOCA/gpunetio"},
		{Key: "P", Name: "DPDK drivers/common/mlx5/mlx5_prm.h"},
		{Key: "S", Name: "rdma-core tests/mlx5_prm_structs.py"},
		{Key: "A", Name: "rocSHMEM src/gda/mlx5"},
	}
}

func f(name, pos, sources, doc string) layout.BitField {
	return layout.BitField{Name: name, Pos: pos, Sources: sources, Doc: doc}
}

func nested(name, pos, structName, sources, doc string) layout.BitField {
	return layout.BitField{Name: name, Pos: pos, Struct: structName, Sources: sources, Doc: doc}
}

// alias marks a field that overlaps others on purpose.
func alias(field layout.BitField) layout.BitField {
	field.Alias = true
	return field
}

// input is a command mailbox; its header comes first.
func input(name, doc string, size int, fields ...layout.BitField) layout.BitStruct {
	head := []layout.BitField{
		f("opcode", "0x00:31..16", "KRUNDPS", "a Cmd"),
		f("uid", "0x00:15..0", "K", "written by the kernel"),
		f("vhca_tunnel_id", "0x04:31..16", "K", "must be 0"),
		f("op_mod", "0x04:15..0", "KRUNDPS", ""),
	}
	return layout.BitStruct{Name: name, Doc: doc, Size: size, Fields: append(head, fields...)}
}

// output is an answer mailbox; its header comes first.
func output(name, doc string, size int, fields ...layout.BitField) layout.BitStruct {
	head := []layout.BitField{
		f("status", "0x00:31..24", "KRUNDPS", "a CmdStatus"),
		f("syndrome", "0x04:31..0", "KRUNDPS", "firmware-specific; numeric meanings are not public (UNCONFIRMED)"),
	}
	return layout.BitStruct{Name: name, Doc: doc, Size: size, Fields: append(head, fields...)}
}

func headers() []layout.BitStruct {
	return []layout.BitStruct{
		input("CmdIn", "the header of every command; commands without arguments are just this", 16),
		output("CmdOut", "the header of every answer; answers without results are just this", 16),
	}
}
