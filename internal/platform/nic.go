package platform

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/leak"
	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/prm"
)

// NIC is an opened mlx5 device with one usable port.
type NIC struct {
	Name string
	Ctx  *mlx5.Context
	PD   *mlx5.PD
	Caps Caps
	Port Port
	undo Undo
}

// Port is where the NIC meets the network.
type Port struct {
	Number   uint8 // from 1
	Ethernet bool
	MTU      prm.Mtu
	MaxMsg   uint32 // bytes
	LID      uint16 // InfiniBand
	// RoCE
	GIDIndex uint8
	GID      [16]byte
	GIDType  uint32 // mlx5.GID constants
	MAC      [6]byte
}

// openNIC opens the index-th usable mlx5 device of the machine, counting round. Devices that cannot be opened are
// passed over and listed in the error if none is left.
func openNIC(lib *mlx5.Lib, index int) (*NIC, error) {
	devices, err := lib.Devices()
	if err != nil {
		return nil, err
	}
	var names, other []string
	for _, d := range devices {
		if d.MLX5 {
			names = append(names, d.Name)
		} else {
			other = append(other, d.Name)
		}
	}
	if len(names) == 0 {
		have := "no RDMA device"
		if len(other) > 0 {
			have = fmt.Sprintf("only %q, which are not mlx5", other)
		}
		return nil, &errs.UnsupportedError{Feature: "mlx5 NIC", Need: "a device that libmlx5 drives", Have: have,
			Fix: "set PGAS_PATH=p2p on one host"}
	}
	var failed []error
	for i := range names {
		nic, err := openDevice(lib, names[(index+i)%len(names)])
		if err == nil {
			return nic, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

func openDevice(lib *mlx5.Lib, name string) (*NIC, error) {
	ctx, err := lib.Open(name)
	if err != nil {
		return nil, err
	}
	n := &NIC{Name: name, Ctx: ctx}
	n.undo.Push(ctx.Close)
	if n.Caps, err = QueryCaps(ctx); err != nil {
		return nil, n.undo.Fail(err)
	}
	if n.Port, err = findPort(ctx); err != nil {
		return nil, n.undo.Fail(err)
	}
	if n.PD, err = ctx.AllocPD(); err != nil {
		return nil, n.undo.Fail(fmt.Errorf("%s: %w", name, err))
	}
	n.undo.Push(n.PD.Close)
	token := leak.Track("nic", name)
	n.undo.Push(func() error { token.Release(); return nil })
	return n, nil
}

// Close frees the protection domain and closes the device.
func (n *NIC) Close() error { return n.undo.Run() }

// findPort returns the first active port with an address.
func findPort(ctx *mlx5.Context) (Port, error) {
	var seen []string
	for number := uint8(1); ; number++ {
		attr, err := ctx.QueryPort(number)
		if err != nil {
			if number > 1 && errors.Is(err, syscall.EINVAL) {
				break // one past the last port
			}
			return Port{}, fmt.Errorf("%s port %d: %w", ctx.Name(), number, err)
		}
		if attr.State != mlx5.PortActive {
			seen = append(seen, fmt.Sprintf("port %d is in state %d", number, attr.State))
			continue
		}
		p := Port{Number: number, Ethernet: attr.LinkLayer == mlx5.LinkEthernet, MTU: prm.Mtu(attr.ActiveMTU),
			MaxMsg: attr.MaxMsgSize, LID: attr.LID}
		if !p.Ethernet {
			if p.LID != 0 {
				return p, nil
			}
			seen = append(seen, fmt.Sprintf("port %d has no LID", number))
			continue
		}
		if err = p.chooseGID(ctx, attr.GIDEntries); err == nil {
			return p, nil
		}
		seen = append(seen, err.Error())
	}
	return Port{}, &errs.UnsupportedError{Feature: "NIC " + ctx.Name(), Need: "an active port with an address",
		Have: fmt.Sprintf("%q", seen), Fix: "see ibv_devinfo -v"}
}

// gidRank orders GIDs: routable IPv4 first, then routable IPv6, then RoCEv1; 0 is of no use.
func gidRank(g mlx5.GID) int {
	switch {
	case g.Raw == [16]byte{}:
		return 0
	case g.Type == mlx5.GIDRoCEv1:
		return 1
	case isMapped(g.Raw):
		return 4
	case g.Raw[0] == 0xfe && g.Raw[1]&0xc0 == 0x80: // link-local
		return 2
	}
	return 3
}

func isMapped(gid [16]byte) bool {
	for _, b := range gid[:10] {
		if b != 0 {
			return false
		}
	}
	return gid[10] == 0xff && gid[11] == 0xff
}

// chooseGID scans the whole table, which may have holes, and takes the best entry.
func (p *Port) chooseGID(ctx *mlx5.Context, entries int) error {
	best := 0
	for i := range min(entries, 256) {
		g, err := ctx.QueryGID(p.Number, i)
		if err != nil {
			continue // a hole; a table without any entry is reported below
		}
		if rank := gidRank(g); rank > best {
			best = rank
			p.GIDIndex, p.GID, p.GIDType = uint8(i), g.Raw, g.Type
		}
	}
	if best == 0 {
		return fmt.Errorf("port %d has no GID among %d entries", p.Number, entries)
	}
	return p.queryMAC(ctx)
}

// queryMAC reads the MAC that belongs to the chosen GID.
func (p *Port) queryMAC(ctx *mlx5.Context) error {
	l := prm.QueryRoceAddressIn
	in, err := prm.NewCommand(prm.CmdQueryRoceAddress, prm.QueryRoceAddressInSize).
		Set(l.RoceAddressIndex, uint64(p.GIDIndex)).Set(l.VhcaPortNum, uint64(p.Number)).Bytes()
	if err != nil {
		return err
	}
	out := prm.NewMailbox(prm.QueryRoceAddressOutSize)
	if err = ctx.GeneralCmd(in, out); err != nil {
		return fmt.Errorf("port %d: MAC of GID %d: %w", p.Number, p.GIDIndex, err)
	}
	copy(p.MAC[:], out.Bytes(prm.QueryRoceAddressOut.RoceAddress.SourceMac))
	return nil
}
