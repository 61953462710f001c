package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

const (
	maxFileLines     = 600
	maxFunctionLines = 70
)

// tableFolders hold layout tables: functions that are one long literal each, so their length is not counted.
var tableFolders = map[string]bool{"internal/wire/table": true, "internal/prm/table": true}

// longFunctionsAllowed are other Go functions that may be longer, "folder.Name" with the reason.
var longFunctionsAllowed = map[string]string{
	"internal/softhca.TestCreateRefusals": "two tables, a line per refused mailbox",
	"internal/softhca.TestSyndromes":      "one table, a line or two per check of the requester and the responder",
}

func filesAreShort(t tree) []string {
	var bad []string
	t.each(func(name, content string) {
		if lines := strings.Count(content, "\n"); lines > maxFileLines && !isGenerated(content) {
			bad = append(bad, fmt.Sprintf("%s: %d lines, at most %d [split it by concept]", name, lines, maxFileLines))
		}
	}, ".go", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".S", ".s", ".py", ".sh")
	return bad
}

func functionsAreShort(t tree) []string {
	var bad []string
	used := map[string]bool{}
	folders := map[string]bool{}
	t.each(func(name, content string) {
		folders[path.Dir(name)] = true
		if isGenerated(content) || tableFolders[path.Dir(name)] {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
		if err != nil {
			bad = append(bad, fmt.Sprintf("%s: does not parse: %v", name, err))
			return
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			start := set.Position(fn.Pos()).Line
			lines := set.Position(fn.End()).Line - start + 1
			key := path.Dir(name) + "." + fn.Name.Name
			if lines <= maxFunctionLines {
				continue
			}
			if longFunctionsAllowed[key] != "" {
				used[key] = true
				continue
			}
			bad = append(bad, fmt.Sprintf("%s:%d: func %s has %d lines, at most %d", name, start, fn.Name.Name, lines, maxFunctionLines))
		}
	}, ".go")
	for key := range longFunctionsAllowed {
		if folders[strings.TrimSuffix(key, path.Ext(key))] && !used[key] {
			bad = append(bad, fmt.Sprintf("%s: is short now or gone [remove it from longFunctionsAllowed]", key))
		}
	}
	return bad
}
