// What a process has of hardware: its RDMA devices. The vendors' entry points have no argument that could name it, so
// it is the one object of the process.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "hca.h"

namespace pgas::softhca {

struct Device {
    ibv_device pub = {};
    DeviceInfo info;
    std::shared_ptr<Config> config;
    std::weak_ptr<Hca> hca;  // while open
};

class Machine {
  public:
    int configure(const std::string& spec, std::string* err);
    ibv_device** device_list(int* n);
    Device* find_device(ibv_device* pub);
    // Opens the device for one more context, and closes it with the last.
    std::shared_ptr<Hca> open(Device* device, Context* ctx, int* err);
    void close(Context* ctx);
    std::shared_ptr<Hca> find_hca(const Address& a);
    std::shared_ptr<Config> config();

    void set_hooks(const softhca_hooks* hooks);
    softhca_hooks hooks();

    void register_uar(UarPage* page);
    void unregister_uar(UarPage* page);
    int mmio_store(void* reg, uint64_t value);

    void counters(softhca_counts* out);
    int qp_counters(uint32_t qpn, softhca_counts* out);
    void live(softhca_objects* out);

  private:
    void set_up_locked(std::shared_ptr<Config> config);
    std::vector<std::shared_ptr<Hca>> open_hcas();

    std::mutex mutex_;
    std::mutex open_mutex_;  // opening and closing, one at a time
    std::shared_ptr<Config> config_;
    std::list<Device> devices_;  // earlier configurations' devices stay: programs may hold pointers
    std::vector<Device*> current_;
    softhca_hooks hooks_ = {};
    std::mutex uar_mutex_;
    std::map<uintptr_t, UarPage*> uars_;
    softhca_counts retired_ = {};
    uint32_t contexts_ = 0;
};

Machine& machine();

}  // namespace pgas::softhca
