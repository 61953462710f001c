package pgas

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/internal/config"
)

// Options of Init. The zero value is good: everything then comes from the environment (PGAS_* variables and the
// launcher). A field that is set wins over its variable and is checked by the same rules.
type Options struct {
	// Platform is "auto", "soft" or "hw" (PGAS_PLATFORM).
	Platform string
	// Path is "auto", "p2p" or "ibgda" (PGAS_PATH). A path by name fails instead of falling back.
	Path string

	// HeapSize is the symmetric heap in GPU memory, in bytes per PE (PGAS_HEAP_SIZE). Equal on all PEs.
	HeapSize uint64
	// HostHeapSize is the symmetric heap in pinned host memory, in bytes per PE (PGAS_HOST_HEAP_SIZE).
	HostHeapSize uint64
	// SignalHeapSize is the segment of signal words, in bytes per PE; a word takes 64 bytes (PGAS_SIGNAL_HEAP_SIZE).
	SignalHeapSize uint64

	// Contexts is the number of contexts for kernels; each has its own queue to each PE (PGAS_CONTEXTS).
	Contexts int
	// QueueDepth is the size of a send queue in 64-byte basic blocks, a power of two (PGAS_QUEUE_DEPTH).
	QueueDepth int

	// Timeout bounds every wait of one operation, on the host and on the device (PGAS_TIMEOUT).
	Timeout time.Duration
	// BootTimeout bounds the wait for all PEs to start (PGAS_BOOT_TIMEOUT).
	BootTimeout time.Duration

	// SoftHCA and SoftGPU configure the software platform: drivers, seeds, faults, limits (PGAS_SOFT_HCA,
	// PGAS_SOFT_GPU).
	SoftHCA, SoftGPU string

	// CacheDir keeps compiled kernels (PGAS_CACHE_DIR).
	CacheDir string

	// Environ replaces os.Environ() as the source of variables when it is not nil.
	Environ []string
	// Exchanger replaces the rendezvous that the environment describes. Init takes it over and closes it.
	Exchanger bootstrap.Exchanger
	// Logger receives a few lines at start and end and is never used by operations. nil means silence, or lines on the
	// standard error from the level in PGAS_LOG on if that is set.
	Logger *zap.Logger
}

// environ is the environment with the set fields in front, where they win.
func (o *Options) environ() []string {
	var set []string
	add := func(name, value string) {
		if value != "" {
			set = append(set, name+"="+value)
		}
	}
	number := func(name string, n int64) {
		if n != 0 {
			add(name, strconv.FormatInt(n, 10))
		}
	}
	size := func(name string, n uint64) {
		if n != 0 {
			add(name, strconv.FormatUint(n, 10))
		}
	}
	duration := func(name string, d time.Duration) {
		if d != 0 {
			add(name, d.String())
		}
	}
	add("PGAS_PLATFORM", o.Platform)
	add("PGAS_PATH", o.Path)
	size("PGAS_HEAP_SIZE", o.HeapSize)
	size("PGAS_HOST_HEAP_SIZE", o.HostHeapSize)
	size("PGAS_SIGNAL_HEAP_SIZE", o.SignalHeapSize)
	number("PGAS_CONTEXTS", int64(o.Contexts))
	number("PGAS_QUEUE_DEPTH", int64(o.QueueDepth))
	duration("PGAS_TIMEOUT", o.Timeout)
	duration("PGAS_BOOT_TIMEOUT", o.BootTimeout)
	add("PGAS_SOFT_HCA", o.SoftHCA)
	add("PGAS_SOFT_GPU", o.SoftGPU)
	add("PGAS_CACHE_DIR", o.CacheDir)
	rest := o.Environ
	if rest == nil {
		rest = os.Environ()
	}
	return append(set, rest...)
}

func (o *Options) config() (*config.Config, error) {
	cfg, err := config.Load(o.environ())
	if err != nil {
		return nil, fmt.Errorf("init: %w", err)
	}
	return cfg, nil
}

// logger is the one that the program gave; else silence, unless the environment asks for lines by PGAS_LOG.
func (o *Options) logger(cfg *config.Config) *zap.Logger {
	if o.Logger != nil {
		return o.Logger
	}
	for _, s := range cfg.Settings() {
		if s.Name == "PGAS_LOG" && s.Source == config.SourceEnvironment {
			return stderrLogger(s.Value)
		}
	}
	return zap.NewNop()
}

// stderrLogger writes whole lines to the standard error.
func stderrLogger(level string) *zap.Logger {
	at, err := zapcore.ParseLevel(level)
	if err != nil {
		at = zapcore.InfoLevel // config has checked it against the same names
	}
	format := zap.NewDevelopmentEncoderConfig()
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(format), zapcore.Lock(os.Stderr), at))
}
