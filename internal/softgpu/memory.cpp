#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "config.h"
#include "softgpu.h"

namespace softgpu {
namespace {

std::atomic<uint64_t> device_used{0};

bool read_number(const char* path, uint64_t* out) {
    FILE* f = fopen(path, "re");
    if (!f) return false;
    bool ok = fscanf(f, "%" SCNu64, out) == 1;  // "max" is no number: no limit
    fclose(f);
    return ok;
}

// Bytes that the machine or the container can still give. The kernel would kill somebody instead of refusing.
uint64_t machine_available() {
    uint64_t best = ~0ull;
    if (FILE* f = fopen("/proc/meminfo", "re")) {
        char line[128];
        uint64_t kib;
        while (fgets(line, sizeof(line), f))
            if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) best = kib << 10;
        fclose(f);
    }
    uint64_t limit, used;
    if (read_number("/sys/fs/cgroup/memory.max", &limit) && read_number("/sys/fs/cgroup/memory.current", &used)) {
        uint64_t left = limit > used ? limit - used : 0;
        if (left < best) best = left;
    }
    return best;
}

const char* kind_name(mem_kind k) {
    switch (k) {
        case mem_kind::device:
            return "device memory";
        case mem_kind::host:
            return "pinned host memory";
        case mem_kind::registered:
            return "registered host memory";
        case mem_kind::registers:
            return "device registers";
        case mem_kind::vmm:
            return "mapped memory";
        default:
            return "module variables";
    }
}

std::string describe_allocation(const allocation& a) {
    char s[160];
    snprintf(s, sizeof(s), "%s #%" PRIu64 " [0x%" PRIxPTR ", +%zu bytes)", kind_name(a.kind), a.id, a.base, a.size);
    return s;
}

std::string describe_address(uintptr_t addr) {
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    if (const allocation* a = find_locked(s, addr))
        return "byte " + std::to_string(addr - a->base) + " of " + describe_allocation(*a) +
               (a->accessible ? "" : ", which cuMemSetAccess has not opened");
    auto above = s.by_base.upper_bound(addr);
    const allocation* near = nullptr;
    std::string where;
    if (above != s.by_base.begin()) {
        near = &std::prev(above)->second;
        where = std::to_string(addr - (near->base + near->size)) + " bytes after the end of ";
    }
    if (above != s.by_base.end() && (!near || above->second.base - addr < addr - (near->base + near->size))) {
        near = &above->second;
        where = std::to_string(near->base - addr) + " bytes before ";
    }
    return near ? where + describe_allocation(*near) : "no memory is allocated";
}

}  // namespace

backing::~backing() {
    if (fd >= 0) close(fd);
    if (counted) device_used.fetch_sub(size);
}

memory_state& memory() {
    static auto* s = new memory_state;  // never destroyed: threads may outlive static destructors
    return *s;
}

uint64_t device_bytes() { return device_used.load(); }

int make_backing(size_t size, bool device, std::shared_ptr<backing>* out) {
    auto b = std::make_shared<backing>();
    b->size = size;
    if (device) {
        b->counted = true;
        if (device_used.fetch_add(size) + size > options().memory) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (size > machine_available()) return CUDA_ERROR_OUT_OF_MEMORY;
    b->fd = memfd_create(device ? "pgas-device" : "pgas-host", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (b->fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    int r;
    do r = fallocate(b->fd, 0, 0, off_t(size));
    while (r && errno == EINTR);
    if (r) return CUDA_ERROR_OUT_OF_MEMORY;
    // Nobody who gets the descriptor can shrink the memory under us.
    if (fcntl(b->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) return CUDA_ERROR_OPERATING_SYSTEM;
    *out = std::move(b);
    return CUDA_SUCCESS;
}

allocation* find_locked(memory_state& s, uintptr_t addr) {
    auto it = s.by_base.upper_bound(addr);
    if (it == s.by_base.begin()) return nullptr;
    allocation& a = std::prev(it)->second;
    return addr - a.base < a.size ? &a : nullptr;
}

bool covers(uintptr_t addr, size_t len) {
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    while (len) {
        const allocation* a = find_locked(s, addr);
        if (!a || !a->accessible || a->kind == mem_kind::registers) return false;
        size_t here = a->size - (addr - a->base);
        if (here >= len) return true;
        addr += here;
        len -= here;
    }
    return true;
}

bool is_pinned(const void* p, size_t len) { return covers(reinterpret_cast<uintptr_t>(p), len); }

void add_module_memory(void* base, size_t size, bool add) {
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    uintptr_t b = reinterpret_cast<uintptr_t>(base);
    if (!add) {
        s.by_base.erase(b);
        return;
    }
    allocation& a = s.by_base[b];
    a.base = b;
    a.size = size;
    a.kind = mem_kind::module;
    a.id = s.next_id++;
}

void free_all_memory() {
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    for (auto& [base, a] : s.by_base) {
        if (a.kind == mem_kind::vmm) munmap(reinterpret_cast<void*>(a.base), a.size);
        if (a.mapping) munmap(a.mapping, a.mapping_size);
    }
    s.by_base.clear();
    for (auto& [base, size] : s.reservations) munmap(reinterpret_cast<void*>(base), size);
    s.reservations.clear();
    s.handles.clear();
}

}  // namespace softgpu

using namespace softgpu;

size_t softgpu_describe(const void* addr, char* text, size_t len) {
    std::string d = describe_address(reinterpret_cast<uintptr_t>(addr));
    if (!len) return 0;
    size_t n = d.size() < len - 1 ? d.size() : len - 1;
    memcpy(text, d.data(), n);
    text[n] = 0;
    return n;
}

int softgpu_export_range(const void* addr, size_t len, int* fd, uint64_t* offset) {
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    uintptr_t p = reinterpret_cast<uintptr_t>(addr);
    const allocation* a = find_locked(s, p);
    if (!a || !len || len > a->size - (p - a->base)) return CUDA_ERROR_INVALID_VALUE;
    if (!a->mem) return CUDA_ERROR_NOT_SUPPORTED;
    *fd = fcntl(a->mem->fd, F_DUPFD_CLOEXEC, 0);
    if (*fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *offset = a->offset + (p - a->base);
    return CUDA_SUCCESS;
}
