package ibgda

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/platform"
	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/wire"
)

// card is what a PE tells the others about its end of all connections.
type card struct {
	hash     uint64 // wire.LayoutHash: both ends must speak of the same structs
	ethernet bool
	roceV2   bool
	mtu      prm.Mtu
	lid      uint16
	gid      [16]byte
	mac      [6]byte
	ends     []cardEnd // [context][PE]
}

type cardEnd struct{ qpn, psn uint32 }

const cardHead = 8 + 4 + 2 + 16 + 6

func (c *card) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, c.hash)
	b = append(b, flag(c.ethernet), flag(c.roceV2), byte(c.mtu), 0)
	b = binary.BigEndian.AppendUint16(b, c.lid)
	b = append(append(b, c.gid[:]...), c.mac[:]...)
	for _, e := range c.ends {
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, e.qpn), e.psn)
	}
	return b
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

func decodeCard(b []byte) (*card, error) {
	if len(b) < cardHead || (len(b)-cardHead)%8 != 0 {
		return nil, fmt.Errorf("connection data of %d bytes", len(b))
	}
	c := &card{hash: binary.BigEndian.Uint64(b), ethernet: b[8] == 1, roceV2: b[9] == 1, mtu: prm.Mtu(b[10]),
		lid: binary.BigEndian.Uint16(b[12:])}
	copy(c.gid[:], b[14:])
	copy(c.mac[:], b[30:])
	for b = b[cardHead:]; len(b) > 0; b = b[8:] {
		c.ends = append(c.ends, cardEnd{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])})
	}
	return c, nil
}

func newCard(port platform.Port, groups ...*group) *card {
	c := &card{hash: wire.LayoutHash, ethernet: port.Ethernet, mtu: port.MTU, lid: port.LID, gid: port.GID, mac: port.MAC,
		roceV2: port.Ethernet && port.GIDType != mlx5.GIDRoCEv1}
	for _, g := range groups {
		for _, e := range g.ends {
			c.ends = append(c.ends, cardEnd{e.qpn, e.psn})
		}
	}
	return c
}

// compatible refuses a peer that this end cannot talk to.
func (c *card) compatible(me, pe int, other *card) error {
	kind := func(c *card) string {
		switch {
		case !c.ethernet:
			return "InfiniBand"
		case c.roceV2:
			return "RoCEv2"
		}
		return "RoCEv1"
	}
	for _, v := range []struct{ what, mine, theirs string }{
		{"layout hash of the queues", fmt.Sprintf("%#x", c.hash), fmt.Sprintf("%#x", other.hash)},
		{"link layer", kind(c), kind(other)},
		{"connections", fmt.Sprint(len(c.ends)), fmt.Sprint(len(other.ends))},
	} {
		if v.mine != v.theirs {
			return &errs.MismatchError{What: v.what, Values: map[int]string{me: v.mine, pe: v.theirs}}
		}
	}
	return nil
}

// connect is collective: it exchanges cards and brings every queue pair to RTS.
func (n *Net) connect(ctx context.Context) error {
	mine := newCard(n.nic.Port, n.kernel, n.host)
	all, err := n.x.AllGather(ctx, mine.encode())
	if err != nil {
		return err
	}
	cards := make([]*card, len(all))
	for pe, blob := range all {
		if cards[pe], err = decodeCard(blob); err != nil {
			return fmt.Errorf("PE %d: %w", pe, err)
		}
		if err = mine.compatible(n.x.Rank(), pe, cards[pe]); err != nil {
			return err
		}
	}
	context := 0
	for _, g := range []*group{n.kernel, n.host} {
		for i := range g.ends {
			pe := i % g.pes
			other := cards[pe]
			if err = n.connectEnd(&g.ends[i], mine, other, other.ends[(context+i/g.pes)*g.pes+n.x.Rank()]); err != nil {
				return fmt.Errorf("connect qp %#x (context %d) to PE %d: %w", g.ends[i].qpn, context+i/g.pes, pe, err)
			}
		}
		context += g.contexts
	}
	return n.x.Barrier(ctx) // nobody may send before every responder is ready
}

func (n *Net) connectEnd(e *endpoint, mine, other *card, far cardEnd) error {
	caps, port := n.nic.Caps, n.nic.Port
	to := remote{qpn: far.qpn, psn: far.psn, mtu: min(mine.mtu, other.mtu), logMsgMax: min(prm.LogMsgMax, caps.LogMaxMsg),
		logRraMax: min(4, caps.LogMaxReadResp), minRnrNak: 12}
	way := route{port: port.Number, ethernet: mine.ethernet, rlid: other.lid, gidIndex: port.GIDIndex, rgid: other.gid,
		rmac: other.mac, hopLimit: 255}
	if mine.roceV2 {
		way.udpSport = sourcePort(e.qpn, far.qpn)
	}
	steps := []func() ([]byte, error){
		func() ([]byte, error) { return rst2init(e.qpn, port.Number) },
		func() ([]byte, error) { return init2rtr(e.qpn, to, way) },
		func() ([]byte, error) {
			return rtr2rts(e.qpn, requester{psn: e.psn, logSraMax: min(4, caps.LogMaxRead), retries: 7, rnrRetries: 7,
				ackTimeout: ackTimeout(n.cfg.Timeout)})
		},
	}
	for _, step := range steps {
		in, err := step()
		if err != nil {
			return err
		}
		if err = e.qp.Modify(in, prm.NewMailbox(prm.ModifyQpOutSize)); err != nil {
			return err
		}
	}
	return n.verify(e, to)
}

// verify reads the state back: what the device has must be what was asked for.
func (n *Net) verify(e *endpoint, to remote) error {
	in, err := queryQP(e.qpn)
	if err != nil {
		return err
	}
	out := prm.NewMailbox(prm.QueryQpOutSize)
	if err = e.qp.Query(in, out); err != nil {
		return err
	}
	q := prm.QueryQpOut.Qpc
	for _, v := range []struct {
		what string
		f    prm.Field
		want uint64
	}{
		{"state", q.State, uint64(prm.QpStateRts)},
		{"remote qp", q.RemoteQpn, uint64(to.qpn)},
		{"mtu", q.Mtu, uint64(to.mtu)},
		{"send cq", q.CqnSnd, uint64(e.cqn)},
	} {
		if have := out.Get(v.f); have != v.want {
			return fmt.Errorf("query qp: %s is %#x, want %#x", v.what, have, v.want)
		}
	}
	return nil
}

// sourcePort spreads connections over the network's paths; 0xc000 is the bottom of the RoCEv2 range. Both directions of
// a connection get the same value, as rdma-core's rdma_flow_label_to_udp_sport does for equal flow labels.
func sourcePort(a, b uint32) uint16 {
	h := (a ^ b) * 0x9e3779b1
	return 0xc000 | uint16(h>>18)&0x3fff
}

// ackTimeout is the largest code (4.096 us * 2^n, at most 20 as the peers use) with which all eight tries of a packet fit
// into the time that an operation may take.
func ackTimeout(limit time.Duration) uint32 {
	units := uint64(limit) / 8 / 4096
	if units == 0 {
		return 1
	}
	return uint32(min(max(bits.Len64(units)-1, 1), 20))
}
