package leak

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Snapshot is what the system holds for this process.
type Snapshot struct {
	FDs        map[string]int // open descriptors by kind: socket, pipe, memfd, eventpoll, file, ...
	Threads    int
	Goroutines int
	RSS        uint64   // resident bytes
	Maps       int      // lines of /proc/self/maps
	Shm        []string // names in /dev/shm, of all processes
}

// Take reads /proc/self and /dev/shm. The descriptor that reads /proc/self/fd is not counted.
func Take() (Snapshot, error) {
	s := Snapshot{FDs: make(map[string]int), Goroutines: runtime.NumGoroutine()}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return s, fmt.Errorf("snapshot: %w", err)
	}
	for _, e := range entries {
		// A link that is gone is the descriptor that ReadDir itself used.
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			s.FDs[fdKind(target)]++
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return s, fmt.Errorf("snapshot: %w", err)
	}
	if s.Threads, err = statusNumber(status, "Threads:"); err != nil {
		return s, err
	}
	kib, err := statusNumber(status, "VmRSS:")
	if err != nil {
		return s, err
	}
	s.RSS = uint64(kib) << 10
	mapped, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return s, fmt.Errorf("snapshot: %w", err)
	}
	s.Maps = strings.Count(string(mapped), "\n")
	s.Shm, err = Shm()
	return s, err
}

// Shm lists the names in /dev/shm, sorted. A system without /dev/shm has none.
func Shm() ([]string, error) {
	entries, err := os.ReadDir("/dev/shm")
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func statusNumber(status []byte, key string) (int, error) {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				return 0, fmt.Errorf("snapshot: %s %w", key, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("snapshot: no %s in /proc/self/status", key)
}

func fdKind(target string) string {
	if rest, ok := strings.CutPrefix(target, "anon_inode:"); ok {
		return strings.Trim(rest, "[]")
	}
	switch {
	case strings.HasPrefix(target, "/memfd:"):
		return "memfd"
	case strings.HasPrefix(target, "/dev/"):
		return "device"
	case strings.HasPrefix(target, "/"):
		return "file"
	}
	kind, _, _ := strings.Cut(target, ":")
	return kind
}

// Diff lists what grew from s to later: descriptors of any kind, threads, goroutines, mappings, names in /dev/shm by
// any number, and resident memory by more than slackRSS bytes. It is empty if nothing did.
func (s Snapshot) Diff(later Snapshot, slackRSS uint64) []string {
	var grown []string
	grow := func(what string, before, after int) {
		if after > before {
			grown = append(grown, fmt.Sprintf("%s: %d, was %d", what, after, before))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(later.FDs)) {
		grow(kind+" descriptors", s.FDs[kind], later.FDs[kind])
	}
	grow("threads", s.Threads, later.Threads)
	grow("goroutines", s.Goroutines, later.Goroutines)
	grow("mappings", s.Maps, later.Maps)
	if later.RSS > s.RSS+slackRSS {
		grown = append(grown, fmt.Sprintf("resident memory: %d bytes, was %d", later.RSS, s.RSS))
	}
	for _, name := range later.Shm {
		if !slices.Contains(s.Shm, name) {
			grown = append(grown, "new in /dev/shm: "+name)
		}
	}
	return grown
}
