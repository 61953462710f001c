package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A machine is what a reader needs to know to make something of the figures.
type machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"` // that this process may use
	Virtual    bool   `json:"virtual_machine"`
	MemoryGiB  int    `json:"memory_gib"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	CXX        string `json:"cxx"`
	OpenMPI    string `json:"open_mpi,omitempty"`
	LoadBefore string `json:"load_before"` // 1 minute; above the number of cores others were at work
	LoadAfter  string `json:"load_after"`
}

func describeMachine() machine {
	info := cpuInfo()
	m := machine{CPU: info["model name"], Cores: runtime.NumCPU(), Virtual: strings.Contains(" "+info["flags"]+" ", " hypervisor "),
		MemoryGiB: memoryGiB(), Go: runtime.Version() + " " + runtime.GOARCH, CXX: firstLine(cxx(), "--version"),
		OpenMPI: firstLine("oshrun", "--version"), LoadBefore: loadAverage()}
	if m.CPU == "" {
		m.CPU = "unknown " + runtime.GOARCH
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = "Linux " + unix.ByteSliceToString(u.Release[:])
	}
	return m
}

func (m machine) print(out io.Writer) {
	virtual := ""
	if m.Virtual {
		virtual = ", virtual machine"
	}
	fmt.Fprintf(out, "machine   %s, %d cores, %d GiB%s\n", m.CPU, m.Cores, m.MemoryGiB, virtual)
	fmt.Fprintf(out, "software  %s; %s; %s", m.Kernel, m.Go, m.CXX)
	if m.OpenMPI != "" {
		fmt.Fprintf(out, "; Open MPI: %s", m.OpenMPI)
	}
	fmt.Fprintf(out, "\nload      %s before, %s after, of %d cores\n", m.LoadBefore, m.LoadAfter, m.Cores)
}

// cpuInfo reads the first processor of /proc/cpuinfo.
func cpuInfo() map[string]string {
	found := map[string]string{}
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return found
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && lines.Text() != ""; {
		key, value, _ := strings.Cut(lines.Text(), ":")
		found[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return found
}

func memoryGiB() int {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemTotal:" {
			kib, _ := strconv.Atoi(f[1])
			return (kib + 1<<19) >> 20
		}
	}
	return 0
}

func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(raw)); err == nil && len(f) > 0 {
		return f[0]
	}
	return "unknown"
}

// firstLine is what a tool says of its version, or "" where it is not installed.
func firstLine(tool string, args ...string) string {
	out, err := exec.Command(tool, args...).Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}
