package errs

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWordingAndSentinels(t *testing.T) {
	cases := []struct {
		err  error
		is   error
		text string
	}{
		{&UnsupportedError{"ibgda", "PeerMappingOverride=1", "0", "set the module option"}, ErrNotSupported,
			"ibgda: not supported: need PeerMappingOverride=1, have 0 (set the module option)"},
		{&UnsupportedError{Feature: "proxy", Have: "no such path"}, ErrNotSupported,
			"proxy: not supported: have no such path"},
		{&UnsupportedError{Feature: "proxy", Need: "a NIC"}, ErrNotSupported, "proxy: not supported: need a NIC"},
		{&PeerLostError{PE: 2, Host: "10.0.0.7", Op: "barrier", Age: 12 * time.Millisecond, Cause: io.EOF}, ErrPeerLost,
			"barrier: peer lost: PE 2 on 10.0.0.7: EOF, last seen 12ms ago"},
		{&PeerLostError{PE: 2}, ErrPeerLost, "peer lost: PE 2"},
		{&AbortError{PE: 1, Cause: io.EOF}, ErrAborted, "job aborted by PE 1: EOF"},
		{&TimeoutError{Op: "barrier", After: 2 * time.Second, Size: 3, Missing: []int{1}}, ErrTimeout,
			"barrier: timed out after 2s: 2 of 3 PEs, missing: 1"},
		{&MismatchError{"heap size", map[int]string{0: "64M", 1: "32M", 2: "64M", 3: "64M"}}, ErrMismatch,
			"mismatch between PEs: heap size: 64M on PE 0, 2, 3; 32M on PE 1"},
		{PE("put", 7, 4), ErrInvalid, "put: pe is 7, want 0..3"},
		{&CompletionError{QPN: 0x11, Peer: 3, WQEIndex: 482, Opcode: 8, Syndrome: 0x13, VendorSyndrome: 0x88, Detail: "bad rkey"},
			ErrCompletion,
			"qp 0x11 (context 0, PE 3) wqe 482 (rdma write): remote access error (syndrome 0x13, vendor 0x88): bad rkey"},
	}
	all := []error{ErrNotSupported, ErrClosed, ErrHeapFull, ErrPeerLost, ErrMismatch, ErrTimeout, ErrAborted, ErrInvalid,
		ErrCompletion, ErrRefused}
	for _, c := range cases {
		require.Equal(t, c.text, c.err.Error())
		wrapped := fmt.Errorf("outer: %w", &OpError{Op: "put", PE: 0, Peer: 3, Path: "ibgda", Err: c.err})
		for _, s := range all {
			require.Equal(t, s == c.is, errors.Is(wrapped, s), "%v against %v", c.err, s)
		}
	}
}

func TestUnwrap(t *testing.T) {
	require.ErrorIs(t, &PeerLostError{Cause: io.EOF}, io.EOF)
	require.ErrorIs(t, &AbortError{Cause: &PeerLostError{PE: 4}}, ErrPeerLost)
	require.Equal(t, "put to PE 3 (p2p): EOF", (&OpError{Op: "put", Peer: 3, Path: "p2p", Err: io.EOF}).Error())
	require.NoError(t, Op("put", 0, nil))
	require.Equal(t, "put: EOF", Op("put", 0, io.EOF).Error())
}

func TestPE(t *testing.T) {
	require.NoError(t, PE("put", 0, 1))
	require.NoError(t, PE("put", 3, 4))
	require.Error(t, PE("put", -1, 4))
	require.Error(t, PE("put", 4, 4))
}

func TestCheckEqual(t *testing.T) {
	require.NoError(t, CheckEqual("x", nil))
	require.NoError(t, CheckEqual("x", []string{"a", "a"}))
	require.EqualError(t, CheckEqual("x", []string{"a", "b"}), "mismatch between PEs: x: a on PE 0; b on PE 1")
}

// PEList must name each PE exactly once; the test reads its output back.
func TestPEListRoundTrip(t *testing.T) {
	require.Equal(t, "1, 3-7, 9, 10", PEList([]int{1, 3, 4, 5, 6, 7, 9, 10}))
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfNDistinct(rapid.IntRange(0, 60), 1, 30, rapid.ID[int]).Draw(t, "pes")
		sort.Ints(want)
		require.Equal(t, want, parsePEList(t, PEList(want)))
	})
}

func parsePEList(t require.TestingT, s string) []int {
	var out []int
	for len(s) > 0 {
		var lo, hi int
		if n, _ := fmt.Sscanf(s, "%d-%d", &lo, &hi); n == 1 {
			hi = lo
		}
		require.LessOrEqual(t, lo, hi)
		for i := lo; i <= hi; i++ {
			out = append(out, i)
		}
		i := 0
		for i < len(s) && s[i] != ',' {
			i++
		}
		s = s[min(len(s), i+2):]
	}
	return out
}
