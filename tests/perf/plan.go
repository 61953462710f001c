package main

import (
	"fmt"
	"strings"
)

// A figure is one row of the result: what is measured, where it comes from, and what it is held against.
type figure struct {
	group, name string
	key         string // "source.name": who prints it and how it calls it there
	unit        unit
	bytes       float64 // of one operation, for GB/s
	yardstick   string  // key of the figure that it is divided by; "" for none
	aim         aim
}

// source is the program that prints the figure.
func (f figure) source() string {
	name, _, _ := strings.Cut(f.key, ".")
	return name
}

// A unit turns the time of one operation into what is shown.
type unit string

const (
	nanoseconds unit = "ns"
	messages    unit = "M/s"
	gigabytes   unit = "GB/s"
)

// of converts the ns of one operation.
func (u unit) of(ns, bytes float64) float64 {
	switch u {
	case messages:
		return 1e3 / ns
	case gigabytes:
		return bytes / ns
	}
	return ns
}

// An aim is a bound on figure / yardstick.
type aim struct {
	atMost, atLeast float64 // 0 for no bound
}

func (a aim) String() string {
	switch {
	case a.atMost > 0:
		return fmt.Sprintf("<= %gx", a.atMost)
	case a.atLeast > 0:
		return fmt.Sprintf(">= %gx", a.atLeast)
	}
	return ""
}

// met says whether a ratio is within the aim; without an aim it is.
func (a aim) met(ratio float64) bool {
	return (a.atMost == 0 || ratio <= a.atMost) && (a.atLeast == 0 || ratio >= a.atLeast)
}

const (
	small = 64 << 10
	large = 4 << 20
)

// A way is a path and, where a NIC is in it, the driver of the software HCA.
type way struct {
	name string
	env  []string
	// aims says whether the aims of the device figures apply: in thread mode an engine thread of each PE takes part,
	// so that two PEs have four busy threads.
	aims bool
}

var ways = []way{
	{"p2p", []string{"PGAS_PATH=p2p"}, true},
	{"ibgda-inline", []string{"PGAS_PATH=ibgda", "PGAS_SOFT_HCA=mode=inline"}, true},
	{"ibgda-thread", []string{"PGAS_PATH=ibgda", "PGAS_SOFT_HCA=mode=thread"}, false},
}

// exchangePEs are the sizes of the neighbour exchange; the first is the yardstick of the others.
var exchangePEs = []int{2, 4, 8}

// plan lists all figures in the order of the table.
func plan() []figure {
	return append(append(yardstickFigures(), hostFigures()...), deviceFigures()...)
}

func yardstickFigures() []figure {
	const machine, shmem = "this machine", "Open MPI OSHMEM"
	return []figure{
		{group: machine, name: "ping-pong, one way, pinned", key: "cores.ping_pong_pinned", unit: nanoseconds},
		{group: machine, name: "ping-pong, one way, yielding", key: "cores.ping_pong_yield", unit: nanoseconds},
		{group: machine, name: "memcpy 64 KiB", key: memcpyKey(small), unit: gigabytes, bytes: small},
		{group: machine, name: "memcpy 4 MiB", key: memcpyKey(large), unit: gigabytes, bytes: large},
		{group: shmem, name: "put 8 B + quiet", key: "oshmem-2.put", unit: nanoseconds},
		{group: shmem, name: "put_nbi 8 B", key: "oshmem-2.put_nbi", unit: messages},
		{group: shmem, name: "fetch_add", key: "oshmem-2.fetch_add", unit: nanoseconds},
		{group: shmem, name: "barrier, 2 PEs", key: "oshmem-2.barrier_2", unit: nanoseconds},
		{group: shmem, name: "barrier, 4 PEs", key: "oshmem-4.barrier_4", unit: nanoseconds},
	}
}

func hostFigures() []figure {
	const group = "host, Go, p2p"
	ahead := aim{atMost: 1}
	return []figure{
		{group: group, name: "Put 8 B + Quiet", key: "host-2.put", unit: nanoseconds, yardstick: "oshmem-2.put", aim: ahead},
		{group: group, name: "PutNBI 8 B", key: "host-2.put_nbi", unit: messages, yardstick: "oshmem-2.put_nbi", aim: aim{atLeast: 1}},
		{group: group, name: "FetchAdd", key: "host-2.fetch_add", unit: nanoseconds, yardstick: "oshmem-2.fetch_add", aim: ahead},
		{group: group, name: "Barrier, 2 PEs", key: "host-2.barrier_2", unit: nanoseconds, yardstick: "oshmem-2.barrier_2", aim: ahead},
		{group: group, name: "Barrier, 4 PEs", key: "host-4.barrier_4", unit: nanoseconds, yardstick: "oshmem-4.barrier_4", aim: ahead},
	}
}

func deviceFigures() []figure {
	all := []figure{{group: "device", name: "launch and sync, empty kernel", key: "p2p-2.launch", unit: nanoseconds}}
	for _, w := range ways {
		group := "device, " + w.name
		var latency, bandwidth aim
		if w.aims {
			latency, bandwidth = aim{atMost: 3}, aim{atLeast: 0.85}
		}
		add := func(f figure) {
			f.group = group
			all = append(all, f)
		}
		source := func(pes int) string { return fmt.Sprintf("%s-%d.", w.name, pes) }
		two := source(2)
		add(figure{name: "put_signal 8 B to wake", key: two + "latency", unit: nanoseconds, yardstick: "cores.ping_pong_pinned", aim: latency})
		for _, threads := range putThreads {
			by := fmt.Sprintf(", block of %d", threads)
			key := fmt.Sprintf("_%d", threads)
			add(figure{name: "put 64 KiB" + by, key: two + "put_64K" + key, unit: gigabytes, bytes: small, yardstick: memcpyKey(small), aim: bandwidth})
			add(figure{name: "put 4 MiB" + by, key: two + "put_4M" + key, unit: gigabytes, bytes: large, yardstick: memcpyKey(large), aim: bandwidth})
		}
		for _, scope := range scopeNames {
			add(figure{name: "put_nbi 8 B, " + scope, key: two + "rate_" + scope, unit: messages, yardstick: "oshmem-2.put_nbi"})
		}
		for i, n := range exchangePEs {
			f := figure{name: fmt.Sprintf("neighbour exchange, %d PEs", n), key: source(n) + "exchange", unit: nanoseconds}
			if i > 0 {
				f.yardstick = source(exchangePEs[0]) + "exchange"
			}
			if n == 8 {
				f.aim = aim{atMost: 20}
			}
			add(f)
		}
	}
	return all
}

func memcpyKey(bytes int) string { return fmt.Sprintf("cores.memcpy_%d", bytes) }
