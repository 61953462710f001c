package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/internal/leak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childMarker) != "" {
		os.Exit(childMain())
	}
	goleak.VerifyTestMain(m)
}

// freeRoot returns a loopback address whose port was free a moment ago.
func freeRoot(t testing.TB, host string) string {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

func options(rank, size int, root string) Options {
	return Options{Rank: rank, Size: size, Root: root, Job: "test-job", Key: []byte("key"), BootTimeout: 20 * time.Second,
		StepTimeout: 10 * time.Second}
}

// everyPE runs body for each PE in its own goroutine and returns their errors. It fails the test after limit.
func everyPE(t testing.TB, size int, limit time.Duration, body func(rank int) error) []error {
	t.Helper()
	leak.Check(t)
	out := make([]error, size)
	var wg sync.WaitGroup
	for rank := range size {
		wg.Go(func() { out[rank] = body(rank) })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("PEs still run after %v", limit)
	}
	return out
}

// withJob connects size PEs and runs body on each.
func withJob(t testing.TB, size int, change func(*Options), body func(x bootstrap.Exchanger) error) []error {
	t.Helper()
	root := freeRoot(t, "127.0.0.1")
	return everyPE(t, size, 40*time.Second, func(rank int) error {
		o := options(rank, size, root)
		if change != nil {
			change(&o)
		}
		x, err := Connect(context.Background(), o)
		if err != nil {
			return err
		}
		defer x.Close()
		return body(x)
	})
}

func noErrors(t testing.TB, all []error) {
	t.Helper()
	require.NoError(t, errors.Join(all...))
}

// checkGather does one all-gather with contents that depend on rank and round, and checks all of it.
func checkGather(x bootstrap.Exchanger, round int) error {
	blob := func(rank int) string {
		s := fmt.Sprintf("%d/%d.", rank, round)
		for len(s) < rank*round*37%5000 {
			s += s
		}
		return s
	}
	mine := blob(x.Rank())
	if (x.Rank()+round)%3 == 0 {
		mine = ""
	}
	all, err := x.AllGather(context.Background(), []byte(mine))
	if err != nil {
		return err
	}
	for pe, b := range all {
		want := blob(pe)
		if (pe+round)%3 == 0 {
			want = ""
		}
		if string(b) != want {
			return fmt.Errorf("PE %d sees %d bytes from PE %d in round %d, want %d", x.Rank(), len(b), pe, round, len(want))
		}
	}
	return nil
}
