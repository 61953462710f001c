package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/pgas"
)

// peArgument makes this program a PE of one of its own jobs.
const peArgument = "pe"

// A PE starts as bound, and again as ready when it is on its core. PEs of all jobs are bound, rank modulo cores, like those
// of OSHMEM: what is measured is pgas, not how soon the system finds out that two PEs had better not share a core.
const (
	bound = "bound"
	ready = "ready"
)

// peMain is a PE: peMain("host"|"device", scale, repeats, bound|ready).
func peMain(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("a PE takes a role, a scale, a number of repeats and a state, have %q", args)
	}
	if args[3] == bound {
		return bind(args)
	}
	scale, err1 := strconv.Atoi(args[1])
	repeats, err2 := strconv.Atoi(args[2])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	s := settings{repeats: repeats, scale: scale}
	ctx := context.Background()
	// The heap is small: reserving memory is not what is measured.
	w, err := pgas.Init(ctx, pgas.Options{HeapSize: 24 << 20, HostHeapSize: 1 << 20, Contexts: 1})
	if err != nil {
		return err
	}
	if args[0] == "host" {
		err = host(ctx, w, s)
	} else {
		err = device(ctx, w, s)
	}
	if err != nil {
		w.Abort(err)
	}
	return errors.Join(err, w.Close())
}

// bind puts this PE on its core. The process starts again, because the binding of a thread is that of the
// threads which it makes later, and a Go program has others from the start.
func bind(args []string) error {
	rank, err := strconv.Atoi(os.Getenv("PGAS_RANK"))
	if err != nil {
		return fmt.Errorf("bind: PGAS_RANK: %w", err)
	}
	runtime.LockOSThread()
	var allowed, own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	for cpu, seen := 0, 0; seen <= rank%allowed.Count(); cpu++ {
		if !allowed.IsSet(cpu) {
			continue
		}
		own.Zero()
		own.Set(cpu)
		seen++
	}
	if err := unix.SchedSetaffinity(0, &own); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return unix.Exec(self, append([]string{self, peArgument}, append(args[:3:3], ready)...), os.Environ())
}

// report prints percentiles over batches, as ns of one of the batch's operations.
func report(name string, ns []float64) {
	slices.Sort(ns)
	fmt.Printf("%s %.3f %.3f\n", name, ns[len(ns)/2], ns[len(ns)*99/100])
}

// measure times batches of operations on the host. The first batch is not counted.
func measure(batches, size int, run func() error) ([]float64, error) {
	ns := make([]float64, 0, batches)
	if err := run(); err != nil {
		return nil, err
	}
	for range batches {
		begin := time.Now()
		if err := run(); err != nil {
			return nil, err
		}
		ns = append(ns, float64(time.Since(begin).Nanoseconds())/float64(size))
	}
	return ns, nil
}
