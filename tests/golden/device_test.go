package golden

import (
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/prm"
)

var update = flag.Bool("update", false, "rewrite testdata/device_posts.txt")

// A post is what one device call left for the NIC.
type post struct {
	name      string
	index     uint64 // of the first BB
	status    uint64
	ring      []byte
	record    []byte
	doorbells [][]byte
	blocks    uint64
}

// Indices around the 16-bit wrap, the 32-bit wrap and every place of a 4-BB ring.
var startIndices = []string{"0", "1", "2", "3", "fffd", "fffe", "ffff", "10000", "fffffffe", "ffffffff", "1ffffffff"}

func devicePosts(t *testing.T, compiler string) (string, []post) {
	t.Helper()
	program := build(t, compiler, "testdata/device_posts.cc")
	out, err := exec.Command(program, startIndices...).Output()
	require.NoError(t, err)
	var posts []post
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		require.Len(t, f, 7, line)
		p := post{name: f[0], index: number(t, f[1]), status: number(t, f[2]), ring: bytesOf(t, f[3]), record: bytesOf(t, f[4]), blocks: number(t, f[6])}
		for all := bytesOf(t, f[5]); len(all) > 0; all = all[8:] {
			p.doorbells = append(p.doorbells, all[:8])
		}
		posts = append(posts, p)
	}
	return string(out), posts
}

func number(t *testing.T, s string) uint64 {
	n, err := strconv.ParseUint(s, 16, 64)
	require.NoError(t, err)
	return n
}

func bytesOf(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// TestDevicePosts holds the bytes that the device library posts against the committed ones, and both compilers against
// each other.
func TestDevicePosts(t *testing.T) {
	const file = "testdata/device_posts.txt"
	for _, compiler := range compilers(t) {
		text, _ := devicePosts(t, compiler)
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), text, "%s: `go test ./tests/golden -update` renews %s", compiler, file)
	}
}

// TestDevicePostsMean reads those bytes with Go's own decoder: what the golden file holds is also right.
func TestDevicePostsMean(t *testing.T) {
	_, posts := devicePosts(t, compilers(t)[0])
	require.Len(t, posts, 9*len(startIndices))
	for _, p := range posts {
		t.Run(fmt.Sprintf("%s/%x", p.name, p.index), func(t *testing.T) {
			require.Zero(t, p.status)
			wqes := p.wqes(t)
			end := uint16(p.index + p.blocks)
			if len(wqes) > 0 {
				require.Equal(t, end, uint16(binary.BigEndian.Uint32(p.record[4:])), "doorbell record")
				d, err := prm.DecodeDoorbell(p.doorbells[len(p.doorbells)-1])
				require.NoError(t, err)
				require.Equal(t, end, d.Next())
				require.EqualValues(t, 0x1234, d.Qpn)
			}
			expectPost(t, p.name, wqes)
		})
	}
}

func (p post) wqes(t *testing.T) []prm.Wqe {
	var all []prm.Wqe
	for at := p.index; at < p.index+p.blocks; {
		raw, err := prm.RingWqe(p.ring, uint16(at))
		require.NoError(t, err)
		w, err := prm.DecodeWqe(raw)
		require.NoError(t, err)
		require.EqualValues(t, 0x1234, w.Qpn)
		at += uint64(w.Bbs())
		last := at == p.index+p.blocks
		// fence_after_get posts twice, so each of its WQEs ends a reservation.
		require.Equal(t, last || p.name == "fence_after_get", w.Completion == prm.CompletionModeAlways, "%v", w)
		all = append(all, w)
	}
	return all
}

func expectPost(t *testing.T, name string, got []prm.Wqe) {
	data := func(bytes, lkey uint32, at uint64) []prm.Local {
		return []prm.Local{{Bytes: bytes, Lkey: lkey, Address: at}}
	}
	remote := func(at uint64, rkey uint32) *prm.Remote { return &prm.Remote{Address: at, Rkey: rkey} }
	write := func(at uint64, bytes uint32, from uint64) prm.Wqe {
		return prm.Wqe{Opcode: prm.OpcodeRdmaWrite, Remote: remote(at, 0xaabbcc01), Local: data(bytes, 0x11223302, from)}
	}
	read := func(at uint64, bytes uint32, to uint64) prm.Wqe {
		return prm.Wqe{Opcode: prm.OpcodeRdmaRead, Remote: remote(at, 0xaabbcc01), Local: data(bytes, 0x11223302, to)}
	}
	swap := func(at, value uint64) prm.Wqe {
		return prm.Wqe{Opcode: prm.OpcodeAtomicMaskedCs, Opmod: prm.OpmodMasked64, Remote: remote(at, 0xaabbcc03),
			Atomic: &prm.Atomic{Operand: value, SwapMask: ^uint64(0)}, Local: data(8, 0x11223304, 0x200)}
	}
	inline := make([]byte, 13)
	for i := range inline {
		inline[i] = byte(i + 1)
	}
	want := map[string][]prm.Wqe{
		"put":        {write(16, 64, 8)},
		"put_inline": {{Opcode: prm.OpcodeRdmaWrite, Remote: remote(3, 0xaabbcc01), Local: []prm.Local{{Inline: inline}}}},
		"put_split":  {write(0, 64, 0), write(64, 64, 64), write(128, 22, 128)},
		"get":        {read(16, 33, 8)},
		"signal_add": {{Opcode: prm.OpcodeAtomicMaskedFa, Opmod: prm.OpmodMasked64, Remote: remote(64, 0xaabbcc03),
			Atomic: &prm.Atomic{Operand: 5}, Local: data(8, 0x11223304, 0x200)}},
		"signal_set":      {swap(64, 0x0102030405060708)},
		"put_signal":      {write(0, 64, 0), write(64, 36, 64), swap(0, 7)},
		"put_nothing":     nil,
		"fence_after_get": {read(0, 32, 0), {Opcode: prm.OpcodeNop, Fence: prm.FenceModeFence}},
	}[name]
	require.Len(t, got, len(want))
	for i := range want {
		g := got[i]
		g.Index, g.Qpn, g.Completion = 0, 0, 0
		require.Equal(t, want[i], g)
	}
}
