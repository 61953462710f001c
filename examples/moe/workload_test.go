package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func smallConfig(t *testing.T, args ...string) Config {
	return testConfig(t, append([]string{"-tokens", "12", "-hidden", "256", "-experts", "8", "-topk", "3"}, args...)...)
}

func TestGenerateIsDeterministic(t *testing.T) {
	c := smallConfig(t)
	for _, kind := range routings {
		a, b := generate(c, kind, 4, 2, 7), generate(c, kind, 4, 2, 7)
		require.Equal(t, a, b, kind)
		require.NotEqual(t, a.X, generate(c, kind, 4, 2, 8).X, kind)
		require.NotEqual(t, a.X, generate(c, kind, 4, 3, 7).X, kind)
	}
	require.NotEqual(t, generate(c, "uniform", 4, 0, 1).X, generate(smallConfig(t, "-seed", "2"), "uniform", 4, 0, 1).X)
}

// Every token names distinct experts in range, whatever the kind: slots are sized for that.
func TestRoutingIsLegal(t *testing.T) {
	c := smallConfig(t, "-topk", "8") // as many as there are experts
	for _, kind := range routings {
		for gen := range uint64(8) {
			b := generate(c, kind, 4, 1, gen)
			require.LessOrEqual(t, b.Tokens, c.Tokens)
			require.Len(t, b.TopK, b.Tokens*c.TopK)
			for i := range b.Tokens {
				var seen []int32
				for k, e := range b.TopK[i*c.TopK : (i+1)*c.TopK] {
					w := b.Weights[i*c.TopK+k]
					if e < 0 {
						require.Equal(t, int32(-1), e)
						require.Zero(t, w)
						continue
					}
					require.Positive(t, w)
					require.Less(t, int(e), c.Experts)
					require.NotContains(t, seen, e)
					seen = append(seen, e)
				}
			}
		}
	}
}

func TestRoutingKinds(t *testing.T) {
	c := smallConfig(t, "-tokens", "200")
	valid := func(b Batch) []int32 {
		return slices.DeleteFunc(slices.Clone(b.TopK), func(e int32) bool { return e < 0 })
	}
	count := func(b Batch) []int {
		n := make([]int, c.Experts)
		for _, e := range valid(b) {
			n[e]++
		}
		return n
	}

	uniform := generate(c, "uniform", 4, 0, 1)
	require.Len(t, valid(uniform), 200*c.TopK)
	require.Greater(t, slices.Min(count(uniform)), 40) // 75 on average

	zipf := count(generate(c, "zipf", 4, 0, 1))
	require.Greater(t, slices.Max(zipf), 3*slices.Min(zipf))

	hot := count(generate(c, "onehot", 4, 0, 1))
	require.Equal(t, 200, slices.Max(hot))
	require.Equal(t, hot, count(generate(c, "onehot", 4, 3, 5)), "all PEs choose the same expert")

	masked := generate(c, "masked", 4, 0, 1)
	require.InDelta(t, 600*0.75*0.875, len(valid(masked)), 60)

	for gen := range uint64(4) {
		for pe := range 4 {
			n := generate(c, "zerope", 4, pe, gen).Tokens
			require.Equal(t, int(gen) == pe, n == 0)
		}
	}

	counts := map[int]bool{}
	for pe := range 4 {
		counts[generate(c, "unequal", 4, pe, 1).Tokens] = true
	}
	require.Greater(t, len(counts), 2)
}

func TestTokensHaveGroupsOfManyMagnitudes(t *testing.T) {
	b := generate(testConfig(t, "-tokens", "64"), "uniform", 4, 0, 1)
	zero, large, small := 0, 0, 0
	for at := 0; at < len(b.X); at += scaleGroup {
		var amax float32
		for _, v := range b.X[at : at+scaleGroup] {
			amax = max(amax, fromBF16(v&0x7fff))
		}
		switch {
		case amax == 0:
			zero++
		case amax > 4:
			large++
		case amax < minAmax:
			small++
		}
		require.Less(t, amax, float32(32))
	}
	require.Positive(t, zero)
	require.Positive(t, large)
	require.Positive(t, small)
}
