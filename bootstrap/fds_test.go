package bootstrap_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/bootstrap/tcp"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/leak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job runs body on size PEs, one goroutine each, and returns their errors.
func job(t *testing.T, size int, body func(x bootstrap.Exchanger) error) []error {
	t.Helper()
	root := fmt.Sprintf("unix:@pgas-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	out := make([]error, size)
	var wg sync.WaitGroup
	for rank := range size {
		wg.Go(func() {
			x, err := tcp.Connect(context.Background(), tcp.Options{Rank: rank, Size: size, Root: root, BootTimeout: 10 * time.Second,
				StepTimeout: 10 * time.Second})
			if err == nil {
				err = body(x)
				x.Close()
			}
			out[rank] = err
		})
	}
	wg.Wait()
	return out
}

// memfds makes n memory files that say whose they are.
func memfds(rank, n int) ([]int, error) {
	var fds []int
	for i := range n {
		fd, err := unix.MemfdCreate("pgas-test", unix.MFD_CLOEXEC)
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
		if _, err := unix.Write(fd, fmt.Appendf(nil, "%d/%d", rank, i)); err != nil {
			return fds, err
		}
	}
	return fds, nil
}

func checkFDs(rank int, counts []int, got [][]int) error {
	for pe, fds := range got {
		if pe == rank {
			if fds != nil {
				return fmt.Errorf("PE %d got its own descriptors", rank)
			}
			continue
		}
		if len(fds) != counts[pe] {
			return fmt.Errorf("PE %d has %d descriptors of PE %d, want %d", rank, len(fds), pe, counts[pe])
		}
		for i, fd := range fds {
			b := make([]byte, 32)
			n, err := unix.Pread(fd, b, 0)
			if err != nil || string(b[:n]) != fmt.Sprintf("%d/%d", pe, i) {
				return fmt.Errorf("PE %d reads %q from descriptor %d of PE %d (%v)", rank, b[:n], i, pe, err)
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				return fmt.Errorf("descriptor %d is not close-on-exec (%v)", i, err)
			}
		}
	}
	return nil
}

func openFDs(t *testing.T) map[string]int {
	t.Helper()
	s, err := leak.Take()
	require.NoError(t, err)
	return s.FDs
}

func TestExchangeFDs(t *testing.T) {
	for _, counts := range [][]int{{1, 1}, {3, 0, 2}, {1, 300, 241, 2}, {0, 0}} {
		before := openFDs(t)
		for pe, err := range job(t, len(counts), func(x bootstrap.Exchanger) error {
			mine, err := memfds(x.Rank(), counts[x.Rank()])
			if err != nil {
				return err
			}
			got, err := bootstrap.ExchangeFDs(context.Background(), x, mine)
			if err != nil {
				return err
			}
			if err := checkFDs(x.Rank(), counts, got); err != nil {
				return err
			}
			if err := bootstrap.CloseFDs(got); err != nil {
				return err
			}
			return bootstrap.CloseFDs([][]int{mine})
		}) {
			require.NoError(t, err, "PE %d of %v", pe, counts)
		}
		require.Equal(t, before, openFDs(t))
	}
}

// A bad descriptor on one PE fails the exchange on all, and nobody keeps what it got from the others.
func TestExchangeFDsFailsOnAllAndKeepsNothing(t *testing.T) {
	began := time.Now()
	before := openFDs(t)
	out := job(t, 3, func(x bootstrap.Exchanger) error {
		fds := []int{2, 2}
		if x.Rank() == 1 {
			fds[1] = 1 << 20
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		got, err := bootstrap.ExchangeFDs(ctx, x, fds)
		if got != nil {
			return fmt.Errorf("descriptors in spite of %w", err)
		}
		return err
	})
	for pe, err := range out {
		require.ErrorContains(t, err, "exchange descriptors: PE 0: from PE 1: ", "PE %d", pe)
		require.ErrorContains(t, err, "; PE 1: to PE 0: ")
		require.ErrorContains(t, err, "bad file descriptor")
	}
	require.Less(t, time.Since(began), time.Second)
	require.Equal(t, before, openFDs(t))
}

func TestExchangeFDsWithoutOnePE(t *testing.T) {
	before := openFDs(t)
	out := job(t, 3, func(x bootstrap.Exchanger) error {
		if x.Rank() == 2 {
			<-x.Watch()
			return x.Cause()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		_, err := bootstrap.ExchangeFDs(ctx, x, []int{2})
		return err
	})
	for pe, err := range out {
		require.ErrorIs(t, err, errs.ErrTimeout, "PE %d", pe)
		require.ErrorContains(t, err, "missing: 2")
	}
	require.Equal(t, before, openFDs(t))
}

func TestLocate(t *testing.T) {
	for pe, err := range job(t, 3, func(x bootstrap.Exchanger) error {
		h, err := bootstrap.Locate(context.Background(), x)
		if err == nil && (h.Count() != 1 || h.LocalRank != x.Rank() || len(h.Local) != 3) {
			err = fmt.Errorf("got %+v", h)
		}
		return err
	}) {
		require.NoError(t, err, "PE %d", pe)
	}
}

func TestSingleExchange(t *testing.T) {
	x := bootstrap.Single()
	got, err := bootstrap.ExchangeFDs(context.Background(), x, []int{0})
	require.NoError(t, err)
	require.Equal(t, [][]int{nil}, got)
	h, err := bootstrap.Locate(context.Background(), x)
	require.NoError(t, err)
	require.Equal(t, &bootstrap.Hosts{Of: []int{0}, Local: []int{0}}, h)
	require.NoError(t, x.Close())
	require.ErrorIs(t, x.Barrier(context.Background()), errs.ErrClosed)
}
