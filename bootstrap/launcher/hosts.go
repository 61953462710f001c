package launcher

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

func joinPort(host string, port uint16) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(port)))
}

// firstHost returns the first host of a Slurm node list: "node[03-07,9],x" is node03. Empty if it cannot be read.
func firstHost(list string) string {
	prefix, rest, bracket := strings.Cut(list, "[")
	if name, _, several := strings.Cut(prefix, ","); several || !bracket {
		return name
	}
	ranges, rest, closed := strings.Cut(rest, "]")
	number := strings.FieldsFunc(ranges, func(r rune) bool { return r == ',' || r == '-' })
	if !closed || len(number) == 0 {
		return ""
	}
	suffix, _, _ := strings.Cut(rest, ",")
	if strings.Contains(suffix, "[") {
		return "" // more than one dimension
	}
	return prefix + number[0] + suffix
}

// ancestorID identifies the nearest ancestor process with the given name by its pid and start time; empty if there is
// none. All processes of one launch on one host have it in common.
func ancestorID(proc string, pid int, name string) string {
	for depth := 0; pid > 1 && depth < 64; depth++ {
		stat, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", proc, pid))
		if err != nil {
			return ""
		}
		// pid (comm) state ppid ...: comm may contain anything, so look for the last parenthesis.
		open, end := strings.IndexByte(string(stat), '('), strings.LastIndexByte(string(stat), ')')
		if open < 0 || end < open {
			return ""
		}
		fields := strings.Fields(string(stat[end+1:]))
		if len(fields) < 20 {
			return ""
		}
		if string(stat[open+1:end]) == name[:min(len(name), 15)] { // the kernel keeps 15 bytes
			return strconv.Itoa(pid) + "." + fields[19] // start time, in clock ticks since boot
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			return ""
		}
	}
	return ""
}
