package tcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/internal/errs"
)

const (
	// patience is how long another job or another program at the root's address may take to go away.
	patience = 2 * time.Second
	// grace is how much longer than a deadline a PE waits for the hub's verdict, which names the PEs that are missing.
	grace = 2 * time.Second
	// quietStart is how long a start may take before one line says what is waited for.
	quietStart = 5 * time.Second
)

// Connect joins the job. It is collective: it returns on all PEs after all have come, or fails on all with the same
// cause. PEs may start in any order within BootTimeout. A job of one PE uses no sockets.
func Connect(ctx context.Context, o Options) (bootstrap.Exchanger, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if o.Size == 1 {
		return bootstrap.Single(), nil
	}
	ep, err := parseRoot(&o)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	bootCtx, cancel := context.WithDeadline(ctx, began.Add(o.BootTimeout))
	defer cancel()
	k := &knocker{opt: o, ep: ep, began: began}
	var e *exchanger
	if o.Rank == 0 {
		ln, err := k.listen(bootCtx)
		if err != nil {
			return nil, errs.Op("start", o.Rank, err)
		}
		mine, hubs := net.Pipe()
		e = newExchanger(o, mine, bufio.NewReader(mine), newHub(o, ln, hubs))
	} else {
		conn, in, err := k.join(bootCtx)
		if err != nil {
			return nil, errs.Op("start", o.Rank, err)
		}
		e = newExchanger(o, conn, in, nil)
	}
	if err := e.awaitStart(ctx, began.Add(o.BootTimeout)); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// awaitStart waits for the hub's word that all PEs have come.
func (e *exchanger) awaitStart(ctx context.Context, deadline time.Time) error {
	quiet := time.NewTimer(quietStart)
	defer quiet.Stop()
	late := time.NewTimer(time.Until(deadline) + grace)
	defer late.Stop()
	for {
		select {
		case <-e.started:
			return nil
		case <-e.failed:
			return e.Cause()
		case <-quiet.C:
			e.opt.Logger.Warn("waiting for other PEs to start", zap.Int("pe", e.opt.Rank), zap.Int("size", e.opt.Size),
				zap.String("root", e.opt.Root), zap.Duration("until", e.opt.BootTimeout))
		case <-ctx.Done():
			e.Abort(fmt.Errorf("start given up: %w", context.Cause(ctx)))
			return errs.Op("start", e.opt.Rank, context.Cause(ctx))
		case <-late.C:
			err := &errs.TimeoutError{Op: "start", After: e.opt.BootTimeout, Detail: "PE 0 at " + e.opt.Root + " is silent"}
			e.fail(err)
			return err
		}
	}
}

// knocker finds the root.
type knocker struct {
	opt   Options
	ep    *endpoint
	began time.Time
}

// stay is a reason to try again for a short while only: the address belongs to somebody else, who may be leaving.
type stay struct{ err error }

func (s stay) Error() string { return s.err.Error() }
func (s stay) Unwrap() error { return s.err }

// retry calls attempt until it succeeds, fails for good, fails for patience with a stay, or ctx ends.
func (k *knocker) retry(ctx context.Context, attempt func(context.Context) error) error {
	var foreign time.Time // since when somebody else has answered
	said := false
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := attempt(ctx)
		if err == nil || isPermanent(err) {
			return err
		}
		if !errors.As(err, new(stay)) {
			foreign = time.Time{}
		} else if foreign.IsZero() {
			foreign = time.Now()
		} else if time.Since(foreign) > patience {
			return err
		}
		if waited := time.Since(k.began); waited > quietStart && !said {
			said = true
			k.opt.Logger.Warn("waiting for PE 0", zap.Int("pe", k.opt.Rank), zap.String("root", k.opt.Root), zap.Error(err))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return context.Cause(ctx)
			}
			return &errs.TimeoutError{Op: "rendezvous", After: time.Since(k.began), Detail: fmt.Sprintf(
				"no PE 0 at %s: %v (start PE 0, check PGAS_ROOT, or raise PGAS_BOOT_TIMEOUT)", k.opt.Root, err)}
		}
	}
}

// join connects a PE other than 0 to the hub.
func (k *knocker) join(ctx context.Context) (conn net.Conn, in *bufio.Reader, err error) {
	err = k.retry(ctx, func(ctx context.Context) error {
		c, dialErr := k.dial(ctx)
		if dialErr != nil {
			return dialErr
		}
		r := bufio.NewReader(c)
		if knockErr := k.knock(ctx, c, r); knockErr != nil {
			c.Close()
			return knockErr
		}
		conn, in = c, r
		return nil
	})
	return conn, in, err
}

func (k *knocker) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	return k.ep.dial(ctx)
}

// listen opens the root's socket. If the address is taken, it finds out by whom: another PE 0 of this job makes the
// start fail everywhere, another job or program is named.
func (k *knocker) listen(ctx context.Context) (ln net.Listener, err error) {
	err = k.retry(ctx, func(ctx context.Context) (err error) {
		ln, err = k.ep.listen(ctx)
		if err == nil {
			return nil
		}
		if !addrInUse(err) {
			return permanent{err}
		}
		conn, dialErr := k.dial(ctx)
		if dialErr != nil {
			return stay{err}
		}
		defer conn.Close()
		if err := k.knock(ctx, conn, bufio.NewReader(conn)); err != nil {
			return err
		}
		return stay{err}
	})
	return ln, err
}

// knock runs the handshake. Errors are permanent, or stay, or neither: then the root may still come.
func (k *knocker) knock(ctx context.Context, conn net.Conn, in *bufio.Reader) error {
	deadline := time.Now().Add(handshakeTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if err := sameUser(conn); err != nil {
		return permanent{fmt.Errorf("%w: root %s belongs to %w", errs.ErrRefused, k.opt.Root, err)}
	}
	f, err := readFrame(in, maxHandshake)
	if errors.Is(err, errNotPGAS) || errors.Is(err, errChecksum) {
		return stay{fmt.Errorf("%w: a program that is not pgas answers at root %s (choose another PGAS_ROOT)", errs.ErrRefused, k.opt.Root)}
	}
	if err != nil {
		return fmt.Errorf("what listens at root %s does not answer as pgas does: %w", k.opt.Root, err)
	}
	var c challenge
	if err := decodeHandshake(f, kindChallenge, &c); err != nil {
		return stay{err}
	}
	if c.Job != k.opt.Job {
		return stay{fmt.Errorf("%w: root %s is in use by job %q, this PE is of job %q (choose another PGAS_ROOT)", errs.ErrRefused,
			k.opt.Root, c.Job, k.opt.Job)}
	}
	hi := hello{Version: k.opt.version, Job: k.opt.Job, Rank: k.opt.Rank, Size: k.opt.Size, PID: os.Getpid(),
		RemainingMS: time.Until(k.began.Add(k.opt.BootTimeout)).Milliseconds(), Nonce: newNonce()}
	hi.MAC = hi.mac(k.opt.Key, c.Nonce)
	if err := send(conn, handshakeFrame(kindHello, jobHash(k.opt.Job), hi)); err != nil {
		return err
	}
	if f, err = readFrame(in, maxPayload); err != nil {
		return fmt.Errorf("root %s does not answer: %w", k.opt.Root, err)
	}
	if err := k.verdict(f, &hi, c.Nonce); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// verdict reads the hub's answer to a hello.
func (k *knocker) verdict(f *frame, hi *hello, hubNonce []byte) error {
	switch f.kind {
	case kindWelcome:
		var w welcome
		if err := json.Unmarshal(f.payload, &w); err != nil || !hi.welcomed(k.opt.Key, hubNonce, w.MAC) {
			return permanent{fmt.Errorf("%w: root %s does not know the job key (set the same PGAS_JOB_KEY on all PEs)",
				errs.ErrRefused, k.opt.Root)}
		}
		return nil
	case kindFail:
		return permanent{decodeCause(f.payload)}
	case kindReject:
		var r reject
		if err := json.Unmarshal(f.payload, &r); err != nil {
			return permanent{err}
		}
		err := fmt.Errorf("%w: root %s: %s", errs.ErrRefused, k.opt.Root, r.Text)
		switch r.Why {
		case whyRetry:
			return err
		case whyKey:
			err = fmt.Errorf("%w (set the same PGAS_JOB_KEY on all PEs)", err)
		}
		return permanent{err}
	}
	return permanent{fmt.Errorf("root %s answered with a frame of kind %d", k.opt.Root, f.kind)}
}
