package netif

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func fixture() []Interface {
	p := netip.MustParsePrefix
	return []Interface{
		{"lo", []netip.Prefix{p("127.0.0.1/8"), p("::1/128")}},
		{"e1", []netip.Prefix{p("10.9.0.1/24"), p("fe80::1/64")}},
		{"e10", []netip.Prefix{p("10.9.1.1/24")}},
		{"e1.5", []netip.Prefix{p("10.9.2.1/24"), p("fd00::5/64")}},
	}
}

func names(is []Interface) (out []string) {
	for _, i := range is {
		out = append(out, i.Name)
	}
	return out
}

func TestSelect(t *testing.T) {
	for spec, want := range map[string][]string{
		"":                 {"lo", "e1", "e10", "e1.5"},
		"e1":               {"e1"}, // never by prefix
		"e10,e1.5":         {"e10", "e1.5"},
		"^lo":              {"e1", "e10", "e1.5"},
		"^lo,e1":           {"e10", "e1.5"},
		"10.9.0.0/24":      {"e1"},
		"10.9.0.0/23":      {"e1", "e10"},
		"lo,10.9.1.0/24":   {"lo", "e10"},
		"fd00::/16":        {"e1.5"},
		"eth0,e1":          {"e1"}, // hosts may have different names
		"^10.9.0.0/16,lo":  {"e1", "e1.5"},
		"10.9.0.77/24":     {"e1"},
		"^lo,e1,e10,none0": {"e1.5"},
	} {
		f, err := Parse(spec)
		require.NoError(t, err, spec)
		got, err := f.Select(fixture())
		require.NoError(t, err, spec)
		require.Equal(t, want, names(got), spec)
	}
	f, err := Parse("eth0")
	require.NoError(t, err)
	_, err = f.Select(fixture())
	require.ErrorContains(t, err, `no network interface matches "eth0"; this host has: lo 127.0.0.1/8 ::1/128; e1 10.9.0.1/24`)
	_, err = f.Select(nil)
	require.ErrorContains(t, err, "none that is up")
}

func TestParseRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"^e1,^e2":     "write ^e1,e2",
		"^=e1,^=e2":   "write ^e1,e2",
		"=e1":         "not understood",
		"e1,^e2":      "not understood",
		"e1,,e2":      "empty item",
		"^":           "empty item",
		"10.9.0.0/33": "not a subnet",
		"10.9/16":     "not a subnet",
	} {
		_, err := Parse(spec)
		require.ErrorContains(t, err, want, spec)
	}
}

func TestSourceFor(t *testing.T) {
	for target, want := range map[string]string{
		"10.9.1.9": "10.9.1.1", "10.9.2.9": "10.9.2.1", "192.0.2.1": "10.9.0.1", "127.0.0.1": "127.0.0.1", "::1": "::1",
		"fd00::9": "fd00::5", "fd01::1": "fd00::5", "fe80::2%e1": "fe80::1%e1",
	} {
		got, err := SourceFor(netip.MustParseAddr(target), fixture())
		require.NoError(t, err, target)
		require.Equal(t, want, got.String(), target)
	}
	_, err := SourceFor(netip.MustParseAddr("10.9.0.9"), fixture()[:1])
	require.ErrorContains(t, err, "no chosen interface can reach 10.9.0.9; chosen: lo")
}

func TestListHasLoopback(t *testing.T) {
	all, err := List()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	require.True(t, fixture()[0].Loopback())
	require.False(t, fixture()[1].Loopback())
}
