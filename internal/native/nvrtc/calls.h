// C side of package nvrtc: the loader and what a program needs around the calls.
#ifndef PGAS_NATIVE_NVRTC_CALLS_H
#define PGAS_NATIVE_NVRTC_CALLS_H

#include "nvrtc_api.h"

struct pgas_nvrtc {
    struct pgas_nvrtc_api api;
    char path[4096];  // of the opened file, as the loader knows it
};

// Opens lib and fills the table. Returns NULL and a text in err when the library or a required symbol is missing;
// *found then says whether the library itself was opened.
struct pgas_nvrtc* pgas_nvrtc_open(const char* lib, int* found, char* err, size_t err_len);

struct pgas_nvrtc_program {
    nvrtcProgram program;
    int cancelled;
};

nvrtcResult pgas_nvrtc_create(struct pgas_nvrtc* l, struct pgas_nvrtc_program* p, const char* src, const char* name);
// Asks a compilation that runs on another thread to end. It has no effect on libraries without nvrtcSetFlowCallback.
void pgas_nvrtc_cancel(struct pgas_nvrtc_program* p);

// Trampolines: cgo cannot call through a function pointer.
nvrtcResult pgas_nvrtc_version(struct pgas_nvrtc* l, int* major, int* minor);
nvrtcResult pgas_nvrtc_num_archs(struct pgas_nvrtc* l, int* count);
nvrtcResult pgas_nvrtc_archs(struct pgas_nvrtc* l, int* archs);
nvrtcResult pgas_nvrtc_compile(struct pgas_nvrtc* l, struct pgas_nvrtc_program* p, int n, char** options);
nvrtcResult pgas_nvrtc_destroy(struct pgas_nvrtc* l, struct pgas_nvrtc_program* p);
const char* pgas_nvrtc_error_text(struct pgas_nvrtc* l, nvrtcResult r);

// What of a program to read. Each is asked for its size, then copied.
enum pgas_nvrtc_output { PGAS_NVRTC_LOG, PGAS_NVRTC_CUBIN, PGAS_NVRTC_PTX };
nvrtcResult pgas_nvrtc_size(struct pgas_nvrtc* l, struct pgas_nvrtc_program* p, enum pgas_nvrtc_output what,
                            size_t* size);
nvrtcResult pgas_nvrtc_copy(struct pgas_nvrtc* l, struct pgas_nvrtc_program* p, enum pgas_nvrtc_output what, char* out);

#endif
