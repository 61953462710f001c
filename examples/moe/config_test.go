package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func testConfig(t require.TestingT, args ...string) Config {
	c, err := parseFlags(args, &bytes.Buffer{})
	require.NoError(t, err)
	return c
}

func TestCheckNamesTheRule(t *testing.T) {
	for _, x := range []struct {
		args []string
		pes  int
		want string
	}{
		{[]string{"-hidden", "100"}, 4, "moe: hidden must be a multiple of 128 for fp8, one scale covers 128 channels; you have 100 [-bf16 takes any hidden]"},
		{[]string{"-hidden", "0", "-bf16"}, 4, "moe: hidden must be >= 1; you have 0"},
		{[]string{"-experts", "30"}, 4, "moe: experts must be a multiple of the PEs; you have 30 experts on 4 PEs"},
		{[]string{"-experts", "4", "-topk", "5"}, 4, "moe: topk must be <= experts; you have topk 5 of 4 experts"},
		{[]string{"-experts", "70000"}, 4, "moe: experts must be <= 65535; you have 70000"},
		{[]string{"-topk", "0"}, 4, "moe: topk must be >= 1; you have 0"},
		{[]string{"-topk", "33", "-experts", "64"}, 4, "moe: topk must be <= 32; you have 33"},
		{[]string{"-tokens", "-1"}, 4, "moe: tokens must be >= 0; you have -1"},
		{[]string{"-ffn", "17"}, 4, "moe: ffn must be a multiple of 16 and <= 256; you have 17"},
		{[]string{"-iters", "0"}, 4, "moe: iters must be >= 1; you have 0"},
		{[]string{"-routing", "none"}, 4, `moe: routing must be one of uniform, zipf, onehot, masked, zerope, unequal or all; you have "none"`},
		{[]string{"-threads", "100"}, 4, "moe: threads must be a multiple of 32 and <= 512; you have 100"},
		{[]string{"-blocks", "0"}, 4, "moe: blocks must be >= 1 and <= 65535; you have 0"},
		{[]string{"-contexts", "0"}, 4, "moe: contexts must be >= 1; you have 0"},
		{nil, 0, "moe: PEs must be >= 1; you have 0"},
	} {
		require.EqualError(t, testConfig(t, x.args...).check(x.pes), x.want)
	}
}

func TestCheckJoinsAllRules(t *testing.T) {
	err := testConfig(t, "-hidden", "15", "-experts", "6", "-topk", "7").check(4)
	require.ErrorContains(t, err, "hidden must be a multiple of 128")
	require.ErrorContains(t, err, "experts must be a multiple of the PEs")
	require.ErrorContains(t, err, "topk must be <= experts")
}

func TestCheckAcceptsOddShapes(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"-hidden", "1", "-bf16"}, {"-hidden", "15", "-bf16"}, {"-hidden", "16", "-bf16"}, {"-tokens", "0"},
		{"-experts", "4", "-topk", "4"}, {"-fp8=false", "-hidden", "7"},
	} {
		require.NoError(t, testConfig(t, args...).check(4), "%v", args)
	}
}

func TestFlags(t *testing.T) {
	require.True(t, testConfig(t).FP8)
	require.False(t, testConfig(t, "-bf16").FP8)
	_, err := parseFlags([]string{"-bf16", "-fp8"}, &bytes.Buffer{})
	require.ErrorContains(t, err, "only one of -fp8 and -bf16")
	_, err = parseFlags([]string{"uniform"}, &bytes.Buffer{})
	require.ErrorContains(t, err, `unexpected argument "uniform"`)
	_, err = parseFlags([]string{"-tokens", "many"}, &bytes.Buffer{})
	require.Error(t, err)
}

// DeepSeek-V3's shape: 128 tokens, 7168 channels, top-8 of 256 experts over 8 PEs, by hand.
func TestMemoryFormula(t *testing.T) {
	l, err := newLayout(testConfig(t, "-tokens", "128", "-experts", "256"), 8)
	require.NoError(t, err)
	require.Equal(t, 32+7168+56*4, l.MessageBytes)
	require.Equal(t, uint64(2*256*128*7424), l.Recv.Bytes())
	require.Equal(t, uint64(2*128*8*14336), l.Combined.Bytes())
	require.Equal(t, uint64(2*8*128*8*14336), l.Rows.Bytes())
	require.Equal(t, uint64(32*7168*16*2), l.W1.Bytes())
	require.Equal(t, 2*2*256, l.SignalWords)
	require.Contains(t, l.String(), "486539264 B = 2 x local experts x PEs x tokens x slot")
}

func TestHeapRefusal(t *testing.T) {
	l, err := newLayout(testConfig(t), 4)
	require.NoError(t, err)
	require.NoError(t, l.fits(l.Total))
	require.ErrorContains(t, l.fits(l.Total-1), "buffers do not fit the symmetric heap: need")
}

// Regions are aligned, disjoint, and every copy of every entry lies inside its region.
func TestLayoutRegionsAreDisjoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pes := rapid.IntRange(1, 9).Draw(t, "pes")
		c := testConfig(t, "-bf16")
		c.Tokens = rapid.IntRange(0, 40).Draw(t, "tokens")
		c.Hidden = rapid.IntRange(1, 300).Draw(t, "hidden")
		c.Experts = pes * rapid.IntRange(1, 5).Draw(t, "local experts")
		c.TopK = rapid.IntRange(1, min(c.Experts, maxTopK)).Draw(t, "topk")
		require.NoError(t, c.check(pes))
		l, err := newLayout(c, pes)
		require.NoError(t, err)
		end := uint64(0)
		for _, r := range l.regions() {
			require.Zero(t, r.Offset%256)
			require.GreaterOrEqual(t, r.Offset, end)
			require.Zero(t, r.Stride%16)
			end = r.Offset + r.Bytes()
			if r.Count > 0 {
				last := r.at(uint64(parities-1), int(r.Count)-1)
				require.LessOrEqual(t, last+r.Stride, end)
			}
		}
		require.LessOrEqual(t, end, l.Total)
	})
}
