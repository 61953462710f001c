// One C function per table entry: cgo cannot call function pointers. Addresses are uintptr_t because they may name
// GPU memory, which is no Go pointer.
#ifndef PGAS_NATIVE_MLX5_CALLS_H
#define PGAS_NATIVE_MLX5_CALLS_H

#include "mlx5_api.h"

typedef const struct pgas_mlx5_api* pgas_mlx5_table;

// Fills *table from the vendors' libraries. Returns 0, or -1 with the reason in err. missing optional symbols are NULL.
int pgas_mlx5_load(struct pgas_mlx5_api* table, char* err, size_t errlen);

struct ibv_device** pgas_mlx5_get_device_list(pgas_mlx5_table t, int* n);
void pgas_mlx5_free_device_list(pgas_mlx5_table t, struct ibv_device** list);
struct ibv_device* pgas_mlx5_device_at(struct ibv_device** list, int i);
const char* pgas_mlx5_get_device_name(pgas_mlx5_table t, struct ibv_device* d);
int pgas_mlx5_is_supported(pgas_mlx5_table t, struct ibv_device* d);
struct ibv_context* pgas_mlx5_open(pgas_mlx5_table t, struct ibv_device* d);
int pgas_mlx5_close(pgas_mlx5_table t, struct ibv_context* c);
int pgas_mlx5_query_port(pgas_mlx5_table t, struct ibv_context* c, uint8_t port, struct ibv_port_attr* attr);
int pgas_mlx5_query_gid(pgas_mlx5_table t, struct ibv_context* c, uint32_t port, uint32_t index,
                        struct ibv_gid_entry* entry);
int pgas_mlx5_next_event(pgas_mlx5_table t, struct ibv_context* c, struct ibv_async_event* event, int* port);
int pgas_mlx5_async_fd(struct ibv_context* c);

struct ibv_pd* pgas_mlx5_alloc_pd(pgas_mlx5_table t, struct ibv_context* c, uint32_t* pdn);
int pgas_mlx5_dealloc_pd(pgas_mlx5_table t, struct ibv_pd* pd);
struct ibv_mr* pgas_mlx5_reg_mr(pgas_mlx5_table t, struct ibv_pd* pd, uintptr_t addr, size_t len, uint64_t iova,
                                unsigned access);
struct ibv_mr* pgas_mlx5_reg_dmabuf_mr(pgas_mlx5_table t, struct ibv_pd* pd, uint64_t offset, size_t len, uint64_t iova,
                                       int fd, int access);
int pgas_mlx5_dereg_mr(pgas_mlx5_table t, struct ibv_mr* mr);

int pgas_mlx5_general_cmd(pgas_mlx5_table t, struct ibv_context* c, const void* in, size_t inlen, void* out,
                          size_t outlen);
struct mlx5dv_devx_obj* pgas_mlx5_obj_create(pgas_mlx5_table t, struct ibv_context* c, const void* in, size_t inlen,
                                             void* out, size_t outlen);
int pgas_mlx5_obj_modify(pgas_mlx5_table t, struct mlx5dv_devx_obj* o, const void* in, size_t inlen, void* out,
                         size_t outlen);
int pgas_mlx5_obj_query(pgas_mlx5_table t, struct mlx5dv_devx_obj* o, const void* in, size_t inlen, void* out,
                        size_t outlen);
int pgas_mlx5_obj_destroy(pgas_mlx5_table t, struct mlx5dv_devx_obj* o);

struct mlx5dv_devx_umem* pgas_mlx5_umem_reg(pgas_mlx5_table t, struct ibv_context* c, uintptr_t addr, size_t len,
                                            uint32_t access);
struct mlx5dv_devx_umem* pgas_mlx5_umem_reg_ex(pgas_mlx5_table t, struct ibv_context* c, uintptr_t addr, size_t len,
                                               uint32_t access, uint64_t pgsz_bitmap, int dmabuf, int fd);
int pgas_mlx5_umem_dereg(pgas_mlx5_table t, struct mlx5dv_devx_umem* m);
struct mlx5dv_devx_uar* pgas_mlx5_alloc_uar(pgas_mlx5_table t, struct ibv_context* c, uint32_t type);
void pgas_mlx5_free_uar(pgas_mlx5_table t, struct mlx5dv_devx_uar* u);
int pgas_mlx5_query_eqn(pgas_mlx5_table t, struct ibv_context* c, uint32_t vector, uint32_t* eqn);

#endif  // PGAS_NATIVE_MLX5_CALLS_H
