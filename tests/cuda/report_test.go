package cuda

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	reportFile    = "report.txt"
	renewCommand  = "make cuda-report"
	fastPathFile  = "fastpath.cu"
	reportColumns = "%-20s %-7s %5s %6s %7s %6s %7s %7s\n"
)

// cost is what the compiler made of one kernel for one architecture. Less is better in every field.
type cost struct {
	registers    int
	stack        int // bytes
	spills       int // bytes stored and loaded
	instructions int // SASS, without the padding after the end
	fences       int // MEMBAR and the cache control that goes with an acquire
	atomics      int
}

// costs maps "kernel sm_90" to its cost.
type costs map[string]cost

func (c cost) fields() [6]int {
	return [6]int{c.registers, c.stack, c.spills, c.instructions, c.fences, c.atomics}
}

var fieldNames = [6]string{"registers", "stack bytes", "spill bytes", "instructions", "fences", "atomics"}

var (
	ptxasEntry = regexp.MustCompile(`Compiling entry function '(\w+)' for '(sm_\d+)'`)
	ptxasStack = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	ptxasUsed  = regexp.MustCompile(`Used (\d+) registers`)
	sassKernel = regexp.MustCompile(`^\s*Function : (\w+)`)
	sassLine   = regexp.MustCompile(`^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)`)
)

// readPtxas takes the resource lines of `ptxas -v`. Functions that were not inlined add to their kernel's figures.
func (c costs) readPtxas(out string) {
	key := ""
	for _, line := range strings.Split(out, "\n") {
		if m := ptxasEntry.FindStringSubmatch(line); m != nil {
			key = m[1] + " " + m[2]
			c[key] = cost{}
			continue
		}
		k, known := c[key]
		if !known {
			continue
		}
		if m := ptxasStack.FindStringSubmatch(line); m != nil {
			k.stack += number(m[1])
			k.spills += number(m[2]) + number(m[3])
		}
		if m := ptxasUsed.FindStringSubmatch(line); m != nil {
			k.registers = max(k.registers, number(m[1]))
		}
		c[key] = k
	}
}

// readSASS counts the instructions of `cuobjdump -sass` for one architecture.
func (c costs) readSASS(out, arch string) {
	key := ""
	for _, line := range strings.Split(out, "\n") {
		if m := sassKernel.FindStringSubmatch(line); m != nil {
			key = m[1] + " " + arch
			continue
		}
		k, known := c[key]
		m := sassLine.FindStringSubmatch(line)
		if !known || m == nil || m[1] == "NOP" {
			continue
		}
		k.instructions++
		switch base, _, _ := strings.Cut(m[1], "."); base {
		case "MEMBAR", "CCTL", "FENCE", "ERRBAR":
			k.fences++
		case "ATOM", "ATOMG", "ATOMS", "RED", "REDG", "UREDG", "UATOMG":
			k.atomics++
		}
		c[key] = k
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("the pattern lets only digits through: %v", err))
	}
	return n
}

// measure compiles the fast paths for every architecture, two at a time on two cores.
func measure(t *testing.T, k *toolkit) costs {
	t.Helper()
	all := costs{}
	var mu sync.Mutex
	t.Run("compile", func(t *testing.T) {
		for _, arch := range architectures {
			t.Run(arch, func(t *testing.T) {
				t.Parallel()
				cubin := filepath.Join(t.TempDir(), "out.cubin")
				out, err := run(t, k.nvcc(), "-std=c++17", "-Werror", "all-warnings", "-I", includeDir, "-Xptxas", "-v",
					"-arch", arch, "-cubin", "-o", cubin, fastPathFile)
				require.NoError(t, err, out)
				sass, err := run(t, k.cuobjdump(), "-sass", cubin)
				require.NoError(t, err, sass)
				mu.Lock()
				defer mu.Unlock()
				all.readPtxas(out)
				all.readSASS(sass, arch)
			})
		}
	})
	for _, arch := range architectures {
		require.Contains(t, all, "put_thread "+arch, "ptxas reported no put_thread")
	}
	for name, c := range all {
		require.Positive(t, c.registers, "%s: no registers read", name)
		require.Positive(t, c.instructions, "%s: no SASS read", name)
	}
	return all
}

// format writes the report: readable, one line per kernel and architecture, in a fixed order.
func (c costs) format(version string) string {
	var b strings.Builder
	b.WriteString("# Cost of the fast paths as compiled, without a GPU. Written by `" + renewCommand + "`.\n")
	b.WriteString("# nvcc " + version + "\n")
	fmt.Fprintf(&b, reportColumns, "# kernel", "sm", "regs", "stack", "spills", "instr", "fences", "atomics")
	names := make([]string, 0, len(c))
	for name := range c {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool { return sortKey(names[i]) < sortKey(names[j]) })
	for _, name := range names {
		kernel, arch, _ := strings.Cut(name, " ")
		row := []any{kernel, arch}
		for _, field := range c[name].fields() {
			row = append(row, strconv.Itoa(field))
		}
		fmt.Fprintf(&b, reportColumns, row...)
	}
	return b.String()
}

// sortKey puts sm_80 before sm_100.
func sortKey(name string) string {
	kernel, arch, _ := strings.Cut(name, " sm_")
	return fmt.Sprintf("%s %4s", kernel, arch)
}

func parseReport(text string) (costs, string, error) {
	c, version := costs{}, ""
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if v, ok := strings.CutPrefix(line, "# nvcc "); ok {
			version = v
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) != 8 {
			return nil, "", fmt.Errorf("%s:%d: want 8 columns, have %d", reportFile, i+1, len(words))
		}
		var fields [6]int
		for j := range fields {
			n, err := strconv.Atoi(words[2+j])
			if err != nil {
				return nil, "", fmt.Errorf("%s:%d: %w", reportFile, i+1, err)
			}
			fields[j] = n
		}
		c[words[0]+" "+words[1]] = cost{fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]}
	}
	if version == "" {
		return nil, "", fmt.Errorf("%s: no line with the version of nvcc", reportFile)
	}
	return c, version, nil
}

// growth lists what got worse, kernels that the report lacks, and kernels that are gone.
func growth(committed, now costs) []string {
	var bad []string
	for name, c := range now {
		old, known := committed[name]
		if !known {
			bad = append(bad, name+": not in the report")
			continue
		}
		was, is := old.fields(), c.fields()
		for i, field := range fieldNames {
			if is[i] > was[i] {
				bad = append(bad, fmt.Sprintf("%s: %s %d -> %d", name, field, was[i], is[i]))
			}
		}
	}
	for name := range committed {
		if _, here := now[name]; !here {
			bad = append(bad, name+": in the report, but no such kernel")
		}
	}
	sort.Strings(bad)
	return bad
}

// TestFastPathReport compares the fast paths with the committed report. PGAS_CUDA_REPORT=update writes it instead.
func TestFastPathReport(t *testing.T) {
	k := needToolkit(t)
	now := measure(t, k)
	if os.Getenv("PGAS_CUDA_REPORT") == "update" {
		require.NoError(t, os.WriteFile(reportFile, []byte(now.format(k.version)), 0o644))
		return
	}
	text, err := os.ReadFile(reportFile)
	require.NoError(t, err, "write it with `%s`", renewCommand)
	committed, version, err := parseReport(string(text))
	require.NoError(t, err)
	if version != k.version {
		t.Skipf("the report is of nvcc %s, this is %s: numbers of two compilers do not compare (make cuda-toolchain)",
			version, k.version)
	}
	if bad := growth(committed, now); len(bad) > 0 {
		t.Fatalf("the fast paths cost more than %s says:\n  %s\nIf that is wanted: %s, and commit the report",
			reportFile, strings.Join(bad, "\n  "), renewCommand)
	}
	if string(text) != now.format(k.version) {
		t.Logf("the fast paths are cheaper than %s says (%s)", reportFile, renewCommand)
	}
}
