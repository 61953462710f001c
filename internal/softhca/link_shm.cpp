#include "link_shm.h"

#include <sys/mman.h>
#include <unistd.h>

#include <climits>

#include "idle.h"
#include "service.h"
#include "wire_message.h"

namespace pgas::softhca {

void ring(Bell* bell, SharedCounters& counters) {
    if (bell == nullptr) return;
    // What was placed must be visible before we look whether somebody sleeps; the sleeper does the reverse.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (bell->sleepers.load(std::memory_order_relaxed) == 0) return;
    counters.add(count_bells_rung);
    bell->seq.fetch_add(1, std::memory_order_relaxed);
    futex_wake(&bell->seq, INT_MAX, true);
}

// The responder must be connected to this very queue pair: others' requests are dropped, as hardware drops packets.
bool SharedLink::begin(Qp& qp) {
    QpShared* target = find_qp(mapping_->state, qp.remote_qpn);
    if (target == nullptr) return false;
    if (target->remote_qpn.load(std::memory_order_relaxed) != qp.shared->ident.load(std::memory_order_relaxed))
        return false;
    const uint64_t hi = target->remote_gid_hi.load(std::memory_order_relaxed);
    const uint64_t lo = target->remote_gid_lo.load(std::memory_order_relaxed);
    if (!own_.has_address(hi, lo)) return false;
    target->holder.store(client_, std::memory_order_relaxed);
    const uint32_t v = target->remote_guard.load(std::memory_order_relaxed);
    target->remote_guard.store(v + 1, std::memory_order_seq_cst);
    return true;
}

void SharedLink::end(Qp& qp) {
    QpShared* target = &mapping_->state->qps[qp.remote_qpn & (max_qps - 1)];
    const uint32_t v = target->remote_guard.load(std::memory_order_relaxed);
    target->remote_guard.store(v + 1, std::memory_order_release);
}

Answer SharedLink::execute(Qp& qp, Request& request, Effects& effects) {
    QpShared* target = find_qp(mapping_->state, qp.remote_qpn);
    if (target == nullptr || !alive()) return {Reply::silent};
    if (mapping_->state->port_down.load(std::memory_order_relaxed) != 0) return {Reply::silent};
    return respond(*this, qp, *target, request, effects);
}

LocalLink::LocalLink(Hca& own, const std::shared_ptr<Hca>& peer)
    : SharedLink(own, peer->mapping(), 0), peer_(peer), same_(peer.get() == &own ? &own : nullptr) {}

uint8_t* LocalLink::resolve(const MemRef& ref, uint64_t offset, bool* refused) {
    const uint64_t va = ref.local_va.load(std::memory_order_relaxed);
    if (va == 0) {
        *refused = true;
        return nullptr;
    }
    return reinterpret_cast<uint8_t*>(va + offset);
}

void LocalLink::kick() {
    if (same_ != nullptr) {
        same_->service().kick();
    } else if (auto peer = peer_.lock()) {
        peer->service().kick();
    }
}

void LocalLink::ring_bell(SharedCounters& counters) { ring(own_.bell(), counters); }

ShmLink::ShmLink(Hca& own, std::shared_ptr<SharedMapping> peer, uint32_t client, Address to, int socket, int kick_fd,
                 Bell* bell)
    : SharedLink(own, std::move(peer), client), to_(to), socket_(socket), kick_fd_(kick_fd), bell_(bell) {}

ShmLink::~ShmLink() {
    close(socket_);
    close(kick_fd_);
    if (bell_ != nullptr) munmap(bell_, 4096);
}

ShmLink::Mapping::~Mapping() {
    if (at != nullptr) munmap(at, size);
}

uint8_t* ShmLink::resolve(const MemRef& ref, uint64_t offset, bool* refused) {
    const uint64_t mem = ref.mem.load(std::memory_order_relaxed);
    const uint64_t at = ref.offset.load(std::memory_order_relaxed) + offset;
    std::atomic<Mapping*>& slot = cache_[mem % cache_slots];
    Mapping* m = slot.load(std::memory_order_acquire);
    if (m == nullptr || m->mem != mem) {
        std::lock_guard<std::mutex> lock(mutex_);
        auto it = mappings_.find(mem);
        if (it == mappings_.end()) {
            if (!requested_[mem]) {
                Message ask = {};
                ask.type = MessageType::get_mem;
                ask.mem = mem;
                requested_[mem] = send_message(socket_, ask, {});
            }
            return nullptr;
        }
        m = it->second.get();
        slot.store(m, std::memory_order_release);
    }
    if (m->base == nullptr) {
        *refused = true;
        return nullptr;
    }
    return m->base + at;
}

void ShmLink::add_mapping(uint64_t mem, int fd, uint64_t length, uint64_t offset, int status) {
    auto m = std::make_unique<Mapping>();
    m->mem = mem;
    const uint64_t skew = offset & 4095;
    if (status == 0 && fd >= 0) {
        void* at =
            mmap(nullptr, length + skew, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset - skew));
        if (at != MAP_FAILED) {
            m->at = at;
            m->size = length + skew;
            m->base = static_cast<uint8_t*>(at) + skew;
        }
    }
    std::lock_guard<std::mutex> lock(mutex_);
    requested_.erase(mem);
    mappings_[mem] = std::move(m);
}

void ShmLink::drop_mapping(uint64_t mem) {
    std::unique_ptr<Mapping> gone;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        requested_.erase(mem);
        auto it = mappings_.find(mem);
        if (it == mappings_.end()) return;
        gone = std::move(it->second);
        mappings_.erase(it);
        Mapping* expected = gone.get();
        cache_[mem % cache_slots].compare_exchange_strong(expected, nullptr);
    }
    // Engines that found the mapping before are inside their guards. One that does not come out keeps it mapped.
    if (own_.quiesce() != 0) static_cast<void>(gone.release());
}

void ShmLink::kick() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(kick_fd_, &one, sizeof one);
}

void ShmLink::ring_bell(SharedCounters& counters) { ring(bell_, counters); }

}  // namespace pgas::softhca
