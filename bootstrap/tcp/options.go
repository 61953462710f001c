package tcp

import (
	"net"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/pgas-go/pgas/internal/errs"
)

// Dead hosts are found by keepalive after about 25 s: 10 s idle, three probes 5 s apart. A stopped process answers
// keepalive (its kernel does), so it is not taken for dead.
var defaultKeepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}

// Options describe this PE and how to find the others.
type Options struct {
	Rank int
	Size int
	// Root is where PE 0 listens: "host:port", "[IPv6]:port", or "unix:@name" when all PEs are on one host.
	Root string
	// Job names the job. A root of another job refuses this PE.
	Job string
	// Key is the secret of the job. Whoever cannot prove that he knows it is refused. It is never sent.
	Key []byte
	// BootTimeout bounds Connect: how long PEs may start after each other. 0 means 120 s.
	BootTimeout time.Duration
	// StepTimeout bounds collective calls whose context has no deadline. 0 means 60 s.
	StepTimeout time.Duration
	// Interface is a filter as in PGAS_INTERFACE; empty means any.
	Interface string
	// Logger gets refused strangers and slow starts. nil means none.
	Logger *zap.Logger

	version   uint16              // protocol version, for tests; 0 means frameVersion
	keepAlive net.KeepAliveConfig // for tests; zero means defaultKeepAlive
}

func (o *Options) complete() error {
	if o.Size < 1 || o.Size > 1<<16 {
		return errs.Arg("start", "size", o.Size, "1..65536")
	}
	if o.Rank < 0 || o.Rank >= o.Size {
		return errs.Arg("start", "rank", o.Rank, "0.."+strconv.Itoa(o.Size-1))
	}
	if len(o.Job) > 256 {
		return errs.Arg("start", "length of the job name", len(o.Job), "at most 256")
	}
	if o.BootTimeout <= 0 {
		o.BootTimeout = 120 * time.Second
	}
	if o.StepTimeout <= 0 {
		o.StepTimeout = 60 * time.Second
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.version == 0 {
		o.version = frameVersion
	}
	if !o.keepAlive.Enable {
		o.keepAlive = defaultKeepAlive
	}
	return nil
}
