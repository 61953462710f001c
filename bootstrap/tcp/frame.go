// Package tcp is the Exchanger over TCP, or over an abstract Unix socket when all PEs share a host. PE 0 runs the hub:
// it listens at the root address, authenticates the others, carries every collective call, and tells everybody at once
// when a PE dies or aborts.
package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame is a 32-byte big-endian header, the payload, and a CRC32C over both. The header and the handshake frames are
// the same in every protocol version, so that a peer of another version can be told so.
//
//	0 magic  4 version(16) kind(16)  8 job(64)  16 step(64)  24 pe(32)  28 length(32)  32 payload ... crc(32)
const (
	frameMagic   = 0x50474153 // "PGAS"
	frameVersion = 1
	headerBytes  = 32
	crcBytes     = 4

	// maxBlob is the largest contribution of one PE to one all-gather.
	maxBlob = 64 << 20
	// maxPayload leaves room for the prefix of a contribution.
	maxPayload = maxBlob + 64
	// maxHandshake is the largest payload that is read from a peer before it has proved that it knows the job key.
	maxHandshake = 4096
)

type kind uint16

const (
	kindChallenge  kind = iota + 1 // hub: version, job, nonce
	kindHello                      // PE: version, job, rank, size, nonce, MAC
	kindReject                     // hub: why this process may not take part
	kindWelcome                    // hub: its MAC
	kindStart                      // hub: all PEs are here
	kindContribute                 // PE: its part of a step
	kindResult                     // hub: the part of one PE
	kindRelease                    // hub: a barrier is complete
	kindAbort                      // PE: its cause
	kindFail                       // hub: the first cause of the job
	kindBye                        // PE: it leaves; hub: acknowledged
	kindEnd                        // one past the last
)

type frame struct {
	version uint16
	kind    kind
	job     uint64
	step    uint64
	pe      uint32
	payload []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errNotPGAS   = errors.New("not a pgas frame")
	errChecksum  = errors.New("frame checksum is wrong")
	errFrameKind = errors.New("unknown kind of frame")
)

// encode returns the bytes of the frame.
func (f *frame) encode() []byte {
	b := make([]byte, 0, headerBytes+len(f.payload)+crcBytes)
	b = binary.BigEndian.AppendUint32(b, frameMagic)
	b = binary.BigEndian.AppendUint16(b, f.version)
	b = binary.BigEndian.AppendUint16(b, uint16(f.kind))
	b = binary.BigEndian.AppendUint64(b, f.job)
	b = binary.BigEndian.AppendUint64(b, f.step)
	b = binary.BigEndian.AppendUint32(b, f.pe)
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.payload)))
	b = append(b, f.payload...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readFrame reads one frame. It never allocates more than twice what has arrived plus 64 KiB, whatever the header
// says. io.EOF means that the stream ended between two frames.
func readFrame(r io.Reader, limit uint32) (*frame, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	if binary.BigEndian.Uint32(header[0:]) != frameMagic {
		return nil, errNotPGAS
	}
	f := &frame{
		version: binary.BigEndian.Uint16(header[4:]),
		kind:    kind(binary.BigEndian.Uint16(header[6:])),
		job:     binary.BigEndian.Uint64(header[8:]),
		step:    binary.BigEndian.Uint64(header[16:]),
		pe:      binary.BigEndian.Uint32(header[24:]),
	}
	length := binary.BigEndian.Uint32(header[28:])
	if f.kind == 0 || f.kind >= kindEnd {
		return nil, fmt.Errorf("%w (%d)", errFrameKind, f.kind)
	}
	if length > limit {
		return nil, fmt.Errorf("frame of %d bytes, at most %d", length, limit)
	}
	var body bytes.Buffer
	body.Grow(int(min(length+crcBytes, 64<<10)))
	if _, err := io.CopyN(&body, r, int64(length)+crcBytes); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	f.payload = body.Bytes()[:length:length]
	sum := crc32.Update(crc32.Checksum(header[:], castagnoli), castagnoli, f.payload)
	if sum != binary.BigEndian.Uint32(body.Bytes()[length:]) {
		return nil, errChecksum
	}
	return f, nil
}
