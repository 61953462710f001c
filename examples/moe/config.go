package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Config is what the job runs. It must be equal on all PEs: every PE derives the buffers, tokens and routing of all
// others from it.
type Config struct {
	Tokens  int    // most tokens that one PE dispatches in one generation
	Hidden  int    // channels of one token
	Experts int    // of the whole job, spread evenly over the PEs
	TopK    int    // experts per token
	FFN     int    // inner width of the expert MLP
	Routing string // one of routings, or "all"
	Iters   int    // measured rounds per routing
	Free    int    // rounds per routing without a barrier: PEs drift apart; checked, not measured
	Seed    uint64
	FP8     bool // dispatch in e4m3 with scales; else bf16
	Pow2    bool // scales are powers of two
	Split   bool // two micro-batches in flight: each half waits behind the other batch's work
	JSON    bool
	Grid    Grid
	Context int // communication contexts; local expert e uses context e mod Context
}

// Grid is the launch shape of every kernel but the dispatch receive half, which is one block.
type Grid struct{ Blocks, Threads int }

// routings lists the workload kinds in the order that "all" runs them.
var routings = []string{"uniform", "zipf", "onehot", "masked", "zerope", "unequal"}

const (
	scaleGroup = 128   // channels that share one fp8 scale
	maxExperts = 65535 // a message names experts by 16 bits, and 0xffff means none
	maxTopK    = 32    // the lanes of a warp hold one top-k entry each
	ffnStep    = 16    // inner channels that a lane accumulates at a time
	warpSize   = 32
)

func parseFlags(args []string, out io.Writer) (Config, error) {
	c := Config{FP8: true}
	f := flag.NewFlagSet("moe", flag.ContinueOnError)
	f.SetOutput(out)
	f.IntVar(&c.Tokens, "tokens", 32, "most tokens per PE and generation")
	f.IntVar(&c.Hidden, "hidden", 7168, "channels per token")
	f.IntVar(&c.Experts, "experts", 32, "experts of the whole job")
	f.IntVar(&c.TopK, "topk", 8, "experts per token")
	f.IntVar(&c.FFN, "ffn", 16, "inner width of the expert MLP")
	f.StringVar(&c.Routing, "routing", "all", strings.Join(routings, "|")+"|all")
	f.IntVar(&c.Iters, "iters", 3, "measured rounds per routing; every round is checked")
	f.IntVar(&c.Free, "free", 2, "rounds per routing before the measured ones, without barriers: PEs drift apart; checked too")
	f.Uint64Var(&c.Seed, "seed", 1, "of tokens, routing and expert weights")
	f.BoolVar(&c.FP8, "fp8", true, "dispatch in e4m3 with one scale per 128 channels")
	bf16 := f.Bool("bf16", false, "dispatch in bf16; the opposite of -fp8")
	f.BoolVar(&c.Pow2, "pow2-scales", false, "fp8 scales are powers of two")
	f.BoolVar(&c.Split, "split", false, "two micro-batches in flight: run the send and receive halves around the other batch's work")
	f.BoolVar(&c.JSON, "json", false, "print one JSON document in place of the tables")
	f.IntVar(&c.Grid.Blocks, "blocks", 4, "blocks per kernel")
	f.IntVar(&c.Grid.Threads, "threads", 128, "threads per block")
	f.IntVar(&c.Context, "contexts", 2, "communication contexts (queues per peer) that the experts are spread over")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("moe: unexpected argument %q [flags only, see -h]", f.Arg(0))
	}
	fp8Set := false
	f.Visit(func(g *flag.Flag) { fp8Set = fp8Set || g.Name == "fp8" })
	if *bf16 && fp8Set && c.FP8 {
		return c, errors.New("moe: only one of -fp8 and -bf16 may be given")
	}
	c.FP8 = c.FP8 && !*bf16
	return c, nil
}

// kinds returns the routings that the job runs.
func (c Config) kinds() []string {
	if c.Routing == "all" {
		return routings
	}
	return []string{c.Routing}
}

// wireFormat names what dispatch carries.
func (c Config) wireFormat() string {
	switch {
	case !c.FP8:
		return "bf16"
	case c.Pow2:
		return "fp8 e4m3 with power-of-two scales"
	}
	return "fp8 e4m3"
}

// localExperts returns how many experts each of pes PEs owns.
func (c Config) localExperts(pes int) int { return c.Experts / pes }

// check refuses what the kernels cannot run, naming each broken rule with the numbers at hand. It needs no device.
func (c Config) check(pes int) error {
	var errs []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("moe: "+format, args...))
		}
	}
	must(pes >= 1, "PEs must be >= 1; you have %d", pes)
	must(c.Tokens >= 0, "tokens must be >= 0; you have %d", c.Tokens)
	must(c.Tokens < 1<<20, "tokens must be < %d; you have %d", 1<<20, c.Tokens)
	must(c.Hidden >= 1, "hidden must be >= 1; you have %d", c.Hidden)
	must(c.Hidden <= 1<<20, "hidden must be <= %d; you have %d", 1<<20, c.Hidden)
	must(!c.FP8 || c.Hidden%scaleGroup == 0,
		"hidden must be a multiple of %d for fp8, one scale covers %d channels; you have %d [-bf16 takes any hidden]",
		scaleGroup, scaleGroup, c.Hidden)
	must(c.Experts >= 1, "experts must be >= 1; you have %d", c.Experts)
	must(c.Experts <= maxExperts, "experts must be <= %d; you have %d", maxExperts, c.Experts)
	must(pes < 1 || c.Experts%pes == 0, "experts must be a multiple of the PEs; you have %d experts on %d PEs", c.Experts, pes)
	must(c.TopK >= 1, "topk must be >= 1; you have %d", c.TopK)
	must(c.TopK <= maxTopK, "topk must be <= %d; you have %d", maxTopK, c.TopK)
	must(c.TopK <= c.Experts, "topk must be <= experts; you have topk %d of %d experts", c.TopK, c.Experts)
	must(c.FFN >= ffnStep && c.FFN%ffnStep == 0 && c.FFN <= 16*ffnStep,
		"ffn must be a multiple of %d and <= %d; you have %d", ffnStep, 16*ffnStep, c.FFN)
	must(c.Iters >= 1, "iters must be >= 1; you have %d", c.Iters)
	must(c.Free >= 0, "free must be >= 0; you have %d", c.Free)
	must(c.Routing == "all" || slices.Contains(routings, c.Routing),
		"routing must be one of %s or all; you have %q", strings.Join(routings, ", "), c.Routing)
	must(c.Grid.Blocks >= 1 && c.Grid.Blocks <= 65535, "blocks must be >= 1 and <= 65535; you have %d", c.Grid.Blocks)
	must(c.Grid.Threads >= warpSize && c.Grid.Threads <= 512 && c.Grid.Threads%warpSize == 0,
		"threads must be a multiple of %d and <= 512; you have %d", warpSize, c.Grid.Threads)
	must(c.Context >= 1, "contexts must be >= 1; you have %d", c.Context)
	return errors.Join(errs...)
}
