// Names and descriptions of CUDA error codes, and the names of the calls.
#ifndef PGAS_SOFTGPU_ERRORS_H
#define PGAS_SOFTGPU_ERRORS_H

namespace softgpu {

const char* error_name(int code);     // "CUDA_ERROR_OUT_OF_MEMORY"; nullptr when unknown
const char* error_text(int code);     // "out of memory"; nullptr when unknown
int error_by_name(const char* name);  // "OUT_OF_MEMORY" or the full name; -1 when unknown
bool is_call_name(const char* name);  // "cuMemAlloc"

}  // namespace softgpu

#endif
