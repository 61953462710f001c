#include "calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The driver and context that this thread's current context was last set for.
static __thread struct pgas_cuda* current_driver;
static __thread CUcontext current_context;

static int find_symbol(void* lib, const char* symbol, void** field, int required, char* err, size_t err_len) {
    *field = dlsym(lib, symbol);
    if (*field || !required) return 1;
    snprintf(err, err_len, "symbol %s is missing", symbol);
    return 0;
}

struct pgas_cuda* pgas_cuda_open(const char* name, int* found, char* err, size_t err_len) {
    void* lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    *found = lib != NULL;
    if (!lib) {
        const char* why = dlerror();
        snprintf(err, err_len, "%s", why ? why : "dlopen failed");
        return NULL;
    }
    struct pgas_cuda* d = calloc(1, sizeof(*d));
    if (!d) {
        snprintf(err, err_len, "out of memory");
        dlclose(lib);
        return NULL;
    }
    int ok = 1;
#define FIND_REQ(name, symbol, params, args) \
    ok = ok && find_symbol(lib, #symbol, (void**)&d->api.name, 1, err, err_len);
#define FIND_OPT(name, symbol, params, args) \
    ok = ok && find_symbol(lib, #symbol, (void**)&d->api.name, 0, err, err_len);
    PGAS_CUDA_CALLS(FIND_REQ, FIND_OPT)
#undef FIND_REQ
#undef FIND_OPT
    if (ok) return d;
    free(d);
    dlclose(lib);
    return NULL;
}

struct pgas_cuda* pgas_cuda_wrap(const void* table) {
    struct pgas_cuda* d = calloc(1, sizeof(*d));
    if (d) memcpy(&d->api, table, sizeof(d->api));
    return d;
}

void pgas_cuda_bind(struct pgas_cuda* d, CUcontext ctx) { __atomic_store_n(&d->bound, ctx, __ATOMIC_RELEASE); }

CUresult pgas_cuda_set_current(struct pgas_cuda* d, CUcontext ctx) {
    CUresult r = d->api.cuCtxSetCurrent(ctx);
    current_driver = r ? NULL : d;
    current_context = r ? 0 : ctx;
    return r;
}

CUresult pgas_cuda_enter(struct pgas_cuda* d) {
    CUcontext want = __atomic_load_n(&d->bound, __ATOMIC_ACQUIRE);
    if (!want || (current_driver == d && current_context == want)) return CUDA_SUCCESS;
    return pgas_cuda_set_current(d, want);
}

CUresult pgas_cuda_launch(struct pgas_cuda* d, const struct pgas_cuda_launch* l, const void* buf) {
    void* args[PGAS_CUDA_MAX_ARGS];
    for (unsigned i = 0; i < l->n; i++) args[i] = (char*)buf + l->offsets[i];
    if (l->cooperative)
        return pgas_cuLaunchCooperativeKernel(d, l->fn, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                                              l->block[2], l->shared, l->stream, args);
    return pgas_cuLaunchKernel(d, l->fn, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
                               l->shared, l->stream, args, NULL);
}
