// Command gotest runs `go test -json` with its arguments and prints what a reader of a long log needs: the closing
// line of every package, the whole output of what failed, and every skip with its reason. With -skips FILE it appends
// the skips to a file as well, so that a caller can repeat them at the end.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sort"
	"strings"
)

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// report collects the events of a run. Output is kept per test and dropped when the test passes.
type report struct {
	out    io.Writer
	output map[string][]string
	skips  []string
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[string][]string{}}
}

func (r *report) read(stream io.Reader) error {
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read go test events: %w", err)
		}
	}
}

// line takes one event; a line that is none (a crash of the go command itself) is passed on as it is.
func (r *report) line(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		fmt.Fprintf(r.out, "%s", line)
		return
	}
	key := e.Package + "." + e.Test
	switch e.Action {
	case "output":
		r.keep(key, e)
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "fail":
		r.fail(key, e)
	case "skip":
		r.skip(key, e)
	case "pass":
		delete(r.output, key)
	}
}

// keep stores output until its test ends. The closing line of a package is printed at once.
func (r *report) keep(key string, e event) {
	if e.Test == "" && isClosing(e.Output) {
		fmt.Fprint(r.out, e.Output)
		return
	}
	r.output[key] = append(r.output[key], e.Output)
}

func isClosing(line string) bool {
	for _, prefix := range []string{"ok  \t", "FAIL\t", "?   \t"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// fail prints the kept output. A package that fails also prints that of tests which never ended (panic, timeout).
func (r *report) fail(key string, e event) {
	r.print(key)
	if e.Test != "" {
		return
	}
	var open []string
	for k := range r.output {
		if strings.HasPrefix(k, e.Package+".") {
			open = append(open, k)
		}
	}
	sort.Strings(open)
	for _, k := range open {
		r.print(k)
	}
}

func (r *report) print(key string) {
	fmt.Fprint(r.out, strings.Join(r.output[key], ""))
	delete(r.output, key)
}

// skip notes a skipped test with the text that it gave. Packages without tests are "skipped" too and not of interest.
func (r *report) skip(key string, e event) {
	if e.Test != "" {
		reason := skipReason(r.output[key])
		note := fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason)
		r.skips = append(r.skips, note)
		fmt.Fprintf(r.out, "SKIPPED %s\n", note)
	}
	delete(r.output, key)
}

// skipReason is the test's own last words, without the go command's framing lines.
func skipReason(lines []string) string {
	var words []string
	for _, line := range lines {
		text := strings.TrimSpace(line)
		if text == "" || strings.HasPrefix(text, "=== ") || strings.HasPrefix(text, "--- ") {
			continue
		}
		words = append(words, text)
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}

func appendLines(path string, lines []string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(f, line); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

func run(args []string) error {
	var skipsFile string
	if len(args) >= 2 && args[0] == "-skips" {
		skipsFile, args = args[1], args[2:]
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := newReport(os.Stdout)
	readErr := r.read(stream)
	waitErr := cmd.Wait()
	if skipsFile != "" && len(r.skips) > 0 {
		if err := appendLines(skipsFile, r.skips); err != nil {
			return err
		}
	}
	return errors.Join(readErr, waitErr)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "gotest: %v\n", err)
		os.Exit(1)
	}
}
