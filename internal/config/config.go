// Package config is the environment of pgas: one struct with every PGAS_* variable, parsed strictly, with where each
// value came from. No other package of the library reads them.
package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// Config has one field per variable. Tags: env is the name, envDefault the default, doc and form the documentation. An
// empty variable counts as unset. Pointers are nil when unset.
type Config struct {
	Platform Platform `env:"PGAS_PLATFORM" envDefault:"auto" doc:"what runs kernels and moves bytes" form:"auto, soft or hw"`
	Path     Path     `env:"PGAS_PATH" envDefault:"auto" doc:"how peers are reached; a path by name fails instead of falling back" form:"auto, p2p or ibgda"`

	HeapSize       Size `env:"PGAS_HEAP_SIZE" envDefault:"256M" doc:"symmetric heap in GPU memory, per PE" form:"size"`
	HostHeapSize   Size `env:"PGAS_HOST_HEAP_SIZE" envDefault:"16M" doc:"symmetric heap in pinned host memory, per PE" form:"size"`
	SignalHeapSize Size `env:"PGAS_SIGNAL_HEAP_SIZE" envDefault:"1M" doc:"symmetric heap for signal words, per PE" form:"size"`

	Contexts   int `env:"PGAS_CONTEXTS" envDefault:"4" doc:"contexts; each has its own queue to each peer" form:"a number from 1 to 1024"`
	QueueDepth int `env:"PGAS_QUEUE_DEPTH" envDefault:"1024" doc:"64-byte basic blocks per send queue" form:"a power of two from 2 to 32768"`

	Timeout     time.Duration `env:"PGAS_TIMEOUT" envDefault:"60s" doc:"longest wait of one operation, on host and device" form:"duration"`
	BootTimeout time.Duration `env:"PGAS_BOOT_TIMEOUT" envDefault:"120s" doc:"longest wait for all PEs to start" form:"duration"`

	Interface string `env:"PGAS_INTERFACE" doc:"network interfaces to use" form:"exact names (eth0,eth1), all but some (^docker0,veth1), or a subnet (10.9.0.0/24)"`
	Root      string `env:"PGAS_ROOT" doc:"where PE 0 listens and all others connect" form:"host:port, [IPv6]:port, or unix:@name on one host"`
	Rank      *int   `env:"PGAS_RANK" doc:"number of this PE" form:"a number from 0 to PGAS_SIZE-1"`
	Size      *int   `env:"PGAS_SIZE" doc:"number of PEs" form:"a number from 1 to 65536"`
	JobID     string `env:"PGAS_JOB_ID" doc:"name of the job; PEs of other jobs are refused" form:"up to 128 letters, digits or . _ - :"`
	JobKey    Secret `env:"PGAS_JOB_KEY" doc:"secret that the PEs of the job share" form:"up to 1024 bytes"`

	SoftHCA string `env:"PGAS_SOFT_HCA" doc:"software HCA: driver, seed, faults, limits" form:"spec of the software HCA"`
	SoftGPU string `env:"PGAS_SOFT_GPU" doc:"software GPU: devices, limits" form:"spec of the software GPU"`

	CacheDir string   `env:"PGAS_CACHE_DIR" doc:"compiled kernels; the user cache directory when unset" form:"an absolute path"`
	Log      LogLevel `env:"PGAS_LOG" envDefault:"warn" doc:"least severe level that is logged" form:"debug, info, warn or error"`

	// Warnings are to be logged once: one per unknown PGAS_* variable.
	Warnings []string `env:"-"`

	source map[string]string // by variable name
}

// Sources of a value.
const (
	SourceDefault     = "default"
	SourceEnvironment = "environment"
	SourceUnset       = "unset"
)

// Setting is one variable for listings.
type Setting struct {
	Name   string // PGAS_...
	Value  string // as parsed; secrets are hidden
	Source string // one of the Source constants
	Form   string // accepted form
	Doc    string
}

// ValueError says which variable has a bad value.
type ValueError struct {
	Name  string
	Value string // hidden for secrets
	Form  string // accepted form
	Err   error
}

// Error reads `PGAS_HEAP_SIZE="64Q": not a size: "64Q" (accepted: ...)`.
func (e *ValueError) Error() string {
	return fmt.Sprintf("%s=%q: %v (accepted: %s)", e.Name, e.Value, e.Err, e.Form)
}

// Unwrap returns the reason.
func (e *ValueError) Unwrap() error { return e.Err }

// Load parses an environment such as os.Environ(). The error joins one ValueError per bad variable.
func Load(environ []string) (*Config, error) {
	vars := make(map[string]string)
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if _, twice := vars[name]; strings.HasPrefix(name, "PGAS_") && value != "" && !twice {
			vars[name] = value
		}
	}
	c := &Config{source: make(map[string]string)}
	fields := c.fields()
	err := env.ParseWithOptions(c, env.Options{
		Environment: vars,
		FuncMap:     map[reflect.Type]env.ParserFunc{reflect.TypeFor[time.Duration](): parseDuration},
	})
	bad, err := c.valueErrors(err, vars)
	if err != nil {
		return nil, err
	}
	bad = append(bad, c.check(bad, vars)...)
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	for name, f := range fields {
		_, given := vars[name]
		switch {
		case given:
			c.source[name] = SourceEnvironment
		case f.Tag.Get("envDefault") != "":
			c.source[name] = SourceDefault
		default:
			c.source[name] = SourceUnset
		}
	}
	c.Warnings = unknown(vars, slices.Sorted(maps.Keys(fields)))
	return c, nil
}

// fields maps variable names to struct fields.
func (c *Config) fields() map[string]reflect.StructField {
	m := make(map[string]reflect.StructField)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if name := f.Tag.Get("env"); strings.HasPrefix(name, "PGAS_") {
			m[name] = f
		}
	}
	return m
}

// valueErrors turns the parser's errors, which name struct fields, into errors that name variables.
func (c *Config) valueErrors(err error, vars map[string]string) ([]error, error) {
	if err == nil {
		return nil, nil
	}
	var agg env.AggregateError
	if !errors.As(err, &agg) {
		return nil, fmt.Errorf("config: %w", err)
	}
	byField := make(map[string]string)
	for name, f := range c.fields() {
		byField[f.Name] = name
	}
	var bad []error
	for _, e := range agg.Errors {
		var pe env.ParseError
		if !errors.As(e, &pe) || byField[pe.Name] == "" {
			return nil, fmt.Errorf("config: %w", e)
		}
		bad = append(bad, c.bad(byField[pe.Name], vars, pe.Err))
	}
	return bad, nil
}

func (c *Config) bad(name string, vars map[string]string, reason error) error {
	form := c.fields()[name].Tag.Get("form")
	switch form {
	case "size":
		form = sizeForm
	case "duration":
		form = durationForm
	}
	value := vars[name]
	if c.fields()[name].Type == reflect.TypeFor[Secret]() {
		value = Secret(value).String()
	}
	return &ValueError{Name: name, Value: value, Form: form, Err: reason}
}

// check looks at ranges and at variables that belong together. Fields that did not parse are skipped.
func (c *Config) check(already []error, vars map[string]string) []error {
	skip := make(map[string]bool)
	for _, e := range already {
		var v *ValueError
		if errors.As(e, &v) {
			skip[v.Name] = true
		}
	}
	var out []error
	want := func(name string, ok bool, format string, args ...any) {
		if !ok && !skip[name] {
			out = append(out, c.bad(name, vars, fmt.Errorf(format, args...)))
		}
	}
	want("PGAS_HEAP_SIZE", c.HeapSize > 0, "a heap cannot be empty")
	want("PGAS_SIGNAL_HEAP_SIZE", c.SignalHeapSize > 0, "a heap cannot be empty")
	want("PGAS_CONTEXTS", c.Contexts >= 1 && c.Contexts <= 1024, "out of range")
	want("PGAS_QUEUE_DEPTH", c.QueueDepth >= 2 && c.QueueDepth <= 32768, "out of range")
	want("PGAS_QUEUE_DEPTH", c.QueueDepth&(c.QueueDepth-1) == 0, "not a power of two")
	want("PGAS_SIZE", c.Size == nil || (*c.Size >= 1 && *c.Size <= 1<<16), "out of range")
	want("PGAS_RANK", c.Rank == nil || *c.Rank >= 0, "negative")
	if c.Rank != nil && c.Size != nil && !skip["PGAS_SIZE"] {
		want("PGAS_RANK", *c.Rank < *c.Size, "not below PGAS_SIZE=%d", *c.Size)
	}
	want("PGAS_JOB_ID", validJobID(c.JobID), "not a job name")
	want("PGAS_JOB_KEY", len(c.JobKey) <= 1024, "%d bytes", len(c.JobKey))
	want("PGAS_CACHE_DIR", c.CacheDir == "" || filepath.IsAbs(c.CacheDir), "not absolute")
	return out
}

func validJobID(id string) bool {
	for _, r := range id {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-:", r):
		default:
			return false
		}
	}
	return len(id) <= 128
}

// Settings lists all variables in the order of the struct.
func (c *Config) Settings() []Setting {
	var out []Setting
	v := reflect.ValueOf(c).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		name := f.Tag.Get("env")
		if !strings.HasPrefix(name, "PGAS_") {
			continue
		}
		value := ""
		if fv := v.FieldByIndex(f.Index); fv.Kind() != reflect.Pointer {
			value = fmt.Sprint(fv.Interface())
		} else if !fv.IsNil() {
			value = fmt.Sprint(fv.Elem().Interface())
		}
		out = append(out, Setting{Name: name, Value: value, Source: c.source[name], Form: f.Tag.Get("form"), Doc: f.Tag.Get("doc")})
	}
	return out
}
