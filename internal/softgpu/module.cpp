#include "module.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "impl.h"
#include "memory.h"
#include "simt.h"
#include "stream.h"

extern "C" void* __tls_get_addr(void*);

namespace softgpu {
namespace {

struct module_set {
    std::mutex m;
    std::map<module*, std::unique_ptr<module>> live;
    std::map<function*, function*> functions;
};

module_set& set() {
    static auto* s = new module_set;  // never destroyed: threads may outlive static destructors
    return *s;
}

unsigned char* tls_block(size_t id) {
    struct {
        unsigned long module, offset;
    } index = {static_cast<unsigned long>(id), 0};
    return static_cast<unsigned char*>(__tls_get_addr(&index));
}

bool write_all(int fd, const char* p, size_t n) {
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w <= 0) return false;
        p += w;
        n -= size_t(w);
    }
    return true;
}

// A copy under a name of its own. Otherwise a second load of one file would share its variables with the first.
void* open_copy(const char* image, size_t bytes, int* fd) {
    *fd = memfd_create("pgas-module", MFD_CLOEXEC);
    if (*fd < 0) return nullptr;
    std::string name = "/proc/self/fd/" + std::to_string(*fd);
    void* h = write_all(*fd, image, bytes) ? dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!h) {
        const char* why = dlerror();
        report(std::string("module does not load: ") + (why ? why : "no memory for its copy"));
        close(*fd);
    }
    return h;
}

size_t image_size(const void* image) {
    Elf64_Ehdr h;
    memcpy(&h, image, sizeof(h));
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_type != ET_DYN) return 0;
    return size_t(h.e_shoff) + size_t(h.e_shentsize) * h.e_shnum;
}

struct segments {
    const link_map* map;
    module* m;
};

int find_segments(dl_phdr_info* info, size_t, void* arg) {
    auto* s = static_cast<segments*>(arg);
    if (info->dlpi_addr != s->map->l_addr || strcmp(info->dlpi_name, s->map->l_name)) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto& p = info->dlpi_phdr[i];
        if (p.p_type == PT_TLS) {
            s->m->shared.tls_id = info->dlpi_tls_modid;
            s->m->shared.bytes = p.p_memsz;
        }
        if (p.p_type == PT_LOAD && (p.p_flags & PF_W)) {
            s->m->data = reinterpret_cast<void*>(info->dlpi_addr + p.p_vaddr);
            s->m->data_bytes = p.p_memsz;
        }
    }
    return 1;
}

void find_layout(module* m) {
    link_map* map = nullptr;
    if (dlinfo(m->handle, RTLD_DI_LINKMAP, &map) || !map) return;
    segments s{map, m};
    dl_iterate_phdr(find_segments, &s);
    if (m->data) add_module_memory(m->data, m->data_bytes, true);
    if (m->is_program) m->shared = {};  // the program's own thread-local storage is not only shared memory
    auto* bytes = static_cast<const size_t*>(dlsym(m->handle, "simt_dynamic_shared_bytes"));
    auto* dynamic = static_cast<unsigned char*>(dlsym(m->handle, "simt_dynamic_shared"));
    if (!m->shared.tls_id || !bytes || !dynamic) return;
    m->shared.dynamic_offset = size_t(dynamic - tls_block(m->shared.tls_id));
    m->shared.dynamic_bytes = *bytes;
}

CUresult adopt(std::unique_ptr<module> m, CUmodule* out) {
    find_layout(m.get());
    std::lock_guard<std::mutex> hold(set().m);
    *out = reinterpret_cast<CUmodule>(m.get());
    module* key = m.get();
    set().live[key] = std::move(m);
    return CUDA_SUCCESS;
}

void unload(module* m) {
    if (m->data) add_module_memory(m->data, m->data_bytes, false);
    dlclose(m->handle);
    if (m->fd >= 0) close(m->fd);
}

module* find_module_locked(CUmodule handle) {
    auto it = set().live.find(reinterpret_cast<module*>(handle));
    return it == set().live.end() ? nullptr : it->second.get();
}

constexpr size_t canary_bytes = 64;
constexpr unsigned char canary = 0xc5;

}  // namespace

uint32_t function::max_threads() const {
    uint32_t n = kernel->max_threads ? kernel->max_threads() : 0;
    return n ? n : max_lanes;
}

uint32_t module_count() {
    std::lock_guard<std::mutex> hold(set().m);
    return uint32_t(set().live.size());
}

void unload_all_modules() {
    std::lock_guard<std::mutex> hold(set().m);
    for (auto& [key, m] : set().live) unload(m.get());
    set().live.clear();
    set().functions.clear();
}

static void fill_garbage(unsigned char* p, size_t n, uint64_t seed) { memset(p, int(0x80 | (seed & 0x7f)), n); }

void poison_shared(launch* job, uint64_t seed) {
    const shared_layout& s = job->code->shared;
    if (!s.tls_id) return;
    unsigned char* base = tls_block(s.tls_id);
    if (!s.dynamic_bytes) {
        fill_garbage(base, s.bytes, seed);
        return;
    }
    unsigned char* dynamic = base + s.dynamic_offset;
    fill_garbage(base, s.dynamic_offset, seed);
    unsigned char* behind = dynamic + s.dynamic_bytes;
    fill_garbage(behind, size_t(base + s.bytes - behind), seed);
    fill_garbage(dynamic, job->shared, seed);
    memset(dynamic + job->shared, canary, canary_bytes);
}

void check_shared(launch* job) {
    const shared_layout& s = job->code->shared;
    if (!s.tls_id || !s.dynamic_bytes || job->error.load()) return;
    const unsigned char* end = tls_block(s.tls_id) + s.dynamic_offset + job->shared;
    for (size_t i = 0; i < canary_bytes; i++) {
        if (end[i] == canary) continue;
        job->fail(CUDA_ERROR_ILLEGAL_ADDRESS, "kernel " + job->name + " wrote byte " + std::to_string(job->shared + i) +
                                                  " of its dynamic shared memory of " + std::to_string(job->shared) +
                                                  " bytes [launch it with more]");
        return;
    }
}

function* find_function(CUfunction handle) {
    std::lock_guard<std::mutex> hold(set().m);
    auto it = set().functions.find(reinterpret_cast<function*>(handle));
    return it == set().functions.end() ? nullptr : it->second;
}

namespace impl {

// The path "softgpu:program" names the kernels that are linked into the program itself.
CUresult cuModuleLoad(CUmodule* out, const char* path) {
    if (!out || !path) return CUDA_ERROR_INVALID_VALUE;
    auto m = std::make_unique<module>();
    if (!strcmp(path, "softgpu:program")) {
        m->handle = dlopen(nullptr, RTLD_NOW);
        m->is_program = true;
        return adopt(std::move(m), out);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return CUDA_ERROR_FILE_NOT_FOUND;
    struct stat st;
    std::vector<char> image;
    bool ok = fstat(fd, &st) == 0 && st.st_size >= off_t(sizeof(Elf64_Ehdr));
    if (ok) {
        image.resize(size_t(st.st_size));
        ok = pread(fd, image.data(), image.size(), 0) == ssize_t(image.size());
    }
    close(fd);
    if (!ok || !image_size(image.data())) return CUDA_ERROR_INVALID_IMAGE;
    m->handle = open_copy(image.data(), image.size(), &m->fd);
    return m->handle ? adopt(std::move(m), out) : CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
}

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
    if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
    size_t bytes = image_size(image);
    if (!bytes) return CUDA_ERROR_INVALID_IMAGE;
    auto m = std::make_unique<module>();
    m->handle = open_copy(static_cast<const char*>(image), bytes, &m->fd);
    return m->handle ? adopt(std::move(m), out) : CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
}

CUresult cuModuleUnload(CUmodule handle) {
    wait_for_all_streams();
    std::lock_guard<std::mutex> hold(set().m);
    module* m = find_module_locked(handle);
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    for (auto& [name, f] : m->functions) set().functions.erase(f.get());
    unload(m);
    set().live.erase(m);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
    if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard<std::mutex> hold(set().m);
    module* m = find_module_locked(handle);
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    std::unique_ptr<function>& f = m->functions[name];
    if (!f) {
        void* k = dlsym(m->handle, (std::string("simt_kernel_") + name).c_str());
        if (!k) {
            m->functions.erase(name);
            return CUDA_ERROR_NOT_FOUND;
        }
        f = std::make_unique<function>();
        f->kernel = static_cast<const simt_kernel*>(k);
        f->owner = m;
        set().functions[f.get()] = f.get();
    }
    *out = reinterpret_cast<CUfunction>(f.get());
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal(CUdeviceptr* ptr, size_t* bytes, CUmodule handle, const char* name) {
    if (!name || (!ptr && !bytes)) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard<std::mutex> hold(set().m);
    module* m = find_module_locked(handle);
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    void* p = dlsym(m->handle, name);
    Dl_info info;
    const Elf64_Sym* symbol = nullptr;
    if (!p || !dladdr1(p, &info, reinterpret_cast<void**>(const_cast<Elf64_Sym**>(&symbol)), RTLD_DL_SYMENT) ||
        !symbol || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT)
        return CUDA_ERROR_NOT_FOUND;
    if (ptr) *ptr = reinterpret_cast<uintptr_t>(p);
    if (bytes) *bytes = symbol->st_size;
    return CUDA_SUCCESS;
}

}  // namespace impl
}  // namespace softgpu
