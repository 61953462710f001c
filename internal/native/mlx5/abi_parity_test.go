package mlx5_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/mlx5"
)

// members of every struct that verbs_abi.h declares, and the constants.
var members = map[string]string{
	"ibv_gid_entry":       "gid gid_index port_num gid_type ndev_ifindex",
	"ibv_device":          "_ops node_type transport_type name dev_name dev_path ibdev_path",
	"ibv_context":         "device ops cmd_fd async_fd num_comp_vectors mutex abi_compat",
	"ibv_pd":              "context handle",
	"ibv_mr":              "context pd addr length handle lkey rkey",
	"ibv_async_event":     "element event_type",
	"mlx5dv_context_attr": "flags comp_mask",
	"mlx5dv_pd":           "pdn comp_mask",
	"mlx5dv_obj":          "qp cq srq rwq dm ah pd",
	"mlx5dv_devx_umem":    "umem_id",
	"mlx5dv_devx_umem_in": "addr size access pgsz_bitmap comp_mask dmabuf_fd",
	"mlx5dv_devx_uar":     "reg_addr base_addr page_id mmap_off comp_mask",
	"ibv_port_attr": "state max_mtu active_mtu gid_tbl_len port_cap_flags max_msg_sz bad_pkey_cntr qkey_viol_cntr pkey_tbl_len lid " +
		"sm_lid lmc max_vl_num sm_sl subnet_timeout init_type_reply active_width active_speed phys_state link_layer flags port_cap_flags2",
}

// TestABIParity compiles static assertions that compare our declarations with the vendors' headers, and every entry of
// the table with the vendors' prototypes.
func TestABIParity(t *testing.T) {
	if _, err := os.Stat("/usr/include/infiniband/mlx5dv.h"); err != nil {
		t.Skip((&errs.UnsupportedError{Feature: "comparison with the vendors' headers", Need: "infiniband/mlx5dv.h",
			Fix: "apt-get install libibverbs-dev"}).Error())
	}
	header, err := os.ReadFile("verbs_abi.h")
	require.NoError(t, err)
	var src strings.Builder
	src.WriteString("#include <pthread.h>\n#include <stdint.h>\n#include <stddef.h>\n#include <stdbool.h>\n#include <sys/types.h>\n" +
		"#include <type_traits>\nnamespace own {\n#include \"verbs_abi.h\"\n}\n#undef PGAS_NATIVE_MLX5_VERBS_ABI_H\n" +
		"#include <infiniband/verbs.h>\n#include <infiniband/mlx5dv.h>\n#include \"mlx5_api.h\"\n")
	for name, list := range members {
		require.Contains(t, string(header), "struct "+name+" {")
		src.WriteString("static_assert(sizeof(own::" + name + ") == sizeof(::" + name + "), \"" + name + "\");\n")
		for _, m := range strings.Fields(list) {
			src.WriteString("static_assert(offsetof(own::" + name + ", " + m + ") == offsetof(::" + name + ", " + m + "), \"" + name + "." + m + "\");\n")
			src.WriteString("static_assert(sizeof(own::" + name + "::" + m + ") == sizeof(::" + name + "::" + m + "), \"" + name + "." + m + "\");\n")
		}
	}
	constant := regexp.MustCompile(`\b(IBV_[A-Z0-9_]+|MLX5DV_[A-Z0-9_]+) =`)
	found := constant.FindAllStringSubmatch(string(header), -1)
	require.Greater(t, len(found), 30)
	for _, c := range found {
		src.WriteString("static_assert(int(own::" + c[1] + ") == int(::" + c[1] + "), \"" + c[1] + "\");\n")
	}
	// The exported ibv_query_port is hidden behind a macro and takes an older struct, so it is left out.
	src.WriteString("#undef ibv_query_port\n#undef ibv_reg_mr\n#define CHECK(lib, ret, name, params) " +
		"static_assert(std::is_same<decltype(pgas_mlx5_api::name), decltype(&::name)>::value || !__builtin_strcmp(#name, \"ibv_query_port\"), #name);\n" +
		"PGAS_MLX5_API(CHECK, CHECK)\n")
	file := filepath.Join(t.TempDir(), "parity.cpp")
	require.NoError(t, os.WriteFile(file, []byte(src.String()), 0o600))
	out, err := exec.Command("g++", "-std=c++17", "-fsyntax-only", "-Wno-invalid-offsetof", "-I.", file).CombinedOutput()
	require.NoError(t, err, string(out))
}

// Where the vendors' libraries are installed every symbol is found; where not, the error says what to install.
func TestLoad(t *testing.T) {
	lib, err := mlx5.Load()
	var unsupported *errs.UnsupportedError
	if errors.As(err, &unsupported) {
		require.NotEmpty(t, unsupported.Need)
		require.NotEmpty(t, unsupported.Have)
		require.NotEmpty(t, unsupported.Fix)
		return
	}
	require.NoError(t, err)
	again, err := mlx5.Load()
	require.NoError(t, err)
	require.Same(t, lib, again)
	list, err := lib.Devices()
	if err != nil { // a kernel without RDMA
		var sys *mlx5.SysError
		require.ErrorAs(t, err, &sys)
		return
	}
	_, err = lib.Open("no such device")
	require.ErrorContains(t, err, "no such RDMA device")
	_ = list
}
