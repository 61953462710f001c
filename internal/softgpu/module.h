// Modules: compiled kernels, loaded as shared objects.
#ifndef PGAS_SOFTGPU_MODULE_H
#define PGAS_SOFTGPU_MODULE_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "include/simt/abi.h"

namespace softgpu {

struct launch;

// Limits, as on an H100.
constexpr uint32_t threads_per_sm = 2048;
constexpr uint32_t shared_per_sm = 228 << 10;
constexpr uint32_t default_dynamic_shared = 48 << 10;
constexpr uint32_t max_dynamic_shared = 227 << 10;

struct module;

struct function {
    const simt_kernel* kernel = nullptr;
    module* owner = nullptr;
    uint32_t max_dynamic = default_dynamic_shared;
    uint32_t max_threads() const;
};

// Shared memory is the module's thread-local storage: the block's thread has its own.
struct shared_layout {
    size_t tls_id = 0;  // dynamic linker's number; 0 without shared memory
    size_t bytes = 0;
    size_t dynamic_offset = 0;  // of the array behind `extern __shared__`
    size_t dynamic_bytes = 0;   // 0 without one
};

struct module {
    void* handle = nullptr;
    int fd = -1;  // keeps the name under which it was loaded unique
    bool is_program = false;
    shared_layout shared;
    void* data = nullptr;  // writable segment, known as device memory
    size_t data_bytes = 0;
    std::map<std::string, std::unique_ptr<function>> functions;
};

// A block starts with garbage in its shared memory, as on hardware, and ends with a look at what lies behind the
// dynamic part.
void poison_shared(launch* job, uint64_t seed);
void check_shared(launch* job);

void unload_all_modules();
uint32_t module_count();

}  // namespace softgpu

#endif
