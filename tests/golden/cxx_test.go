package golden

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/wire"
)

const includeDir = "../../device/include"

// compilers returns the C++ compilers of this machine. Without g++ the software platform cannot work at all, so that
// is the only reason to skip.
func compilers(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, name := range []string{"g++", "clang++-19"} {
		if _, err := exec.LookPath(name); err == nil {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		t.Skip("no g++ and no clang++-19 in PATH [install g++]")
	}
	return found
}

// build compiles one C++ file with every warning an error and returns the program.
func build(t *testing.T, compiler, source string) string {
	t.Helper()
	readInputs(t, source)
	program := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command(compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-I", includeDir, source, "-o", program)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", compiler, out)
	return program
}

// readInputs reads what the compiler will read: `go test` keeps a result until a file that the test itself opened
// changes.
func readInputs(t *testing.T, source string) {
	t.Helper()
	headers, err := filepath.Glob(includeDir + "/pgas/detail/*.cuh")
	require.NoError(t, err)
	top, err := filepath.Glob(includeDir + "/pgas/*.cuh")
	require.NoError(t, err)
	headers = append(headers, top...)
	require.NotEmpty(t, headers)
	for _, path := range append(headers, source) {
		_, err := os.ReadFile(path)
		require.NoError(t, err)
	}
}

// TestCxxVectors compares what the device headers build with the same bytes that Go is held to.
func TestCxxVectors(t *testing.T) {
	want := vectors(t)
	for _, compiler := range compilers(t) {
		t.Run(compiler, func(t *testing.T) {
			program := build(t, compiler, "testdata/mlx5_vectors.cc")
			var stderr bytes.Buffer
			cmd := exec.Command(program)
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			require.NoError(t, err)
			require.Empty(t, stderr.String())
			got := map[string][]byte{}
			for line := range strings.Lines(string(out)) {
				name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
				got[name], err = hex.DecodeString(text)
				require.NoError(t, err, line)
			}
			require.Equal(t, fmt.Sprintf("%016x", wire.LayoutHash), hex.EncodeToString(got["layout_hash_wire"]))
			require.Equal(t, fmt.Sprintf("%016x", prm.LayoutHash), hex.EncodeToString(got["layout_hash_prm"]))
			delete(got, "layout_hash_wire")
			delete(got, "layout_hash_prm")
			for name, b := range want {
				require.Equal(t, b, got[name], name)
			}
			require.Len(t, got, len(want))
		})
	}
}

type fieldCase struct {
	f prm.Field
	v uint64
}

// fieldCases draws fields of every width, about one value in five too wide.
func fieldCases(r *rand.Rand, n int) []fieldCase {
	cases := make([]fieldCase, n)
	for i := range cases {
		f := prm.Field{Name: "random", Width: 1 + r.Uint32N(32)}
		f.Off = 32*r.Uint32N(16) + r.Uint32N(33-f.Width)
		if r.Uint32N(8) == 0 {
			f = prm.Field{Name: "random", Off: 64 * r.Uint32N(8), Width: 64}
		}
		v := r.Uint64() & f.Max()
		if r.Uint32N(5) == 0 {
			v = r.Uint64()
		}
		cases[i] = fieldCase{f, v}
	}
	return cases
}

// TestCxxFields holds get and set of the C++ header against Mailbox on random fields.
func TestCxxFields(t *testing.T) {
	cases := fieldCases(rand.New(rand.NewPCG(1, 2)), 500)
	var input bytes.Buffer
	for _, c := range cases {
		fmt.Fprintln(&input, c.f.Off, c.f.Width, c.v)
	}
	cmd := exec.Command(build(t, compilers(t)[0], "testdata/mlx5_vectors.cc"), "fields")
	cmd.Stdin = &input
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(out))
	refused := 0
	for _, c := range cases {
		m := prm.Mailbox(bytes.Repeat([]byte{0xa5}, 64))
		verdict := "ok"
		if err := m.Set(c.f, c.v); err != nil {
			verdict = "refused"
			refused++
		}
		require.True(t, lines.Scan())
		require.Equal(t, verdict+" "+hex.EncodeToString(m), lines.Text(), "%+v", c)
		require.True(t, lines.Scan())
		require.Equal(t, fmt.Sprint(m.Get(c.f)), lines.Text(), "%+v", c)
	}
	require.NotZero(t, refused)
}
