package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/pgas-go/pgas/internal/errs"
)

// Hosts says which PEs share a host. Two PEs share one if they can pass descriptors to each other and see the same
// shared memory: same boot of the same kernel, same network, IPC and mount namespace. Host names play no part, so
// containers with equal names do not confuse it, nor does a host name that does not resolve.
type Hosts struct {
	// Of is the host of each PE, numbered from 0 in the order of their lowest PE.
	Of []int
	// Local lists the PEs of this PE's host, itself included, ascending.
	Local []int
	// LocalRank is this PE's place in Local.
	LocalRank int
}

// Count is the number of hosts.
func (h *Hosts) Count() int {
	n := 0
	for _, host := range h.Of {
		n = max(n, host+1)
	}
	return n
}

// Locate is collective. It compares the host identities of all PEs.
func Locate(ctx context.Context, ex Exchanger) (*Hosts, error) {
	id, err := hostIdentity()
	if err != nil {
		ex.Abort(err)
		return nil, errs.Op("locate PEs", ex.Rank(), err)
	}
	all, err := ex.AllGather(ctx, []byte(id))
	if err != nil {
		return nil, errs.Op("locate PEs", ex.Rank(), err)
	}
	ids := make([]string, len(all))
	for pe, b := range all {
		ids[pe] = string(b)
	}
	return group(ids, ex.Rank()), nil
}

func group(ids []string, rank int) *Hosts {
	h := &Hosts{Of: make([]int, len(ids))}
	number := make(map[string]int)
	for pe, id := range ids {
		if _, known := number[id]; !known {
			number[id] = len(number)
		}
		h.Of[pe] = number[id]
		if id == ids[rank] {
			if pe == rank {
				h.LocalRank = len(h.Local)
			}
			h.Local = append(h.Local, pe)
		}
	}
	return h
}

// hostIdentity is the kernel's boot id with the inode numbers of the namespaces that descriptor passing depends on.
func hostIdentity() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("host identity: %w", err)
	}
	parts := []string{strings.TrimSpace(string(boot))}
	for _, ns := range []string{"net", "ipc", "mnt"} {
		info, err := os.Stat("/proc/self/ns/" + ns)
		if err != nil {
			return "", fmt.Errorf("host identity: %w", err)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return "", fmt.Errorf("host identity: /proc/self/ns/%s has no inode", ns)
		}
		parts = append(parts, fmt.Sprintf("%s:%d.%d", ns, st.Dev, st.Ino))
	}
	return strings.Join(parts, " "), nil
}

// gatherJSON is AllGather of one JSON value per PE. An unreadable value fails on every PE, because all see it.
func gatherJSON[T any](ctx context.Context, ex Exchanger, mine T) ([]T, error) {
	b, err := json.Marshal(mine)
	if err != nil {
		ex.Abort(err)
		return nil, err
	}
	all, err := ex.AllGather(ctx, b)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(all))
	for pe, b := range all {
		if err := json.Unmarshal(b, &out[pe]); err != nil {
			return nil, fmt.Errorf("PE %d: %w", pe, err)
		}
	}
	return out, nil
}
