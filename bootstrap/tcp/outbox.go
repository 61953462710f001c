package tcp

import (
	"net"
	"sync"
)

// outbox sends frames to one peer in order, from its own goroutine, so that a peer that does not read (a stopped
// process) holds up nobody else. Its length is bounded by the protocol: a peer gets at most one step, one failure and
// one goodbye that it has not asked for.
type outbox struct {
	mu    sync.Mutex
	ready sync.Cond
	queue []letter
	shut  bool // nothing more comes
	dead  bool // the connection is broken
}

type letter struct {
	bytes []byte
	sent  chan struct{} // closed when written or given up
}

func newOutbox() *outbox {
	o := &outbox{}
	o.ready.L = &o.mu
	return o
}

// push queues bytes. The channel is closed when they have been handed to the kernel, or never will be.
func (o *outbox) push(b []byte) <-chan struct{} {
	l := letter{b, make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shut || o.dead {
		close(l.sent)
		return l.sent
	}
	o.queue = append(o.queue, l)
	o.ready.Signal()
	return l.sent
}

// shutdown lets run end after what is queued.
func (o *outbox) shutdown() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut = true
	o.ready.Signal()
}

// run writes until shutdown or until the connection breaks, then closes the sending direction.
func (o *outbox) run(conn net.Conn) {
	for {
		o.mu.Lock()
		for len(o.queue) == 0 && !o.shut {
			o.ready.Wait()
		}
		batch := o.queue
		o.queue = nil
		o.mu.Unlock()
		if len(batch) == 0 {
			closeWrite(conn)
			return
		}
		for _, l := range batch {
			if !o.dead {
				if _, err := conn.Write(l.bytes); err != nil {
					o.mu.Lock()
					o.dead = true
					o.mu.Unlock()
				}
			}
			close(l.sent)
		}
	}
}

// closeWrite ends the stream towards the peer but leaves the other direction open, so that data still on the way from
// it does not reset the connection under what it has yet to read.
func closeWrite(conn net.Conn) {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		// The peer may have closed already; then there is nothing to end.
		_ = c.CloseWrite()
	}
}
