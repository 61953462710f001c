package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pgas-go/pgas/pgas"
)

// peArgument makes this program a PE of one of its own jobs.
const peArgument = "pe"

// peMain is a PE: peMain("host"|"device", scale, repeats).
func peMain(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("a PE takes a role, a scale and a number of repeats, have %q", args)
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
