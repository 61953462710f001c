#define _GNU_SOURCE
#include "calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int find_symbol(void* lib, const char* symbol, void** field, int required, char* err, size_t err_len) {
    *field = dlsym(lib, symbol);
    if (*field || !required) return 1;
    snprintf(err, err_len, "symbol %s is missing", symbol);
    return 0;
}

static int fill(struct pgas_nvrtc* l, void* lib, char* err, size_t err_len) {
    int ok = 1;
#define FIND_REQ(name, params) ok = ok && find_symbol(lib, #name, (void**)&l->api.name, 1, err, err_len);
#define FIND_OPT(name, params) ok = ok && find_symbol(lib, #name, (void**)&l->api.name, 0, err, err_len);
    PGAS_NVRTC_CALLS(FIND_REQ, FIND_OPT)
#undef FIND_REQ
#undef FIND_OPT
    return ok && find_symbol(lib, "nvrtcGetErrorString", (void**)&l->api.nvrtcGetErrorString, 1, err, err_len);
}

struct pgas_nvrtc* pgas_nvrtc_open(const char* name, int* found, char* err, size_t err_len) {
    void* lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    *found = lib != NULL;
    if (!lib) {
        const char* why = dlerror();
        snprintf(err, err_len, "%s", why ? why : "dlopen failed");
        return NULL;
    }
    struct pgas_nvrtc* l = calloc(1, sizeof(*l));
    if (!l) {
        snprintf(err, err_len, "out of memory");
        dlclose(lib);
        return NULL;
    }
    if (!fill(l, lib, err, err_len)) {
        free(l);
        dlclose(lib);
        return NULL;
    }
    Dl_info info;
    const char* path = dladdr((void*)l->api.nvrtcVersion, &info) && info.dli_fname ? info.dli_fname : name;
    snprintf(l->path, sizeof(l->path), "%s", path);
    return l;
}

// The compiler calls this from time to time, on its own threads; 1 ends the compilation.
static int keep_going(void* payload, void* reserved) {
    (void)reserved;
    return __atomic_load_n(&((struct pgas_nvrtc_program*)payload)->cancelled, __ATOMIC_RELAXED);
}

nvrtcResult pgas_nvrtc_create(struct pgas_nvrtc* l, struct pgas_nvrtc_program* p, const char* src, const char* name) {
    nvrtcResult r = l->api.nvrtcCreateProgram(&p->program, src, name, 0, NULL, NULL);
    if (r != NVRTC_SUCCESS || !l->api.nvrtcSetFlowCallback) return r;
    r = l->api.nvrtcSetFlowCallback(p->program, keep_going, p);
    if (r != NVRTC_SUCCESS) l->api.nvrtcDestroyProgram(&p->program);
    return r;
}

void pgas_nvrtc_cancel(struct pgas_nvrtc_program* p) { __atomic_store_n(&p->cancelled, 1, __ATOMIC_RELAXED); }

nvrtcResult pgas_nvrtc_version(struct pgas_nvrtc* l, int* major, int* minor) {
    return l->api.nvrtcVersion(major, minor);
}

nvrtcResult pgas_nvrtc_num_archs(struct pgas_nvrtc* l, int* count) { return l->api.nvrtcGetNumSupportedArchs(count); }

nvrtcResult pgas_nvrtc_archs(struct pgas_nvrtc* l, int* archs) { return l->api.nvrtcGetSupportedArchs(archs); }

nvrtcResult pgas_nvrtc_compile(struct pgas_nvrtc* l, struct pgas_nvrtc_program* p, int n, char** options) {
    return l->api.nvrtcCompileProgram(p->program, n, (const char* const*)options);
}

nvrtcResult pgas_nvrtc_destroy(struct pgas_nvrtc* l, struct pgas_nvrtc_program* p) {
    return l->api.nvrtcDestroyProgram(&p->program);
}

const char* pgas_nvrtc_error_text(struct pgas_nvrtc* l, nvrtcResult r) { return l->api.nvrtcGetErrorString(r); }

nvrtcResult pgas_nvrtc_size(struct pgas_nvrtc* l, struct pgas_nvrtc_program* p, enum pgas_nvrtc_output what,
                            size_t* size) {
    switch (what) {
        case PGAS_NVRTC_LOG:
            return l->api.nvrtcGetProgramLogSize(p->program, size);
        case PGAS_NVRTC_CUBIN:
            return l->api.nvrtcGetCUBINSize(p->program, size);
        case PGAS_NVRTC_PTX:
            return l->api.nvrtcGetPTXSize(p->program, size);
    }
    return NVRTC_ERROR_INVALID_INPUT;
}

nvrtcResult pgas_nvrtc_copy(struct pgas_nvrtc* l, struct pgas_nvrtc_program* p, enum pgas_nvrtc_output what,
                            char* out) {
    switch (what) {
        case PGAS_NVRTC_LOG:
            return l->api.nvrtcGetProgramLog(p->program, out);
        case PGAS_NVRTC_CUBIN:
            return l->api.nvrtcGetCUBIN(p->program, out);
        case PGAS_NVRTC_PTX:
            return l->api.nvrtcGetPTX(p->program, out);
    }
    return NVRTC_ERROR_INVALID_INPUT;
}
