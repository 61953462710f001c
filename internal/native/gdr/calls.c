#include "calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int find_symbol(void* lib, const char* symbol, void** field, int required, char* err, size_t err_len) {
    *field = dlsym(lib, symbol);
    if (*field || !required) return 1;
    snprintf(err, err_len, "symbol %s is missing", symbol);
    return 0;
}

struct pgas_gdr* pgas_gdr_load(const char* name, int* found, char* err, size_t err_len) {
    void* lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    *found = lib != NULL;
    if (!lib) {
        const char* why = dlerror();
        snprintf(err, err_len, "%s", why ? why : "dlopen failed");
        return NULL;
    }
    struct pgas_gdr* d = calloc(1, sizeof(*d));
    if (!d) {
        snprintf(err, err_len, "out of memory");
        dlclose(lib);
        return NULL;
    }
    int ok = 1;
#define FIND_REQ(ret, name, symbol, params, args) \
    ok = ok && find_symbol(lib, #symbol, (void**)&d->api.name, 1, err, err_len);
#define FIND_OPT(ret, name, symbol, params, args) \
    ok = ok && find_symbol(lib, #symbol, (void**)&d->api.name, 0, err, err_len);
    PGAS_GDR_CALLS(FIND_REQ, FIND_OPT)
#undef FIND_REQ
#undef FIND_OPT
    if (ok) return d;
    free(d);
    dlclose(lib);
    return NULL;
}

struct pgas_gdr* pgas_gdr_wrap(const void* table) {
    struct pgas_gdr* d = calloc(1, sizeof(*d));
    if (d) memcpy(&d->api, table, sizeof(d->api));
    return d;
}

int pgas_gdr_pin(struct pgas_gdr* d, gdr_t g, unsigned long addr, size_t size, uint32_t flags, gdr_mh_t* handle) {
    if (d->api.pin_buffer_v2) return d->api.pin_buffer_v2(g, addr, size, flags, handle);
    if (flags != GDR_PIN_FLAG_DEFAULT) return ENOTSUP;
    return d->api.pin_buffer(g, addr, size, 0, 0, handle);
}
