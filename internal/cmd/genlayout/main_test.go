package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/wire"
)

// TestNeedsNothingItGenerates: the generator must build when the generated files are missing or stale.
func TestNeedsNothingItGenerates(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	require.Contains(t, deps, "github.com/pgas-go/pgas/internal/wire/table")
	require.NotContains(t, deps, "github.com/pgas-go/pgas/internal/wire")
	require.NotContains(t, deps, "github.com/pgas-go/pgas/internal/prm")
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, committed := range map[string]string{"wire": "../../wire/wire_gen.go", "prm": "../../prm/prm_gen.go"} {
		goFile, cuhFile := dir+"/"+name+".go", dir+"/"+name+".cuh"
		require.NoError(t, run(name, goFile, cuhFile))
		for got, want := range map[string]string{goFile: committed, cuhFile: "../../../device/include/pgas/detail/" + name + ".cuh"} {
			g, err := os.ReadFile(got)
			require.NoError(t, err)
			w, err := os.ReadFile(want)
			require.NoError(t, err)
			require.True(t, string(w) == string(g), "%s differs from what the generator writes", want)
		}
	}
	require.ErrorContains(t, run("nope", "", ""), `unknown table "nope"`)
	require.Error(t, run("wire", dir+"/missing/x.go", dir+"/x.cuh"))
	require.NotEqual(t, uint64(wire.LayoutHash), uint64(prm.LayoutHash))
}
