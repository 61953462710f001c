// Command genlayout turns a layout table into one Go file and one C++ header. It is run by `go generate`; the files
// are committed, and a test compares them with the table.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/pgas-go/pgas/internal/layout"
	"github.com/pgas-go/pgas/internal/layout/gen"
	prmtable "github.com/pgas-go/pgas/internal/prm/table"
	wiretable "github.com/pgas-go/pgas/internal/wire/table"
)

var tables = map[string]func() layout.Table{
	"wire": wiretable.Table,
	"prm":  prmtable.Table,
}

func main() {
	name := flag.String("table", "", "table to generate: wire or prm")
	goFile := flag.String("go", "", "Go file to write")
	cuhFile := flag.String("cuh", "", "C++ header to write")
	flag.Parse()
	if err := run(*name, *goFile, *cuhFile); err != nil {
		fmt.Fprintln(os.Stderr, "genlayout:", err)
		os.Exit(1)
	}
}

func run(name, goFile, cuhFile string) error {
	table, ok := tables[name]
	if !ok {
		return fmt.Errorf("unknown table %q [use -table wire or -table prm]", name)
	}
	goText, cuhText, err := gen.Generate(name, table())
	if err != nil {
		return fmt.Errorf("table %s: %w", name, err)
	}
	if err := os.WriteFile(goFile, goText, 0o644); err != nil {
		return err
	}
	return os.WriteFile(cuhFile, cuhText, 0o644)
}
