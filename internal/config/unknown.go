package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// testPrefix marks variables of test programs, which are nobody's typing error.
const testPrefix = "PGAS_TEST_"

// unknown makes one warning per variable that pgas does not have, with the nearest one that it has.
func unknown(vars map[string]string, known []string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if slices.Contains(known, name) || strings.HasPrefix(name, testPrefix) {
			continue
		}
		if near := nearest(name, known); near != "" {
			out = append(out, fmt.Sprintf("unknown variable %s is ignored (did you mean %s?)", name, near))
		} else {
			out = append(out, fmt.Sprintf("unknown variable %s is ignored (`pgas info` lists the variables)", name))
		}
	}
	return out
}

// nearest returns the known name with the least edit distance, or "" if none is near enough to be meant.
func nearest(name string, known []string) string {
	best, bestDistance := "", 4
	for _, k := range known {
		if d := distance(name, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
