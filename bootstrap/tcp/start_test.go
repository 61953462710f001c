package tcp

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/pgas-go/pgas/internal/errs"
)

// start connects size PEs at root with per-PE changes and returns the errors of Connect.
func start(t *testing.T, root string, size int, change func(*Options)) []error {
	t.Helper()
	return everyPE(t, size, 30*time.Second, func(rank int) error {
		o := options(rank, size, root)
		change(&o)
		x, err := Connect(context.Background(), o)
		if err != nil {
			return err
		}
		if err := checkGather(x, 1); err != nil {
			return err
		}
		return x.Close()
	})
}

func TestWrongSizeFailsEverywhere(t *testing.T) {
	began := time.Now()
	out := start(t, freeRoot(t, "127.0.0.1"), 3, func(o *Options) {
		if o.Rank == 1 {
			o.Size = 4
		}
	})
	require.Less(t, time.Since(began), 5*time.Second)
	for pe, err := range out {
		require.ErrorIs(t, err, errs.ErrMismatch, "PE %d", pe)
		require.ErrorContains(t, err, "number of PEs: 3 on PE 0; 4 on PE 1")
	}
}

func TestDuplicateRankFailsEverywhere(t *testing.T) {
	for _, twice := range []int{0, 1} {
		began := time.Now()
		out := start(t, freeRoot(t, "127.0.0.1"), 4, func(o *Options) {
			if o.Rank == 2 {
				time.Sleep(100 * time.Millisecond) // the first holder of the rank is in
				o.Rank = twice
			}
		})
		require.Less(t, time.Since(began), 8*time.Second)
		for pe, err := range out {
			require.ErrorIs(t, err, errs.ErrMismatch, "PE %d, rank %d twice", pe, twice)
			require.Regexp(t, `rank \d was claimed by pid \d+.* and by pid \d+`, err.Error())
		}
	}
}

func TestOtherVersionFailsEverywhere(t *testing.T) {
	out := start(t, freeRoot(t, "127.0.0.1"), 3, func(o *Options) {
		if o.Rank == 2 {
			o.version = 2
		}
	})
	for pe, err := range out {
		require.ErrorIs(t, err, errs.ErrMismatch, "PE %d", pe)
		require.ErrorContains(t, err, "version of the start-up protocol: 1 on PE 0; 2 on PE 2")
	}
}

func TestMissingRankIsNamedEverywhere(t *testing.T) {
	root := freeRoot(t, "127.0.0.1")
	began := time.Now()
	out := everyPE(t, 3, 20*time.Second, func(rank int) error {
		if rank == 1 {
			return nil // never comes
		}
		o := options(rank, 3, root)
		o.BootTimeout = 700 * time.Millisecond
		_, err := Connect(context.Background(), o)
		return err
	})
	require.Less(t, time.Since(began), 6*time.Second)
	for _, pe := range []int{0, 2} {
		require.ErrorIs(t, out[pe], errs.ErrTimeout)
		require.ErrorContains(t, out[pe], "2 of 3 PEs, missing: 1")
		require.ErrorContains(t, out[pe], "PGAS_BOOT_TIMEOUT")
	}
}

func TestNoRoot(t *testing.T) {
	o := options(1, 2, freeRoot(t, "127.0.0.1"))
	o.BootTimeout = 300 * time.Millisecond
	_, err := Connect(context.Background(), o)
	require.ErrorIs(t, err, errs.ErrTimeout)
	require.ErrorContains(t, err, "no PE 0 at "+o.Root)
	require.ErrorContains(t, err, "connection refused")
}

func TestLateRoot(t *testing.T) {
	noErrors(t, start(t, freeRoot(t, "127.0.0.1"), 3, func(o *Options) {
		if o.Rank == 0 {
			time.Sleep(1500 * time.Millisecond)
		}
	}))
}

func TestCancelledStart(t *testing.T) {
	root := freeRoot(t, "127.0.0.1")
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	out := everyPE(t, 2, 10*time.Second, func(rank int) error {
		_, err := Connect(ctx, options(rank, 3, root))
		return err
	})
	require.ErrorIs(t, out[0], context.DeadlineExceeded)
	require.Error(t, out[1])
}

func TestOtherKey(t *testing.T) {
	root := freeRoot(t, "127.0.0.1")
	out := everyPE(t, 4, 20*time.Second, func(rank int) error {
		o := options(rank, 3, root)
		if rank == 3 {
			time.Sleep(50 * time.Millisecond)
			o.Rank, o.Key = 1, []byte("guess")
		} else if rank == 1 {
			time.Sleep(400 * time.Millisecond)
		}
		x, err := Connect(context.Background(), o)
		if err != nil {
			return err
		}
		defer x.Close()
		return checkGather(x, 1)
	})
	noErrors(t, out[:3])
	require.ErrorIs(t, out[3], errs.ErrRefused)
	require.ErrorContains(t, out[3], "PGAS_JOB_KEY")
}

// A root that does not know the key must not get PEs, even if it says "welcome".
func TestFalseRootIsRefused(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = send(conn, handshakeFrame(kindChallenge, 0, challenge{1, "test-job", newNonce()}))
		_, _ = readFrame(conn, maxHandshake)
		_ = send(conn, handshakeFrame(kindWelcome, 0, welcome{make([]byte, 32)}))
		_, _ = io.Copy(io.Discard, conn)
	}()
	_, err = Connect(context.Background(), options(1, 2, ln.Addr().String()))
	require.ErrorIs(t, err, errs.ErrRefused)
	require.ErrorContains(t, err, "does not know the job key")
}

func TestTwoJobsOnOnePort(t *testing.T) {
	root := freeRoot(t, "127.0.0.1")
	running, release := make(chan struct{}), make(chan struct{})
	first := make(chan []error)
	go func() {
		first <- everyPE(t, 2, 30*time.Second, func(rank int) error {
			x, err := Connect(context.Background(), options(rank, 2, root))
			if err != nil {
				return err
			}
			if rank == 0 {
				close(running)
			}
			<-release
			if err := checkGather(x, 1); err != nil {
				return err
			}
			return x.Close()
		})
	}()
	<-running
	second := start(t, root, 2, func(o *Options) { o.Job = "job-b" })
	close(release)
	noErrors(t, <-first)
	for _, err := range second {
		require.ErrorIs(t, err, errs.ErrRefused)
		require.ErrorContains(t, err, "root "+root+` is in use by job "test-job", this PE is of job "job-b"`)
	}
}

func TestSurplusProcessOfARunningJobIsTurnedAway(t *testing.T) {
	root := freeRoot(t, "127.0.0.1")
	noErrors(t, everyPE(t, 2, 30*time.Second, func(rank int) error {
		x, err := Connect(context.Background(), options(rank, 2, root))
		if err != nil {
			return err
		}
		defer x.Close()
		if rank == 0 {
			_, surplus := Connect(context.Background(), options(1, 2, root))
			if surplus == nil || !strings.Contains(surplus.Error(), "runs with all of its 2 PEs; rank 1 is not free") {
				return io.ErrNoProgress
			}
		}
		return checkGather(x, 1)
	}))
}

func TestPortOfAnotherProgram(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\nand more\r\n"))
			conn.Close()
		}
	}()
	out := everyPE(t, 2, 20*time.Second, func(rank int) error {
		_, err := Connect(context.Background(), options(rank, 2, ln.Addr().String()))
		return err
	})
	for _, err := range out {
		require.ErrorIs(t, err, errs.ErrRefused)
		require.ErrorContains(t, err, "a program that is not pgas answers at root")
	}
}

// stranger connects to the root and misbehaves. It returns the connection, to be closed at the end.
func stranger(t *testing.T, root, what string) net.Conn {
	conn, err := net.Dial("tcp", root)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
	f, err := readFrame(conn, maxHandshake)
	require.NoError(t, err)
	require.Equal(t, kindChallenge, f.kind)
	switch what {
	case "silent":
		return conn
	case "garbage":
		junk := make([]byte, 2000)
		_, _ = rand.Read(junk)
		_, err = conn.Write(junk)
	case "oversized":
		b := (&frame{version: 1, kind: kindHello, payload: make([]byte, maxHandshake+1)}).encode()
		_, err = conn.Write(b)
	case "contribute":
		err = send(conn, &frame{version: 1, kind: kindContribute, job: jobHash("test-job"), payload: make([]byte, 20)})
	case "forged":
		err = send(conn, handshakeFrame(kindHello, jobHash("test-job"), hello{Version: 1, Job: "test-job", Rank: 1, Size: 2,
			Nonce: newNonce(), MAC: newNonce()}))
	}
	require.NoError(t, err)
	if _, err = io.Copy(io.Discard, conn); err != nil { // the hub closes the connection
		require.ErrorContains(t, err, "reset")
	}
	return conn
}

// Garbage, half-open connections, oversized frames and forged greetings reach a starting and a running job.
func TestStrangersDoNotDisturb(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	root := freeRoot(t, "127.0.0.1")
	var open []net.Conn
	kinds := []string{"silent", "garbage", "oversized", "contribute", "forged"}
	noErrors(t, everyPE(t, 2, 30*time.Second, func(rank int) error {
		o := options(rank, 2, root)
		o.Logger = zap.New(core)
		if rank == 1 {
			require.Eventually(t, func() bool { return answers(root) }, 5*time.Second, 10*time.Millisecond)
			for _, what := range kinds {
				open = append(open, stranger(t, root, what))
			}
		}
		x, err := Connect(context.Background(), o)
		if err != nil {
			return err
		}
		defer x.Close()
		for round := range 20 {
			if rank == 1 {
				open = append(open, stranger(t, root, kinds[round%len(kinds)]))
			}
			if err := checkGather(x, round); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, conn := range open {
		conn.Close()
	}
	// Each kind once before the start and four times after; a silent one is dropped only when the job ends.
	reasons := map[string]int{}
	for _, e := range logs.FilterMessage("rendezvous refused a connection").All() {
		reasons[e.ContextMap()["error"].(string)]++
	}
	require.Equal(t, 5, reasons["not a pgas frame"])
	require.Equal(t, 5, reasons["frame of 4097 bytes, at most 4096"])
	require.Equal(t, 5, reasons["frame of kind 6 in place of 2"])
	require.Equal(t, 5, reasons["it does not know the key of job test-job"])
}

func answers(root string) bool {
	conn, err := net.Dial("tcp", root)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// A job that failed must not stand in the way of the next one at the same root, even if PEs come back before the old
// hub has closed.
func TestConnectAgainAfterFailure(t *testing.T) {
	root := freeRoot(t, "127.0.0.1")
	noErrors(t, everyPE(t, 3, 30*time.Second, func(rank int) error {
		for round := range 10 {
			x, err := Connect(context.Background(), options(rank, 3, root))
			if err != nil {
				return err
			}
			if err := checkGather(x, round); err != nil {
				return err
			}
			if round%3 == rank {
				x.Abort(io.ErrNoProgress)
			}
			<-x.Watch()
			if rank == 0 {
				time.Sleep(20 * time.Millisecond)
			}
			if err := x.Close(); err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestArguments(t *testing.T) {
	for _, o := range []Options{
		{Rank: 0, Size: 0}, {Rank: -1, Size: 2}, {Rank: 2, Size: 2}, {Size: 1<<16 + 1}, {Size: 2, Job: strings.Repeat("j", 257)},
		{Size: 2, Root: ""}, {Size: 2, Root: "host"}, {Size: 2, Root: "host:0"}, {Size: 2, Root: "host:70000"}, {Size: 2, Root: ":5"},
		{Size: 2, Root: "unix:name"}, {Size: 2, Root: "unix:@"}, {Size: 2, Root: "unix:@" + strings.Repeat("n", 100)},
	} {
		_, err := Connect(context.Background(), o)
		require.ErrorIs(t, err, errs.ErrInvalid, "%+v", o)
	}
	_, err := Connect(context.Background(), Options{Size: 2, Root: "127.0.0.1:5", Interface: "^a,^b"})
	require.ErrorContains(t, err, "write ^a,b")
}

func TestInterface(t *testing.T) {
	root := freeRoot(t, "127.0.0.1")
	noErrors(t, start(t, root, 2, func(o *Options) { o.Interface = "lo" }))
	noErrors(t, start(t, root, 2, func(o *Options) { o.Interface = "127.0.0.0/8" }))
	for pe, err := range start(t, root, 2, func(o *Options) { o.Interface = "eth77" }) {
		require.ErrorContains(t, err, `no network interface matches "eth77"; this host has: `, "PE %d", pe)
	}
	o := options(1, 2, "192.0.2.1:9999")
	o.Interface = "lo"
	_, err := Connect(context.Background(), o)
	require.ErrorContains(t, err, "no chosen interface can reach 192.0.2.1")
}
