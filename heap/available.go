package heap

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pgas-go/pgas/internal/errs"
)

// hostMemory reads how many bytes the host can still give: MemAvailable, or less where a cgroup limits this process.
// root is "/" outside tests.
func hostMemory(root string) (uint64, error) {
	f, err := os.Open(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	available, found := uint64(0), false
	for lines := bufio.NewScanner(f); lines.Scan() && !found; {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(fields[1], 10, 53)
			if err != nil {
				return 0, fmt.Errorf("/proc/meminfo: %w", err)
			}
			available, found = kib<<10, true
		}
	}
	if !found {
		return 0, fmt.Errorf("/proc/meminfo has no MemAvailable")
	}
	return min(available, cgroupMemory(root)), nil
}

// cgroupMemory is what the cgroup (v2) of this process leaves, or the largest number when there is no limit.
func cgroupMemory(root string) uint64 {
	const none = ^uint64(0)
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return none
	}
	group, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "0::")
	if !ok {
		return none
	}
	left := none
	for dir := group; ; dir = filepath.Dir(dir) {
		limit, okLimit := readNumber(filepath.Join(root, "sys/fs/cgroup", dir, "memory.max"))
		used, okUsed := readNumber(filepath.Join(root, "sys/fs/cgroup", dir, "memory.current"))
		if okLimit && okUsed {
			left = min(left, limit-min(used, limit))
		}
		if dir == "/" || dir == "." {
			return left
		}
	}
}

func readNumber(path string) (uint64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil // "max" is no number: no limit
}

// checkFits refuses heaps that the machine cannot hold, before anything is allocated. perPE is what each of the pes PEs
// that share the memory wants.
func checkFits(what string, perPE uint64, pes int, available uint64, variable string) error {
	if perPE <= available/uint64(pes) {
		return nil
	}
	return &errs.UnsupportedError{
		Feature: "symmetric heap",
		Need:    fmt.Sprintf("%d bytes of %s for each of %d PEs", perPE, what, pes),
		Have:    fmt.Sprintf("%d bytes available", available),
		Fix:     "lower " + variable,
	}
}
