package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pgas-go/pgas/pgas"
)

// A runner runs rounds on one PE and checks them.
type runner struct {
	c   Config
	d   *device
	ref *Reference
	ver *verifier
	gen uint64 // of the next round; the first is 1, so that no count word is zero
}

// tally collects the measured rounds of one routing.
type tally struct {
	us                [steps][]float64
	dispatch, combine []float64
	row               Row
}

// routing runs all rounds of one routing. A mismatch with the reference is in the Row; an error is anything that ends
// the job.
func (r *runner) routing(ctx context.Context, kind string) (Row, error) {
	t := &tally{row: Row{PE: r.d.w.PE(), Path: r.d.paths()}}
	for i := range r.c.Free + r.c.Iters {
		measured := i >= r.c.Free
		if measured {
			if err := r.d.w.Barrier(ctx); err != nil {
				return t.row, err
			}
		}
		err := r.flight(ctx, kind, measured, t)
		var m *Mismatch
		switch {
		case errors.As(err, &m), errors.Is(err, errTolerance):
			if t.row.Error == "" { // the first one is the interesting one; go on, because the others do
				t.row.Error = err.Error()
			}
		case err != nil:
			return t.row, err
		}
	}
	t.finish()
	return t.row, nil
}

// flight runs the rounds that are in flight together: one, or two with -split.
func (r *runner) flight(ctx context.Context, kind string, measured bool, t *tally) error {
	n := 1
	if r.c.Split {
		n = parities
	}
	rounds := make([]*round, n)
	for i := range rounds {
		x := &round{gen: r.gen}
		r.gen++
		for pe := range r.d.w.NPEs() {
			x.batches = append(x.batches, generate(r.c, kind, r.d.w.NPEs(), pe, x.gen))
		}
		x.own = x.batches[r.d.w.PE()]
		if err := r.d.load(x.gen, x.own); err != nil {
			return err
		}
		rounds[i] = x
	}
	if err := r.launch(ctx, rounds); err != nil {
		return err
	}
	var first error
	for _, x := range rounds {
		if err := r.check(x, t); err != nil && first == nil {
			first = err
		}
		if measured {
			if err := r.measure(x, t); err != nil {
				return err
			}
		}
	}
	return first
}

// round is one generation on this PE.
type round struct {
	gen     uint64
	batches []Batch
	own     Batch
	got     received
	out     []byte
}

// launch runs the kernels of the rounds. With two rounds, every half but the last has the other round's work between it
// and the half that it waits for:
//
//	send A, send B, receive A, MLP A, back A, receive B, MLP B, back B, sum A, sum B
func (r *runner) launch(ctx context.Context, rounds []*round) error {
	run := func(x *round, all ...step) error {
		for _, s := range all {
			if err := r.d.launch(ctx, s, x.gen, x.own.Tokens); err != nil {
				return err
			}
		}
		return nil
	}
	for _, x := range rounds {
		if err := run(x, stepDispatchSend); err != nil {
			return err
		}
	}
	for _, x := range rounds {
		if err := run(x, stepDispatchReceive, stepMLP); err != nil {
			return err
		}
		if err := r.d.sync(ctx); err != nil {
			return err
		}
		var err error
		if x.got, err = r.d.snapshot(x.gen); err != nil {
			return err
		}
		if err := run(x, stepCombineSend); err != nil {
			return err
		}
	}
	for _, x := range rounds {
		if err := run(x, stepCombineReceive); err != nil {
			return err
		}
	}
	if err := r.d.sync(ctx); err != nil {
		return err
	}
	for _, x := range rounds {
		var err error
		if x.out, err = r.d.combined(x.gen); err != nil {
			return err
		}
	}
	return nil
}

// check compares a round with the reference. The fp8 tolerance is looked at once per routing: it is a property of the
// numbers, while the bits are compared in every round.
func (r *runner) check(x *round, t *tally) error {
	first := t.row.Checked == 0
	t.row.Checked++
	if err := r.ver.dispatch(x.gen, x.batches, x.got.words, x.got.slots); err != nil {
		return err
	}
	if err := r.ver.combine(x.gen, x.own, x.out); err != nil {
		return err
	}
	if !first || !r.c.FP8 {
		return nil
	}
	var err error
	t.row.Difference, err = r.ver.tolerance(x.own, x.out)
	return err
}

func (r *runner) measure(x *round, t *tally) error {
	var us [steps]float64
	for s := range steps {
		d, err := r.d.elapsed(s, x.gen)
		if err != nil {
			return err
		}
		us[s] = float64(d.Nanoseconds()) / 1e3
		t.us[s] = append(t.us[s], us[s])
	}
	t.dispatch = append(t.dispatch, us[stepDispatchSend]+us[stepDispatchReceive])
	t.combine = append(t.combine, us[stepCombineSend]+us[stepCombineReceive])
	dispatch, combine, rows := traffic(r.c, r.d.l, x.batches, r.d.w.PE())
	t.row.DispatchBytes.add(dispatch)
	t.row.CombineBytes.add(combine)
	t.row.Rows += rows
	t.row.Tokens += uint64(x.own.Tokens)
	return nil
}

func (t *tally) finish() {
	sum := func(us []float64) (s float64) {
		for _, v := range us {
			s += v
		}
		return s
	}
	r := &t.row
	r.DispatchSend, r.DispatchReceive = percentiles(t.us[stepDispatchSend]), percentiles(t.us[stepDispatchReceive])
	r.MLP = percentiles(t.us[stepMLP])
	r.CombineSend, r.CombineReceive = percentiles(t.us[stepCombineSend]), percentiles(t.us[stepCombineReceive])
	r.Dispatch, r.Combine = percentiles(t.dispatch), percentiles(t.combine)
	r.DispatchUs, r.CombineUs = sum(t.dispatch), sum(t.combine)
}

// maxReport is the room for one PE's Row as JSON.
const maxReport = 8 << 10

// gather is collective: it brings the Rows of all PEs to PE 0, by a put into PE 0's part of a symmetric array. Other PEs
// get nil.
func gather(ctx context.Context, w *pgas.World, reports pgas.Slice[byte], row Row) ([]Row, error) {
	const longest = 2 << 10
	row.Error = row.Error[:min(len(row.Error), longest)]
	text, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	if len(text) >= maxReport {
		return nil, fmt.Errorf("moe: report of PE %d has %d B, room for %d B", w.PE(), len(text), maxReport)
	}
	room := reports.Slice(w.PE()*maxReport, (w.PE()+1)*maxReport)
	if err := pgas.Put(ctx, room, append(text, make([]byte, maxReport-len(text))...), 0); err != nil {
		return nil, err
	}
	if err := w.Barrier(ctx); err != nil { // includes quiet
		return nil, err
	}
	var rows []Row
	if w.PE() == 0 {
		rows, err = readReports(w.NPEs(), reports)
	}
	return rows, errors.Join(err, w.Barrier(ctx)) // PE 0 has read before the next routing is put
}

func readReports(pes int, reports pgas.Slice[byte]) ([]Row, error) {
	all := make([]byte, pes*maxReport)
	if err := pgas.CopyOut(all, reports); err != nil {
		return nil, err
	}
	rows := make([]Row, pes)
	for pe := range rows {
		text := all[pe*maxReport : (pe+1)*maxReport]
		end := 0
		for end < len(text) && text[end] != 0 {
			end++
		}
		if err := json.Unmarshal(text[:end], &rows[pe]); err != nil {
			return nil, fmt.Errorf("moe: report of PE %d: %w", pe, err)
		}
	}
	return rows, nil
}
