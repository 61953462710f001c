package archtest

import (
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"strconv"
	"strings"
)

const modulePath = "github.com/pgas-go/pgas"

// layers is the package table of ARCHITECTURE.md, top to bottom. A package may import only packages of later layers.
// An entry stands for itself and for everything below its folder, which may import one another freely.
var layers = [][]string{
	{"scripts", "internal/cmd", "internal/archtest"},
	{"cmd/pgas"},
	{"examples", "tests"},
	{"internal/testjob"},
	{"pgas"},
	{"signal"},
	{"ibgda"},
	{"proxy"},
	{"heap"},
	{"bootstrap"},
	{"internal/platform"},
	{"internal/kernel"},
	{"internal/softgpu", "internal/softhca"},
	{"internal/native"},
	{"device"},
	{"internal/wire", "internal/prm"},
	{"internal/layout"},
	{"internal/launch"},
	{"internal/leak"},
	{"internal/config"},
	{"internal/errs"},
}

// cgoAllowed are the packages that may import "C".
var cgoAllowed = []string{"internal/native", "internal/softgpu", "internal/softhca", "proxy/engine"}

// platformOnly are packages that only internal/platform composes; tests may import them directly.
var platformOnly = []string{"internal/softgpu", "internal/softhca"}

func below(pkg, root string) bool {
	return pkg == root || strings.HasPrefix(pkg, root+"/")
}

func belowAny(pkg string, roots []string) bool {
	for _, root := range roots {
		if below(pkg, root) {
			return true
		}
	}
	return false
}

// layerOf finds the row and the entry of a package; ok is false for a package that the table does not name.
func layerOf(pkg string) (row int, entry string, ok bool) {
	for i, layer := range layers {
		for _, e := range layer {
			if below(pkg, e) && len(e) > len(entry) {
				row, entry, ok = i, e, true
			}
		}
	}
	return row, entry, ok
}

// goImport is one import line of one file.
type goImport struct {
	file string
	line int
	from string // package folder of the file
	path string
}

func goImports(t tree) ([]goImport, []string) {
	var imports []goImport
	var bad []string
	t.each(func(name, content string) {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, content, parser.ImportsOnly)
		if err != nil {
			bad = append(bad, fmt.Sprintf("%s: does not parse: %v", name, err))
			return
		}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				bad = append(bad, fmt.Sprintf("%s: import %s: %v", name, spec.Path.Value, err))
				continue
			}
			imports = append(imports, goImport{name, set.Position(spec.Pos()).Line, path.Dir(name), p})
		}
	}, ".go")
	return imports, bad
}

// importsGoDown checks every import inside the module against the layers, in all files whatever their build tags. Tests
// are free to look up: a table's generator is tested on the real table.
func importsGoDown(t tree) []string {
	imports, bad := goImports(t)
	for _, i := range imports {
		if strings.HasSuffix(i.file, "_test.go") || i.path != modulePath && !strings.HasPrefix(i.path, modulePath+"/") {
			continue
		}
		to := strings.TrimPrefix(strings.TrimPrefix(i.path, modulePath), "/")
		fromRow, fromEntry, ok := layerOf(i.from)
		if !ok {
			bad = append(bad, fmt.Sprintf("%s:%d: package %s is in no layer [add it to ARCHITECTURE.md and to layers]",
				i.file, i.line, i.from))
			continue
		}
		toRow, toEntry, ok := layerOf(to)
		if !ok || (toEntry != fromEntry && toRow <= fromRow) {
			bad = append(bad, fmt.Sprintf("%s:%d: %s imports %s, which is not below it [move the code or the import down]",
				i.file, i.line, i.from, to))
		}
	}
	return bad
}

func cgoOnlyWhereAllowed(t tree) []string {
	imports, bad := goImports(t)
	for _, i := range imports {
		if i.path == "C" && !belowAny(i.from, cgoAllowed) {
			bad = append(bad, fmt.Sprintf("%s:%d: import \"C\" in %s [allowed only in %s]",
				i.file, i.line, i.from, strings.Join(cgoAllowed, ", ")))
		}
	}
	return bad
}

// oneComposer keeps the choice between hardware and software in one place.
func oneComposer(t tree) []string {
	imports, bad := goImports(t)
	for _, i := range imports {
		to := strings.TrimPrefix(i.path, modulePath+"/")
		if to == i.path || !belowAny(to, platformOnly) || strings.HasSuffix(i.file, "_test.go") {
			continue
		}
		if !below(i.from, "internal/platform") && !belowAny(i.from, platformOnly) && !below(i.from, "tests") {
			bad = append(bad, fmt.Sprintf("%s:%d: %s imports %s [only internal/platform composes the software platform]",
				i.file, i.line, i.from, to))
		}
	}
	return bad
}
