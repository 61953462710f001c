package tcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/pgas-go/pgas/internal/errs"
)

const (
	handshakeTimeout = 10 * time.Second
	// maxKnocking bounds connections that have not yet proved that they know the key.
	maxKnocking = 256
	// spreadTimeout is how long PE 0 holds its own failure back so that the others are told first: its process may end
	// at once.
	spreadTimeout = 500 * time.Millisecond
	// lingerTimeout is how long a failed hub stays for members to read the cause, absentTimeout for PEs that have not
	// come yet.
	lingerTimeout = time.Second
	absentTimeout = 3 * time.Second
)

// hub lives in the process of PE 0. PE 0 is a member like the others, through a pipe.
type hub struct {
	opt Options
	job uint64
	ln  net.Listener
	wg  sync.WaitGroup

	mu       sync.Mutex
	members  []*member // by rank, nil until joined
	told     []bool    // absent PEs that came after the failure and were given the cause
	joined   int
	knocking map[net.Conn]struct{}
	started  bool
	closing  bool
	failed   []byte // the encoded failure frame, nil while the job lives
	boot     alarm
	step     step
	changed  chan struct{} // closed and renewed at each change that close waits for
}

type member struct {
	rank     int
	pid      int
	host     string
	conn     net.Conn
	in       *bufio.Reader
	out      *outbox
	lastSeen time.Time
	left     bool // said goodbye
	gone     bool // connection ended
}

// alarm is the earliest of several deadlines.
type alarm struct {
	at    time.Time
	after time.Duration
	timer *time.Timer
}

// lower moves the alarm to now+d if that is earlier, or sets it if it is not set.
func (a *alarm) lower(d time.Duration, ring func()) {
	at := time.Now().Add(d)
	if a.timer != nil && !at.Before(a.at) {
		return
	}
	a.stop()
	a.at, a.after, a.timer = at, d, time.AfterFunc(d, ring)
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// newHub takes over the listener and the hub's end of the pipe to PE 0.
func newHub(opt Options, ln net.Listener, local net.Conn) *hub {
	h := &hub{opt: opt, job: jobHash(opt.Job), ln: ln, members: make([]*member, opt.Size), told: make([]bool, opt.Size),
		knocking: make(map[net.Conn]struct{}), changed: make(chan struct{})}
	h.step.reset(0, opt.Size)
	h.mu.Lock()
	h.boot.lower(opt.BootTimeout, h.bootExpired)
	me := h.join(local, bufio.NewReader(local), 0, os.Getpid())
	h.mu.Unlock()
	h.wg.Go(func() { h.listen(me) })
	h.wg.Go(h.accept)
	return h
}

func (h *hub) accept() {
	for {
		conn, err := h.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			h.opt.Logger.Warn("rendezvous cannot accept", zap.Error(err))
			time.Sleep(50 * time.Millisecond) // out of descriptors, most likely: others close some
			continue
		}
		h.mu.Lock()
		ok := !h.closing && len(h.knocking) < maxKnocking
		if ok {
			h.knocking[conn] = struct{}{}
		}
		h.mu.Unlock()
		if !ok {
			conn.Close()
			continue
		}
		h.wg.Go(func() { h.serve(conn) })
	}
}

// join makes a connection a member. Callers hold the lock and have checked that the rank is free.
func (h *hub) join(conn net.Conn, in *bufio.Reader, rank, pid int) *member {
	m := &member{rank: rank, pid: pid, host: hostOf(conn), conn: conn, in: in, out: newOutbox(), lastSeen: time.Now()}
	h.members[rank] = m
	h.joined++
	h.wg.Go(func() { m.out.run(conn) })
	return m
}

// startIfComplete tells everybody to go when the last PE has come. Callers hold the lock.
func (h *hub) startIfComplete() {
	if h.joined < h.opt.Size || h.started || h.failed != nil {
		return
	}
	h.started = true
	h.boot.stop()
	b := h.frame(kindStart, 0, 0, nil)
	for _, m := range h.members {
		m.out.push(b)
	}
}

func (h *hub) frame(k kind, step uint64, pe int, payload []byte) []byte {
	return (&frame{version: h.opt.version, kind: k, job: h.job, step: step, pe: uint32(pe), payload: payload}).encode()
}

// listen reads the frames of a member until its connection ends.
func (h *hub) listen(m *member) {
	for {
		f, err := readFrame(m.in, maxPayload)
		if err == nil && f.job != h.job {
			err = errors.New("frame of another job")
		}
		if err != nil {
			h.ended(m, err)
			return
		}
		h.mu.Lock()
		m.lastSeen = time.Now()
		switch f.kind {
		case kindContribute:
			h.contribute(m, f)
		case kindAbort:
			h.fail(&errs.AbortError{PE: m.rank, Cause: decodeCause(f.payload)})
		case kindBye:
			h.bye(m)
		default:
			h.fail(h.lost(m, fmt.Errorf("it sent a frame of kind %d", f.kind)))
		}
		h.mu.Unlock()
	}
}

// bye lets a member go. If others already wait for it in a step, they wait in vain.
func (h *hub) bye(m *member) {
	m.left = true
	if h.step.count > 0 {
		h.fail(h.lost(m, errLeft))
	}
	m.out.push(h.frame(kindBye, 0, m.rank, nil))
	m.out.shutdown()
	h.notify()
}

var errLeft = errors.New("it left the job while others still use it (Close is for all PEs)")

// ended notes the end of a connection. Without goodbye the PE is dead.
func (h *hub) ended(m *member, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m.gone = true
	m.out.shutdown()
	if !m.left && !h.closing {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
			err = errors.New("its process ended without leaving the job")
		}
		h.fail(h.lost(m, err))
	}
	h.notify()
}

func (h *hub) lost(m *member, cause error) error {
	e := &errs.PeerLostError{PE: m.rank, Host: m.host, Op: h.step.describe(), Cause: fmt.Errorf("%w (pid %d)", cause, m.pid)}
	if errors.Is(cause, syscall.ETIMEDOUT) {
		e.Age = time.Since(m.lastSeen)
	}
	return e
}

// fail gives the first cause to every member; later causes are dropped. Callers hold the lock.
func (h *hub) fail(cause error) {
	if h.failed != nil {
		return
	}
	h.boot.stop()
	h.step.alarm.stop()
	h.failed = h.frame(kindFail, 0, 0, encodeCause(cause))
	var sent []<-chan struct{}
	for _, m := range h.members {
		if m != nil && m.rank != 0 {
			sent = append(sent, m.out.push(h.failed))
		}
	}
	me, failed := h.members[0], h.failed
	h.wg.Go(func() {
		limit := time.After(spreadTimeout)
		for _, s := range sent {
			select {
			case <-s:
			case <-limit:
			}
		}
		if me != nil {
			me.out.push(failed)
		}
	})
	h.notify()
}

func (h *hub) bootExpired() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started || h.closing {
		return
	}
	e := &errs.TimeoutError{Op: "start", After: h.boot.after, Size: h.opt.Size}
	for rank, m := range h.members {
		if m == nil {
			e.Missing = append(e.Missing, rank)
		}
	}
	e.Detail = "at root " + h.opt.Root + " (raise PGAS_BOOT_TIMEOUT if they start later)"
	h.fail(e)
}

func (h *hub) notify() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// waitUntil waits for a condition, which is evaluated under the lock. It reports whether the condition came true.
func (h *hub) waitUntil(limit time.Duration, condition func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		h.mu.Lock()
		ok, changed := condition(), h.changed
		h.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		}
	}
}

// stays says whether the member is still in the job. PE 0 itself does not count: it is the one that closes.
func (m *member) stays() bool { return m != nil && m.rank != 0 && !m.left && !m.gone }

func (h *hub) allGone() bool { return !slices.ContainsFunc(h.members, (*member).stays) }

// close ends the hub: at once if all have left, after a while if they do not. The error names those who stayed.
func (h *hub) close() error {
	var err error
	if !h.waitUntil(h.opt.StepTimeout, func() bool { return h.allGone() || h.failed != nil }) {
		h.mu.Lock()
		late := &errs.TimeoutError{Op: "close", After: h.opt.StepTimeout, Size: h.opt.Size}
		for _, m := range h.members {
			if m.stays() {
				late.Missing = append(late.Missing, m.rank)
			}
		}
		err = late
		h.fail(h.lost(h.members[0], errLeft))
		h.mu.Unlock()
	}
	h.linger()
	h.mu.Lock()
	h.closing = true
	h.boot.stop()
	h.step.alarm.stop()
	h.ln.Close()
	for conn := range h.knocking {
		conn.Close()
	}
	for _, m := range h.members {
		if m != nil {
			m.out.shutdown()
			m.conn.Close()
		}
	}
	h.mu.Unlock()
	h.wg.Wait()
	return err
}

// linger keeps a failed hub up until the members have read the cause, and PEs that are still to come have got it too.
func (h *hub) linger() {
	h.mu.Lock()
	failed, untilBoot := h.failed != nil, time.Until(h.boot.at)
	h.mu.Unlock()
	if !failed {
		return
	}
	h.waitUntil(min(absentTimeout, untilBoot), func() bool { return h.started || h.allTold() })
	h.mu.Lock()
	for _, m := range h.members {
		if m != nil {
			m.out.shutdown()
		}
	}
	h.mu.Unlock()
	h.waitUntil(lingerTimeout, h.allGone)
}

// allTold says whether every PE has got the cause of a failed start, or has had the chance to.
func (h *hub) allTold() bool {
	for rank, m := range h.members {
		if m == nil && !h.told[rank] {
			return false
		}
	}
	return true
}
