package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/pgas-go/pgas/internal/errs"
)

// Platform says what runs the kernels and moves the bytes.
type Platform string

// Platforms.
const (
	PlatformAuto Platform = "auto" // hw if a GPU and an mlx5 NIC or peer mapping are there, else soft
	PlatformSoft Platform = "soft" // software GPU and software HCA
	PlatformHW   Platform = "hw"   // CUDA driver, rdma-core, GDRCopy
)

// UnmarshalText refuses everything but the constants.
func (p *Platform) UnmarshalText(text []byte) error {
	return oneOf(p, text, PlatformAuto, PlatformSoft, PlatformHW)
}

// Path says how peers are reached.
type Path string

// Paths.
const (
	PathAuto  Path = "auto"  // the best that works, per peer
	PathP2P   Path = "p2p"   // the GPU's loads and stores on the mapped heap
	PathIBGDA Path = "ibgda" // WQEs and doorbells written by the GPU
)

// UnmarshalText refuses everything but the constants. Paths that pgas has a name for but cannot run are an
// UnsupportedError.
func (p *Path) UnmarshalText(text []byte) error {
	switch string(text) {
	case "assisted", "proxy":
		return &errs.UnsupportedError{Feature: "path " + string(text), Need: "a CPU progress engine", Have: "none in this build",
			Fix: "set PGAS_PATH=auto, p2p or ibgda"}
	}
	return oneOf(p, text, PathAuto, PathP2P, PathIBGDA)
}

// LogLevel is the least severe level that is printed.
type LogLevel string

// UnmarshalText refuses everything but debug, info, warn, error.
func (l *LogLevel) UnmarshalText(text []byte) error {
	return oneOf(l, text, "debug", "info", "warn", "error")
}

func oneOf[T ~string](dst *T, text []byte, allowed ...T) error {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		if T(text) == a {
			*dst = a
			return nil
		}
		names[i] = string(a)
	}
	return fmt.Errorf("not one of %s", strings.Join(names, ", "))
}

// Secret is a string that no listing prints.
type Secret string

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(set, not shown)"
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// maxDuration keeps sums of deadlines far from overflow; nobody waits longer on purpose.
const maxDuration = 7 * 24 * time.Hour

const durationForm = "a number with a unit, over 0 and at most 168h: 500ms, 60s, 1m30s"

func parseDuration(text string) (any, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil && isDigits(text):
		return nil, fmt.Errorf("the unit is missing (write %ss for seconds)", text)
	case err != nil:
		return nil, fmt.Errorf("not a duration")
	case d <= 0:
		return nil, fmt.Errorf("a wait of %v would never or at once end", d)
	case d > maxDuration:
		return nil, fmt.Errorf("%v is over %v", d, maxDuration)
	}
	return d, nil
}
