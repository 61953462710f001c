package heap

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/errs"
)

func writeFiles(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

const meminfo = "MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:   1000 kB\n"

func TestHostMemory(t *testing.T) {
	n, err := hostMemory(writeFiles(t, map[string]string{"proc/meminfo": meminfo}))
	require.NoError(t, err)
	require.Equal(t, uint64(1000<<10), n)

	files := map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/job/pe\n",
		"sys/fs/cgroup/job/pe/memory.max": "max\n", "sys/fs/cgroup/job/pe/memory.current": "5\n",
		"sys/fs/cgroup/job/memory.max": "1000\n", "sys/fs/cgroup/job/memory.current": "400\n"}
	n, err = hostMemory(writeFiles(t, files))
	require.NoError(t, err)
	require.Equal(t, uint64(600), n, "a limit of an outer group counts")

	files["sys/fs/cgroup/job/memory.current"] = "2000"
	n, err = hostMemory(writeFiles(t, files))
	require.NoError(t, err)
	require.Zero(t, n, "use above the limit is no huge number")

	_, err = hostMemory(writeFiles(t, map[string]string{"proc/meminfo": "MemTotal: 1 kB\n"}))
	require.ErrorContains(t, err, "MemAvailable")
	_, err = hostMemory(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)

	n, err = hostMemory("/")
	require.NoError(t, err)
	require.NotZero(t, n)
}

func TestCheckFits(t *testing.T) {
	require.NoError(t, checkFits("memory", 100, 4, 400, "PGAS_HEAP_SIZE"))
	err := checkFits("host memory", 101, 4, 400, "PGAS_HEAP_SIZE")
	require.ErrorIs(t, err, errs.ErrNotSupported)
	require.EqualError(t, err, "symmetric heap: not supported: need 101 bytes of host memory for each of 4 PEs, "+
		"have 400 bytes available (lower PGAS_HEAP_SIZE)")
	require.Error(t, checkFits("host memory", math.MaxUint64, 4, 400, "V"), "no overflow")
}
