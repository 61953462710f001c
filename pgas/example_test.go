package pgas_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pgas-go/pgas/pgas"
)

// A program that nothing launched is a job of one PE; `pgas run -n 4` makes it one of four.
func Example() {
	ctx := context.Background()
	w, err := pgas.Init(ctx, pgas.Options{Platform: "soft", HeapSize: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	box, err := pgas.Alloc[uint64](w, 4) // collective
	if err != nil {
		log.Fatal(err)
	}
	ready, err := pgas.AllocSignals(w, 1)
	if err != nil {
		log.Fatal(err)
	}
	// To the next PE: the data, then the news that it is there.
	if err := pgas.PutSignal(ctx, box, []uint64{1, 2, 3}, ready.At(0), pgas.Set(1), w.Next()); err != nil {
		log.Fatal(err)
	}
	// From the PE before.
	if _, err := pgas.WaitSignal(ctx, ready.At(0), pgas.Ge(1)); err != nil {
		log.Fatal(err)
	}
	got := make([]uint64, 4)
	if err := pgas.CopyOut(got, box); err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.PE(), "of", w.NPEs(), got)
	// Output: 0 of 1 [1 2 3 0]
}

func ExampleFetchAdd() {
	ctx := context.Background()
	w, err := pgas.Init(ctx, pgas.Options{Platform: "soft", HeapSize: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	tickets, err := pgas.Alloc[uint64](w, 1)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		mine, err := pgas.FetchAdd(ctx, tickets, 1, 0) // PE 0 keeps the counter
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(mine, " ")
	}
	fmt.Println()
	// Output: 0 1 2
}

func ExampleAlloc_errors() {
	w, err := pgas.Init(context.Background(), pgas.Options{Platform: "soft", HeapSize: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	_, err = pgas.Alloc[float32](w, 1<<20)
	var full *pgas.HeapFullError
	if errors.As(err, &full) {
		fmt.Println("asked", full.Asked, "of", full.Total)
	}
	_, err = pgas.Alloc[*float32](w, 1)
	fmt.Println(errors.Is(err, pgas.ErrInvalid))
	// Output:
	// asked 4194304 of 1048576
	// true
}
