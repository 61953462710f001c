// Opening, closing, and what an HCA does outside commands and the data path.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <thread>

#include "engine.h"
#include "idle.h"
#include "link_shm.h"
#include "machine.h"
#include "service.h"
#include "wire_shm.h"

namespace pgas::softhca {

SharedMapping::~SharedMapping() {
    if (state != nullptr) munmap(state, sizeof(Shared));
}

void DeviceInfo::randomize() {
    std::random_device rd;
    const uint32_t a = rd(), b = rd();
    mac[0] = 0x02;  // locally administered
    mac[1] = static_cast<uint8_t>(a >> 24);
    for (int i = 0; i < 4; i++) mac[2 + i] = static_cast<uint8_t>(b >> (8 * i));
    ipv4[0] = 10;
    for (int i = 0; i < 3; i++) ipv4[1 + i] = static_cast<uint8_t>(a >> (8 * i));
    lid = config.lid != 0 ? config.lid : static_cast<uint16_t>(1 + rd() % 0xbffe);
    gids = config.gids;
    if (!gids.empty()) return;
    if (config.infiniband) {
        gids = {GidKind::ib};
    } else {
        gids = {GidKind::link_local_v1, GidKind::link_local_v2, GidKind::ipv4_v1, GidKind::ipv4_v2};
    }
}

bool DeviceInfo::gid(uint32_t index, uint8_t out[16]) const {
    if (index >= gids.size() || gids[index] == GidKind::hole) return false;
    std::memset(out, 0, 16);
    if (gids[index] == GidKind::ipv4_v1 || gids[index] == GidKind::ipv4_v2) {
        out[10] = out[11] = 0xff;
        std::memcpy(out + 12, ipv4, 4);
        return true;
    }
    out[0] = 0xfe;
    out[1] = 0x80;
    out[8] = mac[0] ^ 2;  // EUI-64
    out[9] = mac[1];
    out[10] = mac[2];
    out[11] = 0xff;
    out[12] = 0xfe;
    std::memcpy(out + 13, mac + 3, 3);
    return true;
}

Hca::Hca(std::shared_ptr<Config> config, DeviceInfo* device)
    : config_(std::move(config)), device_(device), qps_(new std::atomic<Qp*>[max_qps]), key_used_(max_mkeys) {
    for (uint32_t i = 0; i < max_qps; i++) qps_[i].store(nullptr, std::memory_order_relaxed);
    key_used_[0] = key_used_[1] = true;  // lkey 0x100 pads receive WQEs
    generation_ = std::random_device{}() & 0x1f;
}

Hca::~Hca() {
    shut_down();
    if (shared_fd_ >= 0) close(shared_fd_);
    if (bell_ != nullptr) munmap(bell_, 4096);
    if (bell_fd_ >= 0) close(bell_fd_);
}

std::shared_ptr<Hca> Hca::open(std::shared_ptr<Config> config, DeviceInfo* device, int* err) {
    std::shared_ptr<Hca> hca(new Hca(std::move(config), device));
    return hca->start(err) ? hca : nullptr;
}

bool Hca::start(int* err) {
    shared_fd_ = memfd_create("pgas-softhca", MFD_CLOEXEC);
    if (shared_fd_ < 0 || ftruncate(shared_fd_, sizeof(Shared)) != 0) return *err = errno, false;
    void* p = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd_, 0);
    if (p == MAP_FAILED) return *err = errno, false;
    mapping_ = std::make_shared<SharedMapping>();
    mapping_->state = shared_ = static_cast<Shared*>(p);
    const softhca_hooks hooks = machine().hooks();
    if (hooks.bell_fd != nullptr) bell_fd_ = fcntl(hooks.bell_fd(), F_DUPFD_CLOEXEC, 3);
    if (bell_fd_ >= 0) {
        void* b = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, bell_fd_, 0);
        if (b == MAP_FAILED) return *err = errno, false;
        bell_ = static_cast<Bell*>(b);
    }
    wire_ = std::make_unique<ShmWire>(*this);
    for (int attempt = 0; (*err = wire_->listen(addresses())) == EADDRINUSE && !device_->published && attempt < 16;) {
        attempt++;
        device_->randomize();  // another process drew the same address
    }
    if (*err != 0) return false;
    device_->published = true;
    service_ = std::make_unique<Service>(*this);
    switch (config_->mode) {
        case Mode::inline_mode:
            engine_ = make_inline_engine(*this);
            break;
        case Mode::thread:
            engine_ = make_thread_engine(*this);
            break;
        case Mode::chaos:
            engine_ = make_chaos_engine(*this);
            break;
    }
    shared_->alive.store(1, std::memory_order_relaxed);
    shared_->magic.store(shared_magic, std::memory_order_release);
    if (!service_->start()) return *err = EAGAIN, false;
    return true;
}

void Hca::shut_down() {
    if (shared_ != nullptr) shared_->alive.store(0, std::memory_order_release);
    if (engine_) engine_->stop();
    if (service_) service_->stop();
    wire_.reset();
}

void Hca::add_context(Context* ctx) {
    std::lock_guard<std::mutex> lock(contexts_mutex_);
    ctx->uid = next_uid_++;
    contexts_.push_back(ctx);
}

bool Hca::remove_context(Context* ctx) {
    reclaim(ctx);
    bool last = false;
    {
        std::lock_guard<std::mutex> lock(contexts_mutex_);
        for (size_t i = 0; i < contexts_.size(); i++) {
            if (contexts_[i] == ctx) contexts_.erase(contexts_.begin() + static_cast<ptrdiff_t>(i--));
        }
        last = contexts_.empty();
    }
    if (last) shut_down();
    return last;
}

std::vector<Address> Hca::addresses() const {
    std::vector<Address> out;
    for (uint32_t i = 0; i < device_->gids.size(); i++) {
        Address a;
        if (!device_->gid(i, a.gid)) continue;
        bool known = false;
        for (const Address& o : out) known = known || o == a;
        if (!known) out.push_back(a);
    }
    if (device_->config.infiniband) {
        Address a;
        a.by_lid = true;
        a.lid = device_->lid;
        out.push_back(a);
    }
    return out;
}

bool Hca::has_address(uint64_t hi, uint64_t lo) const {
    if (device_->config.infiniband && hi == ~0ull && lo == device_->lid) return true;
    uint8_t gid[16];
    for (uint32_t i = 0; i < device_->gids.size(); i++) {
        if (device_->gid(i, gid) && load_be64(gid) == hi && load_be64(gid + 8) == lo) return true;
    }
    return false;
}

bool Hca::answers_to(const Address& a) const { return has_address(a.hi(), a.lo()); }

void Hca::ring_own_bell() { ring(bell_, counters_); }

std::shared_ptr<Mem> Hca::mem(uint64_t id) {
    std::lock_guard<std::mutex> lock(mem_mutex_);
    auto it = mems_.find(id);
    return it == mems_.end() ? nullptr : it->second.lock();
}

void Hca::fail_qp(QpShared* qp) {
    qp->state.store(static_cast<uint32_t>(prm::qp_state::err), std::memory_order_release);
    shared_->dirty.store(1, std::memory_order_release);
    service_->kick();
}

// Runs queue pairs in ERR, so that they flush, and completes their receive WQEs.
void Hca::flush_failed() {
    const uint32_t high = shared_->qp_high.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < high; i++) {
        QpShared& s = shared_->qps[i];
        if (s.ident.load() == 0 || s.state.load() != static_cast<uint32_t>(prm::qp_state::err)) continue;
        Qp* qp = at(i);
        if (qp == nullptr) continue;
        if (s.has_rq.load() != 0) {
            lock_qp(qp);
            engine_->settle(*qp);  // else its own guards stay taken while we hold it
            if (qp->qpn.load() != 0 && s.state.load() == static_cast<uint32_t>(prm::qp_state::err) &&
                quiesce_one(&s) == 0) {
                flush_receive(*this, *qp);
            }
            unlock_qp(qp);
        }
        engine_->ring(*qp, -1);
    }
}

void Hca::wake_all() {
    const uint32_t high = shared_->qp_high.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < high; i++) {
        Qp* qp = at(i);
        if (qp == nullptr || qp->qpn.load() == 0) continue;
        qp->wake.store(1, std::memory_order_release);
        engine_->ring(*qp, -1);
    }
}

// A queue pair got no answer: perhaps its peer was not there when it connected.
void Hca::try_link(uint32_t index) {
    Qp* qp = at(index);
    if (qp == nullptr) return;
    lock_qp(qp);
    const bool need = qp->qpn.load() != 0 && (qp->link == nullptr || !qp->link->alive()) && qp->remote_qpn != 0;
    const Address to = qp->remote;
    unlock_qp(qp);
    if (!need) return;
    std::shared_ptr<Link> link = wire_->connect(to, 100);
    if (link == nullptr) return;
    lock_qp(qp);
    if (qp->qpn.load() != 0 && qp->remote == to) {
        engine_->settle(*qp);
        qp->link = std::move(link);
    }
    unlock_qp(qp);
}

// A requester process died, perhaps while it held guards.
void Hca::forget_client(uint32_t client) {
    const uint32_t high = shared_->qp_high.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < high; i++) {
        QpShared& s = shared_->qps[i];
        if (s.holder.load() != client) continue;
        const uint32_t v = s.remote_guard.load();
        if (v & 1) s.remote_guard.store(v + 1);
    }
}

int Hca::quiesce_one(QpShared* qp) {
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    for (A32* guard : {&qp->local_guard, &qp->remote_guard}) {
        const uint32_t seen = guard->load(std::memory_order_seq_cst);
        if ((seen & 1) == 0) continue;
        for (int spins = 0; guard->load(std::memory_order_acquire) == seen; spins++) {
            if (spins < 100) {
                sched_yield();
                continue;
            }
            if (Clock::now() > deadline) return ETIMEDOUT;
            usleep(100);
        }
    }
    return 0;
}

int Hca::quiesce() {
    const uint32_t high = shared_->qp_high.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < high; i++) {
        const int err = quiesce_one(&shared_->qps[i]);
        if (err != 0) return err;
    }
    return 0;
}

void Hca::lock_qp(Qp* qp) {
    qp->commands_waiting.fetch_add(1, std::memory_order_seq_cst);
    while (!try_own(*qp)) sched_yield();
    qp->commands_waiting.fetch_sub(1, std::memory_order_seq_cst);
}

void Hca::unlock_qp(Qp* qp) {
    qp->owner.exchange(0, std::memory_order_seq_cst);
    // An engine may have stepped back for this command, so it gets its turn now.
    if (qp->qpn.load(std::memory_order_acquire) != 0) engine_->ring(*qp, -1);
}

void Hca::port_goes_down() {
    if (shared_->port_down.exchange(1) != 0) return;
    std::lock_guard<std::mutex> lock(contexts_mutex_);
    for (Context* ctx : contexts_) {
        ibv_async_event e = {};
        e.element.port_num = 1;
        e.event_type = IBV_EVENT_PORT_ERR;
        std::lock_guard<std::mutex> events(ctx->event_mutex);
        ctx->events.push_back(e);
        const uint64_t one = 1;
        [[maybe_unused]] const ssize_t n = write(ctx->pub.async_fd, &one, sizeof one);
    }
}

void Hca::count_into(softhca_counts* out) {
    accumulate(out, counters_);
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto& qp : qp_store_) {
        accumulate(out, qp->counters);
        out->doorbells += qp->doorbells.load(std::memory_order_relaxed);
    }
}

void Hca::live(softhca_objects* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    out->pds += static_cast<uint32_t>(pds_.size());
    out->mkeys += live_mkeys_;
    out->umems += static_cast<uint32_t>(umems_.size());
    out->uars += live_uars_;
    out->cqs += live_cqs_;
    out->qps += live_qps_;
}

}  // namespace pgas::softhca
