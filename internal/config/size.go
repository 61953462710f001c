package config

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Size is a number of bytes, at most math.MaxInt64.
type Size uint64

const sizeForm = "bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB (powers of 1024): 67108864, 64M, 1.5G"

var sizeUnits = []struct {
	letter string
	shift  uint
}{{"T", 40}, {"G", 30}, {"M", 20}, {"K", 10}}

// ParseSize reads a size strictly: plain bytes, or a decimal number directly followed by K, M, G, T (either case) or
// KiB, MiB, GiB, TiB. All units are powers of 1024. Signs, blanks, trailing junk, decimal units such as MB, sizes over
// math.MaxInt64 and fractions of a byte are refused.
func ParseSize(text string) (Size, error) {
	number, shift := text, uint(0)
	for _, u := range sizeUnits {
		if s, ok := strings.CutSuffix(text, u.letter+"iB"); ok {
			number, shift = s, u.shift
		} else if len(text) > 0 && strings.EqualFold(text[len(text)-1:], u.letter) {
			number, shift = text[:len(text)-1], u.shift
		}
	}
	whole, frac, point := strings.Cut(number, ".")
	if !isDigits(whole) || (point && !isDigits(frac)) {
		return 0, fmt.Errorf("not a size: %q", text)
	}
	if len(number) > 64 {
		return 0, fmt.Errorf("size has %d digits, at most 64", len(number))
	}
	n, _ := new(big.Int).SetString(whole+frac, 10)
	n.Lsh(n, shift)
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(frac))), nil)
	n, rest := n.QuoRem(n, scale, new(big.Int))
	if rest.Sign() != 0 {
		return 0, fmt.Errorf("%s is not a whole number of bytes", text)
	}
	if !n.IsInt64() {
		return 0, fmt.Errorf("%s is over %d bytes", text, int64(math.MaxInt64))
	}
	return Size(n.Int64()), nil
}

func isDigits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// UnmarshalText is ParseSize for the environment parser.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}

// String prints the size exactly, in the largest unit that divides it. ParseSize reads it back.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && s&(1<<u.shift-1) == 0 {
			return strconv.FormatUint(uint64(s>>u.shift), 10) + u.letter
		}
	}
	return strconv.FormatUint(uint64(s), 10)
}
