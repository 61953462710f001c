package softgpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/errs"
)

// The good protocol is clean under ThreadSanitizer, and each mutant is reported at the line that is wrong, although all
// of them compute the right result.
func TestThreadSanitizerSeesLanes(t *testing.T) {
	for _, tool := range []string{"clang++-19", "llvm-symbolizer-19"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip((&errs.UnsupportedError{Feature: "ThreadSanitizer on lanes", Need: tool, Have: err.Error(),
				Fix: "install clang-19 and llvm-19"}).Error())
		}
	}
	program := filepath.Join(t.TempDir(), "tsan")
	out, err := exec.Command("./tsan_build.sh", program, "testdata/tsan.cu", "testdata/tsan_main.cpp").CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := func(kernel string) (string, error) {
		cmd := exec.Command(program, kernel)
		cmd.Env = append(os.Environ(), "TSAN_OPTIONS=exitcode=66 halt_on_error=0")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	output, err := run("good")
	require.NoError(t, err, output)
	require.Equal(t, "done\n", output)
	output, err = run("runtime")
	require.NoError(t, err, "bell and device registers: %s", output)
	for _, mutant := range []string{"no_syncwarp", "early_fence", "relaxed"} {
		output, err := run(mutant)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%s was not reported", mutant)
		require.Equal(t, 66, exit.ExitCode(), output)
		require.Contains(t, output, "data race")
		require.Contains(t, output, "protocol.inc:")
	}
}
