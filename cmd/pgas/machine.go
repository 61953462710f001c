package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/bootstrap/netif"
	"github.com/pgas-go/pgas/internal/config"
)

func machineFacts(*config.Config) []fact {
	facts := []fact{{"system", kernel()}, {"processor", procValue("/proc/cpuinfo", "model name")}, {"cores for this process", cores()}}
	for _, key := range []string{"MemTotal", "MemAvailable"} {
		facts = append(facts, fact{"memory (" + key + ")", procValue("/proc/meminfo", key)})
	}
	var fs unix.Statfs_t
	shm := "none"
	if err := unix.Statfs("/dev/shm", &fs); err == nil {
		free := config.Size(fs.Bavail * uint64(fs.Bsize))
		shm = fmt.Sprintf("%d bytes free of %d", free, fs.Blocks*uint64(fs.Bsize))
	}
	return append(facts, fact{"/dev/shm", shm})
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error()
	}
	text := func(b []byte) string { return string(b[:max(0, bytes.IndexByte(b, 0))]) }
	return strings.Join([]string{text(u.Sysname[:]), text(u.Release[:]), text(u.Machine[:])}, " ")
}

// cores is what the scheduler allows this process, which a launcher or a container may have cut down.
func cores() string {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return err.Error()
	}
	return strconv.Itoa(set.Count())
}

// procValue reads the first "key : value" line of a file in /proc.
func procValue(path, key string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return "not told by " + path
}

// limitFacts prints the limits that this process has, which may differ from the user's shell.
func limitFacts(*config.Config) []fact {
	var facts []fact
	for _, l := range []struct {
		name string
		id   int
	}{
		{"locked memory (bytes)", unix.RLIMIT_MEMLOCK}, {"open files", unix.RLIMIT_NOFILE}, {"processes", unix.RLIMIT_NPROC},
		{"address space (bytes)", unix.RLIMIT_AS}, {"core dump (bytes)", unix.RLIMIT_CORE},
	} {
		var r unix.Rlimit
		value := ""
		if err := unix.Getrlimit(l.id, &r); err != nil {
			value = err.Error()
		} else {
			value = limit(r.Cur) + " (hard " + limit(r.Max) + ")"
		}
		facts = append(facts, fact{l.name, value})
	}
	return facts
}

func limit(n uint64) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

// networkFacts lists the interfaces, and which of them PGAS_INTERFACE chooses.
func networkFacts(cfg *config.Config) []fact {
	all, err := netif.List()
	if err != nil {
		return []fact{{"error", err.Error()}}
	}
	filter, err := netif.Parse(cfg.Interface)
	if err != nil {
		return []fact{{"error", err.Error()}}
	}
	var facts []fact
	for _, i := range all {
		var addrs []string
		for _, a := range i.Addrs {
			addrs = append(addrs, a.String())
		}
		value := strings.Join(addrs, " ")
		if _, err := filter.Select([]netif.Interface{i}); err != nil {
			value += " (not chosen by PGAS_INTERFACE)"
		}
		facts = append(facts, fact{i.Name, value})
	}
	return facts
}
