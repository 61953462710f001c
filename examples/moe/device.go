package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/pgas-go/pgas/pgas"
)

//go:embed moe.cu generation.cuh numbers.cuh
var kernels embed.FS

// step is one kernel of a round, in the order of a round.
type step int

const (
	stepDispatchSend step = iota
	stepDispatchReceive
	stepMLP
	stepCombineSend
	stepCombineReceive
	steps
)

func (s step) kernel() string {
	return [steps]string{"moe_dispatch_send", "moe_dispatch_receive", "moe_mlp", "moe_combine_send", "moe_combine_receive"}[s]
}

// device is this PE's GPU: buffers, kernels, and one stream on which everything runs. Rule R of moe.cu rests on that
// stream being the only one.
type device struct {
	c       Config
	l       Layout
	w       *pgas.World
	heap    pgas.Slice[byte]
	words   pgas.Signals
	plan    plan
	stream  *pgas.Stream
	kernels [steps]*pgas.Kernel
	events  [parities][steps][2]*pgas.Event // before and after a kernel
}

// newDevice is collective. It allocates the worst-case buffers and loads the kernels.
func newDevice(ctx context.Context, w *pgas.World, c Config, l Layout) (*device, error) {
	d := &device{c: c, l: l, w: w, plan: newPlan(c, l)}
	var err error
	if d.heap, err = pgas.Alloc[byte](w, int(l.Total)); err != nil {
		return nil, err
	}
	if d.words, err = pgas.AllocSignals(w, l.SignalWords); err != nil {
		return nil, err
	}
	if d.stream, err = w.NewStream(); err != nil {
		return nil, err
	}
	module, err := w.Load(ctx, kernels, "moe.cu")
	if err != nil {
		return nil, err
	}
	for s := range steps {
		if d.kernels[s], err = module.Kernel(s.kernel()); err != nil {
			return nil, err
		}
		for p := range d.events {
			for i := range d.events[p][s] {
				if d.events[p][s][i], err = w.NewEvent(); err != nil {
					return nil, err
				}
			}
		}
	}
	return d, d.prepare(ctx)
}

// prepare uploads the expert weights and fills the receive buffers with the canary, before anybody sends.
func (d *device) prepare(ctx context.Context) error {
	fill := make([]byte, d.l.Recv.Bytes())
	for i := range fill {
		fill[i] = canary
	}
	w1, w2 := expertBytes(d.c, d.l, d.w.PE())
	err := errors.Join(d.upload(d.l.Recv.Offset, fill), d.upload(d.l.W1.Offset, w1), d.upload(d.l.W2.Offset, w2))
	if err != nil {
		return err
	}
	return d.w.Barrier(ctx)
}

func (d *device) upload(offset uint64, b []byte) error {
	return pgas.CopyIn(d.heap.Slice(int(offset), int(offset)+len(b)), b)
}

func (d *device) download(offset uint64, n uint64) ([]byte, error) {
	b := make([]byte, n)
	return b, pgas.CopyOut(b, d.heap.Slice(int(offset), int(offset+n)))
}

// load uploads the batch of a generation. The combine receive half of gen - 2 must have ended.
func (d *device) load(gen uint64, b Batch) error {
	x, topk, weights := inputs(d.c, d.l, b)
	return errors.Join(d.upload(d.l.X.at(gen, 0), x), d.upload(d.l.TopK.at(gen, 0), topk), d.upload(d.l.Weights.at(gen, 0), weights))
}

// launch queues one kernel of a generation between its two events.
func (d *device) launch(ctx context.Context, s step, gen uint64, tokens int) error {
	g := pgas.Grid{Blocks: d.c.Grid.Blocks, Threads: d.c.Grid.Threads, Stream: d.stream}
	args := []any{d.w.Device(), d.heap, d.words, d.plan, gen}
	switch s {
	case stepDispatchSend, stepCombineReceive:
		args = append(args, uint32(tokens))
	case stepDispatchReceive:
		g.Blocks = 1
	}
	e := d.events[gen%parities][s]
	if err := e[0].Record(d.stream); err != nil {
		return err
	}
	if err := d.kernels[s].Launch(ctx, g, args...); err != nil {
		return err
	}
	return e[1].Record(d.stream)
}

// sync waits for the stream and looks at the fault word, which tells the step.
func (d *device) sync(ctx context.Context) error {
	err := d.stream.Sync(ctx)
	word, readErr := d.download(d.l.Fault.Offset, 16)
	if readErr == nil {
		readErr = parseFault(word)
	}
	switch {
	case err == nil:
		return readErr
	case readErr == nil || d.w.Err() != nil: // memory of a World that has ended cannot be read
		return err
	}
	return fmt.Errorf("%w: %w", readErr, err)
}

// elapsed returns how long a kernel of a generation ran, after sync.
func (d *device) elapsed(s step, gen uint64) (time.Duration, error) {
	e := d.events[gen%parities][s]
	return e[1].Since(e[0])
}

// received is a snapshot of what dispatch has brought: count words and receive slots.
type received struct {
	words []uint64
	slots []byte
}

// snapshot must be taken before the combine send half of gen is launched: its flags allow others to overwrite the slots.
func (d *device) snapshot(gen uint64) (received, error) {
	r := received{words: make([]uint64, d.l.Pairs)}
	for i := range r.words {
		var err error
		if r.words[i], err = pgas.SignalFetch(d.words.At(int(gen%parities)*d.l.Pairs + i)); err != nil {
			return r, err
		}
	}
	var err error
	r.slots, err = d.download(d.l.Recv.at(gen, 0), d.l.Recv.Count*d.l.Recv.Stride)
	return r, err
}

// combined returns the combined tokens of a generation, after sync.
func (d *device) combined(gen uint64) ([]byte, error) {
	return d.download(d.l.Out.at(gen, 0), d.l.Out.Count*d.l.Out.Stride)
}

// paths names the paths to all other PEs, or to this PE when it is alone.
func (d *device) paths() string {
	text := ""
	for pe := range d.w.NPEs() {
		if pe == d.w.PE() && d.w.NPEs() > 1 {
			continue
		}
		switch p := d.w.Path(pe); {
		case text == "":
			text = p
		case text != p:
			return "mixed"
		}
	}
	return text
}

// close frees the events; the World frees the rest.
func (d *device) close() error {
	var all []error
	for p := range d.events {
		for s := range d.events[p] {
			for _, e := range d.events[p][s] {
				if e != nil {
					all = append(all, e.Close())
				}
			}
		}
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("moe: %w", err)
	}
	return nil
}
