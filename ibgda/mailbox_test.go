package ibgda

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/prm"
)

// words prints the non-zero big-endian words of a mailbox, the form of the golden vectors.
func words(m []byte) string {
	var out []string
	for at := 0; at < len(m); at += 4 {
		if w := binary.BigEndian.Uint32(m[at:]); w != 0 {
			out = append(out, fmt.Sprintf("%02x:%08x", at, w))
		}
	}
	return strings.Join(out, " ")
}

// The vectors were built with the public headers of the peers and of rdma-core; see internal/prm.
func TestMailboxesMatchGoldenVectors(t *testing.T) {
	init, err := rst2init(0x1234, 1)
	require.NoError(t, err)
	require.Len(t, init, 272)
	require.Equal(t, "00:05020000 08:00001234 18:00001800 54:00010000 a8:0003e000", words(init))

	rtr, err := init2rtr(0x1234, remote{qpn: 0x5678, psn: 0x111, mtu: prm.MtuBytes4096, logMsgMax: 30, logRraMax: 4, minRnrNak: 12},
		route{port: 1, rlid: 0x2a, sl: 2})
	require.NoError(t, err)
	// The vector sets no port here; the peers do.
	require.Equal(t, "00:05030000 08:00001234 20:be000000 2c:00005678 34:0000002a 54:02010000 a8:00800000 ac:0c000111", words(rtr))

	way := route{port: 1, ethernet: true, gidIndex: 3, hopLimit: 64, tclass: 0x68, udpSport: 0xc123, sl: 3,
		rmac: [6]byte{0x0c, 0x42, 0xa1, 0xb2, 0xc3, 0xd4}}
	copy(way.rgid[10:], []byte{0xff, 0xff, 10, 0, 0, 2})
	rtr, err = init2rtr(0x1234, remote{qpn: 0x5678, psn: 0x111, mtu: prm.MtuBytes1024, logMsgMax: 30, logRraMax: 4, minRnrNak: 12}, way)
	require.NoError(t, err)
	require.Equal(t, "00:05030000 08:00001234 20:7e000000 2c:00005678 38:00030040 3c:06800000 48:0000ffff 4c:0a000002 "+
		"50:001ac123 54:30010c42 58:a1b2c3d4 a8:00800000 ac:0c000111", words(rtr))

	rts, err := rtr2rts(0x1234, requester{psn: 0x222, logSraMax: 4, retries: 7, rnrRetries: 7, ackTimeout: 20})
	require.NoError(t, err)
	require.Equal(t, "00:05040000 08:00001234 38:a0000000 88:0087e000 90:00000222", words(rts))
}

func TestCreateMailboxes(t *testing.T) {
	cq, err := createCQ(ring{umem: 0x21, offset: 0x2000, dbrUmem: 0x21, dbr: 0x3000, uarPage: 0x345, log: 10}, 7)
	require.NoError(t, err)
	// The golden vector also writes log_page_size 4, which the firmware takes from the umem.
	require.Equal(t, "00:04000000 10:02120000 14:00000021 1c:0a000345 24:00000007 4c:00003000 54:00002000 58:00000021 5c:80000000",
		words(cq))

	qp, err := createQP(ring{umem: 0x22, offset: 0x10000, dbrUmem: 0x22, dbr: 0x20000, uarPage: 0x346, log: 10}, 0x1b, 0x401, 5,
		prm.TsFormatDefaultFormat)
	require.NoError(t, err)
	require.Equal(t, "00:05000000 18:00001800 1c:0000001b 20:00005040 24:00000346 28:00000005 94:00000401 bc:00020000 "+
		"c4:03000000 e8:10000000 fc:00000022 104:00010000 108:00000022 10c:80000000", words(qp))
}

func TestMailboxRefusesWideValues(t *testing.T) {
	var field *prm.FieldError
	_, err := createQP(ring{log: 16}, 0, 0, 0, prm.TsFormatFreeRunning)
	require.ErrorAs(t, err, &field)
	require.Equal(t, "qpc.log_sq_size", field.Field.Name)
	_, err = rtr2rts(1, requester{retries: 8})
	require.ErrorAs(t, err, &field)
	_, err = rst2init(1<<24, 1)
	require.ErrorAs(t, err, &field)
	_, err = toErr(1 << 24)
	require.Error(t, err)
	_, err = queryQP(1 << 24)
	require.Error(t, err)
}
