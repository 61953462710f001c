package bootstrap

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGroup(t *testing.T) {
	ids := []string{"b", "a", "b", "c", "a"}
	require.Equal(t, &Hosts{Of: []int{0, 1, 0, 2, 1}, Local: []int{1, 4}, LocalRank: 1}, group(ids, 4))
	require.Equal(t, &Hosts{Of: []int{0, 1, 0, 2, 1}, Local: []int{3}, LocalRank: 0}, group(ids, 3))
	require.Equal(t, 3, group(ids, 0).Count())
}

// Strangers that connect first, are silent, or guess a token do not stop the exchange; PEs of other hosts are left out.
func TestFDStrangers(t *testing.T) {
	ln0, o0 := offer([]int{1, 2})
	ln1, o1 := offer([]int{2})
	defer ln0.Close()
	defer ln1.Close()
	elsewhere := fdOffer{Host: "another host", Name: "@nowhere", Token: make([]byte, tokenBytes), Count: 5}
	offers := []fdOffer{o0, o1, elsewhere}

	for _, text := range []string{"", "guess", string(make([]byte, greetingBytes)), string(o1.Token) + "\x00\x00\x00\x02"} {
		conn, err := net.Dial("unix", o1.Name)
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte(text))
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	p0 := &fdPass{rank: 0, offers: offers, fds: []int{1, 2}, ln: ln0, got: make([][]int, 3)}
	p1 := &fdPass{rank: 1, offers: offers, fds: []int{2}, ln: ln1, got: make([][]int, 3)}
	first := make(chan error)
	go func() { first <- p0.run(ctx) }()
	require.NoError(t, p1.run(ctx))
	require.NoError(t, <-first)
	require.Len(t, p0.got[1], 1)
	require.Len(t, p1.got[0], 2)
	require.Nil(t, p1.got[1])
	require.Nil(t, p1.got[2])
	require.NoError(t, CloseFDs(p0.got))
	require.NoError(t, CloseFDs(p1.got))
}
