package pgas

import (
	"context"
	"sync"
	"time"

	"github.com/pgas-go/pgas/ibgda"
	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/cuda"
	"github.com/pgas-go/pgas/internal/wire"
)

// A Stream is a queue of kernels that run one after the other. Streams run beside each other.
type Stream struct {
	w      *World
	mu     sync.Mutex
	s      cuda.Stream
	closed bool
	names  []string // kernels since the last Sync, for errors
}

// NewStream makes a stream. It is local. World.Close closes it if the program does not.
func (w *World) NewStream() (*Stream, error) {
	if err := w.enter("new stream"); err != nil {
		return nil, err
	}
	defer w.leave()
	s, err := w.plat.CUDA.StreamCreate(cuda.StreamNonBlocking)
	if err != nil {
		return nil, w.failed("new stream", NoPE, err)
	}
	stream := &Stream{w: w, s: s}
	w.modules.addStream(stream)
	return stream, nil
}

// Sync waits until all work in the stream is done and returns what went wrong in it: a launch failure with the software
// GPU's report, or the first failed pgas call of a kernel. When ctx ends first it returns ctx's error; the kernels go on,
// bounded by their own deadlines.
func (s *Stream) Sync(ctx context.Context) error {
	if s == nil || s.w == nil {
		return errs.Arg("sync", "stream", "nil or new", "a Stream from World.NewStream")
	}
	w := s.w
	if err := w.enterRunning("sync"); err != nil {
		return err
	}
	raw, err := s.raw()
	if err != nil {
		w.leave()
		return w.failed("sync", NoPE, err)
	}
	if ctx.Done() == nil {
		defer w.leave()
		return s.finish(w.plat.CUDA.StreamSynchronize(raw))
	}
	done := make(chan error, 1)
	go func() {
		defer w.leave() // the stream is in use until the driver returns, also when nobody waits any more
		done <- w.plat.CUDA.StreamSynchronize(raw)
	}()
	select {
	case err := <-done:
		return s.finish(err)
	case <-ctx.Done():
		return w.failed("sync", NoPE, ctx.Err())
	}
}

// Done reports whether all work in the stream is done. It does not wait and does not say whether the work went well.
func (s *Stream) Done() (bool, error) {
	if err := s.w.enterRunning("stream"); err != nil {
		return false, err
	}
	defer s.w.leave()
	raw, err := s.raw()
	if err != nil {
		return false, s.w.failed("stream", NoPE, err)
	}
	return s.w.plat.CUDA.StreamQuery(raw)
}

// Close waits for the stream's work and frees it. It is idempotent.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.w.modules.dropStream(s)
	err := s.w.plat.CUDA.StreamSynchronize(s.s)
	if e := s.w.plat.CUDA.StreamDestroy(s.s); err == nil {
		err = e
	}
	return err
}

func (s *Stream) raw() (cuda.Stream, error) {
	if s == nil || s.w == nil {
		return 0, errs.Arg("stream", "stream", "nil or new", "a Stream from World.NewStream")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errs.Arg("stream", "stream", "closed", "an open stream")
	}
	return s.s, nil
}

func (s *Stream) launched(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.names) < 4 {
		s.names = append(s.names, name)
	}
}

// finish turns the end of the work into an error.
func (s *Stream) finish(err error) error {
	s.mu.Lock()
	names := s.names
	s.names = nil
	s.mu.Unlock()
	return s.w.kernelResult(names, err)
}

// enterRunning is enter that also lets calls through which only look after kernels of a failed job.
func (w *World) enterRunning(op string) error {
	if w == nil {
		return errs.Arg(op, "world", "nil", "a World from Init")
	}
	w.inflight.Add(1)
	if w.state.Load() != stateClosed {
		return nil
	}
	w.inflight.Add(-1)
	return w.failed(op, NoPE, w.ended())
}

// kernelResult is the error of finished kernels: the driver's, or what they left in the status record.
func (w *World) kernelResult(names []string, err error) error {
	if err != nil {
		return &LaunchError{Kernels: names, Report: w.plat.GPUReport(), Err: err}
	}
	record, known := take(w.shared.device)
	cause := w.Err()
	switch {
	case !known && cause == nil:
		return nil
	case !known: // waits that the end of the job cut short leave no record
		return &LaunchError{Kernels: names, Err: cause}
	}
	if cause == nil && record.Status == wire.StatusCompletionError {
		cause = w.awaitEnd(grace)
	}
	if cause != nil {
		record.Status = wire.StatusAborted // the job's first cause explains the failed call
	}
	path := ""
	if int(record.Peer) < w.npes {
		path = w.peers[record.Peer].path.String()
	}
	return &LaunchError{Kernels: names, Err: ibgda.Decode(&record, cause, path, -1, w.place(record.Address))}
}

// An Event marks a point in a stream.
type Event struct {
	w *World
	e cuda.Event
}

// NewEvent makes an event. The program closes it before the World.
func (w *World) NewEvent() (*Event, error) {
	if err := w.enter("new event"); err != nil {
		return nil, err
	}
	defer w.leave()
	e, err := w.plat.CUDA.EventCreate(0)
	if err != nil {
		return nil, w.failed("new event", NoPE, err)
	}
	return &Event{w: w, e: e}, nil
}

// Record puts the event behind the work that is in the stream now.
func (e *Event) Record(s *Stream) error {
	return e.run(func() error {
		raw, err := s.raw()
		if err != nil {
			return err
		}
		return e.w.plat.CUDA.EventRecord(e.e, raw)
	})
}

// Wait makes later work in the stream wait for the event.
func (e *Event) Wait(s *Stream) error {
	return e.run(func() error {
		raw, err := s.raw()
		if err != nil {
			return err
		}
		return e.w.plat.CUDA.StreamWaitEvent(raw, e.e)
	})
}

// Since returns the time from an earlier event to this one; both must have happened.
func (e *Event) Since(start *Event) (d time.Duration, err error) {
	if start == nil || start.w == nil {
		return 0, errs.Arg("event", "start", "nil or new", "an Event from World.NewEvent")
	}
	err = e.run(func() error {
		d, err = e.w.plat.CUDA.EventElapsedTime(start.e, e.e)
		return err
	})
	return d, err
}

// Close frees the event.
func (e *Event) Close() error { return e.run(func() error { return e.w.plat.CUDA.EventDestroy(e.e) }) }

func (e *Event) run(call func() error) error {
	if e == nil || e.w == nil {
		return errs.Arg("event", "event", "nil or new", "an Event from World.NewEvent")
	}
	if err := e.w.enterRunning("event"); err != nil {
		return err
	}
	defer e.w.leave()
	if err := call(); err != nil {
		return e.w.failed("event", NoPE, err)
	}
	return nil
}
