package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/pgas-go/pgas/internal/launch"
)

// A source is a program that prints figures: a yardstick, or a job of this program's PEs.
type source struct {
	name string
	run  func(ctx context.Context) (string, error)
}

// A skipError says why a source cannot run here and what would change that. Everything else is a failure.
type skipError struct{ reason string }

func (e *skipError) Error() string { return e.reason }

// sourceTimeout ends a source that hangs. It is far above what any needs on a busy machine.
const sourceTimeout = 3 * time.Minute

// settings are how much is measured.
type settings struct {
	rounds  int // each source runs this often, in turn with all others, so that a slow minute hits all alike
	repeats int // of each figure in one run of its source
	scale   int // 100 for the full number of batches, less for the quick run
}

func (s settings) batches(full int) int { return max(full*s.scale/100, 3) }

func (s settings) arguments() []string {
	return []string{strconv.Itoa(s.scale), strconv.Itoa(s.repeats)}
}

// sources lists the programs in the order in which a round runs them: a yardstick is next to what it is compared with.
func sources(b *builder, s settings) []source {
	repeats := strconv.Itoa(s.repeats)
	n := func(full int) string { return strconv.Itoa(s.batches(full)) }
	all := []source{
		{"cores", func(ctx context.Context) (string, error) {
			return b.cores(ctx, [][]string{
				{"ping_pong_pinned", n(pingBatches), repeats}, {"ping_pong_yield", n(pingBatches), repeats},
				{"memcpy", strconv.Itoa(small), strconv.Itoa(smallBatch), n(smallBatches), repeats},
				{"memcpy", strconv.Itoa(large), strconv.Itoa(largeBatch), n(largeBatches), repeats},
			})
		}},
	}
	for _, pes := range []int{2, 4} {
		all = append(all,
			source{fmt.Sprintf("oshmem-%d", pes), func(ctx context.Context) (string, error) { return b.oshmem(ctx, pes, n(hostBatches), repeats) }},
			source{fmt.Sprintf("host-%d", pes), func(ctx context.Context) (string, error) { return job(ctx, pes, ways[0], "host", s) }})
	}
	for _, w := range ways {
		for _, pes := range exchangePEs {
			all = append(all, source{fmt.Sprintf("%s-%d", w.name, pes),
				func(ctx context.Context) (string, error) { return job(ctx, pes, w, "device", s) }})
		}
	}
	return all
}

// job runs this program as PEs and returns what PE 0 printed.
func job(ctx context.Context, pes int, w way, role string, s settings) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	args := append(append([]string{self, peArgument, role}, s.arguments()...), bound)
	var out, failed bytes.Buffer
	err = launch.Run(ctx, launch.Options{N: pes, Command: args,
		Env: launch.BaseEnv(os.Environ(), w.env), Timeout: sourceTimeout, Stdout: &out, Stderr: &failed})
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, lastLine(failed.String()))
	}
	return out.String(), nil
}

// command runs a yardstick and returns what it printed. Exit status 77 means that it cannot run here.
func command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, failed bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), &out, &failed
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 77 {
		return out.String(), &skipError{lastLine(failed.String())}
	}
	if err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", name, err, lastLine(failed.String()))
	}
	return out.String(), nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// A sample is one line of a source: ns of one operation, percentiles over batches.
type sample struct{ p50, p99 float64 }

// parse reads "name p50 p99" lines.
func parse(text string) (map[string][]sample, error) {
	found := map[string][]sample{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) != 3 {
			return nil, fmt.Errorf("unexpected output: %q", strings.TrimSpace(line))
		}
		p50, err50 := strconv.ParseFloat(f[1], 64)
		p99, err99 := strconv.ParseFloat(f[2], 64)
		if err := errors.Join(err50, err99); err != nil {
			return nil, fmt.Errorf("unexpected output: %q: %w", strings.TrimSpace(line), err)
		}
		found[f[0]] = append(found[f[0]], sample{p50, p99})
	}
	return found, nil
}
