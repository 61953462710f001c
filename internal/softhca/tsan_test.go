package softhca_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/errs"
)

// TestThreadSanitizer builds the library and testdata/tsan.cpp with ThreadSanitizer. The right protocol gives no
// report; a doorbell record without release and a flag without acquire each do, though x86 runs both without harm.
func TestThreadSanitizer(t *testing.T) {
	compiler, err := exec.LookPath("clang++-19")
	if err != nil {
		t.Skip((&errs.UnsupportedError{Feature: "ThreadSanitizer run", Need: "clang++-19", Fix: "apt-get install clang-19"}).Error())
	}
	build := buildTSan(t, compiler)
	program := build("tsan")
	for _, c := range []struct {
		mode, kind string
		clean      bool
	}{
		{"inline", "ok", true}, {"thread", "ok", true}, {"chaos", "ok", true},
		{"thread", "record", false}, {"inline", "flag", false},
	} {
		t.Run(c.mode+" "+c.kind, func(t *testing.T) {
			cmd := exec.Command(program, c.mode, c.kind)
			cmd.Env = append(os.Environ(), "TSAN_OPTIONS=exitcode=66")
			out, err := cmd.CombinedOutput()
			if c.clean {
				require.NoError(t, err, string(out))
				require.Equal(t, "done\n", string(out))
				return
			}
			require.ErrorContains(t, err, "exit status 66")
			require.Contains(t, string(out), "WARNING: ThreadSanitizer: data race")
		})
	}
	testHooks(t, build("hooks"))
}

func testHooks(t *testing.T, program string) {
	for _, mode := range []string{"inline", "thread", "chaos"} {
		t.Run("hooks "+mode, func(t *testing.T) {
			out, err := exec.Command(program, mode).CombinedOutput()
			require.NoError(t, err, string(out))
			require.Equal(t, "done\n", string(out))
		})
	}
}

// buildTSan compiles everything and returns a function that links one program of testdata.
func buildTSan(t *testing.T, compiler string) func(program string) string {
	sources, err := filepath.Glob("*.cpp")
	require.NoError(t, err)
	library := len(sources)
	sources = append(sources, "testdata/tsan.cpp", "testdata/hooks.cpp")
	dir := t.TempDir()
	objects := make([]string, len(sources))
	failures := make([]string, len(sources))
	slots := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for i, src := range sources {
		objects[i] = filepath.Join(dir, filepath.Base(src)+".o")
		wg.Add(1)
		go func() {
			defer wg.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			out, err := exec.Command(compiler, "-std=c++17", "-O1", "-g", "-fsanitize=thread", "-Wall", "-Wextra", "-Werror", "-c",
				src, "-o", objects[i]).CombinedOutput()
			if err != nil {
				failures[i] = string(out)
			}
		}()
	}
	wg.Wait()
	require.Empty(t, strings.Join(failures, ""))
	return func(program string) string {
		path := filepath.Join(dir, program)
		args := append(append([]string{}, objects[:library]...), filepath.Join(dir, program+".cpp.o"), "-fsanitize=thread", "-lpthread",
			"-o", path)
		out, err := exec.Command(compiler, args...).CombinedOutput()
		require.NoError(t, err, string(out))
		return path
	}
}
