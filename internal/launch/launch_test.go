package launch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/leak"
)

func TestMain(m *testing.M) {
	GuardMain()
	if script := os.Getenv("PGAS_TEST_LAUNCHER"); script != "" {
		err := Run(context.Background(), Options{N: 2, Command: []string{"sh", "-c", script}, Env: os.Environ(), Stdout: os.Stdout,
			Stderr: os.Stderr})
		os.Exit(CodeOf(err))
	}
	os.Exit(m.Run())
}

// output is a writer for both streams that keeps what it gets.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// sh runs a shell script as every PE.
func sh(n int, script string, change ...func(*Options)) (string, error) {
	out := &output{}
	o := Options{N: n, Command: []string{"sh", "-c", script}, Env: BaseEnv(os.Environ(), nil), Tag: n > 1, Stdout: out, Stderr: out,
		Grace: 500 * time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	err := Run(context.Background(), o)
	return out.String(), err
}

func failure(t *testing.T, err error) *Failure {
	t.Helper()
	var f *Failure
	require.ErrorAs(t, err, &f)
	return f
}

func TestEnvironmentOfPEs(t *testing.T) {
	t.Setenv("OMPI_COMM_WORLD_RANK", "7")
	t.Setenv("PGAS_JOB_KEY", "old")
	out, err := sh(3, `echo "$PGAS_RANK/$PGAS_SIZE $PGAS_ROOT $PGAS_JOB_ID ${#PGAS_JOB_KEY} o=$OMPI_COMM_WORLD_RANK x=$X"`,
		func(o *Options) { o.Env = BaseEnv(os.Environ(), []string{"X=1=2"}) })
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3)
	var shared []string
	for _, line := range lines {
		f := strings.Fields(line)
		require.Len(t, f, 7)
		require.Equal(t, f[0], "["+f[1][:1]+"]")
		require.Equal(t, "/3", f[1][1:])
		require.True(t, strings.HasPrefix(f[2], "unix:@pgas-run-"), f[2])
		require.Equal(t, []string{"52", "o=", "x=1=2"}, f[4:])
		shared = append(shared, f[2]+f[3])
	}
	require.Equal(t, shared[0], shared[1])
	require.Equal(t, shared[0], shared[2])
}

func TestWholeLines(t *testing.T) {
	out, err := sh(4, `for i in $(seq 200); do printf "%s" "$PGAS_RANK-"; echo "$i-end"; echo "err$i" >&2; done; printf last`)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.Len(t, lines, 4*401)
	next := map[string]int{}
	for _, line := range lines {
		tag, text := line[:4], line[4:]
		rank := tag[1:2]
		switch {
		case text == "last":
			require.Equal(t, 201, next[rank]+1)
		case strings.HasPrefix(text, "err"):
		default:
			next[rank]++
			require.Equal(t, fmt.Sprintf("%s-%d-end", rank, next[rank]), text)
		}
	}
}

func TestLongLinesAreBrokenAndNothingIsLost(t *testing.T) {
	var b output
	r := &relay{to: &sink{w: &b}, tag: "[0] "}
	r.copy(io.LimitReader(zeros{}, 2*maxLine+10), false)
	require.Equal(t, 2*maxLine+10, strings.Count(b.String(), "0")-strings.Count(b.String(), "[0] "))
	require.LessOrEqual(t, strings.Count(b.String(), "\n"), 3)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}

func TestOnePEIsRelayedAsItIs(t *testing.T) {
	out, err := sh(1, `printf 'a\nno newline'`)
	require.NoError(t, err)
	require.Equal(t, "a\nno newline", out)
	out, err = sh(1, `printf 'a\nno newline'`, func(o *Options) { o.Tag = true })
	require.NoError(t, err)
	require.Equal(t, "[0] a\n[0] no newline\n", out)
}

func TestFailingPEEndsTheJob(t *testing.T) {
	began := time.Now()
	_, err := sh(4, `if [ $PGAS_RANK = 2 ]; then echo first >&2; echo "it broke" >&2; echo; exit 3; fi; exec sleep 30`)
	f := failure(t, err)
	require.Equal(t, 3, f.Code)
	require.Equal(t, 2, f.PE)
	require.Regexp(t, `^PE 2 exited with code 3 after \d+(\.\d+)?m?s: it broke$`, f.Cause)
	require.Less(t, time.Since(began), 3*time.Second)
}

func TestKilledPEIsPreferredToThoseThatNoticed(t *testing.T) {
	dir := t.TempDir()
	_, err := sh(3, `if [ $PGAS_RANK = 2 ]; then touch `+dir+`/dying; sleep 0.1; kill -SEGV $$; fi
		while [ ! -e `+dir+`/dying ]; do sleep 0.01; done; echo "peer lost: PE 2" >&2; exit 1`)
	f := failure(t, err)
	require.Equal(t, 128+11, f.Code)
	require.Equal(t, 2, f.PE)
	require.Contains(t, f.Cause, "PE 2 was killed by SIGSEGV")
}

func TestGoPanicIsTheCause(t *testing.T) {
	_, err := sh(2, `[ $PGAS_RANK = 1 ] || exec sleep 30; printf 'panic: no heap\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:1\n' >&2; exit 2`)
	require.Contains(t, failure(t, err).Cause, ": panic: no heap")
}

func TestPEsThatIgnoreSIGTERMAreKilled(t *testing.T) {
	out, err := sh(3, `trap "" TERM; [ $PGAS_RANK = 0 ] && exit 9; while :; do sleep 0.05; done`)
	require.Equal(t, 9, failure(t, err).Code)
	require.Contains(t, out, "pgas run: PE 1, 2 did not end within 500ms of SIGTERM, killing\n")
}

func TestStoppedPEsEndToo(t *testing.T) {
	began := time.Now()
	_, err := sh(2, `if [ $PGAS_RANK = 0 ]; then sleep 0.2; exit 1; fi; kill -STOP $$; sleep 30`)
	require.Equal(t, 1, failure(t, err).Code)
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestTimeoutNamesWhoStillRuns(t *testing.T) {
	_, err := sh(3, `[ $PGAS_RANK = 1 ] && exit 0; exec sleep 30`, func(o *Options) { o.Timeout = 300 * time.Millisecond })
	f := failure(t, err)
	require.Equal(t, CodeTimeout, f.Code)
	require.Equal(t, "timed out after 300ms, still running: PE 0, 2 (raise --timeout)", f.Cause)
}

func TestSignals(t *testing.T) {
	signals := make(chan os.Signal, 2)
	ready := t.TempDir() + "/ready"
	go func() {
		for len(glob(ready+"*")) < 2 {
			time.Sleep(5 * time.Millisecond)
		}
		signals <- unix.SIGINT
	}()
	out, err := sh(2, `trap 'echo got it; exit 0' INT; touch `+ready+`$PGAS_RANK; while :; do sleep 0.02; done`,
		func(o *Options) { o.Signals = signals })
	f := failure(t, err)
	require.Equal(t, 130, f.Code)
	require.Equal(t, "interrupted by SIGINT", f.Cause)
	require.Equal(t, 2, strings.Count(out, "got it"))
}

func TestSecondSignalKills(t *testing.T) {
	signals := make(chan os.Signal, 2)
	signals <- unix.SIGTERM
	time.AfterFunc(300*time.Millisecond, func() { signals <- unix.SIGTERM })
	began := time.Now()
	_, err := sh(2, `trap "" TERM; while :; do sleep 0.05; done`, func(o *Options) { o.Signals, o.Grace = signals, time.Hour })
	require.Equal(t, 143, failure(t, err).Code)
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestCancelledContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	err := Run(ctx, Options{N: 2, Command: []string{"sleep", "30"}, Env: os.Environ(), Stdout: io.Discard, Stderr: io.Discard})
	require.ErrorContains(t, err, "stopped: context deadline exceeded")
}

func TestCannotStart(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("x"), 0o600))
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte{0x7f, 'E', 'L', 'F', 0}, 0o700))
	for program, want := range map[string]Failure{
		"./no-such-program": {CodeNotFound, errs.NoPE, "cannot start ./no-such-program: no such file or directory"},
		"no-such-program":   {CodeNotFound, errs.NoPE, "cannot start no-such-program: executable file not found in $PATH"},
		plain:               {CodeNotRun, errs.NoPE, "cannot start " + plain + ": permission denied"},
		bad:                 {CodeNotRun, errs.NoPE, "cannot start " + bad + ": exec format error"},
	} {
		err := Run(context.Background(), Options{N: 3, Command: []string{program}, Stdout: io.Discard, Stderr: io.Discard})
		require.Equal(t, want, *failure(t, err))
	}
	require.Equal(t, CodeUsage, CodeOf(Run(context.Background(), Options{N: 0, Command: []string{"true"}})))
	require.Equal(t, CodeUsage, CodeOf(Run(context.Background(), Options{N: maxPEs + 1, Command: []string{"true"}})))
	require.Equal(t, CodeUsage, CodeOf(Run(context.Background(), Options{N: 1})))
}

func TestCheckEnv(t *testing.T) {
	require.NoError(t, CheckEnv([]string{"A=", "B=1=2", "PGAS_HEAP_SIZE=1M"}))
	for _, bad := range []string{"A", "=1", "", "A B=1", "PGAS_RANK=0", "PGAS_JOB_KEY=x"} {
		require.ErrorIs(t, CheckEnv([]string{bad}), errs.ErrInvalid, bad)
	}
}

func glob(pattern string) []string {
	names, _ := filepath.Glob(pattern)
	return names
}

// What the PEs leave behind in their process groups dies with them, and so does everything if the launcher is killed.
func TestNoLeftovers(t *testing.T) {
	dir := t.TempDir()
	_, err := sh(2, `sh -c 'echo $$ > `+dir+`/pid$PGAS_RANK; exec sleep 60' & sleep 0.2`)
	require.NoError(t, err)
	require.Len(t, glob(dir+"/pid*"), 2)
	requireGone(t, dir)
}

func TestKilledLauncherLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), `PGAS_TEST_LAUNCHER=trap "" TERM HUP; sh -c 'echo $$ > `+dir+`/child$PGAS_RANK; exec sleep 60' & `+
		`echo $$ > `+dir+`/pe$PGAS_RANK; wait; sleep 60`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return len(pids(dir)) == 4 }, 5*time.Second, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	requireGone(t, dir)
}

// pids reads the process numbers that PEs have written.
func pids(dir string) []int {
	var out []int
	for _, name := range glob(dir + "/*") {
		b, _ := os.ReadFile(name)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

func requireGone(t *testing.T, dir string) {
	t.Helper()
	for _, pid := range pids(dir) {
		require.Eventually(t, func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || strings.Contains(string(stat), ") Z ")
		}, 5*time.Second, 10*time.Millisecond, "process %d is left", pid)
	}
}

func TestGuardLoop(t *testing.T) {
	var killed []int
	guardLoop(strings.NewReader("+10\n+20\nnonsense\n\n-10\n+1\n-0\n+30x\n"), func(group int) { killed = append(killed, group) })
	require.Equal(t, []int{20}, killed)
}

func TestRunsLeaveNoDescriptors(t *testing.T) {
	_, err := sh(2, "true")
	require.NoError(t, err)
	before, err := leak.Take()
	require.NoError(t, err)
	for range 20 {
		_, err := sh(2, "echo x; exit $PGAS_RANK")
		require.Error(t, err)
	}
	after, err := leak.Take()
	require.NoError(t, err)
	require.Equal(t, before.FDs, after.FDs)
	require.Equal(t, before.Shm, after.Shm)
}
