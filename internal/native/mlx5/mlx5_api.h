// The functions of libibverbs and libmlx5 that pgas calls, as one table with the vendors' signatures. mlx5.Load fills
// it with dlsym, the software HCA with its own functions.
//
// Conventions of the vendors: functions that return int give 0 or an errno value (the *_event functions give -1 and
// errno); functions that return a pointer give NULL and set errno. EREMOTEIO means that the firmware refused: then the
// out mailbox holds status and syndrome.
#ifndef PGAS_NATIVE_MLX5_API_H
#define PGAS_NATIVE_MLX5_API_H

#include "verbs_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

// X(library, return type, symbol, parameters): library is IBV (libibverbs.so.1) or DV (libmlx5.so.1).
// XO is the same for a symbol that an older library may lack: its entry is then NULL.
// clang-format off
#define PGAS_MLX5_API(X, XO)                                                                                             \
    X(IBV, struct ibv_device**, ibv_get_device_list, (int* num_devices))                                                 \
    X(IBV, void, ibv_free_device_list, (struct ibv_device** list))                                                       \
    X(IBV, const char*, ibv_get_device_name, (struct ibv_device* device))                                                \
    X(IBV, int, ibv_close_device, (struct ibv_context* context))                                                         \
    X(IBV, struct ibv_pd*, ibv_alloc_pd, (struct ibv_context* context))                                                  \
    X(IBV, int, ibv_dealloc_pd, (struct ibv_pd* pd))                                                                     \
    X(IBV, int, ibv_query_port, (struct ibv_context* context, uint8_t port_num, struct ibv_port_attr* port_attr))        \
    X(IBV, int, ibv_query_gid, (struct ibv_context* context, uint8_t port_num, int index, union ibv_gid* gid))           \
    XO(IBV, int, _ibv_query_gid_ex, (struct ibv_context* context, uint32_t port_num, uint32_t gid_index,                 \
                                     struct ibv_gid_entry* entry, uint32_t flags, size_t entry_size))                    \
    XO(IBV, struct ibv_mr*, ibv_reg_mr_iova2, (struct ibv_pd* pd, void* addr, size_t length, uint64_t iova,              \
                                               unsigned int access))                                                     \
    XO(IBV, struct ibv_mr*, ibv_reg_dmabuf_mr, (struct ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova,        \
                                                int fd, int access))                                                     \
    X(IBV, int, ibv_dereg_mr, (struct ibv_mr* mr))                                                                       \
    X(IBV, int, ibv_get_async_event, (struct ibv_context* context, struct ibv_async_event* event))                       \
    X(IBV, void, ibv_ack_async_event, (struct ibv_async_event* event))                                                   \
    X(DV, bool, mlx5dv_is_supported, (struct ibv_device* device))                                                        \
    X(DV, struct ibv_context*, mlx5dv_open_device, (struct ibv_device* device, struct mlx5dv_context_attr* attr))        \
    X(DV, int, mlx5dv_init_obj, (struct mlx5dv_obj* obj, uint64_t obj_type))                                             \
    X(DV, int, mlx5dv_devx_general_cmd, (struct ibv_context* context, const void* in, size_t inlen, void* out,           \
                                         size_t outlen))                                                                 \
    X(DV, struct mlx5dv_devx_obj*, mlx5dv_devx_obj_create, (struct ibv_context* context, const void* in, size_t inlen,   \
                                                            void* out, size_t outlen))                                   \
    X(DV, int, mlx5dv_devx_obj_modify, (struct mlx5dv_devx_obj* obj, const void* in, size_t inlen, void* out,            \
                                        size_t outlen))                                                                  \
    X(DV, int, mlx5dv_devx_obj_query, (struct mlx5dv_devx_obj* obj, const void* in, size_t inlen, void* out,             \
                                       size_t outlen))                                                                   \
    X(DV, int, mlx5dv_devx_obj_destroy, (struct mlx5dv_devx_obj* obj))                                                   \
    X(DV, struct mlx5dv_devx_umem*, mlx5dv_devx_umem_reg, (struct ibv_context* context, void* addr, size_t size,         \
                                                           uint32_t access))                                             \
    XO(DV, struct mlx5dv_devx_umem*, mlx5dv_devx_umem_reg_ex, (struct ibv_context* context,                              \
                                                               struct mlx5dv_devx_umem_in* umem_in))                     \
    X(DV, int, mlx5dv_devx_umem_dereg, (struct mlx5dv_devx_umem* umem))                                                  \
    X(DV, struct mlx5dv_devx_uar*, mlx5dv_devx_alloc_uar, (struct ibv_context* context, uint32_t flags))                 \
    X(DV, void, mlx5dv_devx_free_uar, (struct mlx5dv_devx_uar* uar))                                                     \
    X(DV, int, mlx5dv_devx_query_eqn, (struct ibv_context* context, uint32_t vector, uint32_t* eqn))
// clang-format on

struct pgas_mlx5_api {
#define PGAS_MLX5_MEMBER(lib, ret, name, params) ret(*name) params;
    PGAS_MLX5_API(PGAS_MLX5_MEMBER, PGAS_MLX5_MEMBER)
#undef PGAS_MLX5_MEMBER
};

#ifdef __cplusplus
}
#endif

#endif  // PGAS_NATIVE_MLX5_API_H
