// C side of package cuda: the loader and one trampoline per call. A trampoline first makes the bound context current
// on the calling thread, because goroutines move between threads and CUDA's current context does not.
#ifndef PGAS_NATIVE_CUDA_CALLS_H
#define PGAS_NATIVE_CUDA_CALLS_H

#define PGAS_CUDA_INTEGER_HANDLES
#include "cuda_api.h"

struct pgas_cuda {
    struct pgas_cuda_api api;
    CUcontext bound;
};

// Opens lib and fills the table. Returns NULL and a text in err when the library or a required symbol is missing;
// *found then says whether the library itself was opened.
struct pgas_cuda* pgas_cuda_open(const char* lib, int* found, char* err, size_t err_len);
struct pgas_cuda* pgas_cuda_wrap(const void* table);

// Makes the bound context current on this thread, if there is one.
CUresult pgas_cuda_enter(struct pgas_cuda* d);
void pgas_cuda_bind(struct pgas_cuda* d, CUcontext ctx);
CUresult pgas_cuda_set_current(struct pgas_cuda* d, CUcontext ctx);

// What a missing optional call returns: cuda.h has no such code, so it cannot come from the driver.
enum { PGAS_CUDA_ABSENT = -1 };

#define PGAS_CUDA_WITH(...) (struct pgas_cuda * d __VA_OPT__(, ) __VA_ARGS__)
#define PGAS_CUDA_TRAMPOLINE(name, symbol, params, args)       \
    static inline CUresult pgas_##name PGAS_CUDA_WITH params { \
        if (!d->api.name) return PGAS_CUDA_ABSENT;             \
        CUresult r = pgas_cuda_enter(d);                       \
        return r ? r : d->api.name args;                       \
    }
PGAS_CUDA_CALLS(PGAS_CUDA_TRAMPOLINE, PGAS_CUDA_TRAMPOLINE)

// The driver's name or description of an error code; NULL when it has none. Needs no context.
static inline const char* pgas_cuda_error_text(struct pgas_cuda* d, CUresult code, int name) {
    const char* s = NULL;
    CUresult r = name ? d->api.cuGetErrorName(code, &s) : d->api.cuGetErrorString(code, &s);
    return r ? NULL : s;
}

static inline CUresult pgas_import_fd(struct pgas_cuda* d, CUmemGenericAllocationHandle* handle, int fd) {
    return pgas_cuMemImportFromShareableHandle(d, handle, (void*)(uintptr_t)fd,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

// Launches with the arguments packed in buf, argument i at offsets[i]; n at most PGAS_CUDA_MAX_ARGS.
enum { PGAS_CUDA_MAX_ARGS = 64 };
struct pgas_cuda_launch {
    CUfunction fn;
    unsigned grid[3], block[3], shared;
    int cooperative;
    CUstream stream;
    unsigned n;
    unsigned offsets[PGAS_CUDA_MAX_ARGS];
};
CUresult pgas_cuda_launch(struct pgas_cuda* d, const struct pgas_cuda_launch* l, const void* buf);

#endif
