// cuMemAlloc, pinned host memory, registration of foreign memory, and pointer attributes.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "config.h"
#include "device.h"
#include "impl.h"
#include "memory.h"
#include "softgpu.h"
#include "stream.h"

namespace softgpu {
namespace {

// Maps mem with an inaccessible GPU page on either side, so that a run over the end faults at once.
int map_guarded(const std::shared_ptr<backing>& mem, mem_kind kind, unsigned flags, uintptr_t* out) {
    size_t total = mem->size + 3 * gpu_page;
    void* area = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t base = (reinterpret_cast<uintptr_t>(area) + 2 * gpu_page - 1) & ~(gpu_page - 1);
    void* p =
        mmap(reinterpret_cast<void*>(base), mem->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, mem->fd, 0);
    if (p == MAP_FAILED) {
        munmap(area, total);
        return CUDA_ERROR_MAP_FAILED;
    }
    allocation a;
    a.base = base;
    a.size = mem->size;
    a.kind = kind;
    a.flags = flags;
    a.mem = mem;
    a.mapping = area;
    a.mapping_size = total;
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    a.id = s.next_id++;
    s.by_base[base] = std::move(a);
    *out = base;
    return CUDA_SUCCESS;
}

int allocate(size_t bytes, mem_kind kind, unsigned flags, uintptr_t* out) {
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > (size_t(1) << 46)) return CUDA_ERROR_OUT_OF_MEMORY;
    std::shared_ptr<backing> mem;
    int r = make_backing((bytes + gpu_page - 1) & ~(gpu_page - 1), kind == mem_kind::device, &mem);
    return r ? r : map_guarded(mem, kind, flags, out);
}

int release(uintptr_t base, mem_kind kind) {
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    auto it = s.by_base.find(base);
    if (it == s.by_base.end() || it->second.kind != kind) return CUDA_ERROR_INVALID_VALUE;
    if (it->second.mapping) munmap(it->second.mapping, it->second.mapping_size);
    s.by_base.erase(it);
    return CUDA_SUCCESS;
}

bool is_mapped(uintptr_t addr, size_t bytes) {
    uintptr_t first = addr & ~uintptr_t(4095);
    size_t pages = (addr + bytes - first + 4095) / 4096;
    std::vector<unsigned char> present(pages);
    return mincore(reinterpret_cast<void*>(first), pages * 4096, present.data()) == 0;
}

bool overlaps_locked(memory_state& s, uintptr_t p, size_t bytes) {
    auto it = s.by_base.lower_bound(p + bytes);
    return it != s.by_base.begin() && std::prev(it)->second.base + std::prev(it)->second.size > p;
}

bool is_host(mem_kind k) { return k == mem_kind::host || k == mem_kind::registered || k == mem_kind::registers; }

}  // namespace

namespace impl {

CUresult cuMemGetInfo(size_t* avail, size_t* total) {
    if (!avail || !total) return CUDA_ERROR_INVALID_VALUE;
    uint64_t used = device_bytes();
    *total = options().memory;
    *avail = used < *total ? *total - used : 0;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* ptr, size_t bytes) {
    if (!ptr) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t p = 0;
    int r = allocate(bytes, mem_kind::device, 0, &p);
    *ptr = p;
    return r;
}

CUresult cuMemFree(CUdeviceptr ptr) {
    if (!ptr) return CUDA_SUCCESS;
    wait_for_all_streams();
    return release(ptr, mem_kind::device);
}

CUresult cuMemHostAlloc(void** ptr, size_t bytes, unsigned flags) {
    if (!ptr || (flags & ~7u)) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t p = 0;
    int r = allocate(bytes, mem_kind::host, flags, &p);
    *ptr = reinterpret_cast<void*>(p);
    return r;
}

CUresult cuMemFreeHost(void* ptr) {
    wait_for_all_streams();
    return release(reinterpret_cast<uintptr_t>(ptr), mem_kind::host);
}

CUresult cuMemHostRegister(void* ptr, size_t bytes, unsigned flags) {
    uintptr_t p = reinterpret_cast<uintptr_t>(ptr);
    if (!p || !bytes || p + bytes < p || (flags & ~15u) || !is_mapped(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    if (overlaps_locked(s, p, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    allocation& a = s.by_base[p];
    a.base = p;
    a.size = bytes;
    a.kind = flags & CU_MEMHOSTREGISTER_IOMEMORY ? mem_kind::registers : mem_kind::registered;
    a.flags = flags;
    a.id = s.next_id++;
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* ptr) {
    uintptr_t p = reinterpret_cast<uintptr_t>(ptr);
    if (release(p, mem_kind::registered) == CUDA_SUCCESS || release(p, mem_kind::registers) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* dptr, void* ptr, unsigned flags) {
    if (!dptr || flags) return CUDA_ERROR_INVALID_VALUE;
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    const allocation* a = find_locked(s, reinterpret_cast<uintptr_t>(ptr));
    if (!a || !is_host(a->kind)) return CUDA_ERROR_INVALID_VALUE;
    *dptr = reinterpret_cast<uintptr_t>(ptr);
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* data, int attr, CUdeviceptr ptr) {
    if (!data) return CUDA_ERROR_INVALID_VALUE;
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    const allocation* a = find_locked(s, ptr);
    if (!a) return CUDA_ERROR_INVALID_VALUE;
    bool host = is_host(a->kind);
    switch (attr) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            *static_cast<CUcontext*>(data) = the_context();
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *static_cast<unsigned*>(data) = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            *static_cast<CUdeviceptr*>(data) = ptr;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (!host) return CUDA_ERROR_INVALID_VALUE;
            *static_cast<void**>(data) = reinterpret_cast<void*>(ptr);
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            *static_cast<uint64_t*>(data) = a->id;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *static_cast<int*>(data) = 0;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            *static_cast<CUdeviceptr*>(data) = a->base;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            *static_cast<size_t*>(data) = a->size;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MAPPED:
            *static_cast<unsigned char*>(data) = a->accessible;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
            *static_cast<unsigned*>(data) = 1;  // every synchronous copy here has arrived when it returns
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuPointerSetAttribute(const void* data, int attr, CUdeviceptr ptr) {
    if (!data || attr != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    const allocation* a = find_locked(s, ptr);
    return a && !is_host(a->kind) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace impl
}  // namespace softgpu
