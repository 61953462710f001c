package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each mutant breaks one rule of the protocol. Some seeds of the chaos driver must show it, or the checks are worth
// nothing. The unchanged program passes with the same seeds (TestJobs and the first case).
func TestMutantsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program several times")
	}
	for _, x := range []struct {
		name, file, old, new string
		args                 []string
		caught               bool
	}{
		{"none", "moe.cu", "// MoE dispatch", "// A MoE dispatch", []string{"-split"}, false},
		{"flag in another queue than its rows", "moe.cu",
			"pgas::signal(pgas::thread(), r.context(local), pair % r.w.n_pes(), update)",
			"pgas::signal(pgas::thread(), r.context(local + 1), pair % r.w.n_pes(), update)", nil, true},
		{"count in another queue than its tokens", "moe.cu",
			"pgas::signal(pgas::thread(), r.context(local), pe, update)",
			"pgas::signal(pgas::thread(), r.context(local + 1), pe, update)", nil, true},
		{"one buffer for both parities", "generation.cuh", "uint32_t(gen % parities)};", "0};", []string{"-split"}, true},
		{"count sent before the last token", "moe.cu", "uint32_t(now) != due - 1", "uint32_t(now) + 1 < due - 1", nil, true},
		{"truncation in place of rounding", "numbers.cuh", "a += 0x7ffff + (a >> 20 & 1);", "", nil, true},
		{"combine in another order", "moe.cu", "for (uint32_t k = 0; k < p.topk_n; ++k) {\n            if",
			"for (uint32_t k = p.topk_n; k-- != 0;) {\n            if", nil, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			program := buildMutant(t, x.file, x.old, x.new)
			caught := ""
			for seed := 1; seed <= 4 && caught == ""; seed++ {
				env := []string{"PGAS_SOFT_HCA=mode=chaos,seed=" + strconv.Itoa(seed), "PGAS_TIMEOUT=5s"}
				args := with(append([]string{"-tokens", "16", "-iters", "4", "-contexts", "3"}, x.args...)...)
				if r := startProgram(t, program, 4, "ibgda", env, args...); r.code != 0 {
					caught = r.out
				}
			}
			require.Equal(t, x.caught, caught != "", caught)
		})
	}
}

// buildMutant builds the program with one text of one file replaced, without touching the file.
func buildMutant(t *testing.T, file, old, new string) string {
	t.Helper()
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), old), "%s has no single %q", file, old)
	dir := t.TempDir()
	changed := filepath.Join(dir, file)
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(source), old, new, 1)), 0o644))
	here, err := filepath.Abs(file)
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{here: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644))
	program := filepath.Join(dir, "moe")
	out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}
