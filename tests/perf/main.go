// The performance suite: what pgas does, beside what the machine can do, in one run.
//
//	make bench                        about two minutes on two cores
//	scripts/bench -quick              the same figures with fewer samples
//	scripts/bench -json f -csv f      also for programs to read
//
// Nothing is asserted about speed. The exit status is 1 when a figure could not be taken although its tools are here.
// See docs/performance.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pgas-go/pgas/internal/launch"
)

type options struct {
	settings
	only      string // prefixes of names of sources, with commas; empty for all
	json, csv string // files to write
}

func main() {
	launch.GuardMain()
	if len(os.Args) > 1 && os.Args[1] == peArgument {
		if err := peMain(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := bench(ctx, parseFlags(), os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func parseFlags() options {
	o := options{settings: full}
	short := flag.Bool("quick", false, "few samples: shows that everything runs, not how fast")
	rounds := flag.Int("rounds", 0, "how often each program runs (default 5, quick 1)")
	flag.StringVar(&o.only, "only", "", "take only figures whose source starts with one of these, as in cores,oshmem-2,host or p2p-2")
	flag.StringVar(&o.json, "json", "", "write all samples to this file")
	flag.StringVar(&o.csv, "csv", "", "write the table to this file")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if *short {
		o.settings = quick
	}
	if *rounds > 0 {
		o.rounds = *rounds
	}
	return o
}

var (
	full  = settings{rounds: 5, repeats: 2, scale: 100}
	quick = settings{rounds: 1, repeats: 1, scale: 5}
)

// bench takes all figures and writes them. ok is false if one failed.
func bench(ctx context.Context, o options, out, progress io.Writer) (ok bool, err error) {
	b, err := newBuilder()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	r := newResult(o.settings)
	for round := range o.rounds {
		for _, s := range sources(b, o.settings) {
			if !o.wants(s.name) || r.problems[s.name] != nil {
				continue
			}
			begin := time.Now()
			err := r.take(ctx, s)
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			fmt.Fprintf(progress, "round %d of %d: %-16s %5.1f s%s\n", round+1, o.rounds, s.name, time.Since(begin).Seconds(), note(err))
		}
	}
	r.finish(slices.DeleteFunc(plan(), func(f figure) bool { return !o.wants(f.source()) }))
	r.table(out)
	return !r.failed(), errors.Join(r.writeJSON(o.json), r.writeCSV(o.csv))
}

// wants says whether a source was asked for.
func (o options) wants(name string) bool {
	return slices.ContainsFunc(strings.Split(o.only, ","), func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func note(err error) string {
	if err == nil {
		return ""
	}
	return "  " + err.Error()
}
