// Functions and launches.
#include <cstring>

#include "config.h"
#include "device.h"
#include "impl.h"
#include "module.h"
#include "simt.h"
#include "stream.h"

namespace softgpu {

function* find_function(CUfunction handle);

namespace {

uint32_t resident_per_sm(const function& f, uint64_t threads, uint64_t shared) {
    uint64_t n = options().blocks_per_sm;
    if (threads_per_sm / threads < n) n = threads_per_sm / threads;
    uint64_t statics = f.owner->shared.bytes - f.owner->shared.dynamic_bytes;
    uint64_t use = shared + (statics < default_dynamic_shared ? statics : 0);
    if (use && shared_per_sm / use < n) n = shared_per_sm / use;
    return uint32_t(n);
}

uint64_t volume(const simt_dim3& d) { return uint64_t(d.x) * d.y * d.z; }

CUresult check_shape(const function& f, const simt_dim3& grid, const simt_dim3& block, unsigned shared) {
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (!block.x || !block.y || !block.z || block.x > 1024 || block.y > 1024 || block.z > 64)
        return CUDA_ERROR_INVALID_VALUE;
    if (volume(block) > max_lanes) return CUDA_ERROR_INVALID_VALUE;
    if (volume(block) > f.max_threads()) {
        report(std::string("launch of kernel ") + f.kernel->name + " refused: " + std::to_string(volume(block)) +
               " threads per block, __launch_bounds__ says " + std::to_string(f.max_threads()));
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    if (shared > f.max_dynamic) {
        report("launch of kernel " + std::string(f.kernel->name) + " refused: " + std::to_string(shared) +
               " bytes of dynamic shared memory, allowed are " + std::to_string(f.max_dynamic) +
               " [set MAX_DYNAMIC_SHARED_SIZE_BYTES]");
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

void pack_arguments(const function& f, void** params, launch* job) {
    constexpr size_t align = 16;
    size_t total = 0;
    for (uint32_t i = 0; i < f.kernel->n_params; i++) total += (f.kernel->param_bytes[i] + align - 1) & ~(align - 1);
    job->packed.resize(total + align);
    uintptr_t next = (reinterpret_cast<uintptr_t>(job->packed.data()) + align - 1) & ~(align - 1);
    for (uint32_t i = 0; i < f.kernel->n_params; i++) {
        memcpy(reinterpret_cast<void*>(next), params[i], f.kernel->param_bytes[i]);
        job->args.push_back(reinterpret_cast<void*>(next));
        next += (f.kernel->param_bytes[i] + align - 1) & ~(align - 1);
    }
}

CUresult start(CUfunction fn, const simt_dim3& grid, const simt_dim3& block, unsigned shared, CUstream handle,
               void** params, bool cooperative) {
    function* f = find_function(fn);
    auto s = find_stream(handle);
    if (!f || !s) return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = check_shape(*f, grid, block, shared);
    if (r) return r;
    if (f->kernel->n_params && !params) return CUDA_ERROR_INVALID_VALUE;
    uint64_t limit = uint64_t(resident_per_sm(*f, volume(block), shared)) * options().sms;
    if (cooperative && volume(grid) > limit) {
        report("cooperative launch of kernel " + std::string(f->kernel->name) + " refused: " +
               std::to_string(volume(grid)) + " blocks, at most " + std::to_string(limit) + " are resident together");
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    }
    auto job = std::make_shared<launch>();
    job->name = f->kernel->name;
    job->entry = f->kernel->entry;
    job->grid = grid;
    job->block = block;
    job->shared = shared;
    job->n_lanes = uint32_t(volume(block));
    job->n_blocks = volume(grid);
    job->code = f->owner;
    pack_arguments(*f, params, job.get());
    enqueue(s, {[job](stream& in) { run_in_stream(in, job.get()); }, {}, false});
    return CUDA_SUCCESS;
}

}  // namespace

namespace impl {

CUresult cuFuncGetAttribute(int* value, int attr, CUfunction fn) {
    function* f = find_function(fn);
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            *value = int(f->max_threads());
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
            *value = int(f->owner->shared.bytes - f->owner->shared.dynamic_bytes);  // of all kernels of the module
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
            *value = int(options().stack);
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
            *value = 0;
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            *value = int(f->max_dynamic);
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncSetAttribute(CUfunction fn, int attr, int value) {
    function* f = find_function(fn);
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    if (attr != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > int(max_dynamic_shared))
        return CUDA_ERROR_INVALID_VALUE;
    f->max_dynamic = uint32_t(value);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction fn, size_t index, size_t* offset, size_t* bytes) {
    function* f = find_function(fn);
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    if (!offset || index >= f->kernel->n_params) return CUDA_ERROR_INVALID_VALUE;
    size_t at = 0;
    for (size_t i = 0; i <= index; i++) {
        size_t size = f->kernel->param_bytes[i], align = size >= 16 ? 8 : size >= 8 ? 8 : size >= 4 ? 4 : size;
        at = (at + align - 1) / align * align;
        if (i < index) at += size;
    }
    *offset = at;
    if (bytes) *bytes = f->kernel->param_bytes[index];
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction fn, int threads, size_t shared) {
    function* f = find_function(fn);
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    if (!blocks || threads < 1) return CUDA_ERROR_INVALID_VALUE;
    bool fits = uint32_t(threads) <= f->max_threads() && shared <= f->max_dynamic;
    *blocks = fits ? int(resident_per_sm(*f, uint64_t(threads), shared)) : 0;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void** params, void** extra) {
    if (extra) return CUDA_ERROR_NOT_SUPPORTED;
    return start(fn, {gx, gy, gz}, {bx, by, bz}, shared, stream, params, false);
}

CUresult cuLaunchCooperativeKernel(CUfunction fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream, void** params) {
    return start(fn, {gx, gy, gz}, {bx, by, bz}, shared, stream, params, true);
}

}  // namespace impl
}  // namespace softgpu

using namespace softgpu;

int softgpu_func_params(CUfunction fn, uint32_t* count, uint32_t* sizes, uint32_t max) {
    function* f = find_function(fn);
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = f->kernel->n_params;
    for (uint32_t i = 0; sizes && i < max && i < f->kernel->n_params; i++) sizes[i] = f->kernel->param_bytes[i];
    return CUDA_SUCCESS;
}
