// UAR pages, doorbell registers, and what a store to one means.
#include <sys/mman.h>

#include <cerrno>

#include "engine.h"
#include "machine.h"

namespace pgas::softhca {
namespace {

// Registers per page: R hands out 2 BlueFlame registers of 512 bytes or 4 non-cached ones of 256.
constexpr uint32_t bf_stride = 512;

uint32_t stride_of(uint32_t type) { return type == PGAS_MLX5_UAR_BF ? bf_stride : prm::nc_doorbell_stride; }
uint32_t slots_of(uint32_t type) { return type == PGAS_MLX5_UAR_BF ? 2 : 4; }

void store_callback(void* ctx, uint64_t off, uint64_t val) {
    auto* page = static_cast<UarPage*>(ctx);
    page->hca->doorbell(page, off, val);
}

}  // namespace

UarPage* Hca::new_uar_page(uint32_t type, int* err) {
    // No access at all: a plain load or store is a mistake that would be lost silently on some hosts.
    void* base = mmap(nullptr, prm::uar_page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return *err = errno, nullptr;
    auto page = std::make_unique<UarPage>();
    page->hca = this;
    page->base = static_cast<uint8_t*>(base);
    page->page_id = next_uar_++ & 0xffffff;
    page->type = type;
    const softhca_hooks hooks = machine().hooks();
    if (hooks.mmio_register != nullptr) {
        *err = hooks.mmio_register(base, prm::uar_page_bytes, store_callback, page.get());
        if (*err != 0) {
            munmap(base, prm::uar_page_bytes);
            return nullptr;
        }
        page->registered = true;
    }
    machine().register_uar(page.get());
    return (uar_pages_[page->page_id] = std::move(page)).get();
}

void Hca::drop_uar_page(UarPage* page) {
    const softhca_hooks hooks = machine().hooks();
    if (page->registered && hooks.mmio_unregister != nullptr) hooks.mmio_unregister(page->base);
    machine().unregister_uar(page);
    munmap(page->base, prm::uar_page_bytes);
    uar_pages_.erase(page->page_id);
}

Uar* Hca::alloc_uar(Context* ctx, uint32_t type, int* err) {
    if (const Failure f = next_failure(*config_, "alloc_uar")) {
        counters_.add(count_faults_injected);
        return *err = f.error, nullptr;
    }
    const bool dedicated = type == PGAS_MLX5_UAR_NC_DEDICATED;
    if (type > PGAS_MLX5_UAR_NC && !dedicated) return *err = EOPNOTSUPP, nullptr;
    if (config_->no_uar & (dedicated ? 4u : 1u << type)) return *err = EOPNOTSUPP, nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    UarPage* page = type == PGAS_MLX5_UAR_NC ? ctx->shared_nc : nullptr;
    uint32_t slot = 0;
    if (type != PGAS_MLX5_UAR_NC) {
        for (auto& p : uar_pages_) {
            UarPage* c = p.second.get();
            if (c->type != type || c->ctx != ctx || c->slots == (1u << slots_of(type)) - 1) continue;
            page = c;
            break;
        }
    }
    if (page == nullptr) {
        page = new_uar_page(type, err);
        if (page == nullptr) return nullptr;
        page->ctx = ctx;
        if (type == PGAS_MLX5_UAR_NC) ctx->shared_nc = page;
    }
    if (type != PGAS_MLX5_UAR_NC) {
        while (page->slots & (1u << slot)) slot++;
        page->slots |= 1u << slot;
    }
    page->refs++;
    auto* uar = new Uar;
    uar->ctx = ctx;
    uar->page = page;
    uar->slot = slot;
    uar->pub.base_addr = page->base;
    uar->pub.reg_addr = page->base + prm::uar_doorbell_offset + slot * stride_of(type);
    uar->pub.page_id = page->page_id;
    uar->pub.mmap_off = static_cast<off_t>(page->page_id) << 12;
    ctx->uars++;
    live_uars_++;
    uars_.insert(uar);
    return uar;
}

// Queues may still name the page; it stays until they are gone, as the device keeps it.
void Hca::free_uar_locked(Uar* uar) {
    UarPage* page = uar->page;
    page->slots &= ~(1u << uar->slot);
    page->refs--;
    uar->ctx->uars--;
    live_uars_--;
    uars_.erase(uar);
    if (page->refs == 0 && page->ctx->shared_nc == page) page->ctx->shared_nc = nullptr;
    if (page->refs == 0 && page->users == 0) drop_uar_page(page);
    delete uar;
}

void Hca::free_uar(Uar* uar) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_uar_locked(uar);
}

void Hca::unuse_uar(UarPage* page) {
    page->users--;
    if (page->refs == 0 && page->users == 0) drop_uar_page(page);
}

UarPage* Hca::find_uar(Context* ctx, uint32_t page_id) {
    auto it = uar_pages_.find(page_id);
    return it != uar_pages_.end() && it->second->ctx == ctx && it->second->refs != 0 ? it->second.get() : nullptr;
}

// The data path's entrance. The value is what the CPU stored: two big-endian words in memory order.
void Hca::doorbell(UarPage* page, uint64_t offset, uint64_t value) {
    const uint32_t word0 = __builtin_bswap32(static_cast<uint32_t>(value));
    const uint32_t word1 = __builtin_bswap32(static_cast<uint32_t>(value >> 32));
    const uint64_t in_area = offset - prm::uar_doorbell_offset;
    if (offset < prm::uar_doorbell_offset || in_area % prm::nc_doorbell_stride != 0) {
        counters_.add(count_doorbells_ignored);
        return;
    }
    Qp* qp = find(word1 >> 8);
    if (qp == nullptr || qp->uar_page.load(std::memory_order_relaxed) != page->page_id) {
        counters_.add(count_doorbells);
        counters_.add(count_doorbells_ignored);
        return;
    }
    qp->doorbells.fetch_add(1, std::memory_order_relaxed);
    const auto state = static_cast<prm::qp_state>(qp->shared->state.load(std::memory_order_acquire));
    if ((state != prm::qp_state::rts && state != prm::qp_state::err) || qp->depth == 0) {
        counters_.add(count_doorbells_ignored);
        return;
    }
    // Both forms in use: the last WQE's index with its DS, or the next free index with DS 0.
    const uint16_t index = static_cast<uint16_t>((word0 >> 8) + ((word1 & 0x3f) + 3) / 4);
    const uint32_t raw = __atomic_load_n(reinterpret_cast<const uint32_t*>(qp->dbr + 4), __ATOMIC_RELAXED);
    const uint16_t recorded = static_cast<uint16_t>(__builtin_bswap32(raw));
    if (static_cast<int16_t>(index - recorded) > 0) counters_.add(count_doorbell_ahead_of_record);
    engine_->ring(*qp, index);
}

}  // namespace pgas::softhca
