package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/stretchr/testify/require"
)

// architectures are those that the project supports: A100, H100 and B200.
var architectures = []string{"sm_80", "sm_90", "sm_100"}

// toolkit is a CUDA toolkit on this machine.
type toolkit struct {
	home    string
	version string // as nvcc prints it, "13.5.37"
}

func (k *toolkit) nvcc() string      { return filepath.Join(k.home, "bin", "nvcc") }
func (k *toolkit) cuobjdump() string { return filepath.Join(k.home, "bin", "cuobjdump") }

// findToolkit prefers the pinned compilers of the cache, then CUDA_HOME, PATH and the usual place.
var findToolkit = sync.OnceValues(func() (*toolkit, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	cached := filepath.Join(root, ".cache", "cuda-toolchain")
	if os.Getenv("CI") != "" {
		if err := fetchToolchain(root); err != nil {
			return nil, err
		}
	}
	homes := []string{cached, os.Getenv("CUDA_HOME")}
	if onPath, err := exec.LookPath("nvcc"); err == nil {
		if real, err := filepath.EvalSymlinks(onPath); err == nil {
			homes = append(homes, filepath.Dir(filepath.Dir(real)))
		}
	}
	homes = append(homes, "/usr/local/cuda")
	for _, home := range homes {
		if home == "" {
			continue
		}
		k := &toolkit{home: home}
		if _, err := os.Stat(k.nvcc()); err == nil {
			return k, k.readVersion()
		}
	}
	return nil, &errs.UnsupportedError{Feature: "CUDA compile check", Need: "nvcc", Have: "none",
		Fix: "make cuda-toolchain"}
})

// fetchToolchain runs the script once. That the wheels cannot be had is no error: another toolkit may be there.
func fetchToolchain(root string) error {
	out, err := exec.Command(filepath.Join(root, "scripts", "cuda-toolchain")).CombinedOutput()
	var exit *exec.ExitError
	if err == nil || (errors.As(err, &exit) && exit.ExitCode() == 77) {
		return nil
	}
	return fmt.Errorf("fetch the CUDA toolchain: %w\n%s", err, out)
}

var nvccVersion = regexp.MustCompile(`, V(\d+\.\d+\.\d+)`)

func (k *toolkit) readVersion() error {
	out, err := exec.Command(k.nvcc(), "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", k.nvcc(), err)
	}
	m := nvccVersion.FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("%s --version: no version in %q", k.nvcc(), out)
	}
	k.version = string(m[1])
	return nil
}

func needToolkit(t *testing.T) *toolkit {
	t.Helper()
	k, err := findToolkit()
	if errors.Is(err, errs.ErrNotSupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return k
}

// run starts a tool with a deadline and returns what it printed, both streams together.
func run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
