// Memory of the software GPU: what exists, where it is mapped, and which memfd is behind it.
#ifndef PGAS_SOFTGPU_MEMORY_H
#define PGAS_SOFTGPU_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cuda_api.h"

namespace softgpu {

constexpr size_t gpu_page = 64 << 10;
constexpr size_t vmm_granularity = 2 << 20;

// Memory behind a memfd, reserved when it is made. Closed when the last handle and the last mapping are gone.
struct backing {
    int fd = -1;
    size_t size = 0;
    bool shareable = false;
    bool counted = false;  // against the device's memory
    ~backing();
};

enum class mem_kind { device, host, registered, registers, vmm, module };

struct allocation {
    uintptr_t base = 0;
    size_t size = 0;
    mem_kind kind = mem_kind::device;
    uint64_t offset = 0;  // of base in the backing
    uint64_t id = 0;
    bool accessible = true;
    unsigned flags = 0;  // of cuMemHostAlloc or cuMemHostRegister
    std::shared_ptr<backing> mem;
    void* mapping = nullptr;  // with its guards, when they are unmapped together
    size_t mapping_size = 0;
};

struct memory_state {
    std::mutex m;
    std::map<uintptr_t, allocation> by_base;
    std::map<uintptr_t, size_t> reservations;  // of cuMemAddressReserve
    std::map<CUmemGenericAllocationHandle, std::shared_ptr<backing>> handles;
    uint64_t next_id = 1;
    uint64_t next_handle = 1;
};
memory_state& memory();

// The allocation that holds addr, or nullptr. The lock is held by the caller.
allocation* find_locked(memory_state& s, uintptr_t addr);

// Makes a backing of size bytes, all of them reserved. Returns a CUDA error.
int make_backing(size_t size, bool device, std::shared_ptr<backing>* out);

// Whether a device copy may touch [addr, addr+len): allocations without a gap, all accessible.
bool covers(uintptr_t addr, size_t len);
bool is_pinned(const void* addr, size_t len);
uint64_t device_bytes();  // in use

void add_module_memory(void* base, size_t size, bool add);
void free_all_memory();  // at the end of the context

}  // namespace softgpu

#endif
