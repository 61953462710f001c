package pgas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// environ is the environment of PE rank of a job on this host. extra wins over what the test process has.
func environ(rank, size int, root string, extra ...string) []string {
	own := []string{"PGAS_RANK=" + strconv.Itoa(rank), "PGAS_SIZE=" + strconv.Itoa(size), "PGAS_ROOT=" + root,
		"PGAS_PLATFORM=soft", "PGAS_HEAP_SIZE=4M", "PGAS_HOST_HEAP_SIZE=1M", "PGAS_SIGNAL_HEAP_SIZE=64K", "PGAS_TIMEOUT=20s"}
	return append(append(extra, own...), "HOME="+os.Getenv("HOME"), "PATH="+os.Getenv("PATH"))
}

func newRoot() string { return fmt.Sprintf("unix:@pgas-test-%d-%x", os.Getpid(), rand.Uint64()) }

// runPEs runs body on size PEs that are goroutines of this process, and closes their Worlds.
func runPEs(t *testing.T, size int, extra []string, body func(ctx context.Context, w *World) error) {
	t.Helper()
	require.NoError(t, errors.Join(tryPEs(t, size, extra, body)...))
}

func tryPEs(t *testing.T, size int, extra []string, body func(ctx context.Context, w *World) error) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	root := newRoot()
	failures := make([]error, size)
	var all sync.WaitGroup
	for pe := range size {
		all.Go(func() {
			w, err := Init(ctx, Options{Environ: environ(pe, size, root, extra...)})
			if err != nil {
				failures[pe] = err
				return
			}
			err = errors.New("the test body gave up")
			defer func() { // also when a failed requirement ends this goroutine
				if err != nil {
					w.Abort(err)
				}
				failures[pe] = errors.Join(err, w.Close())
			}()
			err = body(ctx, w)
		})
	}
	all.Wait()
	return failures
}
