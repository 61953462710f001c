package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// States of a row.
const (
	measured = "measured"
	skipped  = "SKIPPED"
	failed   = "FAILED"
)

// A row is one figure as it came out.
type row struct {
	Group   string    `json:"group"`
	Name    string    `json:"name"`
	Key     string    `json:"key"`
	Unit    string    `json:"unit"`
	State   string    `json:"state"`
	Reason  string    `json:"reason,omitempty"`
	Samples []float64 `json:"samples,omitempty"` // one per repeat: the middle batch
	Median  float64   `json:"median,omitempty"`
	Low     float64   `json:"low,omitempty"`
	High    float64   `json:"high,omitempty"`
	Slow    float64   `json:"slow,omitempty"` // the batch that 99 % are faster than; median over repeats

	Yardstick string  `json:"yardstick,omitempty"` // key of another row
	Against   float64 `json:"against,omitempty"`   // its median
	Ratio     float64 `json:"ratio,omitempty"`
	Aim       string  `json:"aim,omitempty"`
	Met       *bool   `json:"met,omitempty"`
}

// A result is everything that one run found.
type result struct {
	Began    time.Time `json:"began"`
	Took     float64   `json:"took_seconds"`
	Machine  machine   `json:"machine"`
	Rounds   int       `json:"rounds"`
	Repeats  int       `json:"repeats_per_round"`
	Quick    bool      `json:"quick"`
	Rows     []*row    `json:"figures"`
	samples  map[string][]sample
	problems map[string]error // by source
}

func newResult(s settings) *result {
	return &result{Began: time.Now(), Machine: describeMachine(), Rounds: s.rounds, Repeats: s.repeats, Quick: s.scale < full.scale,
		samples: map[string][]sample{}, problems: map[string]error{}}
}

// take runs a source once. One that fails or cannot run is not run again.
func (r *result) take(ctx context.Context, s source) error {
	text, err := s.run(ctx)
	found, bad := parse(text)
	for name, samples := range found {
		key := s.name + "." + name
		r.samples[key] = append(r.samples[key], samples...)
	}
	if err = errors.Join(err, bad); err != nil {
		r.problems[s.name] = err
	}
	return err
}

// finish makes the rows.
func (r *result) finish(figures []figure) {
	byKey := map[string]*row{}
	for i := range figures {
		w := r.row(&figures[i])
		byKey[w.Key] = w
		r.Rows = append(r.Rows, w)
	}
	for i, f := range figures {
		r.Rows[i].compare(byKey[f.yardstick], f.aim)
	}
	r.Took = time.Since(r.Began).Seconds()
	r.Machine.LoadAfter = loadAverage()
}

func (r *result) row(f *figure) *row {
	w := &row{Group: f.group, Name: f.name, Key: f.key, Unit: string(f.unit), Yardstick: f.yardstick, Aim: f.aim.String()}
	all := r.samples[f.key]
	if len(all) == 0 {
		w.State, w.Reason = r.missing(f.source())
		return w
	}
	var slow []float64
	for _, s := range all {
		w.Samples = append(w.Samples, f.unit.of(s.p50, f.bytes))
		slow = append(slow, f.unit.of(s.p99, f.bytes))
	}
	w.State, w.Median, w.Slow = measured, median(w.Samples), median(slow)
	w.Low, w.High = slices.Min(w.Samples), slices.Max(w.Samples)
	return w
}

// missing says why a source has not printed a figure.
func (r *result) missing(name string) (state, reason string) {
	var skip *skipError
	switch err := r.problems[name]; {
	case err == nil:
		return failed, name + " did not print it"
	case errors.As(err, &skip):
		return skipped, skip.reason
	default:
		return failed, err.Error()
	}
}

// compare puts the yardstick of the same run beside a figure.
func (w *row) compare(yardstick *row, a aim) {
	if yardstick == nil || yardstick.State != measured || w.State != measured {
		return
	}
	w.Against = yardstick.Median
	w.Ratio = w.Median / yardstick.Median
	if a != (aim{}) {
		met := a.met(w.Ratio)
		w.Met = &met
	}
}

func (r *result) failed() bool {
	return slices.ContainsFunc(r.Rows, func(w *row) bool { return w.State == failed })
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// show prints a number with three digits that mean something.
func show(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
