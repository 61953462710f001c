package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/launch"
)

// The jobs of the suite start this binary again, as they start bin/bench.
func TestMain(m *testing.M) {
	launch.GuardMain()
	if len(os.Args) > 1 && os.Args[1] == peArgument {
		if err := peMain(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestQuick takes every figure with few samples. It asserts nothing about speed: each is there and positive, or skipped
// with a reason that says what to install.
func TestQuick(t *testing.T) {
	dir := t.TempDir()
	o := options{settings: quick, json: filepath.Join(dir, "r.json"), csv: filepath.Join(dir, "r.csv")}
	var out, progress bytes.Buffer
	ok, err := bench(t.Context(), o, &out, &progress)
	require.NoError(t, err, progress.String())
	require.True(t, ok, "%s\n%s", &progress, &out)
	t.Logf("\n%s", &out)

	var r result
	raw, err := os.ReadFile(o.json)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &r))
	require.Len(t, r.Rows, len(plan()))
	for _, w := range r.Rows {
		if w.State == skipped {
			require.NotEmpty(t, w.Reason, w.Key)
			continue
		}
		require.Equal(t, measured, w.State, w.Key)
		require.Len(t, w.Samples, quick.rounds*quick.repeats, w.Key)
		require.Positive(t, w.Median, w.Key)
		require.Positive(t, w.Slow, w.Key)
		require.LessOrEqual(t, w.Low, w.Median, w.Key)
		require.GreaterOrEqual(t, w.High, w.Median, w.Key)
	}
	require.NotEmpty(t, r.Machine.CPU)
	require.Positive(t, r.Machine.Cores)
	require.Positive(t, r.Machine.MemoryGiB)

	f, err := os.Open(o.csv)
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, len(r.Rows)+1)
}

// TestPlan: every figure has a source that a round runs, and its yardstick is another figure of the same unit.
func TestPlan(t *testing.T) {
	known := map[string]bool{}
	for _, s := range sources(&builder{}, full) {
		known[s.name] = true
	}
	byKey := map[string]figure{}
	for _, f := range plan() {
		require.True(t, known[f.source()], f.key)
		require.NotContains(t, byKey, f.key)
		byKey[f.key] = f
	}
	for _, f := range plan() {
		if f.yardstick == "" {
			require.Equal(t, aim{}, f.aim, "%s has an aim and no yardstick", f.key)
			continue
		}
		y, here := byKey[f.yardstick]
		require.True(t, here, f.key)
		require.Equal(t, y.unit, f.unit, f.key)
		require.Equal(t, y.bytes, f.bytes, f.key)
	}
}

func TestRows(t *testing.T) {
	r := &result{samples: map[string][]sample{}, problems: map[string]error{}, Began: time.Now()}
	figures := []figure{
		{key: "a.copy", unit: gigabytes, bytes: 1000},
		{key: "b.put", unit: gigabytes, bytes: 1000, yardstick: "a.copy", aim: aim{atLeast: 0.85}},
		{key: "b.slow", unit: gigabytes, bytes: 1000, yardstick: "a.copy", aim: aim{atLeast: 0.85}},
		{key: "c.put", unit: nanoseconds, yardstick: "a.copy"},
		{key: "d.put", unit: nanoseconds},
		{key: "b.lost", unit: nanoseconds},
	}
	run := func(name, text string, err error) {
		_ = r.take(t.Context(), source{name, func(context.Context) (string, error) { return text, err }})
	}
	run("a", "copy 100 200\ncopy 300 400\ncopy 200 300\n", nil)
	run("b", "put 220 250\nslow 400 800\n", nil)
	run("c", "", &skipError{"not here"})
	run("d", "put ten 1\n", nil)
	r.finish(figures)

	require.Equal(t, 5.0, r.Rows[0].Median)
	require.InDelta(t, 3.333, r.Rows[0].Low, 0.001)
	require.Equal(t, 10.0, r.Rows[0].High)
	require.InDelta(t, 3.333, r.Rows[0].Slow, 0.001)
	require.InDelta(t, 0.909, r.Rows[1].Ratio, 0.001)
	require.True(t, *r.Rows[1].Met)
	require.False(t, *r.Rows[2].Met)
	require.Equal(t, []string{skipped, "not here"}, []string{r.Rows[3].State, r.Rows[3].Reason})
	require.Equal(t, failed, r.Rows[4].State)
	require.Contains(t, r.Rows[4].Reason, "unexpected output")
	require.Equal(t, []string{failed, "b did not print it"}, []string{r.Rows[5].State, r.Rows[5].Reason})
	require.True(t, r.failed())
}

// TestSourceFails: a program that fails or is missing is reported by its own words.
func TestSourceFails(t *testing.T) {
	_, err := command(t.Context(), nil, "sh", "-c", "echo out; echo cause >&2; exit 3")
	require.ErrorContains(t, err, "exit status 3: cause")
	out, err := command(t.Context(), nil, "sh", "-c", "echo x 1 2; echo one core >&2; exit 77")
	var skip *skipError
	require.True(t, errors.As(err, &skip))
	require.Equal(t, "one core", skip.reason)
	require.Equal(t, "x 1 2\n", out)

	t.Setenv("PATH", t.TempDir())
	b, err := newBuilder()
	require.NoError(t, err)
	defer func() { require.NoError(t, b.close()) }()
	_, err = b.oshmem(t.Context(), 2, "3", "1")
	require.True(t, errors.As(err, &skip))
	require.Contains(t, skip.reason, "openmpi-bin libopenmpi-dev")
	_, err = b.cores(t.Context(), nil)
	require.True(t, errors.As(err, &skip))
}
