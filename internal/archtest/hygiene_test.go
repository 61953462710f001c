package archtest

import (
	"fmt"
	"path"
	"regexp"
	"sort"
	"strings"
)

var (
	// The words are written in two halves so that this file does not break its own rule.
	unfinishedWords = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)
	machinePaths    = regexp.MustCompile(`(^|[^A-Za-z0-9_.$})*-])/(work|root|home|farm)/`)
)

// images may be binary: documentation holds plots.
var images = map[string]bool{".png": true, ".jpg": true, ".svg": true}

func isBinary(content string) bool {
	if len(content) > 8000 {
		content = content[:8000]
	}
	return strings.IndexByte(content, 0) >= 0
}

func (t tree) text(fn func(name, content string)) {
	names := make([]string, 0, len(t))
	for name, content := range t {
		if !isBinary(content) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		fn(name, t[name])
	}
}

func nothingUnfinished(t tree) []string {
	var bad []string
	t.text(func(name, content string) {
		bad = append(bad, findAll(name, content, unfinishedWords, "finish it, or file an issue")...)
	})
	return bad
}

func noMachinePaths(t tree) []string {
	var bad []string
	t.text(func(name, content string) {
		bad = append(bad, findAll(name, content, machinePaths, "a path of somebody's machine")...)
	})
	return bad
}

func noBinaries(t tree) []string {
	var bad []string
	for name, content := range t {
		corpus := strings.Contains(name, "/testdata/fuzz/")
		if isBinary(content) && !images[path.Ext(name)] && !corpus {
			bad = append(bad, fmt.Sprintf("%s: a binary file [build it, do not commit it]", name))
		}
	}
	sort.Strings(bad)
	return bad
}

const goVersionLine = "go 1.26.0"

// untagged are direct requirements that publish no releases.
var untagged = map[string]bool{"golang.org/x/perf": true, "golang.org/x/exp": true}

var (
	requirement   = regexp.MustCompile(`^(?:require )?([a-z0-9.-]+\.[a-z]+/\S+) (v\S+)( // indirect)?$`)
	pseudoVersion = regexp.MustCompile(`[.-]\d{14}-[0-9a-f]{12}$`)
)

// modulesArePinned: one module, releases only for what we import ourselves, no replacement that other builds lack.
func modulesArePinned(t tree) []string {
	var bad []string
	for name := range t {
		if path.Base(name) == "go.work" || (path.Base(name) == "go.mod" && name != "go.mod") {
			bad = append(bad, fmt.Sprintf("%s: a second module [the repository is one module]", name))
		}
	}
	content, here := t["go.mod"]
	if !here {
		return append(bad, "go.mod: missing")
	}
	if _, here := t["go.sum"]; !here {
		bad = append(bad, "go.sum: missing [go mod tidy]")
	}
	lines := strings.Split(content, "\n")
	if lines[0] != "module "+modulePath {
		bad = append(bad, fmt.Sprintf("go.mod:1: want module %s", modulePath))
	}
	if !strings.Contains(content, "\n"+goVersionLine+"\n") {
		bad = append(bad, fmt.Sprintf("go.mod: want the line %q", goVersionLine))
	}
	for i, line := range lines {
		line = strings.TrimSpace(line)
		for _, word := range []string{"replace", "exclude", "toolchain"} {
			if strings.HasPrefix(line, word+" ") {
				bad = append(bad, fmt.Sprintf("go.mod:%d: %s is not allowed", i+1, word))
			}
		}
		m := requirement.FindStringSubmatch(line)
		if m != nil && m[3] == "" && pseudoVersion.MatchString(m[2]) && !untagged[m[1]] {
			bad = append(bad, fmt.Sprintf("go.mod:%d: %s is at an untagged commit [require a release]", i+1, m[1]))
		}
	}
	sort.Strings(bad)
	return bad
}
