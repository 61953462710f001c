// Memory objects, umems, and protection domains.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "machine.h"
#include "wire_shm.h"

namespace pgas::softhca {
namespace {

// Is the whole range mapped? Registration pins pages, so an unmapped one is refused then, not at the first transfer.
bool mapped_range(const void* addr, size_t length) {
    const uintptr_t page = 4096, from = reinterpret_cast<uintptr_t>(addr) & ~(page - 1);
    const uintptr_t to = reinterpret_cast<uintptr_t>(addr) + length;
    if (addr == nullptr || length == 0 || to < from) return false;
    std::vector<unsigned char> residency(1 << 16);
    const size_t step = residency.size() * page;
    for (uintptr_t at = from; at < to; at += step) {
        const size_t n = to - at < step ? to - at : step;
        if (mincore(reinterpret_cast<void*>(at), n, residency.data()) != 0) return false;
    }
    return true;
}

}  // namespace

Mem::~Mem() {
    if (mapped) {
        const uintptr_t at = reinterpret_cast<uintptr_t>(base) & ~uintptr_t{4095};
        munmap(reinterpret_cast<void*>(at), length + (reinterpret_cast<uintptr_t>(base) - at));
    }
    if (fd >= 0) close(fd);
}

bool Hca::pin(uint64_t bytes, int* err) {
    if (config_->pinned_limit != 0 && (bytes > config_->pinned_limit || pinned_ > config_->pinned_limit - bytes)) {
        counters_.add(count_faults_injected);
        *err = ENOMEM;
        return false;
    }
    pinned_ += bytes;
    return true;
}

// Memory by address. Peers of other processes reach it through a descriptor; must_export says that they will.
std::shared_ptr<Mem> Hca::new_mem(void* addr, size_t length, bool must_export, int* err) {
    if (!mapped_range(addr, length)) return *err = EFAULT, nullptr;
    auto mem = std::make_shared<Mem>();
    mem->base = static_cast<uint8_t*>(addr);
    mem->length = length;
    const softhca_hooks hooks = machine().hooks();
    if (hooks.export_range != nullptr) {
        const int rc = hooks.export_range(addr, length, &mem->fd, &mem->fd_offset);
        if (rc != 0) {
            mem->fd = -1;
            if (must_export) return *err = rc, nullptr;
        }
    }
    std::lock_guard<std::mutex> lock(mem_mutex_);
    mem->id = next_mem_++;
    mems_[mem->id] = mem;
    return mem;
}

std::shared_ptr<Mem> Hca::map_dmabuf(int fd, uint64_t offset, size_t length, int* err) {
    if (config_->no_dmabuf) {
        counters_.add(count_faults_injected);
        return *err = EOPNOTSUPP, nullptr;
    }
    struct stat st;
    if (fstat(fd, &st) != 0) return *err = errno, nullptr;
    const uint64_t size = static_cast<uint64_t>(st.st_size);
    if (length == 0 || offset > size || length > size - offset) return *err = EINVAL, nullptr;
    const uint64_t skew = offset & 4095;
    void* p = mmap(nullptr, length + skew, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset - skew));
    if (p == MAP_FAILED) return *err = errno, nullptr;
    auto mem = std::make_shared<Mem>();
    mem->base = static_cast<uint8_t*>(p) + skew;
    mem->length = length;
    mem->mapped = true;
    mem->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    mem->fd_offset = offset;
    if (mem->fd < 0) return *err = errno, nullptr;
    std::lock_guard<std::mutex> lock(mem_mutex_);
    mem->id = next_mem_++;
    mems_[mem->id] = mem;
    return mem;
}

// Forgets a memory object of which the caller holds the last use.
void Hca::drop_mem(const std::shared_ptr<Mem>& mem) {
    {
        std::lock_guard<std::mutex> lock(mem_mutex_);
        mems_.erase(mem->id);
    }
    wire_->broadcast_drop(mem->id);
    pinned_ -= mem->length;
}

Umem* Hca::reg_umem(Context* ctx, const mlx5dv_devx_umem_in& in, int* err) {
    constexpr uint32_t allowed =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING;
    if (const Failure f = next_failure(*config_, "umem_reg")) {
        counters_.add(count_faults_injected);
        return *err = f.error, nullptr;
    }
    if ((in.access & ~allowed) != 0 || (in.comp_mask & ~uint64_t{MLX5DV_UMEM_MASK_DMABUF}) != 0 || in.size == 0) {
        return *err = EINVAL, nullptr;
    }
    if (in.pgsz_bitmap != 0 && (in.pgsz_bitmap >> 12) == 0) return *err = EINVAL, nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    if (!pin(in.size, err)) return nullptr;
    auto umem = std::make_unique<Umem>();
    umem->mem = in.comp_mask & MLX5DV_UMEM_MASK_DMABUF
                    ? map_dmabuf(in.dmabuf_fd, reinterpret_cast<uintptr_t>(in.addr), in.size, err)
                    : new_mem(in.addr, in.size, false, err);
    if (umem->mem == nullptr) {
        pinned_ -= in.size;
        return nullptr;
    }
    umem->ctx = ctx;
    umem->access = in.access;
    umem->offsets = in.pgsz_bitmap != 0;
    umem->pub.umem_id = next_umem_++;
    ctx->umems++;
    return (umems_[umem->pub.umem_id] = std::move(umem)).get();
}

int Hca::dereg_umem(Umem* umem) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (umem->refs != 0) return EBUSY;
    drop_mem(umem->mem);
    umem->ctx->umems--;
    umems_.erase(umem->pub.umem_id);
    return 0;
}

Umem* Hca::find_umem(Context* ctx, uint32_t id) {
    auto it = umems_.find(id);
    return it != umems_.end() && it->second->ctx == ctx ? it->second.get() : nullptr;
}

// The memory of a range that a command names. Null with *status when the umem is not there or does not hold it.
uint8_t* Hca::umem_range(Context* ctx, uint32_t id, uint64_t offset, uint64_t length, uint64_t align, Umem** umem,
                         uint8_t* status) {
    *umem = find_umem(ctx, id);
    if (*umem == nullptr) {
        *status = static_cast<uint8_t>(prm::cmd_status::bad_resource);
        return nullptr;
    }
    const Mem& mem = *(*umem)->mem;
    *status = static_cast<uint8_t>(prm::cmd_status::bad_param);
    if (offset != 0 && !(*umem)->offsets) return nullptr;  // the page size was not bounded at registration
    if (offset > mem.length || length > mem.length - offset) return nullptr;
    if (reinterpret_cast<uintptr_t>(mem.base + offset) % align != 0) return nullptr;
    *status = static_cast<uint8_t>(prm::cmd_status::ok);
    return mem.base + offset;
}

Pd* Hca::alloc_pd(Context* ctx, int* err) {
    if (const Failure f = next_failure(*config_, "alloc_pd")) {
        counters_.add(count_faults_injected);
        return *err = f.error, nullptr;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    auto pd = std::make_unique<Pd>();
    pd->number = next_pd_++ & 0xffffff;
    pd->ctx = ctx;
    pd->pub.context = &ctx->pub;
    pd->pub.handle = pd->number;
    ctx->pds++;
    return (pds_[pd->number] = std::move(pd)).get();
}

int Hca::dealloc_pd(Pd* pd) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (pd->refs != 0) return EBUSY;
    pd->ctx->pds--;
    pds_.erase(pd->number);
    return 0;
}

Pd* Hca::find_pd(Context* ctx, uint32_t number) {
    auto it = pds_.find(number);
    return it != pds_.end() && it->second->ctx == ctx ? it->second.get() : nullptr;
}

}  // namespace pgas::softhca
