// Our own declarations of the part of NVRTC that pgas calls, so that building needs no CUDA toolkit. Names, signatures
// and values are those of NVIDIA's nvrtc.h (CUDA 11.2 to 13).
#ifndef PGAS_NATIVE_NVRTC_API_H
#define PGAS_NATIVE_NVRTC_API_H

#include <stddef.h>

typedef int nvrtcResult;
typedef struct _nvrtcProgram* nvrtcProgram;
typedef int (*nvrtcFlowCallback)(void* payload, void* reserved);

enum {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_OUT_OF_MEMORY = 1,
    NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    NVRTC_ERROR_INVALID_INPUT = 3,
    NVRTC_ERROR_INVALID_PROGRAM = 4,
    NVRTC_ERROR_INVALID_OPTION = 5,
    NVRTC_ERROR_COMPILATION = 6,
    NVRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7,
    NVRTC_ERROR_INTERNAL_ERROR = 11,
    NVRTC_ERROR_CANCELLED = 16
};

// REQ: without this call the library is too old. OPT: the field is NULL when the library lacks it.
// nvrtcGetErrorString is apart, because it does not return a result.
#define PGAS_NVRTC_CALLS(REQ, OPT)                                                                    \
    REQ(nvrtcVersion, (int* major, int* minor))                                                       \
    REQ(nvrtcGetNumSupportedArchs, (int* count))                                                      \
    REQ(nvrtcGetSupportedArchs, (int* archs))                                                         \
    REQ(nvrtcCreateProgram, (nvrtcProgram * prog, const char* src, const char* name, int num_headers, \
                             const char* const* headers, const char* const* include_names))           \
    REQ(nvrtcDestroyProgram, (nvrtcProgram * prog))                                                   \
    REQ(nvrtcCompileProgram, (nvrtcProgram prog, int num_options, const char* const* options))        \
    REQ(nvrtcGetProgramLogSize, (nvrtcProgram prog, size_t* size))                                    \
    REQ(nvrtcGetProgramLog, (nvrtcProgram prog, char* log))                                           \
    REQ(nvrtcGetCUBINSize, (nvrtcProgram prog, size_t* size))                                         \
    REQ(nvrtcGetCUBIN, (nvrtcProgram prog, char* cubin))                                              \
    REQ(nvrtcGetPTXSize, (nvrtcProgram prog, size_t* size))                                           \
    REQ(nvrtcGetPTX, (nvrtcProgram prog, char* ptx))                                                  \
    OPT(nvrtcSetFlowCallback, (nvrtcProgram prog, nvrtcFlowCallback callback, void* payload))

#define PGAS_NVRTC_FIELD(name, params) nvrtcResult(*name) params;
struct pgas_nvrtc_api {
    PGAS_NVRTC_CALLS(PGAS_NVRTC_FIELD, PGAS_NVRTC_FIELD)
    const char* (*nvrtcGetErrorString)(nvrtcResult result);
};
#undef PGAS_NVRTC_FIELD

#endif
