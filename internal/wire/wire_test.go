package wire

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/wire/table"
)

func TestBigEndian(t *testing.T) {
	b := Big(0x01020304)
	require.Equal(t, [4]byte{1, 2, 3, 4}, *(*[4]byte)(unsafe.Pointer(&b)), "bytes in memory are in network order")
	for _, v := range []uint32{0, 1, 0xaabbcc01, 0xffffffff} {
		require.Equal(t, v, Big(v).Value())
	}
}

func TestLayoutHash(t *testing.T) { require.Equal(t, table.Table().Hash(), LayoutHash) }

func TestEnumNames(t *testing.T) {
	require.Equal(t, "peer_lost", StatusPeerLost.String())
	require.Equal(t, "status(0x63)", Status(99).String())
	for _, e := range table.Table().Enums {
		require.Equal(t, "u32", e.Type, "%s: kernels read enums as 32-bit words", e.Name)
	}
}
