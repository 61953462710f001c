package ibgda

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pgas-go/pgas/internal/config"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/platform"
	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/wire"
)

func TestChoose(t *testing.T) {
	noNIC := &errs.UnsupportedError{Feature: "mlx5 NIC", Need: "one", Have: "none"}
	const p2p, net = wire.PathP2p, wire.PathIbgda
	here, mixed := []bool{true, true}, []bool{true, false}
	for _, c := range []struct {
		want   config.Path
		mapped []bool
		nic    error
		paths  []wire.Path
		text   string
	}{
		{config.PathAuto, here, nil, []wire.Path{p2p, p2p}, "p2p to all 2 PEs: their heaps are mapped on this host"},
		{config.PathAuto, here, noNIC, []wire.Path{p2p, p2p}, "p2p to all 2 PEs: their heaps are mapped on this host"},
		{config.PathAuto, mixed, nil, []wire.Path{p2p, net}, "p2p to 1 PEs of this host, ibgda to 1 of other hosts"},
		{config.PathIBGDA, here, nil, []wire.Path{net, net}, "ibgda to all 2 PEs, as PGAS_PATH asks"},
		{config.PathP2P, here, nil, []wire.Path{p2p, p2p}, "p2p to all 2 PEs, as PGAS_PATH asks"},
		{config.PathP2P, mixed, nil, nil, "path p2p to PE 1: not supported: need its heap mapped here, have a PE on another host (set PGAS_PATH=auto or ibgda)"},
		{config.PathAuto, mixed, noNIC, nil, "no path to PE 1: p2p: it is on another host; ibgda: mlx5 NIC: not supported: need one, have none"},
		{config.PathIBGDA, here, noNIC, nil, "path ibgda was asked for: mlx5 NIC: not supported: need one, have none"},
	} {
		paths, reason, err := Choose(c.want, c.mapped, c.nic)
		require.Equal(t, c.paths, paths)
		if c.paths == nil {
			require.ErrorIs(t, err, errs.ErrNotSupported)
			require.EqualError(t, err, c.text)
		} else {
			require.NoError(t, err)
			require.Equal(t, c.text, reason)
		}
	}
	require.True(t, NeedsNIC(config.PathIBGDA, 2, 2))
	require.False(t, NeedsNIC(config.PathAuto, 2, 2))
	require.True(t, NeedsNIC(config.PathAuto, 3, 2))
	require.False(t, NeedsNIC(config.PathP2P, 3, 2))
}

func TestLayoutDoesNotOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layout{rapid.Uint64Range(1, 200).Draw(t, "queues"), 1 << rapid.IntRange(1, 15).Draw(t, "log depth")}
		end := uint64(0)
		for _, part := range []struct {
			at   func(uint64) uint64
			size uint64
		}{{l.sq, l.depth * prm.BbBytes}, {l.cqe, prm.CqeBytes}, {l.qpDbr, line}, {l.cqDbr, line}} {
			for i := range l.count {
				require.Equal(t, end, part.at(i), "parts follow each other")
				require.Zero(t, part.at(i)%line)
				end += part.size
			}
		}
		require.Equal(t, end, l.bytes())
	})
}

func TestCardRoundTrip(t *testing.T) {
	c := newCard(platform.Port{Ethernet: true, MTU: prm.MtuBytes1024, LID: 7, GID: [16]byte{1, 15: 9}, MAC: [6]byte{1, 5: 6}, GIDType: 2},
		&group{ends: []endpoint{{qpn: 0x11, psn: 5}, {qpn: 0x12, psn: 1<<24 - 1}}})
	back, err := decodeCard(c.encode())
	require.NoError(t, err)
	require.Equal(t, c, back)
	require.NoError(t, c.compatible(0, 1, back))

	for n := range cardHead {
		_, err = decodeCard(c.encode()[:n])
		require.Error(t, err)
	}
	_, err = decodeCard(append(c.encode(), 0))
	require.Error(t, err)

	back.hash++
	require.ErrorIs(t, c.compatible(0, 1, back), errs.ErrMismatch)
	back.hash, back.roceV2 = c.hash, false
	require.EqualError(t, c.compatible(0, 1, back), "mismatch between PEs: link layer: RoCEv2 on PE 0; RoCEv1 on PE 1")
	back.roceV2, back.ends = true, back.ends[:1]
	require.ErrorContains(t, c.compatible(0, 1, back), "connections: 2 on PE 0; 1 on PE 1")
}

func TestAckTimeout(t *testing.T) {
	for limit, want := range map[time.Duration]uint32{0: 1, time.Millisecond: 4, time.Second: 14, time.Minute: 20, 7 * 24 * time.Hour: 20} {
		got := ackTimeout(limit)
		require.Equal(t, want, got, "%v", limit)
		if want < 20 && limit > time.Millisecond {
			tries := 8 * 4096 * time.Nanosecond << got
			require.LessOrEqual(t, tries, limit)
			require.Greater(t, 2*tries, limit)
		}
	}
}

func TestSourcePort(t *testing.T) {
	ports := map[uint16]bool{}
	for a := uint32(0x100); a < 0x120; a++ {
		for b := uint32(0x200); b < 0x220; b += 5 {
			require.Equal(t, sourcePort(a, b), sourcePort(b, a))
			require.GreaterOrEqual(t, sourcePort(a, b), uint16(0xc000))
			ports[sourcePort(a, b)] = true
		}
	}
	require.Greater(t, len(ports), 16, "connections are spread")
}

func TestDecode(t *testing.T) {
	cause := &errs.PeerLostError{PE: 2}
	host := ^uint32(0)
	for _, c := range []struct {
		r     wire.StatusRecord
		place string
		is    error
		text  string
	}{
		{wire.StatusRecord{Status: wire.StatusCompletionError, Op: uint32(wire.OpPut), Peer: 3, Context: 1, Qpn: 0x11, Opcode: 8,
			Syndrome: 0x13, VendorSyndrome: 0x88, WqeIndex: 482}, "", errs.ErrCompletion,
			"put to PE 3 (ibgda): qp 0x11 (context 1, PE 3) wqe 482 (rdma write): remote access error (syndrome 0x13, vendor 0x88)"},
		{wire.StatusRecord{Status: wire.StatusTimeout, Op: uint32(wire.OpWait), Peer: 0, Address: 0x1000, Expected: 7, Seen: 5,
			WaitedNs: 2e9, Block: 1, Thread: 2}, " (offset 64 of the signal segment)", errs.ErrTimeout,
			"wait: wait: timed out after 2s: word 0x1000 (offset 64 of the signal segment) is 5, waiting for 7, block 1 thread 2"},
		{wire.StatusRecord{Status: wire.StatusPeerLost, Op: uint32(wire.OpQuiet), Peer: 2, Block: host}, "", errs.ErrPeerLost,
			"quiet to PE 2 (ibgda): peer lost: PE 2"},
		{wire.StatusRecord{Status: wire.StatusInvalid, Op: uint32(wire.OpPut), Peer: 9, Address: 0x10, Expected: 8, Block: host},
			"", errs.ErrInvalid, "put to PE 9 (ibgda): put: range is 0x10, 8 bytes, want symmetric memory, a PE and a context that exist (PE 9, context 0)"},
	} {
		err := Decode(&c.r, cause, "ibgda", -1, c.place)
		require.ErrorIs(t, err, c.is)
		require.EqualError(t, err, c.text)
	}
	require.NoError(t, Decode(&wire.StatusRecord{}, cause, "", -1, ""))
	var done *errs.CompletionError
	require.ErrorAs(t, Decode(&wire.StatusRecord{Status: wire.StatusCompletionError}, nil, "ibgda", 4, ""), &done)
	require.Equal(t, 4, done.Context)
	require.ErrorContains(t, Decode(&wire.StatusRecord{Status: wire.Status(77)}, nil, "", -1, ""), "status(0x4d)")
	require.False(t, errors.Is(Decode(&wire.StatusRecord{Status: wire.StatusAborted}, nil, "", -1, ""), errs.ErrAborted), "no cause, no claim")
}
