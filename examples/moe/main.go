// Command moe dispatches MoE tokens to experts on other PEs and combines the results, with one-sided operations from
// kernels, and compares every byte with a reference. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/pgas-go/pgas/pgas"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes: 0 all routings passed, 1 a mismatch or a failed job, 2 bad flags or a job that cannot run.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	c, err := parseFlags(args, errOut)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(errOut, err)
		return 2
	}
	w, err := pgas.Init(ctx, options(c))
	if err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	j := &job{c: c, w: w, out: out}
	if w.PE() != 0 {
		j.out = io.Discard
	}
	code, err := j.run(ctx)
	var wrong *wrongError
	if code == 1 && err != nil && !errors.As(err, &wrong) {
		if cause := w.Err(); cause != nil {
			err = cause // another PE ended the job; what this one saw is an echo
		}
		w.Abort(err)
	}
	// A refusal is the same on every PE: one line for the job.
	if err != nil && (code == 1 || w.PE() == 0) {
		fmt.Fprintln(errOut, err)
	}
	if err := w.Close(); err != nil && code == 0 {
		fmt.Fprintln(errOut, err)
		return 1
	}
	return code
}

// options sizes the heaps unless the environment does. The number of PEs is not known yet, so it is the largest need
// over all numbers of PEs that the experts can be spread over.
func options(c Config) pgas.Options {
	o := pgas.Options{Contexts: c.Context}
	if c.check(1) != nil {
		o.Contexts = 0
		return o // refused after Init, with one line for the job
	}
	var need, words uint64
	for pes := 1; pes <= min(c.Experts, maxPEs); pes++ {
		if c.Experts%pes != 0 {
			continue
		}
		if l, err := newLayout(c, pes); err == nil {
			need = max(need, l.Total+uint64(pes*maxReport))
			words = uint64(l.SignalWords)
		}
	}
	const slack = 1 << 20
	if os.Getenv("PGAS_HEAP_SIZE") == "" {
		o.HeapSize = (need + 2*slack) / slack * slack
	}
	if os.Getenv("PGAS_SIGNAL_HEAP_SIZE") == "" {
		o.SignalHeapSize = (words*64 + 2*slack) / slack * slack
	}
	return o
}

// maxPEs bounds the search of options.
const maxPEs = 4096

// job is one run of the program on one PE.
type job struct {
	c       Config
	w       *pgas.World
	out     io.Writer
	l       Layout
	reports pgas.Slice[byte]
}

// run is collective. It returns the exit code.
func (j *job) run(ctx context.Context) (int, error) {
	pes := j.w.NPEs()
	if err := j.c.check(pes); err != nil {
		return 2, err
	}
	var err error
	if j.l, err = newLayout(j.c, pes); err != nil {
		return 2, err
	}
	if err := j.l.fits(j.w.HeapStats().Largest); err != nil {
		return 2, err
	}
	if j.reports, err = pgas.Alloc[byte](j.w, pes*maxReport); err != nil {
		return 1, err
	}
	d, err := newDevice(ctx, j.w, j.c, j.l)
	if err != nil {
		return 1, err
	}
	if !j.c.JSON {
		fmt.Fprintf(j.out, "moe: %d PEs, %d tokens per PE, hidden %d, top-%d of %d experts, dispatch %s\n%s", pes, j.c.Tokens, j.c.Hidden,
			j.c.TopK, j.c.Experts, j.c.wireFormat(), j.l)
	}
	code, err := j.routings(ctx, d)
	return code, errors.Join(err, d.close())
}

// routings runs all routings and prints each as it ends.
func (j *job) routings(ctx context.Context, d *device) (int, error) {
	ref := newReference(j.c, j.l, j.w.NPEs())
	r := &runner{c: j.c, d: d, ref: ref, ver: newVerifier(ref, j.w.PE()), gen: 1}
	doc := Document{Config: j.c, PEs: j.w.NPEs(), Machine: machine(j.w.Platform()), Note: timeNote, Heap: j.l.Total, Pass: true}
	var wrong error
	for _, kind := range j.c.kinds() {
		row, err := r.routing(ctx, kind)
		if err != nil {
			return 1, fmt.Errorf("moe: routing %s: %w", kind, err)
		}
		if row.Error != "" && wrong == nil {
			wrong = &wrongError{kind: kind, row: row}
		}
		rows, err := gather(ctx, j.w, j.reports, row)
		if err != nil {
			return 1, fmt.Errorf("moe: routing %s: results: %w", kind, err)
		}
		if j.w.PE() != 0 {
			continue
		}
		result := newResult(kind, rows)
		doc.Results = append(doc.Results, result)
		doc.Pass = doc.Pass && result.Pass
		if !j.c.JSON {
			writeTable(j.out, j.c, result)
			fmt.Fprintln(j.out, result.verdict(j.c))
		}
	}
	if j.w.PE() == 0 {
		if err := j.conclude(doc); err != nil {
			return 1, err
		}
		if wrong == nil {
			wrong = doc.wrong()
		}
	}
	if wrong != nil {
		return 1, wrong
	}
	return 0, nil
}

// conclude prints the last line, or the JSON document.
func (j *job) conclude(doc Document) error {
	if j.c.JSON {
		return writeJSON(j.out, doc)
	}
	verdict := "PASS"
	if !doc.Pass {
		verdict = "FAIL"
	}
	_, err := fmt.Fprintf(j.out, "%s: %d routings on %d PEs (%s)\n", verdict, len(doc.Results), doc.PEs, doc.Machine)
	return err
}

// wrongError is a result that differs from the reference. The job ends in order, so that every PE can tell.
type wrongError struct {
	kind string
	row  Row
}

func (e *wrongError) Error() string {
	return fmt.Sprintf("moe: routing %s: PE %d: %s", e.kind, e.row.PE, e.row.Error)
}

// wrong returns the first failed PE, or nil.
func (d Document) wrong() error {
	for _, result := range d.Results {
		for _, row := range result.Rows {
			if row.Error != "" {
				return &wrongError{kind: result.Routing, row: row}
			}
		}
	}
	return nil
}
