package archtest

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

const (
	headerRoot  = "device/include/"
	umbrella    = "device/include/pgas/pgas.cuh"
	memoryModel = "device/include/pgas/memory_model.cuh"
	waitHeader  = "device/include/pgas/wait.cuh"
)

// pollLoopsAllowed are device files beside wait.cuh that may hold a loop around a load, each with the reason.
var pollLoopsAllowed = map[string]string{}

// deviceCode calls fn for CUDA sources and device headers, without their comments. Generated files are included: a
// generator must not bring in what people may not write. Left out is testdata, the software GPU's own test kernels: they
// do on purpose what it must catch.
func deviceCode(t tree, fn func(name, code string)) {
	t.each(func(name, content string) {
		if strings.Contains(name, "/testdata/") {
			return
		}
		if path.Ext(name) == ".cu" || path.Ext(name) == ".cuh" || strings.HasPrefix(name, headerRoot) {
			fn(name, stripComments(content))
		}
	}, ".cu", ".cuh", ".h", ".hpp")
}

// stripComments blanks C++ comments and keeps every newline, so that offsets still give the right line.
func stripComments(src string) string {
	out := []byte(src)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	for i := 0; i < len(src); {
		end := i + 1
		switch {
		case strings.HasPrefix(src[i:], "//"):
			end = endOf(src, i, "\n")
			blank(i, end)
		case strings.HasPrefix(src[i:], "/*"):
			end = endOf(src, i+2, "*/")
			blank(i, end)
		case src[i] == '"' || (src[i] == '\'' && !isDigitSeparator(src, i)):
			end = endOfLiteral(src, i)
		}
		i = end
	}
	return string(out)
}

func endOf(src string, from int, mark string) int {
	if at := strings.Index(src[from:], mark); at >= 0 {
		return from + at + len(mark)
	}
	return len(src)
}

// isDigitSeparator tells 1'000 from a character literal.
func isDigitSeparator(src string, i int) bool {
	return i > 0 && i+1 < len(src) && isHexDigit(src[i-1]) && isHexDigit(src[i+1]) && (i+2 >= len(src) || src[i+2] != '\'')
}

func isHexDigit(c byte) bool {
	return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0
}

func endOfLiteral(src string, start int) int {
	for i := start + 1; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
		case src[start], '\n':
			return i + 1
		}
	}
	return len(src)
}

var (
	rawMemory = regexp.MustCompile(`\b(asm|__asm__|volatile|__atomic_\w+|__scoped_atomic_\w+|` +
		`__sync_(fetch|val|bool|lock|add|sub|or|and|xor|nand|synchronize)\w*)\b`)
	ptxText        = regexp.MustCompile(`"[^"\n]*\b(ld|st|atom|red|fence|membar|mbarrier|cp|mov|multimem)\.[a-z][a-z0-9_.:]*`)
	cudaAtomics    = regexp.MustCompile(`\b(atomic(Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)(_system|_block)?|__threadfence\w*|std::atomic\w*)\b`)
	forbiddenWords = regexp.MustCompile(`<<<|\bcooperative_groups\b|#\s*include\s*<(cuda/|nv/target)[^>\n]*>|\bcuda::(std::)?(atomic|barrier|pipeline)\w*`)
	includeLine    = regexp.MustCompile(`(?m)^\s*#\s*include\s*["<]([^">]+)[">]`)
)

// memoryAccessInOneHeader: asm, PTX text, compiler atomics and volatile only in memory_model.cuh. In the library's own
// headers this goes for CUDA's atomics and fences as well; kernels may use them on memory of their own.
func memoryAccessInOneHeader(t tree) []string {
	var bad []string
	deviceCode(t, func(name, code string) {
		if name == memoryModel {
			return
		}
		bad = append(bad, findAll(name, code, rawMemory, "only in "+memoryModel)...)
		bad = append(bad, findAll(name, code, ptxText, "PTX only in "+memoryModel)...)
		if strings.HasPrefix(name, headerRoot) {
			bad = append(bad, findAll(name, code, cudaAtomics, "use memory_model.cuh, which has both platforms")...)
		}
	})
	return bad
}

// onlyPortableCUDA: what the software GPU, NVRTC and clang cannot all compile stays out.
func onlyPortableCUDA(t tree) []string {
	var bad []string
	deviceCode(t, func(name, code string) {
		bad = append(bad, findAll(name, code, forbiddenWords, "not portable to every compiler of the device code")...)
	})
	return bad
}

var (
	openLoop = regexp.MustCompile(`\bwhile\s*\(|\bdo\s*\{|\bfor\s*\(\s*;[^;]*;\s*\)|\bfor\s*\([^;()]*;\s*;[^;()]*\)`)
	loadCall = regexp.MustCompile(`\b(ld|load|poll|peek)(_[a-z0-9_]+)?\s*(<[^<>()]*>)?\s*\(`)
)

// pollLoopsInOneHeader: a loop with no counter around a load is a wait, and waits are in wait.cuh, where they have a
// deadline, an abort check and a yield. The rule reads text: it takes the loop's extent by its brackets.
func pollLoopsInOneHeader(t tree) []string {
	var bad []string
	used := map[string]bool{}
	deviceCode(t, func(name, code string) {
		if name == waitHeader {
			return
		}
		reported := 0 // end of the loop reported last: the loops inside it are the same finding
		for _, at := range openLoop.FindAllStringIndex(code, -1) {
			end := loopEnd(code, at[0])
			if at[0] < reported || !loadCall.MatchString(code[at[0]:end]) {
				continue
			}
			reported = end
			if pollLoopsAllowed[name] != "" {
				used[name] = true
				continue
			}
			bad = append(bad, fmt.Sprintf("%s:%d: a loop that polls memory [use the waits of wait.cuh]", name, lineOf(code, at[0])))
		}
	})
	for name := range pollLoopsAllowed {
		if _, here := t[name]; here && !used[name] {
			bad = append(bad, fmt.Sprintf("%s: has no polling loop any more [remove it from pollLoopsAllowed]", name))
		}
	}
	return bad
}

// loopEnd gives the offset after a loop that starts at start: its head in brackets, then a block or one statement. The
// condition after the block of a do-while belongs to it.
func loopEnd(code string, start int) int {
	depth, seenBlock := 0, false
	isDo := strings.HasPrefix(code[start:], "do")
	for i := start; i < len(code); i++ {
		switch code[i] {
		case '(', '{':
			depth++
			seenBlock = seenBlock || code[i] == '{'
		case ')', '}':
			depth--
			if depth == 0 && code[i] == '}' && !isDo {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case ';':
			if depth == 0 && (!isDo || seenBlock) {
				return i + 1
			}
		}
	}
	return len(code)
}

// headersAreReachable: users include pgas.cuh alone, so a header that it does not reach is dead.
func headersAreReachable(t tree) []string {
	reached := map[string]bool{}
	queue := []string{umbrella}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		content, here := t[name]
		if !here || reached[name] {
			continue
		}
		reached[name] = true
		for _, m := range includeLine.FindAllStringSubmatch(stripComments(content), -1) {
			queue = append(queue, path.Join(path.Dir(name), m[1]), path.Join(headerRoot, m[1]))
		}
	}
	var bad []string
	t.each(func(name, content string) {
		if !strings.HasPrefix(name, headerRoot) {
			return
		}
		if !reached[name] {
			bad = append(bad, fmt.Sprintf("%s: not reachable from %s [include it or remove it]", name, umbrella))
		}
		if !strings.Contains(content, "#pragma once") {
			bad = append(bad, fmt.Sprintf("%s: no #pragma once", name))
		}
	}, ".cuh", ".h", ".hpp")
	return bad
}
