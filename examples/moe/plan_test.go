package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The field order of struct plan in generation.cuh and of the Go type must be the same: names are compared one by one.
func TestPlanMatchesTheKernel(t *testing.T) {
	source, err := os.ReadFile("generation.cuh")
	require.NoError(t, err)
	body := regexp.MustCompile(`(?s)struct plan \{(.*?)\n\};`).FindStringSubmatch(string(source))
	require.NotNil(t, body)
	var fields []string
	for _, line := range strings.Split(body[1], "\n") {
		line, _, _ = strings.Cut(line, "//")
		m := regexp.MustCompile(`^\s*(uint32_t|uint64_t) (.*);`).FindStringSubmatch(line)
		if m == nil {
			require.Empty(t, strings.TrimSpace(line))
			continue
		}
		for _, name := range strings.Split(m[2], ",") {
			fields = append(fields, m[1]+" "+strings.ReplaceAll(strings.TrimSpace(name), "_", ""))
		}
	}
	var own []string
	typ := reflect.TypeFor[plan]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		own = append(own, f.Type.String()+"_t "+strings.ToLower(f.Name))
	}
	require.Equal(t, fields, own)
	require.Equal(t, uintptr(19*8+14*4), unsafe.Sizeof(plan{}))
}

func TestFaultNamesStepAndStatus(t *testing.T) {
	require.NoError(t, parseFault(make([]byte, 16)))
	word := []byte{1, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0}
	require.EqualError(t, parseFault(word), "dispatch receive: pair 7: timeout")
	word[4] = 99
	require.ErrorContains(t, parseFault(word), "damaged")
}

// Everything that is dispatched is combined, and local traffic is counted on both ways.
func TestTrafficIsSymmetric(t *testing.T) {
	c := smallConfig(t)
	l, err := newLayout(c, 4)
	require.NoError(t, err)
	for _, kind := range routings {
		var batches []Batch
		for pe := range 4 {
			batches = append(batches, generate(c, kind, 4, pe, 3))
		}
		var sent, received, local, localBack uint64
		for pe := range 4 {
			d, b, rows := traffic(c, l, batches, pe)
			sent += d.Logical / uint64(l.MessageBytes)
			local += d.Local / uint64(l.MessageBytes)
			localBack += b.Local / uint64(l.RowBytes)
			require.Equal(t, rows, b.Logical/uint64(l.RowBytes))
			received += rows
			require.LessOrEqual(t, rows, uint64(l.MaxRows))
		}
		require.Equal(t, sent, received, kind)
		require.Equal(t, local, localBack, kind)
	}
}
