package bootstrap

import (
	"context"
	"sync"

	"github.com/pgas-go/pgas/internal/errs"
)

// single is a job of one PE. It owns no socket, goroutine or file.
type single struct {
	mu     sync.Mutex
	closed bool
	cause  error
	failed chan struct{}
}

// Single returns the Exchanger of a job with one PE. It uses no sockets.
func Single() Exchanger { return &single{failed: make(chan struct{})} }

func (s *single) Rank() int { return 0 }
func (s *single) Size() int { return 1 }

func (s *single) AllGather(ctx context.Context, mine []byte) ([][]byte, error) {
	if err := s.check(ctx, "all-gather"); err != nil {
		return nil, err
	}
	return [][]byte{append([]byte{}, mine...)}, nil
}

func (s *single) Barrier(ctx context.Context) error { return s.check(ctx, "barrier") }

func (s *single) check(ctx context.Context, op string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cause != nil:
		return errs.Op(op, 0, s.cause)
	case s.closed:
		return errs.Op(op, 0, errs.ErrClosed)
	}
	return errs.Op(op, 0, ctx.Err())
}

func (s *single) Abort(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil && !s.closed {
		s.cause = &errs.AbortError{PE: 0, Cause: cause}
		close(s.failed)
	}
}

func (s *single) Watch() <-chan struct{} { return s.failed }

func (s *single) Cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

func (s *single) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
