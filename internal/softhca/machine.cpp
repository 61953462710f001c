#include "machine.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace pgas::softhca {

Machine& machine() {
    static Machine* const m = new Machine;  // never destroyed: engines may outlive static destructors
    return *m;
}

void Machine::set_up_locked(std::shared_ptr<Config> config) {
    config_ = std::move(config);
    current_.clear();
    for (const DeviceConfig& dc : config_->devices) {
        devices_.emplace_back();
        Device& d = devices_.back();
        d.config = config_;
        d.info.config = dc;
        d.info.randomize();
        d.pub.node_type = IBV_NODE_CA;
        d.pub.transport_type = IBV_TRANSPORT_IB;
        const size_t index = current_.size();
        std::snprintf(d.pub.name, sizeof d.pub.name, "%s", dc.name.c_str());
        std::snprintf(d.pub.dev_name, sizeof d.pub.dev_name, "uverbs%zu", index);
        std::snprintf(d.pub.ibdev_path, sizeof d.pub.ibdev_path, "/sys/class/infiniband/%s", dc.name.c_str());
        std::snprintf(d.pub.dev_path, sizeof d.pub.dev_path, "/sys/class/infiniband_verbs/uverbs%zu", index);
        current_.push_back(&d);
    }
}

int Machine::configure(const std::string& spec, std::string* err) {
    auto config = parse_config(spec, err);
    if (config == nullptr) return EINVAL;
    std::lock_guard<std::mutex> lock(mutex_);
    retired_ = {};
    set_up_locked(std::move(config));
    return 0;
}

std::shared_ptr<Config> Machine::config() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (config_ == nullptr) {
        std::string err;
        set_up_locked(parse_config("", &err));
    }
    return config_;
}

ibv_device** Machine::device_list(int* n) {
    config();
    std::lock_guard<std::mutex> lock(mutex_);
    auto** list = static_cast<ibv_device**>(std::calloc(current_.size() + 1, sizeof(ibv_device*)));
    if (list == nullptr) return nullptr;
    for (size_t i = 0; i < current_.size(); i++) list[i] = &current_[i]->pub;
    if (n != nullptr) *n = static_cast<int>(current_.size());
    return list;
}

Device* Machine::find_device(ibv_device* pub) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (Device& d : devices_) {
        if (&d.pub == pub) return &d;
    }
    return nullptr;
}

std::shared_ptr<Hca> Machine::open(Device* device, Context* ctx, int* err) {
    std::lock_guard<std::mutex> opening(open_mutex_);
    std::shared_ptr<Hca> hca;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        hca = device->hca.lock();
    }
    if (hca == nullptr) hca = Hca::open(device->config, &device->info, err);
    if (hca == nullptr) return nullptr;
    hca->add_context(ctx);
    std::lock_guard<std::mutex> lock(mutex_);
    device->hca = hca;
    contexts_++;
    return hca;
}

void Machine::close(Context* ctx) {
    std::lock_guard<std::mutex> opening(open_mutex_);
    std::shared_ptr<Hca> hca = std::move(ctx->hca);
    const bool last = hca->remove_context(ctx);
    softhca_counts counts = {};
    if (last) hca->count_into(&counts);
    std::lock_guard<std::mutex> lock(mutex_);
    contexts_--;
    if (!last) return;
    const uint64_t* from = reinterpret_cast<const uint64_t*>(&counts);
    uint64_t* to = reinterpret_cast<uint64_t*>(&retired_);
    for (uint32_t i = 0; i < counter_total; i++) to[i] += from[i];
    for (Device& d : devices_) {
        if (d.hca.lock() == hca) d.hca.reset();
    }
}

std::vector<std::shared_ptr<Hca>> Machine::open_hcas() {
    std::vector<std::shared_ptr<Hca>> out;
    std::lock_guard<std::mutex> lock(mutex_);
    for (Device& d : devices_) {
        if (auto hca = d.hca.lock()) out.push_back(std::move(hca));
    }
    return out;
}

std::shared_ptr<Hca> Machine::find_hca(const Address& a) {
    for (auto& hca : open_hcas()) {
        if (hca->answers_to(a)) return hca;
    }
    return nullptr;
}

void Machine::set_hooks(const softhca_hooks* hooks) {
    std::lock_guard<std::mutex> lock(mutex_);
    hooks_ = hooks != nullptr ? *hooks : softhca_hooks{};
}

softhca_hooks Machine::hooks() {
    std::lock_guard<std::mutex> lock(mutex_);
    return hooks_;
}

void Machine::register_uar(UarPage* page) {
    std::lock_guard<std::mutex> lock(uar_mutex_);
    uars_[reinterpret_cast<uintptr_t>(page->base)] = page;
}

void Machine::unregister_uar(UarPage* page) {
    std::lock_guard<std::mutex> lock(uar_mutex_);
    uars_.erase(reinterpret_cast<uintptr_t>(page->base));
}

int Machine::mmio_store(void* reg, uint64_t value) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(reg), base = at & ~uintptr_t{prm::uar_page_bytes - 1};
    UarPage* page = nullptr;
    {
        std::lock_guard<std::mutex> lock(uar_mutex_);
        auto it = uars_.find(base);
        if (it == uars_.end()) return EFAULT;
        page = it->second;
    }
    page->hca->doorbell(page, at - base, value);
    return 0;
}

void Machine::counters(softhca_counts* out) {
    const auto hcas = open_hcas();
    {
        std::lock_guard<std::mutex> lock(mutex_);
        *out = retired_;
    }
    for (auto& hca : hcas) hca->count_into(out);
}

int Machine::qp_counters(uint32_t qpn, softhca_counts* out) {
    *out = {};
    for (auto& hca : open_hcas()) {
        if (Qp* qp = hca->find(qpn)) {
            accumulate(out, qp->counters);
            out->doorbells += qp->doorbells.load(std::memory_order_relaxed);
            return 0;
        }
    }
    return ENOENT;
}

void Machine::live(softhca_objects* out) {
    *out = {};
    for (auto& hca : open_hcas()) hca->live(out);
    std::lock_guard<std::mutex> lock(mutex_);
    out->contexts = contexts_;
}

}  // namespace pgas::softhca
