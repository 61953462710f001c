package layout

import (
	"strings"
	"unicode"
)

// GoName turns snake_case into CamelCase: "my_pe" becomes "MyPe".
func GoName(snake string) string {
	var b strings.Builder
	for _, part := range strings.Split(snake, "_") {
		if part == "" {
			continue
		}
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// SnakeName turns CamelCase into snake_case: "PeerLost" becomes "peer_lost", "P2p" becomes "p2p".
func SnakeName(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if unicode.IsUpper(r) {
			if i > 0 {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// IsPad tells whether a field is padding: it has no name in Go, and nobody may use it.
func (f Field) IsPad() bool {
	return strings.HasPrefix(f.Name, "pad") && strings.Trim(f.Name[3:], "0123456789") == ""
}

// N is the number of elements: at least 1.
func (f Field) N() int { return max(f.Count, 1) }
