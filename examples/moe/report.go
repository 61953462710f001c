package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Percentiles of one step in microseconds, by the nearest-rank rule.
type Percentiles struct {
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
}

func percentiles(us []float64) Percentiles {
	if len(us) == 0 {
		return Percentiles{}
	}
	s := slices.Sorted(slices.Values(us))
	rank := func(percent int) float64 { return s[(len(s)*percent+99)/100-1] }
	return Percentiles{P50: rank(50), P99: rank(99)}
}

// Traffic is what one PE sent in the measured rounds. Local is the part that stayed on the PE; logical is everything,
// which is what published tables call bandwidth; wire is what left the PE.
type Traffic struct {
	Logical uint64 `json:"logical_bytes"`
	Local   uint64 `json:"local_bytes"`
}

func (t Traffic) wire() uint64 { return t.Logical - t.Local }

func gbps(bytes uint64, us float64) float64 {
	if us == 0 {
		return 0
	}
	return float64(bytes) / us / 1e3
}

// Row is the result of one PE for one routing.
type Row struct {
	PE              int         `json:"pe"`
	Path            string      `json:"path"`
	Tokens          uint64      `json:"tokens"` // sent in the measured rounds
	Rows            uint64      `json:"rows"`   // received by the PE's experts
	DispatchSend    Percentiles `json:"dispatch_send"`
	DispatchReceive Percentiles `json:"dispatch_receive"`
	Dispatch        Percentiles `json:"dispatch"`
	MLP             Percentiles `json:"mlp"`
	CombineSend     Percentiles `json:"combine_send"`
	CombineReceive  Percentiles `json:"combine_receive"`
	Combine         Percentiles `json:"combine"`
	DispatchBytes   Traffic     `json:"dispatch_bytes"`
	CombineBytes    Traffic     `json:"combine_bytes"`
	DispatchUs      float64     `json:"dispatch_total_us"`
	CombineUs       float64     `json:"combine_total_us"`
	Checked         uint64      `json:"rounds_checked"`
	Difference      float64     `json:"fp8_difference"`
	Error           string      `json:"error,omitempty"`
}

// Result is one routing on all PEs.
type Result struct {
	Routing string `json:"routing"`
	Pass    bool   `json:"pass"`
	Rows    []Row  `json:"pes"`
}

// Document is the JSON output.
type Document struct {
	Config  Config   `json:"config"`
	PEs     int      `json:"pes"`
	Machine string   `json:"machine"`
	Note    string   `json:"note"`
	Heap    uint64   `json:"heap_bytes_per_pe"`
	Results []Result `json:"results"`
	Pass    bool     `json:"pass"`
}

// machine describes what the figures were measured on.
func machine(platform string) string {
	return fmt.Sprintf("%s platform, %s/%s, %d CPUs", platform, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

const timeNote = "times are between events around each kernel, waiting for other PEs included"

// newResult puts the rows of all PEs together.
func newResult(kind string, rows []Row) Result {
	r := Result{Routing: kind, Pass: true, Rows: rows}
	for _, row := range rows {
		r.Pass = r.Pass && row.Error == ""
	}
	return r
}

// verdict returns the PASS or FAIL line of one routing, and with FAIL one line per PE that found an error.
func (r Result) verdict(c Config) string {
	if r.Pass {
		worst := 0.0
		var checked uint64
		for _, row := range r.Rows {
			worst = max(worst, row.Difference)
			checked += row.Checked
		}
		s := fmt.Sprintf("PASS %-8s dispatch and combine equal the reference in every byte, %d rounds x PEs", r.Routing, checked)
		if c.FP8 {
			s += fmt.Sprintf("; fp8 differs from bf16 by %.1e (allowed %.0e)", worst, fp8Tolerance(c.Tokens, c.FFN))
		}
		return s
	}
	s := "FAIL " + r.Routing
	for _, row := range r.Rows {
		if row.Error != "" {
			s += fmt.Sprintf("\n  PE %d: %s", row.PE, row.Error)
		}
	}
	return s
}

// writeTable prints one routing.
func writeTable(w io.Writer, c Config, r Result) {
	t := table.NewWriter()
	t.SetTitle("%s", r.Routing)
	t.SetStyle(table.StyleLight)
	t.Style().Title.Align = text.AlignLeft
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"PE", "path", "tokens", "rows", "dispatch", "send", "receive", "MLP", "combine", "send", "receive",
		"dispatch GB/s", "combine GB/s"})
	us := func(p Percentiles) string { return fmt.Sprintf("%.0f/%.0f", p.P50, p.P99) }
	rate := func(b Traffic, us float64) string {
		return fmt.Sprintf("%.3f (%.3f)", gbps(b.Logical, us), gbps(b.wire(), us))
	}
	for _, p := range r.Rows {
		t.AppendRow(table.Row{p.PE, p.Path, p.Tokens, p.Rows, us(p.Dispatch), us(p.DispatchSend), us(p.DispatchReceive), us(p.MLP),
			us(p.Combine), us(p.CombineSend), us(p.CombineReceive), rate(p.DispatchBytes, p.DispatchUs), rate(p.CombineBytes, p.CombineUs)})
	}
	rounds := c.Iters
	if c.Split {
		rounds *= parities
	}
	t.SetCaption("µs, p50/p99 of %d rounds; %s\nGB/s of all selections (in brackets: of those that left the PE)", rounds, timeNote)
	fmt.Fprintln(w, t.Render())
}

func writeJSON(w io.Writer, d Document) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(d)
}
