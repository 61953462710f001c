package bootstrap

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/internal/errs"
)

const (
	// fdsPerMessage stays below the kernel's SCM_MAX_FD (253).
	fdsPerMessage = 240
	tokenBytes    = 16
	// greetingBytes precede the descriptors: the receiver's token, and the sender's rank.
	greetingBytes = tokenBytes + 4
	// fdTimeout bounds the passing of descriptors when the context has no deadline: all takes place on one host.
	fdTimeout = 30 * time.Second
)

// fdOffer is what a PE tells the others before they connect to it.
type fdOffer struct {
	Host  string `json:"host"`
	Name  string `json:"name"`  // abstract Unix socket
	Token []byte `json:"token"` // only PEs of the job have it
	Count int    `json:"count"` // descriptors that this PE will send
	Error string `json:"error,omitempty"`
}

// ExchangeFDs is collective. Each PE gives descriptors to all PEs of its host, and gets theirs: result[pe] has the
// descriptors of that PE in its order, for this PE itself and for PEs of other hosts it is nil. Descriptors are passed
// through abstract Unix sockets, so nothing appears on disk. The caller owns the result and closes it with CloseFDs;
// its own fds stay its own. If it fails on one PE it fails on all, and no PE is left with a descriptor.
func ExchangeFDs(ctx context.Context, ex Exchanger, fds []int) ([][]int, error) {
	ctx, cancel := withLimit(ctx, fdTimeout)
	defer cancel()
	out, err := exchangeFDs(ctx, ex, fds)
	if err != nil {
		return nil, errs.Op("exchange descriptors", ex.Rank(), err)
	}
	return out, nil
}

func deadline(ctx context.Context) time.Time {
	d, _ := ctx.Deadline() // ExchangeFDs has set one
	return d
}

// CloseFDs closes the result of ExchangeFDs.
func CloseFDs(fds [][]int) error {
	var failures []error
	for _, list := range fds {
		for _, fd := range list {
			failures = append(failures, unix.Close(fd))
		}
	}
	return errors.Join(failures...)
}

// withLimit adds a deadline if ctx has none.
func withLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

func exchangeFDs(ctx context.Context, ex Exchanger, fds []int) ([][]int, error) {
	ln, mine := offer(fds)
	if ln != nil {
		defer ln.Close()
	}
	offers, err := gatherJSON(ctx, ex, mine)
	if err != nil {
		return nil, err
	}
	for pe, o := range offers {
		if o.Error != "" {
			return nil, fmt.Errorf("PE %d: %s", pe, o.Error)
		}
	}
	p := &fdPass{rank: ex.Rank(), offers: offers, fds: fds, ln: ln, got: make([][]int, ex.Size())}
	verdict := ""
	// A quarter of the time is kept for the verdicts.
	passCtx, cancel := context.WithTimeoutCause(ctx, time.Until(deadline(ctx))*3/4, errs.ErrTimeout)
	defer cancel()
	if err := p.run(passCtx); err != nil {
		verdict = err.Error()
	}
	// Everybody learns whether it worked everywhere, so that all keep the descriptors or none does.
	verdicts, err := ex.AllGather(ctx, []byte(verdict))
	var bad []string
	for pe, v := range verdicts {
		if len(v) > 0 {
			bad = append(bad, fmt.Sprintf("PE %d: %s", pe, v))
		}
	}
	if len(bad) > 0 {
		err = errors.New(strings.Join(bad, "; "))
	}
	if err != nil {
		return nil, errors.Join(err, CloseFDs(p.got))
	}
	return p.got, nil
}

// offer opens the socket that peers connect to. Trouble is part of the offer, so that all PEs see it.
func offer(fds []int) (*net.UnixListener, fdOffer) {
	o := fdOffer{Count: len(fds), Token: make([]byte, tokenBytes)}
	rand.Read(o.Token) // never fails: package crypto/rand ends the program instead
	o.Name = "@pgas-fds-" + rand.Text()
	var err error
	if o.Host, err = hostIdentity(); err != nil {
		o.Error = err.Error()
		return nil, o
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: o.Name, Net: "unix"})
	if err != nil {
		o.Error = err.Error()
		return nil, o
	}
	return ln, o
}

// fdPass is one exchange on one PE.
type fdPass struct {
	rank   int
	offers []fdOffer
	fds    []int
	ln     *net.UnixListener
	got    [][]int
}

func (p *fdPass) local(pe int) bool {
	return pe != p.rank && p.offers[pe].Host == p.offers[p.rank].Host
}

// run sends to and receives from every PE of this host. It returns the first error after both directions have ended.
func (p *fdPass) run(ctx context.Context) error {
	sent := make(chan error, 1)
	go func() {
		var failures []error
		for pe := range p.offers {
			if !p.local(pe) {
				continue
			}
			// A PE that cannot be served is still connected to, so that it does not wait for the deadline.
			if err := p.send(ctx, pe); err != nil {
				failures = append(failures, fmt.Errorf("to PE %d: %w", pe, err))
			}
		}
		sent <- joinLine(failures...)
	}()
	err := p.receiveAll(ctx)
	return joinLine(err, <-sent)
}

// joinLine joins errors in one line: the result becomes part of a sentence.
func joinLine(all ...error) error {
	var texts []string
	for _, err := range all {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, ", "))
}

// send connects to a PE and hands over all descriptors. The kernel keeps them until the PE reads.
func (p *fdPass) send(ctx context.Context, pe int) error {
	c, err := new(net.Dialer).DialContext(ctx, "unix", p.offers[pe].Name)
	if err != nil {
		return err
	}
	defer c.Close()
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("connection is a %T", c)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := SameUser(conn); err != nil {
		return err
	}
	greeting := append(bytes.Clone(p.offers[pe].Token), 0, 0, 0, 0)
	binary.BigEndian.PutUint32(greeting[tokenBytes:], uint32(p.rank))
	if _, err := conn.Write(greeting); err != nil {
		return err
	}
	for rest := p.fds; len(rest) > 0; {
		n := min(len(rest), fdsPerMessage)
		if _, _, err := conn.WriteMsgUnix([]byte{byte(n)}, unix.UnixRights(rest[:n]...), nil); err != nil {
			return err
		}
		rest = rest[n:]
	}
	// The peer closes when it has everything; until then the socket must stay, or a peer that is slow to accept would
	// find it reset.
	if _, err := conn.Read(make([]byte, 1)); err != nil && err != io.EOF {
		return fmt.Errorf("not acknowledged: %w", err)
	}
	return nil
}

// delivery is what one connection brought.
type delivery struct {
	pe  int
	fds []int
	err error
}

// receiveAll accepts until every local PE has delivered. Each connection has its own goroutine, so that a stranger who
// says nothing holds up nobody. All connections are closed when it returns.
func (p *fdPass) receiveAll(ctx context.Context) (err error) {
	var missing []int
	for pe := range p.offers {
		if p.local(pe) {
			missing = append(missing, pe)
		}
	}
	arrived, over := make(chan delivery), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { p.accept(&wg, arrived, over) })
	defer func() {
		close(over)
		p.ln.Close()
		wg.Wait()
	}()
	for len(missing) > 0 {
		select {
		case d := <-arrived:
			i := slices.Index(missing, d.pe)
			if i < 0 {
				_ = CloseFDs([][]int{d.fds}) // a second delivery: nobody honest sends one
				continue
			}
			if d.err != nil {
				return fmt.Errorf("from PE %d: %w", d.pe, d.err)
			}
			p.got[d.pe] = d.fds
			missing = slices.Delete(missing, i, i+1)
		case <-ctx.Done():
			return fmt.Errorf("no descriptors from PE %s: %w", errs.PEList(missing), context.Cause(ctx))
		}
	}
	return nil
}

// accept hands every connection to a goroutine until the listener closes.
func (p *fdPass) accept(wg *sync.WaitGroup, arrived chan<- delivery, over <-chan struct{}) {
	for {
		conn, err := p.ln.AcceptUnix()
		if err != nil {
			return // closed; or out of descriptors, and then the missing PEs are named at the deadline
		}
		wg.Go(func() {
			stop := make(chan struct{})
			wg.Go(func() {
				select {
				case <-over:
				case <-stop:
				}
				conn.Close()
			})
			defer close(stop)
			pe, fds, err := p.receive(conn)
			if pe < 0 {
				return
			}
			select {
			case arrived <- delivery{pe, fds, err}:
			case <-over:
				_ = CloseFDs([][]int{fds}) // too late to be used
			}
		})
	}
}

// receive takes the descriptors of one PE. A negative PE means that the peer is a stranger.
func (p *fdPass) receive(conn *net.UnixConn) (pe int, fds []int, err error) {
	greeting := make([]byte, greetingBytes)
	if SameUser(conn) != nil {
		return -1, nil, nil
	}
	if _, err := io.ReadFull(conn, greeting); err != nil || !bytes.Equal(greeting[:tokenBytes], p.offers[p.rank].Token) {
		return -1, nil, nil
	}
	pe = int(binary.BigEndian.Uint32(greeting[tokenBytes:]))
	if pe >= len(p.offers) || !p.local(pe) {
		return -1, nil, nil
	}
	fds = make([]int, 0, p.offers[pe].Count)
	for len(fds) < p.offers[pe].Count {
		batch, err := readRights(conn)
		fds = append(fds, batch...)
		if err != nil {
			return pe, nil, errors.Join(err, CloseFDs([][]int{fds}))
		}
	}
	return pe, fds, nil
}

// readRights reads one message with descriptors. They are close-on-exec.
func readRights(conn *net.UnixConn) ([]int, error) {
	count := make([]byte, 1)
	oob := make([]byte, unix.CmsgSpace(4*fdsPerMessage))
	n, oobn, flags, _, err := conn.ReadMsgUnix(count, oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, m := range messages {
		rights, err := unix.ParseUnixRights(&m)
		if err != nil {
			return fds, err
		}
		fds = append(fds, rights...)
	}
	if n != 1 || len(fds) != int(count[0]) || flags&unix.MSG_CTRUNC != 0 {
		return fds, fmt.Errorf("%d of %d descriptors arrived (is the limit on open files too low? see ulimit -n)", len(fds), count[0])
	}
	return fds, nil
}
