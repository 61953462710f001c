#include "calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int fill(struct pgas_mlx5_api* table, void* ibv, void* dv, char* err, size_t errlen) {
    // The union keeps the conversion from object to function pointer, which POSIX promises, out of ISO C's way.
    union {
        void* object;
        void (*function)(void);
    } symbol;
#define PGAS_LIB_IBV ibv
#define PGAS_LIB_DV dv
#define PGAS_RESOLVE_OPTIONAL(lib, ret, name, params) \
    symbol.object = dlsym(PGAS_LIB_##lib, #name);     \
    table->name = (ret(*) params)symbol.function;
#define PGAS_RESOLVE(lib, ret, name, params)                    \
    PGAS_RESOLVE_OPTIONAL(lib, ret, name, params)               \
    if (!table->name) {                                         \
        snprintf(err, errlen, "%s has no symbol " #name, #lib); \
        return -1;                                              \
    }
    PGAS_MLX5_API(PGAS_RESOLVE, PGAS_RESOLVE_OPTIONAL)
    return 0;
}

int pgas_mlx5_load(struct pgas_mlx5_api* table, char* err, size_t errlen) {
    memset(table, 0, sizeof *table);
    void* ibv = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!ibv) {
        snprintf(err, errlen, "%s", dlerror());
        return -1;
    }
    void* dv = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!dv) {
        snprintf(err, errlen, "%s", dlerror());
        dlclose(ibv);
        return -1;
    }
    if (fill(table, ibv, dv, err, errlen) != 0) {
        dlclose(dv);
        dlclose(ibv);
        return -1;
    }
    return 0;  // The libraries stay loaded: the table points into them.
}

struct ibv_device** pgas_mlx5_get_device_list(pgas_mlx5_table t, int* n) { return t->ibv_get_device_list(n); }

void pgas_mlx5_free_device_list(pgas_mlx5_table t, struct ibv_device** list) { t->ibv_free_device_list(list); }

struct ibv_device* pgas_mlx5_device_at(struct ibv_device** list, int i) { return list[i]; }

const char* pgas_mlx5_get_device_name(pgas_mlx5_table t, struct ibv_device* d) { return t->ibv_get_device_name(d); }

int pgas_mlx5_is_supported(pgas_mlx5_table t, struct ibv_device* d) { return t->mlx5dv_is_supported(d); }

struct ibv_context* pgas_mlx5_open(pgas_mlx5_table t, struct ibv_device* d) {
    struct mlx5dv_context_attr attr = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX, .comp_mask = 0};
    return t->mlx5dv_open_device(d, &attr);
}

int pgas_mlx5_close(pgas_mlx5_table t, struct ibv_context* c) { return t->ibv_close_device(c); }

int pgas_mlx5_query_port(pgas_mlx5_table t, struct ibv_context* c, uint8_t port, struct ibv_port_attr* attr) {
    memset(attr, 0, sizeof *attr);
    return t->ibv_query_port(c, port, attr);
}

// Older libraries tell the GID but not its type; gid_type is then UINT32_MAX.
int pgas_mlx5_query_gid(pgas_mlx5_table t, struct ibv_context* c, uint32_t port, uint32_t index,
                        struct ibv_gid_entry* entry) {
    memset(entry, 0, sizeof *entry);
    if (t->_ibv_query_gid_ex) return t->_ibv_query_gid_ex(c, port, index, entry, 0, sizeof *entry);
    entry->gid_index = index;
    entry->port_num = port;
    entry->gid_type = UINT32_MAX;
    errno = 0;
    if (t->ibv_query_gid(c, (uint8_t)port, (int)index, &entry->gid) == 0) return 0;
    return errno ? errno : EIO;
}

int pgas_mlx5_next_event(pgas_mlx5_table t, struct ibv_context* c, struct ibv_async_event* event, int* port) {
    errno = 0;
    if (t->ibv_get_async_event(c, event) != 0) return errno ? errno : EIO;
    *port = event->element.port_num;
    t->ibv_ack_async_event(event);
    return 0;
}

int pgas_mlx5_async_fd(struct ibv_context* c) { return c->async_fd; }

struct ibv_pd* pgas_mlx5_alloc_pd(pgas_mlx5_table t, struct ibv_context* c, uint32_t* pdn) {
    struct ibv_pd* pd = t->ibv_alloc_pd(c);
    if (!pd) return NULL;
    struct mlx5dv_pd out = {0};
    struct mlx5dv_obj obj = {.pd = {.in = pd, .out = &out}};
    int rc = t->mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD);
    if (rc != 0) {
        t->ibv_dealloc_pd(pd);
        errno = rc;
        return NULL;
    }
    *pdn = out.pdn;
    return pd;
}

int pgas_mlx5_dealloc_pd(pgas_mlx5_table t, struct ibv_pd* pd) { return t->ibv_dealloc_pd(pd); }

struct ibv_mr* pgas_mlx5_reg_mr(pgas_mlx5_table t, struct ibv_pd* pd, uintptr_t addr, size_t len, uint64_t iova,
                                unsigned access) {
    if (t->ibv_reg_mr_iova2) return t->ibv_reg_mr_iova2(pd, (void*)addr, len, iova, access);
    errno = EOPNOTSUPP;
    return NULL;
}

struct ibv_mr* pgas_mlx5_reg_dmabuf_mr(pgas_mlx5_table t, struct ibv_pd* pd, uint64_t offset, size_t len, uint64_t iova,
                                       int fd, int access) {
    if (t->ibv_reg_dmabuf_mr) return t->ibv_reg_dmabuf_mr(pd, offset, len, iova, fd, access);
    errno = EOPNOTSUPP;
    return NULL;
}

int pgas_mlx5_dereg_mr(pgas_mlx5_table t, struct ibv_mr* mr) { return t->ibv_dereg_mr(mr); }

int pgas_mlx5_general_cmd(pgas_mlx5_table t, struct ibv_context* c, const void* in, size_t inlen, void* out,
                          size_t outlen) {
    return t->mlx5dv_devx_general_cmd(c, in, inlen, out, outlen);
}

struct mlx5dv_devx_obj* pgas_mlx5_obj_create(pgas_mlx5_table t, struct ibv_context* c, const void* in, size_t inlen,
                                             void* out, size_t outlen) {
    return t->mlx5dv_devx_obj_create(c, in, inlen, out, outlen);
}

int pgas_mlx5_obj_modify(pgas_mlx5_table t, struct mlx5dv_devx_obj* o, const void* in, size_t inlen, void* out,
                         size_t outlen) {
    return t->mlx5dv_devx_obj_modify(o, in, inlen, out, outlen);
}

int pgas_mlx5_obj_query(pgas_mlx5_table t, struct mlx5dv_devx_obj* o, const void* in, size_t inlen, void* out,
                        size_t outlen) {
    return t->mlx5dv_devx_obj_query(o, in, inlen, out, outlen);
}

int pgas_mlx5_obj_destroy(pgas_mlx5_table t, struct mlx5dv_devx_obj* o) { return t->mlx5dv_devx_obj_destroy(o); }

struct mlx5dv_devx_umem* pgas_mlx5_umem_reg(pgas_mlx5_table t, struct ibv_context* c, uintptr_t addr, size_t len,
                                            uint32_t access) {
    return t->mlx5dv_devx_umem_reg(c, (void*)addr, len, access);
}

struct mlx5dv_devx_umem* pgas_mlx5_umem_reg_ex(pgas_mlx5_table t, struct ibv_context* c, uintptr_t addr, size_t len,
                                               uint32_t access, uint64_t pgsz_bitmap, int dmabuf, int fd) {
    if (!t->mlx5dv_devx_umem_reg_ex) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    struct mlx5dv_devx_umem_in in = {
        .addr = (void*)addr,
        .size = len,
        .access = access,
        .pgsz_bitmap = pgsz_bitmap,
        .comp_mask = dmabuf ? MLX5DV_UMEM_MASK_DMABUF : 0,
        .dmabuf_fd = fd,
    };
    return t->mlx5dv_devx_umem_reg_ex(c, &in);
}

int pgas_mlx5_umem_dereg(pgas_mlx5_table t, struct mlx5dv_devx_umem* m) { return t->mlx5dv_devx_umem_dereg(m); }

struct mlx5dv_devx_uar* pgas_mlx5_alloc_uar(pgas_mlx5_table t, struct ibv_context* c, uint32_t type) {
    return t->mlx5dv_devx_alloc_uar(c, type);
}

void pgas_mlx5_free_uar(pgas_mlx5_table t, struct mlx5dv_devx_uar* u) { t->mlx5dv_devx_free_uar(u); }

int pgas_mlx5_query_eqn(pgas_mlx5_table t, struct ibv_context* c, uint32_t vector, uint32_t* eqn) {
    return t->mlx5dv_devx_query_eqn(c, vector, eqn);
}
