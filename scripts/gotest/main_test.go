package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// feed runs the report over events written as JSON lines.
func feed(t *testing.T, lines ...string) (string, *report) {
	t.Helper()
	var out strings.Builder
	r := newReport(&out)
	require.NoError(t, r.read(strings.NewReader(strings.Join(lines, "\n"))))
	return out.String(), r
}

func TestPassingTestsAreQuietAndClosingLinesAreKept(t *testing.T) {
	out, _ := feed(t,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}`,
		`{"Action":"pass","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Output":"PASS\n"}`,
		`{"Action":"output","Package":"p","Output":"ok  \tp\t0.5s\n"}`,
		`{"Action":"pass","Package":"p"}`)
	require.Equal(t, "ok  \tp\t0.5s\n", out)
}

func TestFailureKeepsItsOutput(t *testing.T) {
	out, _ := feed(t,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"want 1, have 2\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.5s\n"}`,
		`{"Action":"fail","Package":"p"}`)
	require.Equal(t, "want 1, have 2\nFAIL\tp\t0.5s\n", out)
}

func TestPanicPrintsTheTestThatNeverEnded(t *testing.T) {
	out, _ := feed(t,
		`{"Action":"output","Package":"p","Test":"TestHang","Output":"panic: test timed out\n"}`,
		`{"Action":"output","Package":"q","Test":"TestOther","Output":"still running\n"}`,
		`{"Action":"fail","Package":"p"}`)
	require.Equal(t, "panic: test timed out\n", out)
}

func TestSkipGivesItsReason(t *testing.T) {
	out, r := feed(t,
		`{"Action":"output","Package":"p","Test":"TestGPU","Output":"=== RUN   TestGPU\n"}`,
		`{"Action":"output","Package":"p","Test":"TestGPU","Output":"    gpu_test.go:9: no GPU\n"}`,
		`{"Action":"output","Package":"p","Test":"TestGPU","Output":"--- SKIP: TestGPU (0.00s)\n"}`,
		`{"Action":"skip","Package":"p","Test":"TestGPU"}`,
		`{"Action":"skip","Package":"empty"}`)
	require.Equal(t, []string{"p TestGPU: gpu_test.go:9: no GPU"}, r.skips)
	require.Equal(t, "SKIPPED p TestGPU: gpu_test.go:9: no GPU\n", out)

	_, r = feed(t, `{"Action":"skip","Package":"p","Test":"TestMute"}`)
	require.Equal(t, []string{"p TestMute: no reason given"}, r.skips)
}

func TestBuildErrorsAndForeignLinesArePassedOn(t *testing.T) {
	out, _ := feed(t,
		`{"Action":"build-output","ImportPath":"p","Output":"x.go:1: undefined: y\n"}`,
		`go: cannot find main module`)
	require.Equal(t, "x.go:1: undefined: y\ngo: cannot find main module", out)
}

func TestAppendLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skips")
	require.NoError(t, appendLines(path, []string{"a"}))
	require.NoError(t, appendLines(path, []string{"b"}))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "a\nb\n", string(got))
	require.Error(t, appendLines(filepath.Join(path, "below-a-file"), []string{"c"}))
}
