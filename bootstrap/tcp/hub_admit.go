package tcp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/pgas-go/pgas/internal/errs"
)

// serve takes one connection from the handshake to its end.
func (h *hub) serve(conn net.Conn) {
	defer conn.Close()
	m, err := h.greet(conn)
	h.mu.Lock()
	delete(h.knocking, conn)
	h.mu.Unlock()
	if err != nil {
		h.opt.Logger.Warn("rendezvous refused a connection", zap.String("from", conn.RemoteAddr().String()), zap.Error(err))
	}
	if m != nil {
		h.listen(m)
	}
}

// greet runs the handshake. It returns the new member, or nil with the reason why a stranger was refused, or nil
// without an error if a process of this job was turned away with a frame that tells it why.
func (h *hub) greet(conn net.Conn) (*member, error) {
	if err := sameUser(conn); err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	nonce := newNonce()
	if err := send(conn, handshakeFrame(kindChallenge, h.job, challenge{h.opt.version, h.opt.Job, nonce})); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	f, err := readFrame(in, maxHandshake)
	if err == io.EOF {
		return nil, nil // somebody who only wanted to know whose port this is
	}
	if err != nil {
		return nil, err
	}
	var hi hello
	if err := decodeHandshake(f, kindHello, &hi); err != nil {
		return nil, err
	}
	if !hi.genuine(h.opt.Key, nonce) || hi.Job != h.opt.Job {
		h.dismiss(conn, in, handshakeFrame(kindReject, h.job, reject{whyKey, "the job key differs"}).encode())
		return nil, fmt.Errorf("it does not know the key of job %s", h.opt.Job)
	}
	h.mu.Lock()
	m, reply := h.admit(conn, in, &hi, nonce)
	h.mu.Unlock()
	if m == nil {
		h.dismiss(conn, in, reply)
		return nil, nil
	}
	return m, conn.SetDeadline(time.Time{})
}

// admit decides about a genuine PE: it becomes a member, or gets the returned frame. Whatever is wrong with it while
// the job starts is an error of the job. Once the job runs, a surplus process is only turned away. The lock is held.
func (h *hub) admit(conn net.Conn, in *bufio.Reader, hi *hello, nonce []byte) (*member, []byte) {
	away := func(why, format string, args ...any) (*member, []byte) {
		return nil, handshakeFrame(kindReject, h.job, reject{why, fmt.Sprintf(format, args...)}).encode()
	}
	inRange := hi.Rank >= 0 && hi.Rank < h.opt.Size
	var old *member
	if inRange {
		old = h.members[hi.Rank]
	}
	// A PE that was here and went is already in the next round of this job, even if its old connection has not been
	// seen to end. So is every PE that comes after the failure of a job that was complete.
	was := old != nil && (old.left || old.gone || h.failed != nil && (h.started || old.pid == hi.PID)) || inRange && h.told[hi.Rank]
	switch {
	case h.closing || was || h.members[0].left:
		return away(whyRetry, "job %s is ending", h.opt.Job)
	case h.failed != nil:
	case h.started:
		return away(whyTaken, "job %s runs with all of its %d PEs; rank %d is not free", h.opt.Job, h.opt.Size, hi.Rank)
	case hi.Version != h.opt.version:
		h.fail(&errs.MismatchError{What: "version of the start-up protocol", Values: map[int]string{
			0: strconv.Itoa(int(h.opt.version)), hi.Rank: strconv.Itoa(int(hi.Version))}})
	case hi.Size != h.opt.Size:
		h.fail(&errs.MismatchError{What: "number of PEs", Values: map[int]string{
			0: strconv.Itoa(h.opt.Size), hi.Rank: strconv.Itoa(hi.Size)}})
	case !inRange:
		return away(whyBad, "rank %d of %d", hi.Rank, h.opt.Size)
	case old != nil:
		h.fail(fmt.Errorf("%w: rank %d was claimed by pid %d%s and by pid %d%s (give every PE its own rank)", errs.ErrMismatch,
			hi.Rank, old.pid, onHost(old.host), hi.PID, onHost(hostOf(conn))))
	}
	if h.failed != nil {
		if inRange {
			h.told[hi.Rank] = true
			h.notify()
		}
		return nil, h.failed
	}
	m := h.join(conn, in, hi.Rank, hi.PID)
	m.out.push(handshakeFrame(kindWelcome, h.job, welcome{hi.welcomeMAC(h.opt.Key, nonce)}).encode())
	h.boot.lower(time.Duration(hi.RemainingMS)*time.Millisecond, h.bootExpired)
	h.startIfComplete()
	return m, nil
}

// dismiss sends a last frame and waits, within the handshake's deadline, for the peer to close, so that the frame is
// not lost to a reset.
func (h *hub) dismiss(conn net.Conn, in io.Reader, last []byte) {
	if _, err := conn.Write(last); err != nil {
		return // it is gone; there is nobody to tell
	}
	closeWrite(conn)
	// A peer of ours closes as soon as it has read the frame; whoever does not is cut off.
	if conn.SetReadDeadline(time.Now().Add(lingerTimeout)) == nil {
		_, _ = io.CopyN(io.Discard, in, maxHandshake)
	}
}

func onHost(host string) string {
	if host == "" {
		return ""
	}
	return " on " + host
}

func send(conn net.Conn, f *frame) error {
	_, err := conn.Write(f.encode())
	return err
}
