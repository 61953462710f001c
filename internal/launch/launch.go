// Package launch starts the PEs of a job on this host and looks after them: their output, their end, and that nothing
// of them is left.
package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/pgas-go/pgas/internal/errs"
)

// Options describe a job.
type Options struct {
	N       int      // PEs
	Command []string // program and arguments, the same for all PEs
	Env     []string // the PEs' environment, see BaseEnv
	Root    string   // rendezvous; empty means a fresh one on this host
	Tag     bool     // put "[rank] " in front of each line
	Timeout time.Duration
	Grace   time.Duration // between SIGTERM and SIGKILL for the PEs of a failed job; 0 means 3 s
	Stdout  io.Writer
	Stderr  io.Writer
	Signals <-chan os.Signal // signals for the job; the first is passed on, the second kills
}

// Exit codes that are not a PE's.
const (
	CodeUsage      = 2
	CodeTimeout    = 124
	CodeNotRun     = 126
	CodeNotFound   = 127
	codeSignalBase = 128
)

// Failure is why a job did not succeed.
type Failure struct {
	Code  int // for the launcher to exit with
	PE    int // the PE that failed first; errs.NoPE if it was not a PE's failure
	Cause string
}

func (f *Failure) Error() string { return f.Cause }

const defaultGrace = 3 * time.Second

// maxPEs is a limit against typing errors, far above what one host can run.
const maxPEs = 4096

// Run starts the PEs and waits until all have ended. Their standard input is empty. It returns nil if all exited with
// code 0, else a *Failure with the first cause. When it returns, no process of the PEs' process groups is left and all
// output has been written.
func Run(ctx context.Context, o Options) error {
	if o.N < 1 || o.N > maxPEs {
		return &Failure{CodeUsage, errs.NoPE, errs.Arg("run", "n", o.N, "1.."+strconv.Itoa(maxPEs)).Error()}
	}
	if len(o.Command) == 0 {
		return &Failure{CodeUsage, errs.NoPE, "run: no program given (write it after --)"}
	}
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	program, err := exec.LookPath(o.Command[0])
	if err != nil {
		return cannotStart(o.Command[0], err)
	}
	j := newJob(o, program)
	return j.run(ctx)
}

func cannotStart(program string, err error) *Failure {
	var inner *exec.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	code := CodeNotRun
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		code = CodeNotFound
	}
	return &Failure{code, errs.NoPE, fmt.Sprintf("cannot start %s: %v", program, err)}
}
