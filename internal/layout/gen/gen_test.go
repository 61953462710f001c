package gen_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/layout"
	"github.com/pgas-go/pgas/internal/layout/gen"
	prmtable "github.com/pgas-go/pgas/internal/prm/table"
	wiretable "github.com/pgas-go/pgas/internal/wire/table"
)

const root = "../../../"

var tables = map[string]func() layout.Table{"wire": wiretable.Table, "prm": prmtable.Table}

func TestCommittedFilesAreCurrent(t *testing.T) {
	for name, table := range tables {
		goText, cuhText, err := gen.Generate(name, table())
		require.NoError(t, err)
		for path, want := range map[string][]byte{
			"internal/" + name + "/" + name + "_gen.go":   goText,
			"device/include/pgas/detail/" + name + ".cuh": cuhText,
		} {
			got, err := os.ReadFile(root + path)
			require.NoError(t, err)
			require.True(t, string(got) == string(want), "%s is stale [go generate ./internal/%s]", path, name)
		}
	}
}

// TestHeadersCompile compiles every layout header by itself, in each of the ways that users have.
func TestHeadersCompile(t *testing.T) {
	host := []string{"-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"}
	ways := map[string][]string{
		"g++":       append([]string{"g++", "-x", "c++"}, host...),
		"clang++":   append([]string{"clang++-19", "-x", "c++", "-Wno-pragma-once-outside-header"}, host...),
		"no header": {"g++", "-x", "c++", "-std=c++17", "-fsyntax-only", "-D__CUDACC_RTC__", "-nostdinc", "-nostdinc++"},
		"clang CUDA": {
			"clang++-19", "-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_90", "-nocudainc", "-nocudalib",
			"-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-pragma-once-outside-header",
		},
	}
	headers := []string{"wire", "prm", "prm_field", "prm_wqe"}
	for _, header := range headers { // `go test` reruns this only when a file changes that the test itself opened
		_, err := os.ReadFile(root + "device/include/pgas/detail/" + header + ".cuh")
		require.NoError(t, err)
	}
	for way, args := range ways {
		for _, header := range headers {
			t.Run(way+"/"+header, func(t *testing.T) {
				if _, err := exec.LookPath(args[0]); err != nil {
					t.Skipf("%s is not installed: %v", args[0], err)
				}
				source := t.TempDir() + "/use.cc"
				text := "#include \"pgas/detail/" + header + ".cuh\"\n#include \"pgas/detail/" + header + ".cuh\"\n"
				require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
				command := append(append([]string{}, args[1:]...), "-I", root+"device/include", source)
				out, err := exec.Command(args[0], command...).CombinedOutput()
				require.NoError(t, err, "%s", out)
			})
		}
	}
}

func TestGenerateRefusesBadTables(t *testing.T) {
	_, _, err := gen.Generate("wire", layout.Table{Consts: []layout.Const{{Name: "New"}}})
	require.ErrorContains(t, err, "C++ keyword")
}
