package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// table prints the machine and all figures.
func (r *result) table(out io.Writer) {
	r.Machine.print(out)
	fmt.Fprintf(out, "samples   %d rounds x %d repeats; each is the middle one of its batches; %.0f s in all\n", r.Rounds, r.Repeats, r.Took)
	if r.Quick {
		fmt.Fprintln(out, "quick     too few samples to speak of speed")
	}
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"figure", "", "median", "low .. high", "p99", "yardstick", "ratio", "aim", ""})
	group := ""
	for _, w := range r.Rows {
		if w.Group != group {
			if group != "" {
				t.AppendSeparator()
			}
			group = w.Group
			t.AppendRow(table.Row{group})
		}
		t.AppendRow(w.cells())
	}
	right := table.ColumnConfig{Align: text.AlignRight}
	var columns []table.ColumnConfig
	for _, number := range []int{3, 4, 5, 6, 7} {
		right.Number = number
		columns = append(columns, right)
	}
	t.SetColumnConfigs(columns)
	t.Render()
	for _, w := range r.Rows {
		if w.State != measured {
			fmt.Fprintf(out, "%s: %s, %s: %s\n", w.State, w.Group, w.Name, w.Reason)
		}
	}
	fmt.Fprintln(out, "Software GPU and software HCA on this CPU: no figure speaks of a real GPU or NIC.")
}

func (w *row) cells() table.Row {
	if w.State != measured {
		return table.Row{"  " + w.Name, w.Unit, w.State}
	}
	ratio, verdict := "", ""
	if w.Ratio > 0 {
		ratio = show(w.Ratio) + "x"
	}
	if w.Met != nil {
		verdict = map[bool]string{true: "met", false: "missed"}[*w.Met]
	}
	return table.Row{"  " + w.Name, w.Unit, show(w.Median), show(w.Low) + " .. " + show(w.High), show(w.Slow), show(w.Against), ratio, w.Aim, verdict}
}

func (r *result) writeJSON(file string) error {
	if file == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

func (r *result) writeCSV(file string) (err error) {
	if file == "" {
		return nil
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	c := csv.NewWriter(f)
	_ = c.Write([]string{"group", "name", "key", "unit", "state", "median", "low", "high", "p99", "yardstick", "against", "ratio", "aim", "reason"})
	number := func(v float64) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	for _, w := range r.Rows {
		_ = c.Write([]string{w.Group, w.Name, w.Key, w.Unit, w.State, number(w.Median), number(w.Low), number(w.High), number(w.Slow),
			w.Yardstick, number(w.Against), number(w.Ratio), w.Aim, w.Reason})
	}
	c.Flush()
	return c.Error()
}
