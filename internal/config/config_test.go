package config

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pgas-go/pgas/internal/errs"
)

func TestDefaults(t *testing.T) {
	c, err := Load(nil)
	require.NoError(t, err)
	require.Equal(t, PlatformAuto, c.Platform)
	require.Equal(t, PathAuto, c.Path)
	require.Equal(t, Size(256<<20), c.HeapSize)
	require.Equal(t, 120*time.Second, c.BootTimeout)
	require.Nil(t, c.Rank)
	require.Empty(t, c.Warnings)
	for _, s := range c.Settings() {
		require.NotEqual(t, SourceEnvironment, s.Source, s.Name)
		require.NotEmpty(t, s.Doc, s.Name)
		require.NotEmpty(t, s.Form, s.Name)
	}
}

func TestLoadReadsEveryVariable(t *testing.T) {
	values := map[string]string{
		"PGAS_PLATFORM": "soft", "PGAS_PATH": "p2p", "PGAS_HEAP_SIZE": "64M", "PGAS_HOST_HEAP_SIZE": "32M",
		"PGAS_SIGNAL_HEAP_SIZE": "64K", "PGAS_CONTEXTS": "2", "PGAS_QUEUE_DEPTH": "16", "PGAS_TIMEOUT": "5s",
		"PGAS_BOOT_TIMEOUT": "1m30s", "PGAS_INTERFACE": "^docker0", "PGAS_ROOT": "[::1]:99", "PGAS_RANK": "1", "PGAS_SIZE": "2",
		"PGAS_JOB_ID": "j.1", "PGAS_JOB_KEY": "hush", "PGAS_SOFT_HCA": "chaos", "PGAS_SOFT_GPU": "devices=1",
		"PGAS_CACHE_DIR": "/c", "PGAS_LOG": "debug",
	}
	var environ []string
	for k, v := range values {
		environ = append(environ, k+"="+v)
	}
	c, err := Load(append(environ, "HOME=/", "PGAS_RANK=0"))
	require.NoError(t, err)
	require.Equal(t, 1, *c.Rank, "the first of two equal names counts, as in getenv")
	settings := c.Settings()
	require.Len(t, settings, len(values))
	for _, s := range settings {
		want := values[s.Name]
		if s.Name == "PGAS_JOB_KEY" {
			want = "(set, not shown)"
		}
		require.Equal(t, want, s.Value, s.Name)
		require.Equal(t, SourceEnvironment, s.Source, s.Name)
	}
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", *c, *c, *c), "hush")
}

func TestBadValues(t *testing.T) {
	for _, bad := range []string{
		"PGAS_PLATFORM=cuda", "PGAS_PLATFORM=SOFT", "PGAS_PATH=nvlink", "PGAS_HEAP_SIZE=64MB", "PGAS_HEAP_SIZE=-1",
		"PGAS_HEAP_SIZE=0", "PGAS_SIGNAL_HEAP_SIZE=0", "PGAS_HOST_HEAP_SIZE=1.5", "PGAS_CONTEXTS=0", "PGAS_CONTEXTS=1025",
		"PGAS_CONTEXTS=four", "PGAS_QUEUE_DEPTH=1", "PGAS_QUEUE_DEPTH=65536", "PGAS_QUEUE_DEPTH=48", "PGAS_TIMEOUT=1",
		"PGAS_TIMEOUT=0", "PGAS_TIMEOUT=0s", "PGAS_TIMEOUT=-5", "PGAS_TIMEOUT=-5s", "PGAS_TIMEOUT=99999999999",
		"PGAS_TIMEOUT=99999999999s", "PGAS_BOOT_TIMEOUT=abc", "PGAS_RANK=-1", "PGAS_RANK=x", "PGAS_SIZE=0", "PGAS_SIZE=1e3",
		"PGAS_SIZE=99999999999999999999", "PGAS_JOB_ID=a b", "PGAS_JOB_ID=" + strings.Repeat("j", 129),
		"PGAS_JOB_KEY=" + strings.Repeat("k", 1025), "PGAS_CACHE_DIR=tmp", "PGAS_LOG=verbose",
	} {
		name, value, _ := strings.Cut(bad, "=")
		_, err := Load([]string{bad})
		var v *ValueError
		require.ErrorAs(t, err, &v, bad)
		require.Equal(t, name, v.Name)
		require.Contains(t, err.Error(), name+"=")
		require.Contains(t, err.Error(), "(accepted: ")
		if name == "PGAS_JOB_KEY" {
			require.NotContains(t, err.Error(), value)
		} else {
			require.Contains(t, err.Error(), fmt.Sprintf("%q", value))
		}
	}
	_, err := Load([]string{"PGAS_TIMEOUT=30"})
	require.ErrorContains(t, err, "write 30s for seconds")
	_, err = Load([]string{"PGAS_RANK=4", "PGAS_SIZE=4"})
	require.ErrorContains(t, err, "not below PGAS_SIZE=4")
	_, err = Load([]string{"PGAS_RANK=x", "PGAS_SIZE=y", "PGAS_LOG=z"})
	require.Len(t, strings.Split(err.Error(), "\n"), 3, "every bad variable is named: %v", err)
}

func TestPathsWithoutEngineAreUnsupported(t *testing.T) {
	for _, p := range []string{"assisted", "proxy"} {
		_, err := Load([]string{"PGAS_PATH=" + p})
		var u *errs.UnsupportedError
		require.ErrorAs(t, err, &u)
		require.True(t, errors.Is(err, errs.ErrNotSupported))
		require.Contains(t, err.Error(), "PGAS_PATH=")
	}
}

func TestUnknownVariables(t *testing.T) {
	c, err := Load([]string{"PGAS_HEAPSIZE=1", "PGAS_TEST_X=1", "PGAS_ENTIRELY_OTHER=1", "NVSHMEM_X=1", "PGAS_LOGG="})
	require.NoError(t, err)
	require.Equal(t, []string{
		"unknown variable PGAS_ENTIRELY_OTHER is ignored (`pgas info` lists the variables)",
		"unknown variable PGAS_HEAPSIZE is ignored (did you mean PGAS_HEAP_SIZE?)",
	}, c.Warnings)
}

func TestParseSize(t *testing.T) {
	good := map[string]Size{"0": 0, "1": 1, "64M": 64 << 20, "64m": 64 << 20, "1.5G": 3 << 29, "1.5KiB": 1536, "2TiB": 2 << 40,
		"0.5K": 512, "9223372036854775807": math.MaxInt64, "007": 7, "1.50000K": 1536}
	for text, want := range good {
		got, err := ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "M", "-1", "+1", " 1", "1 ", "1 M", "1.", ".5K", "1.5", "1.0001K", "64MB", "64B", "1e3", "0x10",
		"1M1", "1MM", "1Mib", "1miB", "9223372036854775808", "8388608T", "1_000", "٣", strings.Repeat("1", 65)} {
		_, err := ParseSize(text)
		require.Error(t, err, text)
	}
}

func TestSizeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Size(rapid.Uint64Range(0, math.MaxInt64).Draw(t, "n") >> rapid.UintRange(0, 63).Draw(t, "shift") << rapid.UintRange(0, 9).Draw(t, "up") & math.MaxInt64)
		back, err := ParseSize(s.String())
		require.NoError(t, err)
		require.Equal(t, s, back)
	})
}

func TestDistance(t *testing.T) {
	require.Equal(t, 3, distance("kitten", "sitting"))
	require.Equal(t, 0, distance("a", "a"))
	require.Equal(t, 2, distance("", "ab"))
}

// FuzzSize: what is accepted reads back exactly and agrees with big rational arithmetic; nothing crashes.
func FuzzSize(f *testing.F) {
	for _, s := range []string{"64M", "1.5G", "0", "9223372036854775807", "1.0000000001T", "-1", "1e9", "MiB", "8191PiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseSize(text)
		if err != nil {
			return
		}
		back, err := ParseSize(got.String())
		require.NoError(t, err)
		require.Equal(t, got, back)
		number := strings.TrimRight(text, "KMGTkmgtiB")
		shift := 0
		if unit := strings.ToUpper(text[len(number):]); unit != "" {
			shift = 10 * (1 + strings.Index("KMGT", unit[:1]))
		}
		exact, ok := new(big.Rat).SetString(number)
		require.True(t, ok)
		exact.Mul(exact, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(shift))))
		require.True(t, exact.IsInt())
		require.Equal(t, exact.Num().String(), new(big.Int).SetUint64(uint64(got)).String())
	})
}
