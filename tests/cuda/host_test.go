package cuda

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/stretchr/testify/require"
)

// TestHostCompilers: the headers also serve a CPU that posts through the same queues. Each compiles alone without CUDA,
// and two files of one program may include them.
func TestHostCompilers(t *testing.T) {
	for _, compiler := range []string{"g++", "clang++-19"} {
		t.Run(compiler, func(t *testing.T) {
			if _, err := exec.LookPath(compiler); err != nil {
				t.Skip(&errs.UnsupportedError{Feature: "host compile check", Need: compiler, Have: "none",
					Fix: "install " + compiler})
			}
			headers, err := filesBelow(includeDir, ".cuh")
			require.NoError(t, err)
			dir := t.TempDir()
			for _, header := range headers {
				name, err := filepath.Rel(includeDir, header)
				require.NoError(t, err)
				out, err := hostCompile(t, compiler, "-fsyntax-only", writeSource(t, dir, "alone.cpp", includeAlone(name)))
				if err != nil {
					t.Errorf("%s alone: %v\n%s", name, err, out)
				}
			}
			umbrella := includeAlone("pgas/pgas.cuh")
			one := writeSource(t, dir, "one.cpp", umbrella+"int other();\nint main() { return other(); }\n")
			two := writeSource(t, dir, "two.cpp", umbrella+"int other() { return 0; }\n")
			out, err := hostCompile(t, compiler, "-o", filepath.Join(dir, "linked"), one, two)
			require.NoError(t, err, out)
		})
	}
}

func hostCompile(t *testing.T, compiler string, args ...string) (string, error) {
	t.Helper()
	return run(t, compiler, append([]string{"-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", includeDir}, args...)...)
}
