// The GDRCopy table: GPU memory is a memfd, so a mapping for the CPU is a second mapping of the same pages.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "simt.h"
#include "softgpu.h"

struct gdr {
    std::mutex m;
    struct pin {
        uintptr_t addr;
        size_t size;
        int fd;
        uint64_t offset;
        void* va;
        size_t mapped;
    };
    std::map<unsigned long, pin> pins;
    unsigned long next = 1;
};

namespace softgpu {
namespace {

gdr_t open_device() { return new gdr; }

void drop(const gdr::pin& p) {
    if (p.va) munmap(p.va, p.mapped);
    close(p.fd);
}

int close_device(gdr_t g) {
    if (!g) return EINVAL;
    for (auto& [h, p] : g->pins) drop(p);
    delete g;
    return 0;
}

int pin_v2(gdr_t g, unsigned long addr, size_t size, uint32_t flags, gdr_mh_t* handle) {
    if (!g || !handle || !size || flags & ~uint32_t(GDR_PIN_FLAG_FORCE_PCIE)) return EINVAL;
    uintptr_t first = addr & ~(GPU_PAGE_SIZE - 1);
    size_t whole = (addr + size - first + GPU_PAGE_SIZE - 1) & ~(GPU_PAGE_SIZE - 1);
    gdr::pin p{first, whole, -1, 0, nullptr, 0};
    if (softgpu_export_range(reinterpret_cast<void*>(first), whole, &p.fd, &p.offset)) return EINVAL;
    std::lock_guard<std::mutex> hold(g->m);
    handle->h = g->next++;
    g->pins[handle->h] = p;
    return 0;
}

int pin(gdr_t g, unsigned long addr, size_t size, uint64_t, uint32_t, gdr_mh_t* handle) {
    return pin_v2(g, addr, size, GDR_PIN_FLAG_DEFAULT, handle);
}

int unpin(gdr_t g, gdr_mh_t handle) {
    if (!g) return EINVAL;
    std::lock_guard<std::mutex> hold(g->m);
    auto it = g->pins.find(handle.h);
    if (it == g->pins.end()) return EINVAL;
    drop(it->second);
    g->pins.erase(it);
    return 0;
}

int map(gdr_t g, gdr_mh_t handle, void** va, size_t size) {
    if (!g || !va || !size) return EINVAL;
    std::lock_guard<std::mutex> hold(g->m);
    auto it = g->pins.find(handle.h);
    if (it == g->pins.end() || size > it->second.size) return EINVAL;
    gdr::pin& p = it->second;
    if (p.va) return EAGAIN;
    void* m = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, p.fd, off_t(p.offset));
    if (m == MAP_FAILED) return errno;
    p.va = *va = m;
    p.mapped = size;
    return 0;
}

int unmap(gdr_t g, gdr_mh_t handle, void* va, size_t size) {
    if (!g) return EINVAL;
    std::lock_guard<std::mutex> hold(g->m);
    auto it = g->pins.find(handle.h);
    if (it == g->pins.end() || !it->second.va || it->second.va != va || it->second.mapped != size) return EINVAL;
    munmap(va, size);
    it->second.va = nullptr;
    return 0;
}

int get_info(gdr_t g, gdr_mh_t handle, gdr_info_v2_t* info) {
    if (!g || !info) return EINVAL;
    std::lock_guard<std::mutex> hold(g->m);
    auto it = g->pins.find(handle.h);
    if (it == g->pins.end()) return EINVAL;
    const gdr::pin& p = it->second;
    memset(info, 0, sizeof(*info));
    info->va = p.addr;
    info->mapped_size = p.va ? p.mapped : p.size;
    info->page_size = GPU_PAGE_SIZE;
    info->tm_cycles = simt_clock64();
    info->mapped = p.va != nullptr;
    info->mapping_type = p.va ? GDR_MAPPING_TYPE_CACHING : GDR_MAPPING_TYPE_NONE;
    return 0;
}

// Kernels may wait for what is written here, so the bell rings.
int copy_to(gdr_mh_t, void* map_d, const void* h, size_t size) {
    memcpy(map_d, h, size);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    simt_notify();
    return 0;
}

int copy_from(gdr_mh_t, void* h, const void* map_d, size_t size) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    memcpy(h, map_d, size);
    return 0;
}

void runtime_version(int* major, int* minor) {
    *major = 2;
    *minor = 5;
}

int driver_version(gdr_t, int* major, int* minor) {
    runtime_version(major, minor);
    return 0;
}

}  // namespace
}  // namespace softgpu

const struct pgas_gdr_api* softgpu_gdr_table(void) {
    using namespace softgpu;
    static const pgas_gdr_api table = {open_device, close_device, pin,     pin_v2,    unpin,           map,
                                       unmap,       get_info,     copy_to, copy_from, runtime_version, driver_version};
    return &table;
}
