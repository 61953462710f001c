package ibgda

import (
	"fmt"

	"github.com/pgas-go/pgas/internal/config"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/wire"
)

// NeedsNIC says whether a job wants a NIC: by name, or because some PE is on another host.
func NeedsNIC(want config.Path, pes, local int) bool {
	return want == config.PathIBGDA || (want == config.PathAuto && local < pes)
}

// Choose picks the path to each PE. mapped[pe] says whether the PE's heap is mapped here; nic is nil when there is a
// working NIC, else the reason why there is none. A path by name fails instead of falling back. reason tells in one
// line what was chosen and why.
func Choose(want config.Path, mapped []bool, nic error) (paths []wire.Path, reason string, err error) {
	paths = make([]wire.Path, len(mapped))
	var p2p, net int
	for pe, here := range mapped {
		switch {
		case want == config.PathIBGDA && nic != nil:
			return nil, "", fmt.Errorf("path ibgda was asked for: %w", nic)
		case want == config.PathIBGDA:
			paths[pe] = wire.PathIbgda
			net++
		case here:
			paths[pe] = wire.PathP2p
			p2p++
		case want == config.PathP2P:
			return nil, "", &errs.UnsupportedError{Feature: fmt.Sprintf("path p2p to PE %d", pe), Need: "its heap mapped here",
				Have: "a PE on another host", Fix: "set PGAS_PATH=auto or ibgda"}
		case nic != nil:
			return nil, "", fmt.Errorf("no path to PE %d: p2p: it is on another host; ibgda: %w", pe, nic)
		default:
			paths[pe] = wire.PathIbgda
			net++
		}
	}
	switch {
	case want != config.PathAuto:
		reason = fmt.Sprintf("%s to all %d PEs, as PGAS_PATH asks", want, len(mapped))
	case net == 0:
		reason = fmt.Sprintf("p2p to all %d PEs: their heaps are mapped on this host", p2p)
	default:
		reason = fmt.Sprintf("p2p to %d PEs of this host, ibgda to %d of other hosts", p2p, net)
	}
	return paths, reason, nil
}
