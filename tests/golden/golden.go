// Package golden holds bytes that hardware reads and writes, written down once and compared with what Go and C++
// produce.
package golden

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

//go:embed mlx5.txt
var mlx5Text string

// Mlx5 returns the vectors of mlx5.txt by name.
func Mlx5() (map[string][]byte, error) { return parse(mlx5Text) }

func parse(text string) (map[string][]byte, error) {
	vectors := map[string][]byte{}
	var last string
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if words[0] != "+" {
			if len(words) < 2 {
				return nil, fmt.Errorf("golden line %d: name and size wanted", i+1)
			}
			size, err := strconv.Atoi(words[1])
			if err != nil {
				return nil, fmt.Errorf("golden line %d: size: %w", i+1, err)
			}
			last = words[0]
			if _, dup := vectors[last]; dup {
				return nil, fmt.Errorf("golden line %d: vector %s is there already", i+1, last)
			}
			vectors[last] = make([]byte, size)
			words = words[1:]
		}
		if err := fill(vectors[last], words[1:]); err != nil {
			return nil, fmt.Errorf("golden line %d, vector %q: %w", i+1, last, err)
		}
	}
	return vectors, nil
}

func fill(b []byte, words []string) error {
	for _, w := range words {
		at, value, _ := strings.Cut(w, ":")
		off, err := strconv.ParseUint(at, 16, 16)
		if err != nil {
			return fmt.Errorf("offset %q: %w", at, err)
		}
		v, err := strconv.ParseUint(value, 16, 32)
		if err != nil {
			return fmt.Errorf("word %q: %w", value, err)
		}
		if int(off)+4 > len(b) {
			return fmt.Errorf("word at %#x is outside %d bytes", off, len(b))
		}
		binary.BigEndian.PutUint32(b[off:], uint32(v))
	}
	return nil
}
