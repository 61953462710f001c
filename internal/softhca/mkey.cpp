// Memory regions and memory keys.
#include <cerrno>

#include "hca.h"

namespace pgas::softhca {
namespace {

constexpr uint8_t ok = static_cast<uint8_t>(prm::cmd_status::ok);
constexpr uint8_t bad_param = static_cast<uint8_t>(prm::cmd_status::bad_param);

// The flags of ibv_reg_mr, or false when the kernel would refuse them.
bool convert_access(uint32_t flags, uint32_t* out) {
    constexpr uint32_t optional = 0x3ff00000, known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                                      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                                      IBV_ACCESS_ZERO_BASED;
    if ((flags & ~optional & ~known) != 0) return false;
    const bool writes = flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    if (writes && !(flags & IBV_ACCESS_LOCAL_WRITE)) return false;
    *out = (flags & IBV_ACCESS_LOCAL_WRITE ? acc_local_write : 0) |
           (flags & IBV_ACCESS_REMOTE_WRITE ? acc_remote_write : 0) |
           (flags & IBV_ACCESS_REMOTE_READ ? acc_remote_read : 0) |
           (flags & IBV_ACCESS_REMOTE_ATOMIC ? acc_remote_atomic : 0) |
           (flags & IBV_ACCESS_RELAXED_ORDERING ? acc_relaxed : 0);
    return true;
}

}  // namespace

int Hca::free_key_slot() {
    for (uint32_t i = 0; i < max_mkeys; i++) {
        const uint32_t index = (next_key_ + i) & (max_mkeys - 1);
        if (key_used_[index]) continue;
        next_key_ = index + 1;
        return static_cast<int>(index);
    }
    return -1;
}

// The index part of a key has 24 bits; what the table does not need counts the uses of the slot, so that a stale key
// of a freed region does not fit its successor.
uint32_t Hca::publish_key(uint32_t index, uint8_t variant, uint32_t pd, uint32_t access, uint64_t start,
                          uint64_t length, const std::shared_ptr<Mem>& mem, uint64_t mem_offset) {
    key_used_[index] = true;
    live_mkeys_++;
    const uint32_t generation = key_generation_[index]++ & ((1u << (24 - log_max_mkeys)) - 1);
    const uint32_t key = (generation << log_max_mkeys | index) << 8 | variant;
    MkeyShared& m = shared_->mkeys[index];
    m.pd.store(pd, std::memory_order_relaxed);
    m.access.store(access, std::memory_order_relaxed);
    m.start.store(start, std::memory_order_relaxed);
    m.length.store(length, std::memory_order_relaxed);
    m.mem.mem.store(mem->id, std::memory_order_relaxed);
    m.mem.offset.store(mem_offset, std::memory_order_relaxed);
    m.mem.local_va.store(reinterpret_cast<uintptr_t>(mem->base + mem_offset), std::memory_order_relaxed);
    m.key.store(key, std::memory_order_release);
    return key;
}

// After this no engine uses the key's memory.
int Hca::retire_key(uint32_t index) {
    shared_->mkeys[index].key.store(0, std::memory_order_seq_cst);
    const int err = quiesce();
    if (err != 0) return err;
    key_used_[index] = false;
    live_mkeys_--;
    return 0;
}

Mr* Hca::finish_mr(Pd* pd, std::shared_ptr<Mem> mem, void* addr, size_t length, uint64_t iova, uint32_t access,
                   int* err) {
    const int index = free_key_slot();
    if (index < 0) {
        drop_mem(mem);
        return *err = ENOMEM, nullptr;
    }
    auto* mr = new Mr;
    mr->index = static_cast<uint32_t>(index);
    mr->pd = pd;
    mr->mem = std::move(mem);
    const uint32_t key =
        publish_key(mr->index, static_cast<uint8_t>(next_variant_++), pd->number, access, iova, length, mr->mem, 0);
    mr->pub.context = pd->pub.context;
    mr->pub.pd = &pd->pub;
    mr->pub.addr = addr;
    mr->pub.length = length;
    mr->pub.handle = mr->index;
    mr->pub.lkey = mr->pub.rkey = key;
    pd->refs++;
    pd->ctx->mrs++;
    mrs_.insert(mr);
    return mr;
}

Mr* Hca::reg_mr(Pd* pd, void* addr, size_t length, uint64_t iova, uint32_t flags, int* err) {
    uint32_t access = 0;
    if (const Failure f = next_failure(*config_, "reg_mr")) {
        counters_.add(count_faults_injected);
        return *err = f.error, nullptr;
    }
    if (!convert_access(flags, &access) || length == 0 || iova + length < iova) return *err = EINVAL, nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    if (!pin(length, err)) return nullptr;
    const bool remote = access & (acc_remote_write | acc_remote_read | acc_remote_atomic);
    auto mem = new_mem(addr, length, remote, err);
    if (mem == nullptr) {
        pinned_ -= length;
        return nullptr;
    }
    return finish_mr(pd, std::move(mem), addr, length, iova, access, err);
}

Mr* Hca::reg_dmabuf_mr(Pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, uint32_t flags, int* err) {
    uint32_t access = 0;
    if (const Failure f = next_failure(*config_, "reg_dmabuf_mr")) {
        counters_.add(count_faults_injected);
        return *err = f.error, nullptr;
    }
    if (!convert_access(flags, &access) || length == 0 || iova + length < iova) return *err = EINVAL, nullptr;
    if ((offset & 4095) != (iova & 4095)) return *err = EINVAL, nullptr;  // as ibv_reg_dmabuf_mr demands
    std::lock_guard<std::mutex> lock(mutex_);
    if (!pin(length, err)) return nullptr;
    auto mem = map_dmabuf(fd, offset, length, err);
    if (mem == nullptr) {
        pinned_ -= length;
        return nullptr;
    }
    return finish_mr(pd, std::move(mem), nullptr, length, iova, access, err);
}

int Hca::dereg_mr(Mr* mr) {
    std::lock_guard<std::mutex> lock(mutex_);
    const int err = retire_key(mr->index);
    if (err != 0) return err;
    drop_mem(mr->mem);
    mr->pd->refs--;
    mr->pd->ctx->mrs--;
    mrs_.erase(mr);
    delete mr;
    return 0;
}

uint8_t Hca::create_mkey(Context* ctx, const uint8_t* in, uint8_t* out, mlx5dv_devx_obj** obj) {
    namespace f = prm::mkc;
    Reader cmd(in, prm::create_mkey_in::size);
    uint8_t context[f::size];
    cmd.take_bytes(prm::create_mkey_in::mkc, context, sizeof context);
    cmd.skip({prm::cmd_in::opcode, prm::cmd_in::uid, prm::create_mkey_in::translations_octword_actual_size});
    cmd.take(prm::create_mkey_in::mkey_umem_valid);  // the kernel sets it
    const uint32_t umem_id = cmd.take32(prm::create_mkey_in::mkey_umem_id);
    const uint64_t umem_offset = cmd.take(prm::create_mkey_in::mkey_umem_offset);
    Reader r(context, sizeof context);
    const uint32_t mode = r.take32(f::access_mode_1_0), qpn = r.take32(f::qpn), variant = r.take32(f::mkey_7_0);
    const uint64_t start = r.take(f::start_addr), length = r.take(f::len);
    const uint32_t pd_number = r.take32(f::pd);
    uint32_t access = r.take32(f::lw) ? acc_local_write : 0;
    access |= r.take32(f::rw) ? acc_remote_write : 0;
    access |= r.take32(f::rr) ? acc_remote_read : 0;
    access |= r.take32(f::a) ? acc_remote_atomic : 0;
    access |= r.take32(f::relaxed_ordering_write) ? acc_relaxed : 0;
    r.skip({f::lr, f::relaxed_ordering_read, f::translations_octword_size, f::log_page_size});
    if (!cmd.rest_is_zero() || !r.rest_is_zero()) return bad_param;
    if (mode != static_cast<uint32_t>(prm::access_mode::mtt) || qpn != prm::any_qpn) return bad_param;
    if (length == 0 || start + length < start) return bad_param;
    Pd* pd = find_pd(ctx, pd_number);
    if (pd == nullptr) return static_cast<uint8_t>(prm::cmd_status::bad_resource);
    Umem* umem = nullptr;
    uint8_t status = ok;
    if (umem_range(ctx, umem_id, umem_offset, length, 1, &umem, &status) == nullptr) return status;
    const bool writable = umem->access & IBV_ACCESS_LOCAL_WRITE;
    if (!writable && (access & (acc_local_write | acc_remote_write | acc_remote_atomic)) != 0) return bad_param;
    const int index = free_key_slot();
    if (index < 0) return static_cast<uint8_t>(prm::cmd_status::exceed_lim);
    auto* mkey = new DevxMkey;
    mkey->index = static_cast<uint32_t>(index);
    mkey->pd = pd;
    mkey->umem = umem;
    pd->refs++;
    umem->refs++;
    const uint32_t key = publish_key(mkey->index, static_cast<uint8_t>(variant), pd->number, access, start, length,
                                     umem->mem, umem_offset);
    mkey->obj.number = key >> 8;
    put(out, prm::create_mkey_out::mkey_index, key >> 8);
    devx_mkeys_.insert(mkey);
    *obj = &mkey->obj;
    return ok;
}

uint8_t Hca::destroy_mkey(DevxMkey* mkey) {
    if (retire_key(mkey->index) != 0) return static_cast<uint8_t>(prm::cmd_status::resource_busy);
    mkey->pd->refs--;
    mkey->umem->refs--;
    devx_mkeys_.erase(mkey);
    delete mkey;
    return ok;
}

}  // namespace pgas::softhca
