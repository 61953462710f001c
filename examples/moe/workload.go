package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

// A Batch is what one PE dispatches in one generation.
type Batch struct {
	Tokens  int
	X       []uint16  // [token][hidden] bf16
	TopK    []int32   // [token][k] global expert, -1 for none
	Weights []float32 // [token][k]
}

// mix turns a tuple into a seed (splitmix64's finaliser over a running sum).
func mix(values ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, v := range values {
		h += v + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// generate returns the batch of PE pe in generation gen. It depends on its arguments only, so every PE can make the
// batch of every other PE.
func generate(c Config, kind string, pes, pe int, gen uint64) Batch {
	seed := mix(c.Seed, gen, uint64(pe), uint64(slices.Index(routings, kind)))
	r := rand.New(rand.NewPCG(seed, gen))
	b := Batch{Tokens: tokenCount(c, kind, pes, pe, gen, r)}
	b.X = make([]uint16, b.Tokens*c.Hidden)
	for t := range b.Tokens {
		fillToken(b.X[t*c.Hidden:(t+1)*c.Hidden], r)
	}
	b.TopK = make([]int32, b.Tokens*c.TopK)
	b.Weights = make([]float32, b.Tokens*c.TopK)
	pick := newPicker(c, kind)
	for t := range b.Tokens {
		row := b.TopK[t*c.TopK : (t+1)*c.TopK]
		pick.choose(row, r)
		fillWeights(b.Weights[t*c.TopK:(t+1)*c.TopK], row, r)
	}
	return b
}

// tokenCount is the full number but for two kinds: in "zerope" one PE, another in each generation, has none; in
// "unequal" the counts differ and one PE has the full number.
func tokenCount(c Config, kind string, pes, pe int, gen uint64, r *rand.Rand) int {
	switch {
	case kind == "zerope" && int(gen%uint64(pes)) == pe:
		return 0
	case kind == "unequal" && int(gen%uint64(pes)) != pe:
		return r.IntN(c.Tokens + 1)
	}
	return c.Tokens
}

// fillToken draws channels with magnitudes between 2^-7 and 2, groups of other magnitudes and groups of zeros, so that
// scales differ and the smallest scale is used.
func fillToken(x []uint16, r *rand.Rand) {
	for at := 0; at < len(x); at += scaleGroup {
		group := x[at:min(at+scaleGroup, len(x))]
		lift := uint16(0)
		switch v := r.IntN(64); {
		case v == 0:
			continue // zeros
		case v < 8:
			lift = uint16(r.IntN(4)) << 7 // one exponent step is 1 << 7
		case v < 12:
			lift = ^uint16(r.IntN(40)<<7) + 1 // down to 2^-47
		}
		for i := 0; i < len(group); i += 4 {
			u := r.Uint64()
			for j := i; j < min(i+4, len(group)); j++ {
				// sign, an exponent between 120 and 127, 7 mantissa bits
				group[j] = (uint16(u)&0x8000 | (120<<7 + uint16(u)&0x3ff)) + lift
				u >>= 16
			}
		}
	}
}

// fillWeights draws positive weights that sum to about 1 over the valid entries.
func fillWeights(w []float32, topk []int32, r *rand.Rand) {
	var sum float32
	for k := range w {
		w[k] = 0
		if topk[k] >= 0 {
			w[k] = 0.1 + r.Float32()
			sum += w[k]
		}
	}
	for k := range w {
		if topk[k] >= 0 {
			w[k] /= sum
		}
	}
}

// A picker chooses the experts of tokens.
type picker struct {
	kind  string
	order []int32   // popularity order (zipf), or all experts
	cdf   []float64 // cumulative popularity (zipf)
	hot   int32
}

func newPicker(c Config, kind string) *picker {
	r := rand.New(rand.NewPCG(c.Seed, 0x707)) // not of the PE: all PEs favour the same experts
	p := &picker{kind: kind, order: make([]int32, c.Experts), hot: int32(r.IntN(c.Experts))}
	for i := range p.order {
		p.order[i] = int32(i)
	}
	r.Shuffle(len(p.order), func(i, j int) { p.order[i], p.order[j] = p.order[j], p.order[i] })
	var sum float64
	for i := range p.order {
		sum += math.Pow(float64(i+1), -1.2)
		p.cdf = append(p.cdf, sum)
	}
	return p
}

// choose fills row with distinct experts, or with -1.
func (p *picker) choose(row []int32, r *rand.Rand) {
	for k := range row {
		row[k] = -1
	}
	if p.kind == "onehot" { // all tokens of all PEs to one expert
		row[r.IntN(len(row))] = p.hot
		return
	}
	if p.kind == "masked" && r.IntN(8) == 0 {
		return // a token that nobody gets
	}
	for k := range row {
		if p.kind == "masked" && r.IntN(4) == 0 {
			continue
		}
		row[k] = p.draw(row[:k], r)
	}
}

// draw returns an expert that is not in taken. After many collisions it takes the most popular free one, so that it
// ends when top-k is as large as the number of experts.
func (p *picker) draw(taken []int32, r *rand.Rand) int32 {
	for range 64 {
		i := r.IntN(len(p.order))
		if p.kind == "zipf" {
			i, _ = slices.BinarySearch(p.cdf, r.Float64()*p.cdf[len(p.cdf)-1])
		}
		if e := p.order[min(i, len(p.order)-1)]; !slices.Contains(taken, e) {
			return e
		}
	}
	for _, e := range p.order {
		if !slices.Contains(taken, e) {
			return e
		}
	}
	return -1
}
