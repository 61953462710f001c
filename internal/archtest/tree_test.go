package archtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// tree is a set of source files: slash-separated path below the root -> content.
type tree map[string]string

// rule looks at a tree and returns one line per violation: "file:line: what is wrong [remedy]".
type rule func(tree) []string

// loadTree reads what git would commit: tracked files and new ones that are not ignored. Without git it takes every
// file outside hidden folders and bin/.
func loadTree(root string) (tree, error) {
	names, err := gitFiles(root)
	if err != nil {
		names, err = walkFiles(root)
	}
	if err != nil {
		return nil, err
	}
	t := tree{}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and the deletion is not committed yet
		}
		if err != nil {
			return nil, err
		}
		t[filepath.ToSlash(name)] = string(content)
	}
	return t, nil
}

func gitFiles(root string) ([]string, error) {
	cmd := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list files with git: %w", err)
	}
	var names []string
	for _, name := range bytes.Split(out, []byte{0}) {
		if len(name) > 0 {
			names = append(names, string(name))
		}
	}
	return names, nil
}

func walkFiles(root string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if d.IsDir() && (rel == "bin" || (rel != "." && strings.HasPrefix(d.Name(), "."))) {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			names = append(names, rel)
		}
		return nil
	})
	return names, err
}

// each calls fn for the files whose extension is listed, in order of name.
func (t tree) each(fn func(name, content string), extensions ...string) {
	names := make([]string, 0, len(t))
	for name := range t {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		for _, ext := range extensions {
			if path.Ext(name) == ext {
				fn(name, t[name])
			}
		}
	}
}

// generatedMark is Go's convention, and the same in plain words for other languages. It stands in the first lines.
var generatedMark = regexp.MustCompile(`(?mi)^(//|#|;)? ?(code )?generated .* do not edit\.?$`)

func isGenerated(content string) bool {
	head := content
	if len(head) > 1024 {
		head = head[:1024]
	}
	return generatedMark.MatchString(head)
}

// lineOf gives the 1-based line of a byte offset.
func lineOf(content string, offset int) int {
	return 1 + strings.Count(content[:offset], "\n")
}

// findAll reports every match of a pattern in a file.
func findAll(name, content string, pattern *regexp.Regexp, message string) []string {
	var out []string
	for _, at := range pattern.FindAllStringIndex(content, -1) {
		found := strings.TrimSpace(content[at[0]:at[1]])
		out = append(out, fmt.Sprintf("%s:%d: %q: %s", name, lineOf(content, at[0]), found, message))
	}
	return out
}
