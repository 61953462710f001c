package leak

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// recorder is a TB that keeps what Check reports.
type recorder struct {
	errors  []string
	cleanup []func()
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, a ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, a...))
}
func (r *recorder) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }

func TestCheckNamesWhatIsLeft(t *testing.T) {
	old := Track("qp", "0x1")
	defer old.Release()
	r := &recorder{}
	Check(r)
	a, b := Track("umem", "4096 bytes"), Track("qp", "0x2 (PE 3)")
	require.True(t, a.Release())
	require.False(t, a.Release(), "a second release is reported")
	r.cleanup[0]()
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "leak: qp 0x2 (PE 3)\n")
	require.Contains(t, r.errors[0], "TestCheckNamesWhatIsLeft")
	require.Contains(t, r.errors[0], "leak_test.go:")
	require.True(t, b.Release())
	require.False(t, Token{}.Release())

	clean := &recorder{}
	Check(clean)
	Track("qp", "").Release()
	clean.cleanup[0]()
	require.Empty(t, clean.errors)
	require.False(t, Stacks(false), "Check restores the setting")
}

func TestConcurrentOwners(t *testing.T) {
	Check(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if !Track("x", "").Release() {
					t.Error("lost")
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, Count()["x"])
}

func TestSnapshotSeesGrowth(t *testing.T) {
	before, err := Take()
	require.NoError(t, err)
	require.Positive(t, before.Threads)
	require.Positive(t, before.RSS)
	require.Positive(t, before.Maps)

	memfd, err := unix.MemfdCreate("leak-test", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	mem, err := unix.Mmap(-1, 0, 8<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	require.NoError(t, err)
	name := fmt.Sprintf("pgas-leak-test-%d", os.Getpid())
	require.NoError(t, os.WriteFile(filepath.Join("/dev/shm", name), nil, 0o600))
	during, err := Take()
	require.NoError(t, err)
	require.NoError(t, unix.Munmap(mem))
	require.NoError(t, os.Remove(filepath.Join("/dev/shm", name)))
	for _, fd := range []int{memfd, event, pair[0], pair[1]} {
		require.NoError(t, unix.Close(fd))
	}

	grown := before.Diff(during, 4<<20)
	require.Contains(t, grown, fmt.Sprintf("memfd descriptors: %d, was %d", before.FDs["memfd"]+1, before.FDs["memfd"]))
	require.Contains(t, grown, fmt.Sprintf("socket descriptors: %d, was %d", before.FDs["socket"]+2, before.FDs["socket"]))
	require.Contains(t, grown, fmt.Sprintf("eventfd descriptors: %d, was %d", before.FDs["eventfd"]+1, before.FDs["eventfd"]))
	require.Contains(t, grown, "new in /dev/shm: "+name)
	require.Contains(t, fmt.Sprint(grown), "resident memory")
	require.Contains(t, fmt.Sprint(grown), "mappings")

	after, err := Take()
	require.NoError(t, err)
	require.Equal(t, before.FDs, after.FDs)
	require.Empty(t, before.Diff(Snapshot{FDs: after.FDs}, 0))
}
