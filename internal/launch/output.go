package launch

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// maxLine is the longest line that is kept whole; longer ones are broken.
const maxLine = 1 << 20

// maxTail bounds the line of a failed PE that is repeated in the cause.
const maxTail = 400

// sink writes whole lines of all PEs to one writer, one at a time.
type sink struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sink) write(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A closed terminal or pipe is no reason to end the job: its exit code still counts.
	_, _ = s.w.Write(b)
}

// relay copies one stream of one PE to a sink, line by line, with a tag in front of each.
type relay struct {
	to   *sink
	tag  string
	tail *tail // nil for stdout
}

// copy runs until the stream ends. raw copies bytes as they come, for a job whose lines cannot be mixed up.
func (r *relay) copy(from io.Reader, raw bool) {
	var line []byte
	buf := make([]byte, 32<<10)
	flush := func(end string) {
		if r.tail != nil {
			r.tail.add(line)
		}
		if !raw {
			out := append([]byte(r.tag), line...)
			r.to.write(append(out, end...))
		}
		line = line[:0]
	}
	for {
		n, err := from.Read(buf)
		if raw && n > 0 {
			r.to.write(buf[:n])
		}
		rest := buf[:n]
		for len(rest) > 0 {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				line = append(line, rest...)
				if len(line) >= maxLine {
					flush("\n")
				}
				break
			}
			line = append(line, rest[:i]...)
			flush("\n")
			rest = rest[i+1:]
		}
		if err != nil {
			if len(line) > 0 {
				flush("\n")
			}
			return
		}
	}
}

// tail remembers the line of stderr that says most about a failure: the message of a Go panic if there is one, because
// a stack follows it, else the last line that is not blank.
type tail struct {
	mu    sync.Mutex
	last  string
	panic string
}

func (t *tail) add(line []byte) {
	text := strings.TrimSpace(string(line[:min(len(line), maxTail)]))
	if text == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = text
	if t.panic == "" && (strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ")) {
		t.panic = text
	}
}

func (t *tail) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.panic != "" {
		return t.panic
	}
	return t.last
}
