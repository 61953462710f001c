package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rules are all rules; the name is the test's name.
var rules = map[string]rule{
	"imports-go-down":         importsGoDown,
	"cgo-only-where-allowed":  cgoOnlyWhereAllowed,
	"one-composer":            oneComposer,
	"memory-access-in-one":    memoryAccessInOneHeader,
	"only-portable-cuda":      onlyPortableCUDA,
	"poll-loops-in-one":       pollLoopsInOneHeader,
	"headers-are-reachable":   headersAreReachable,
	"files-are-short":         filesAreShort,
	"functions-are-short":     functionsAreShort,
	"nothing-unfinished":      nothingUnfinished,
	"no-machine-paths":        noMachinePaths,
	"no-binaries":             noBinaries,
	"modules-are-pinned":      modulesArePinned,
	"layers-match-the-papers": layersMatchThePapers,
}

func TestRules(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	source, err := loadTree(root)
	require.NoError(t, err)
	require.Contains(t, source, "go.mod", "the tree was not found")
	require.Contains(t, source, "internal/archtest/doc.go")
	for name, check := range rules {
		t.Run(name, func(t *testing.T) {
			for _, violation := range check(source) {
				t.Error(violation)
			}
		})
	}
}

// notInThePaper are tools and test support: no part of the product, but placed in the layers.
var notInThePaper = map[string]bool{
	"scripts": true, "internal/cmd": true, "internal/archtest": true, "internal/testjob": true,
}

// layersMatchThePapers keeps ARCHITECTURE.md and layers in step: every entry is named in the paper's package table.
func layersMatchThePapers(t tree) []string {
	paper, here := t["ARCHITECTURE.md"]
	if !here {
		return []string{"ARCHITECTURE.md: missing"}
	}
	named := expandBraces(paper)
	var bad []string
	for _, layer := range layers {
		for _, entry := range layer {
			if notInThePaper[entry] {
				continue
			}
			if !strings.Contains(named, "`"+entry) {
				bad = append(bad, "ARCHITECTURE.md: package "+entry+" is in layers but not in the table")
			}
		}
	}
	return bad
}

// expandBraces writes `a/{b,c}` as `a/b` `a/c`.
func expandBraces(text string) string {
	var out strings.Builder
	for {
		open := strings.Index(text, "/{")
		if open < 0 {
			return out.String() + text
		}
		tick, end := strings.LastIndex(text[:open], "`"), strings.Index(text[open:], "}")
		if tick < 0 || end < 0 {
			return out.String() + text
		}
		out.WriteString(text[:tick])
		for _, name := range strings.Split(text[open+2:open+end], ",") {
			out.WriteString(text[tick:open] + "/" + name + "` ")
		}
		text = text[open+end+1:]
	}
}

// writeTree makes a tree on disk, so that reading it is tested as well.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		full := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(content), 0o644))
	}
	return root
}
