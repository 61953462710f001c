package archtest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample is a small tree with one fault, or none.
type sample struct {
	rule  string
	files map[string]string
	want  string // part of the only violation; empty when the tree is fine
}

func one(rule, name, content, want string) sample {
	return sample{rule, map[string]string{name: content}, want}
}

const (
	ours    = `"` + modulePath + `/`
	goodMod = "module " + modulePath + "\n\n" + goVersionLine + "\n\nrequire (\n\tgo.uber.org/zap v1.28.0\n" +
		"\tgolang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect\n)\n"
	pragma = "#pragma once\n"
)

var importSamples = []sample{
	one("imports-go-down", "heap/a.go", "package heap\n\nimport _ "+ours+"internal/errs\"\n", ""),
	one("imports-go-down", "bootstrap/tcp/a.go", "package tcp\n\nimport _ "+ours+"bootstrap\"\n", ""),
	one("imports-go-down", "heap/a.go", "package heap\n\nimport _ "+ours+"ibgda\"\n", "heap/a.go:3: heap imports ibgda"),
	one("imports-go-down", "heap/a_test.go", "package heap\n\nimport _ "+ours+"ibgda\"\n", ""),
	one("imports-go-down", "heap/a.go", "//go:build never\n\npackage heap\n\nimport _ "+ours+"pgas\"\n", "heap imports pgas"),
	one("imports-go-down", "internal/softgpu/a.go", "package softgpu\n\nimport _ "+ours+"internal/softhca\"\n",
		"internal/softgpu imports internal/softhca"),
	one("imports-go-down", "extra/a.go", "package extra\n\nimport _ "+ours+"heap\"\n", "package extra is in no layer"),
	one("imports-go-down", "heap/a.go", "package heap\n\nimport _ "+ours+"extra\"\n", "heap imports extra"),
	one("imports-go-down", "heap/a.go", "package heap\n\nimport (\n", "does not parse"),
	one("cgo-only-where-allowed", "internal/native/cuda/a.go", "package cuda\n\nimport \"C\"\n", ""),
	one("cgo-only-where-allowed", "internal/nativeextra/a.go", "package x\n\nimport \"C\"\n", `import "C" in internal/nativeextra`),
	one("cgo-only-where-allowed", "pgas/a.go", "package pgas\n\nimport \"C\"\n", `import "C" in pgas`),
	one("one-composer", "internal/platform/a.go", "package platform\n\nimport _ "+ours+"internal/softgpu\"\n", ""),
	one("one-composer", "pgas/a_test.go", "package pgas\n\nimport _ "+ours+"internal/softhca\"\n", ""),
	one("one-composer", "pgas/a.go", "package pgas\n\nimport _ "+ours+"internal/softhca\"\n", "pgas imports internal/softhca"),
}

var deviceSamples = []sample{
	one("memory-access-in-one", memoryModel, "asm volatile(\"fence.acq_rel.sys;\");\n", ""),
	one("memory-access-in-one", "device/include/pgas/rma.cuh", "// volatile asm\n/* __atomic_load */ __syncwarp();\n", ""),
	one("memory-access-in-one", "device/include/pgas/rma.cuh", "int a;\nvolatile int b;\n", `rma.cuh:2: "volatile"`),
	one("memory-access-in-one", "examples/moe/moe.cu", "__atomic_load_n(p, 0);\n", `"__atomic_load_n"`),
	one("memory-access-in-one", "tests/x.cu", "int a = 1'000; // '\n__sync_fetch_and_add(p, 1);\n", "__sync_fetch_and_add"),
	one("memory-access-in-one", "device/kernels/k.cu", "const char* s = \"st.release.sys.u64\";\n", "PTX only in"),
	one("memory-access-in-one", "device/include/pgas/amo.cuh", "atomicAdd(p, 1);\n", `"atomicAdd"`),
	one("memory-access-in-one", "examples/moe/moe.cu", "atomicAdd(p, 1);\n", ""),
	one("memory-access-in-one", "internal/kernel/testdata/a.cu", "volatile int spin;\n", ""),
	one("only-portable-cuda", "examples/a/a.cu", "k<<<1, 32>>>();\n", `"<<<"`),
	one("only-portable-cuda", "examples/a/a.cu", "// k<<<1, 32>>>()\nint a;\n", ""),
	one("only-portable-cuda", "device/include/pgas/a.cuh", "#include <cuda/atomic>\n", "cuda/atomic"),
	one("only-portable-cuda", "device/include/pgas/a.cuh", "namespace cg = cooperative_groups;\n", "cooperative_groups"),
	one("poll-loops-in-one", waitHeader, "while (ld_acquire(p) == 0) {\n}\n", ""),
	one("poll-loops-in-one", "device/include/pgas/a.cuh", "while (ld_acquire(p) == 0) {\n}\n", "a.cuh:1: a loop that polls"),
	one("poll-loops-in-one", "device/include/pgas/a.cuh", "\nfor (;;) {\n  if (mm::load<order>(p)) break;\n}\n", "a.cuh:2: a loop"),
	one("poll-loops-in-one", "device/include/pgas/a.cuh", "for (int n = 1;; ++n) {\n  if (ld_relaxed(p)) break;\n}\n", "a.cuh:1: a loop"),
	one("poll-loops-in-one", "device/include/pgas/a.cuh", "do { n++; } while (load_relaxed(p) != n);\n", "a.cuh:1: a loop"),
	one("poll-loops-in-one", "device/include/pgas/a.cuh", "while (n > 0) { n--; }\nx = ld_acquire(p);\n", ""),
	one("poll-loops-in-one", "device/include/pgas/a.cuh", "for (int i = 0; i < n; i++) { s += ld_relaxed(p + i); }\n", ""),
	{"headers-are-reachable", map[string]string{
		umbrella:                                 pragma + "#include \"a.cuh\"\n",
		"device/include/pgas/a.cuh":              pragma + "#include <pgas/detail/b.cuh>\n",
		"device/include/pgas/detail/b.cuh":       pragma + "#include \"c.cuh\"\n",
		"device/include/pgas/detail/c.cuh":       pragma,
		"internal/softgpu/not_for_the_users.cuh": "",
	}, ""},
	{"headers-are-reachable", map[string]string{
		umbrella:                       pragma + "// #include \"lost.cuh\"\n",
		"device/include/pgas/lost.cuh": pragma,
	}, "lost.cuh: not reachable"},
	{"headers-are-reachable", map[string]string{umbrella: "int a;\n"}, "no #pragma once"},
}

var hygieneSamples = []sample{
	one("files-are-short", "a/a.go", strings.Repeat("\n", maxFileLines), ""),
	one("files-are-short", "a/a.cpp", strings.Repeat("\n", maxFileLines+1), "601 lines"),
	one("files-are-short", "a/a.cuh", "// Generated by x from y. Do not edit.\n"+strings.Repeat("\n", 700), ""),
	one("files-are-short", "a/a_gen.go", "// Code generated by x. DO NOT EDIT.\n"+strings.Repeat("\n", 700), ""),
	one("functions-are-short", "a/a.go", "package a\n\nfunc f() {\n"+strings.Repeat("\n", 68)+"}\n", ""),
	one("functions-are-short", "a/a.go", "package a\n\nfunc f() {\n"+strings.Repeat("\n", 69)+"}\n", "a/a.go:3: func f has 71 lines"),
	one("functions-are-short", "internal/prm/table/a.go", "package table\n\nfunc f() {\n"+strings.Repeat("\n", 200)+"}\n", ""),
	one("nothing-unfinished", "Makefile", "x: # TO"+"DO later\n", "TO"+"DO"),
	one("nothing-unfinished", "a.sh", "mktemp a.XX"+"XXXX\n", ""),
	one("no-machine-paths", "a.md", "see internal/work/a and $HOME/work/b\n", ""),
	one("no-machine-paths", "a.md", "see /wo"+"rk/shared\n", "a.md:1"),
	one("no-machine-paths", "a.sh", "x=/ro"+"ot/y\n", "a.sh:1"),
	one("no-binaries", "tool", "\x7fELF\x00", "tool: a binary file"),
	one("no-binaries", "docs/plot.png", "\x89PNG\x00", ""),
	{"modules-are-pinned", map[string]string{"go.mod": goodMod, "go.sum": ""}, ""},
	{"modules-are-pinned", map[string]string{"go.mod": goodMod}, "go.sum: missing"},
	{"modules-are-pinned", map[string]string{"go.sum": ""}, "go.mod: missing"},
	{"modules-are-pinned", map[string]string{"go.mod": goodMod, "go.sum": "", "a/go.mod": "module a\n"}, "a second module"},
	{"modules-are-pinned", map[string]string{"go.mod": goodMod + "replace a => b\n", "go.sum": ""}, "replace is not allowed"},
	{"modules-are-pinned", map[string]string{"go.mod": strings.Replace(goodMod, goVersionLine, "go 1.21", 1), "go.sum": ""}, "want the line"},
	{"modules-are-pinned", map[string]string{"go.mod": strings.ReplaceAll(goodMod, " // indirect", ""), "go.sum": ""},
		"golang.org/x/exp/typeparams is at an untagged commit"},
	one("layers-match-the-papers", "other.md", "", "ARCHITECTURE.md: missing"),
}

// TestRulesCatch runs each rule on its samples: exactly the planted fault is found, and nothing in a good tree.
func TestRulesCatch(t *testing.T) {
	caught := map[string]bool{}
	for _, samples := range [][]sample{importSamples, deviceSamples, hygieneSamples} {
		for _, s := range samples {
			require.Contains(t, rules, s.rule)
			source, err := loadTree(writeTree(t, s.files))
			require.NoError(t, err)
			require.Len(t, source, len(s.files))
			got := rules[s.rule](source)
			if s.want == "" {
				require.Empty(t, got, "%s, want %q", s.rule, s.want)
				continue
			}
			require.Len(t, got, 1, "%s, want %q", s.rule, s.want)
			require.Contains(t, got[0], s.want)
			caught[s.rule] = true
		}
	}
	for name := range rules {
		require.True(t, caught[name], "no sample shows that rule %s catches anything", name)
	}
}

// TestAllowedListsGoStale: an exception that nothing needs any more is itself reported.
func TestAllowedListsGoStale(t *testing.T) {
	pollLoopsAllowed["device/include/pgas/gone.cuh"] = "test"
	longFunctionsAllowed["a.gone"] = "test"
	defer delete(pollLoopsAllowed, "device/include/pgas/gone.cuh")
	defer delete(longFunctionsAllowed, "a.gone")
	require.NotEmpty(t, pollLoopsInOneHeader(tree{"device/include/pgas/gone.cuh": pragma}))
	require.NotEmpty(t, functionsAreShort(tree{"a/a.go": "package a\n"}))
}

func TestLayersMatchThePapers(t *testing.T) {
	var paper strings.Builder
	for _, layer := range layers {
		for _, entry := range layer {
			paper.WriteString("| `" + entry + "` |\n")
		}
	}
	require.Empty(t, layersMatchThePapers(tree{"ARCHITECTURE.md": paper.String()}))
	short := strings.Replace(paper.String(), "`internal/errs`", "", 1)
	require.Len(t, layersMatchThePapers(tree{"ARCHITECTURE.md": short}), 1)
	require.Contains(t, expandBraces("| `internal/{wire,prm}` |"), "`internal/prm`")
}

// TestGitListsWhatWouldBeCommitted: ignored files do not count, new ones do.
func TestGitListsWhatWouldBeCommitted(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("need git: %v", err)
	}
	root := writeTree(t, map[string]string{".gitignore": "/bin/\n", "bin/x": "", "new.go": "package x\n"})
	out, err := exec.Command("git", "init", "-q", root).CombinedOutput()
	require.NoError(t, err, string(out))
	source, err := loadTree(root)
	require.NoError(t, err)
	require.Len(t, source, 2)
	require.Contains(t, source, "new.go")
	require.Contains(t, source, filepath.ToSlash(".gitignore"))
}
