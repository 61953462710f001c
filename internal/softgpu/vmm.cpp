// Virtual memory management: addresses and memory are made apart and mapped together; memory travels as a descriptor.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "impl.h"
#include "memory.h"
#include "softgpu.h"

namespace softgpu {
namespace {

void* at(uintptr_t p) { return reinterpret_cast<void*>(p); }

bool granular(uint64_t v) { return v % vmm_granularity == 0; }

void* reserve(size_t bytes, size_t align, uintptr_t hint) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (hint) {
        void* p = mmap(at(hint), bytes, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (p == at(hint)) return p;
        if (p != MAP_FAILED) munmap(p, bytes);
    }
    void* area = mmap(nullptr, bytes + align, PROT_NONE, flags, -1, 0);
    if (area == MAP_FAILED) return nullptr;
    uintptr_t a = reinterpret_cast<uintptr_t>(area), base = (a + align - 1) & ~(align - 1);
    if (base > a) munmap(area, base - a);
    uintptr_t end = a + bytes + align;
    if (end > base + bytes) munmap(at(base + bytes), end - base - bytes);
    return at(base);
}

bool in_reservation_locked(memory_state& s, uintptr_t p, size_t bytes) {
    auto it = s.reservations.upper_bound(p);
    if (it == s.reservations.begin()) return false;
    --it;
    return p + bytes <= it->first + it->second && p + bytes > p;
}

// Calls f for the mappings in [p, p+bytes). False, without calling it, unless whole mappings fill that range exactly.
template <class F>
bool each_mapping_locked(memory_state& s, uintptr_t p, size_t bytes, F f) {
    uintptr_t end = p + bytes, next = p;
    auto first = s.by_base.find(p), it = first;
    for (; it != s.by_base.end() && it->first == next && next < end; ++it) {
        if (it->second.kind != mem_kind::vmm) return false;
        next += it->second.size;
    }
    if (!bytes || next != end) return false;
    for (auto i = first; i != it;) f((i++)->second);
    return true;
}

bool is_device_memory(uintptr_t p) {
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    const allocation* a = find_locked(s, p);
    return a && (a->kind == mem_kind::device || a->kind == mem_kind::vmm);
}

bool valid_prop(const CUmemAllocationProp* p) {
    return p && p->type == CU_MEM_ALLOCATION_TYPE_PINNED && p->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           p->location.id == 0 && (p->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0;
}

}  // namespace

namespace impl {

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* prop, int option) {
    if (!bytes || !valid_prop(prop) || option < 0 || option > 1) return CUDA_ERROR_INVALID_VALUE;
    if (!options().vmm) return CUDA_ERROR_NOT_SUPPORTED;
    *bytes = vmm_granularity;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t bytes, size_t align, CUdeviceptr hint, unsigned long long flags) {
    if (!options().vmm) return CUDA_ERROR_NOT_SUPPORTED;
    if (!ptr || !bytes || !granular(bytes) || (align & (align - 1)) || flags || bytes > (1ull << 46))
        return CUDA_ERROR_INVALID_VALUE;
    if (align < vmm_granularity) align = vmm_granularity;
    void* p = reserve(bytes, align, granular(hint) && !(hint & (align - 1)) ? uintptr_t(hint) : 0);
    if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    s.reservations[reinterpret_cast<uintptr_t>(p)] = bytes;
    *ptr = reinterpret_cast<uintptr_t>(p);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t bytes) {
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    auto it = s.reservations.find(ptr);
    if (it == s.reservations.end() || it->second != bytes) return CUDA_ERROR_INVALID_VALUE;
    auto inside = s.by_base.lower_bound(ptr);
    if (inside != s.by_base.end() && inside->first < ptr + bytes) return CUDA_ERROR_INVALID_VALUE;
    munmap(at(ptr), bytes);
    s.reservations.erase(it);
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
    if (!options().vmm) return CUDA_ERROR_NOT_SUPPORTED;
    if (!handle || !bytes || !granular(bytes) || !valid_prop(prop) || flags) return CUDA_ERROR_INVALID_VALUE;
    if (prop->allocFlags.gpuDirectRDMACapable && !options().rdma) return CUDA_ERROR_NOT_SUPPORTED;
    std::shared_ptr<backing> b;
    int r = make_backing(bytes, true, &b);
    if (r) return r;
    b->shareable = prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    *handle = s.next_handle++;
    s.handles[*handle] = std::move(b);
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    return s.handles.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    auto h = s.handles.find(handle);
    if (h == s.handles.end() || flags || !bytes || !granular(ptr) || !granular(bytes) || !granular(offset) ||
        offset + bytes < bytes || offset + bytes > h->second->size || !in_reservation_locked(s, ptr, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    auto after = s.by_base.lower_bound(ptr + bytes);
    if (after != s.by_base.begin() && std::prev(after)->second.base + std::prev(after)->second.size > ptr)
        return CUDA_ERROR_ALREADY_MAPPED;
    if (mmap(at(ptr), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, h->second->fd, off_t(offset)) == MAP_FAILED)
        return CUDA_ERROR_MAP_FAILED;
    allocation& a = s.by_base[ptr];
    a.base = ptr;
    a.size = bytes;
    a.kind = mem_kind::vmm;
    a.offset = offset;
    a.accessible = false;
    a.id = s.next_id++;
    a.mem = h->second;
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes) {
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    bool ok = each_mapping_locked(s, ptr, bytes, [&s](allocation& a) {
        mmap(at(a.base), a.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        s.by_base.erase(a.base);
    });
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc* desc, size_t count) {
    if (!desc || count != 1 || desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (desc->location.id != 0) return CUDA_ERROR_INVALID_DEVICE;
    int prot;
    switch (desc->flags) {
        case CU_MEM_ACCESS_FLAGS_PROT_NONE:
            prot = PROT_NONE;
            break;
        case CU_MEM_ACCESS_FLAGS_PROT_READ:
            prot = PROT_READ;
            break;
        case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
            prot = PROT_READ | PROT_WRITE;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    bool ok = true;
    bool whole = each_mapping_locked(s, ptr, bytes, [&](allocation& a) {
        ok = ok && mprotect(at(a.base), a.size, prot) == 0;
        a.accessible = prot == (PROT_READ | PROT_WRITE);
    });
    if (!whole) return CUDA_ERROR_INVALID_VALUE;
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, int type,
                                      unsigned long long flags) {
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    auto h = s.handles.find(handle);
    if (!out || h == s.handles.end() || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !h->second->shareable)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = fcntl(h->second->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *static_cast<int*>(out) = fd;
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle, int type) {
    if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
    if (!options().vmm) return CUDA_ERROR_NOT_SUPPORTED;
    int fd = int(reinterpret_cast<intptr_t>(os_handle));
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    // Only our own exports: a memfd whose size is sealed.
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || !granular(uint64_t(st.st_size)))
        return CUDA_ERROR_INVALID_VALUE;
    auto b = std::make_shared<backing>();
    b->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (b->fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    b->size = size_t(st.st_size);
    b->shareable = true;
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    *handle = s.next_handle++;
    s.handles[*handle] = std::move(b);
    return CUDA_SUCCESS;
}

CUresult cuMemGetHandleForAddressRange(void* out, CUdeviceptr ptr, size_t bytes, int type, unsigned long long flags) {
    if (!out || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags || ptr % 4096 || !bytes || bytes % 4096)
        return CUDA_ERROR_INVALID_VALUE;
    if (!options().dmabuf) return CUDA_ERROR_NOT_SUPPORTED;
    if (!is_device_memory(ptr)) return CUDA_ERROR_INVALID_VALUE;
    uint64_t offset;
    return softgpu_export_range(at(ptr), bytes, static_cast<int*>(out), &offset);
}

}  // namespace impl
}  // namespace softgpu
