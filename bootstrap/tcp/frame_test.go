package tcp

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := &frame{version: rapid.Uint16().Draw(t, "version"), kind: kind(rapid.IntRange(1, int(kindEnd)-1).Draw(t, "kind")),
			job: rapid.Uint64().Draw(t, "job"), step: rapid.Uint64().Draw(t, "step"), pe: rapid.Uint32().Draw(t, "pe"),
			payload: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload")}
		// One byte at a time: partial reads must not matter.
		out, err := readFrame(iotest.OneByteReader(bytes.NewReader(in.encode())), maxPayload)
		require.NoError(t, err)
		require.Equal(t, in, out)
	})
}

func TestFrameDamage(t *testing.T) {
	good := (&frame{version: frameVersion, kind: kindBye, job: 7, payload: []byte("payload")}).encode()
	for bit := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		_, err := readFrame(bytes.NewReader(bad), 1024)
		require.Error(t, err, "bit %d", bit)
	}
	for n := range good {
		_, err := readFrame(bytes.NewReader(good[:n]), 1024)
		if n == 0 {
			require.ErrorIs(t, err, io.EOF)
		} else {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
	}
	_, err := readFrame(bytes.NewReader([]byte("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")), 1024)
	require.ErrorIs(t, err, errNotPGAS)
}

func TestFrameLengthIsNotTrusted(t *testing.T) {
	b := (&frame{version: frameVersion, kind: kindContribute}).encode()
	binary.BigEndian.PutUint32(b[28:], maxPayload)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readFrame(bytes.NewReader(b), maxPayload)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	binary.BigEndian.PutUint32(b[28:], maxPayload+1)
	_, err = readFrame(bytes.NewReader(b), maxPayload)
	require.ErrorContains(t, err, "at most")
}

// FuzzFrame: whatever arrives, reading ends with an error or with a frame that encodes to the same bytes.
func FuzzFrame(f *testing.F) {
	f.Add((&frame{version: 1, kind: kindHello, payload: []byte("{}")}).encode())
	f.Add((&frame{version: 9, kind: kindFail, step: 1 << 40}).encode())
	f.Add([]byte("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fr, err := readFrame(bytes.NewReader(data), 1<<16)
		if err != nil {
			return
		}
		out := fr.encode()
		require.Equal(t, data[:len(out)], out)
	})
}
