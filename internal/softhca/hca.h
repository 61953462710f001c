// The objects of one HCA. Commands run under Hca::mutex; the data path takes no lock but a queue pair's own.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "config.h"
#include "counters.h"
#include "mailbox.h"
#include "shared.h"
#include "softhca.h"
#include "wire.h"

namespace pgas::softhca {

class Engine;
class Service;
class ShmWire;
struct Context;

using Clock = std::chrono::steady_clock;

// Memory that an MR or umem lies in.
struct Mem {
    uint64_t id = 0;
    uint8_t* base = nullptr;
    size_t length = 0;
    int fd = -1;  // what peers map; -1: this process only
    uint64_t fd_offset = 0;
    bool mapped = false;  // by us, from a dma-buf
    ~Mem();
};

// The HCA's shared state, mapped here. Links keep it alive after the HCA is gone.
struct SharedMapping {
    Shared* state = nullptr;
    ~SharedMapping();
};

struct Pd {
    ibv_pd pub = {};
    uint32_t number = 0;
    Context* ctx = nullptr;
    uint32_t refs = 0;
};

struct Mr {
    ibv_mr pub = {};
    uint32_t index = 0;
    Pd* pd = nullptr;
    std::shared_ptr<Mem> mem;
};

struct Umem {
    mlx5dv_devx_umem pub = {};
    Context* ctx = nullptr;
    std::shared_ptr<Mem> mem;
    uint32_t access = 0;
    bool offsets = false;  // pgsz_bitmap was given
    uint32_t refs = 0;
};

struct UarPage {
    Hca* hca = nullptr;
    Context* ctx = nullptr;
    uint8_t* base = nullptr;
    uint32_t page_id = 0;
    uint32_t type = 0;
    uint32_t slots = 0;  // bit per register in use
    uint32_t refs = 0;   // of the shared NC register
    uint32_t users = 0;  // CQs and QPs
    bool registered = false;
};

struct Uar {
    mlx5dv_devx_uar pub = {};
    Context* ctx = nullptr;
    UarPage* page = nullptr;
    uint32_t slot = 0;
};

// A CQ as its writers see it.
struct CqView {
    CqShared* shared = nullptr;
    uint8_t* ring = nullptr;
    const uint8_t* dbr = nullptr;
};

enum class ObjType : uint8_t { cq, qp, mkey };

constexpr uint32_t completion_eqn = 7;  // the one event queue; nothing is ever put on it

}  // namespace pgas::softhca

struct mlx5dv_devx_obj {
    pgas::softhca::ObjType type;
    uint32_t number = 0;
    pgas::softhca::Context* ctx = nullptr;
};

namespace pgas::softhca {

struct Cq {
    mlx5dv_devx_obj obj{ObjType::cq};
    CqView view;
    uint8_t context[prm::cqc::size] = {};  // as created, for QUERY_CQ
    Umem* ring_umem = nullptr;
    Umem* dbr_umem = nullptr;
    UarPage* uar = nullptr;
    uint32_t refs = 0;
    uint32_t index = 0;
};

struct DevxMkey {
    mlx5dv_devx_obj obj{ObjType::mkey};
    uint32_t index = 0;
    Pd* pd = nullptr;
    Umem* umem = nullptr;
};

enum class Stall : uint8_t { none, delay, silent, rnr, wire, retry_now };

struct ChaosQueue;

// A queue pair. The fields of the second half belong to whoever holds `owner`.
struct Qp {
    mlx5dv_devx_obj obj{ObjType::qp};
    Hca* hca = nullptr;
    QpShared* shared = nullptr;
    uint32_t index = 0;
    std::atomic<uint32_t> qpn{0};  // 0: no such queue pair
    uint8_t context[prm::qpc::size] = {};
    Pd* pd = nullptr;
    UarPage* uar = nullptr;
    Cq* send_cq = nullptr;
    Cq* recv_cq = nullptr;
    Umem* wq_umem = nullptr;
    Umem* dbr_umem = nullptr;
    uint8_t* sq = nullptr;
    uint32_t depth = 0;  // BBs; 0: no send queue
    const uint8_t* dbr = nullptr;
    std::atomic<uint32_t> uar_page{0};

    alignas(64) std::atomic<uint32_t> owner{0};  // 1 while an engine or a command works on it
    std::atomic<uint32_t> pending{0};            // somebody wants it run again
    std::atomic<uint32_t> commands_waiting{0};   // the engine shall let go soon
    std::atomic<uint32_t> wake{0};               // a stall is over early
    std::atomic<uint32_t> queued{0};             // in the engine's ring
    std::atomic<int32_t> last_doorbell{-1};      // for chaos

    Address remote;
    std::shared_ptr<Link> link;
    uint32_t remote_qpn = 0;
    uint32_t psn = 0;
    uint32_t mtu = 256;
    uint8_t ack_timeout = 0, retry_count = 0, rnr_retry = 0;
    uint32_t log_sra_max = 0;
    uint64_t max_message = 0;
    uint32_t user_index = 0;
    uint16_t next = 0;  // first BB not executed
    bool first_error_seen = false;
    Stall stall = Stall::none;
    Clock::time_point due;
    uint32_t retries_left = 0, rnr_left = 0;
    bool delayed = false;    // the configured delay of the next WQE has passed
    bool link_open = false;  // between the link's begin and end
    bool link_bell = false;  // the peer's memory changed since its bell was rung
    bool own_bell = false;
    std::unique_ptr<ChaosQueue> chaos;
    std::atomic<uint64_t> doorbells{0};
    OwnedCounters counters;
    ~Qp();
};

struct Context {
    ibv_context pub = {};
    std::shared_ptr<Hca> hca;
    uint32_t uid = 0;
    UarPage* shared_nc = nullptr;
    uint32_t pds = 0, mrs = 0, umems = 0, uars = 0, objects = 0;
    std::mutex event_mutex;
    std::vector<ibv_async_event> events;
};

// What a device is, decided when the machine is configured.
struct DeviceInfo {
    DeviceConfig config;
    uint8_t mac[6] = {};
    uint16_t lid = 0;
    std::vector<GidKind> gids;

    uint8_t ipv4[4] = {};
    bool published = false;  // addresses stay as they are from the first opening on

    bool gid(uint32_t index, uint8_t out[16]) const;  // false: hole
    void randomize();
};

class Hca {
  public:
    static std::shared_ptr<Hca> open(std::shared_ptr<Config> config, DeviceInfo* device, int* err);
    ~Hca();
    // Contexts count; the last one stops the threads and unbinds the sockets.
    void add_context(Context* ctx);
    bool remove_context(Context* ctx);  // true: it was the last

    // Commands and verbs, all under the mutex. They return errno values.
    int command(Context* ctx, const uint8_t* in, size_t inlen, uint8_t* out, size_t outlen);
    mlx5dv_devx_obj* create(Context* ctx, const uint8_t* in, size_t inlen, uint8_t* out, size_t outlen, int* err);
    int modify(mlx5dv_devx_obj* obj, const uint8_t* in, size_t inlen, uint8_t* out, size_t outlen);
    int query(mlx5dv_devx_obj* obj, const uint8_t* in, size_t inlen, uint8_t* out, size_t outlen);
    int destroy(mlx5dv_devx_obj* obj);

    Pd* alloc_pd(Context* ctx, int* err);
    int dealloc_pd(Pd* pd);
    Mr* reg_mr(Pd* pd, void* addr, size_t length, uint64_t iova, uint32_t access, int* err);
    Mr* reg_dmabuf_mr(Pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, uint32_t access, int* err);
    int dereg_mr(Mr* mr);
    Umem* reg_umem(Context* ctx, const mlx5dv_devx_umem_in& in, int* err);
    int dereg_umem(Umem* umem);
    Uar* alloc_uar(Context* ctx, uint32_t type, int* err);
    void free_uar(Uar* uar);

    // Data path.
    Qp* find(uint32_t qpn) {
        Qp* qp = qps_[qpn & (max_qps - 1)].load(std::memory_order_acquire);
        return qp != nullptr && qpn != 0 && qp->qpn.load(std::memory_order_acquire) == qpn ? qp : nullptr;
    }
    Qp* at(uint32_t index) { return qps_[index].load(std::memory_order_acquire); }
    void doorbell(UarPage* page, uint64_t offset, uint64_t value);
    Shared* shared() { return shared_; }
    const std::shared_ptr<SharedMapping>& mapping() const { return mapping_; }
    bool has_address(uint64_t hi, uint64_t lo) const;
    bool answers_to(const Address& a) const;
    std::vector<Address> addresses() const;
    void wake_all();
    void flush_failed();
    void try_link(uint32_t qp_index);
    void forget_client(uint32_t client);
    int shared_fd() const { return shared_fd_; }
    Config& config() { return *config_; }
    const DeviceInfo& device() const { return *device_; }
    Engine& engine() { return *engine_; }
    Service& service() { return *service_; }
    ShmWire& wire() { return *wire_; }
    SharedCounters& counters() { return counters_; }
    int bell_fd() const { return bell_fd_; }
    Bell* bell() { return bell_; }
    void ring_own_bell();
    std::shared_ptr<Mem> mem(uint64_t id);
    // Moves a queue pair to ERR; its engine flushes. Safe from any thread.
    void fail_qp(QpShared* qp);
    void port_goes_down();
    // Waits until every engine that may still use what was just made invalid has moved on. ETIMEDOUT after 10 s.
    int quiesce();
    static int quiesce_one(QpShared* qp);
    void count_into(softhca_counts* out);
    void live(softhca_objects* out);
    void lock_qp(Qp* qp);
    void unlock_qp(Qp* qp);

  private:
    Hca(std::shared_ptr<Config> config, DeviceInfo* device);
    bool start(int* err);
    void shut_down();
    void reclaim(Context* ctx);

    uint8_t query_hca_cap(const uint8_t* in, uint8_t* out);
    uint8_t query_vport_context(const uint8_t* in, uint8_t* out);
    uint8_t query_roce_address(const uint8_t* in, uint8_t* out);
    uint8_t create_cq(Context* ctx, const uint8_t* in, uint8_t* out, mlx5dv_devx_obj** obj);
    uint8_t query_cq(Cq* cq, uint8_t* out);
    uint8_t destroy_cq(Cq* cq);
    uint8_t create_qp(Context* ctx, const uint8_t* in, uint8_t* out, mlx5dv_devx_obj** obj);
    uint8_t build_qp(Context* ctx, const uint8_t* in, Qp* qp);
    uint8_t place_queues(Context* ctx, const uint8_t* in, Qp* qp);
    void publish_qp(Qp* qp);
    uint8_t modify_qp(Qp* qp, prm::cmd op, const uint8_t* in);
    uint8_t query_qp(Qp* qp, uint8_t* out);
    uint8_t destroy_qp(Qp* qp);
    void reset_qp(Qp* qp);
    uint8_t create_mkey(Context* ctx, const uint8_t* in, uint8_t* out, mlx5dv_devx_obj** obj);
    uint8_t destroy_mkey(DevxMkey* mkey);

    // Helpers of the above.
    uint8_t check_path(const uint8_t* ads, Address* to);
    std::shared_ptr<Mem> new_mem(void* addr, size_t length, bool must_export, int* err);
    std::shared_ptr<Mem> map_dmabuf(int fd, uint64_t offset, size_t length, int* err);
    void drop_mem(const std::shared_ptr<Mem>& mem);
    Mr* finish_mr(Pd* pd, std::shared_ptr<Mem> mem, void* addr, size_t length, uint64_t iova, uint32_t access,
                  int* err);
    bool pin(uint64_t bytes, int* err);
    int free_key_slot();
    uint32_t publish_key(uint32_t index, uint8_t variant, uint32_t pd, uint32_t access, uint64_t start, uint64_t length,
                         const std::shared_ptr<Mem>& mem, uint64_t mem_offset);
    int retire_key(uint32_t index);
    Umem* find_umem(Context* ctx, uint32_t id);
    uint8_t* umem_range(Context* ctx, uint32_t id, uint64_t offset, uint64_t length, uint64_t align, Umem** umem,
                        uint8_t* status);
    UarPage* find_uar(Context* ctx, uint32_t page_id);
    void unuse_uar(UarPage* page);
    void free_uar_locked(Uar* uar);
    Cq* find_own_cq(Context* ctx, uint32_t cqn);
    uint8_t to_error_or_reset(Qp* qp, prm::cmd op, const uint8_t* in);
    uint32_t next_generation() { return generation_++; }
    Pd* find_pd(Context* ctx, uint32_t number);
    UarPage* new_uar_page(uint32_t type, int* err);
    void drop_uar_page(UarPage* page);

    std::shared_ptr<Config> config_;
    DeviceInfo* device_;
    std::mutex mutex_;
    std::shared_ptr<SharedMapping> mapping_;
    Shared* shared_ = nullptr;
    int shared_fd_ = -1;
    int bell_fd_ = -1;
    Bell* bell_ = nullptr;
    std::unique_ptr<std::atomic<Qp*>[]> qps_;
    std::vector<std::unique_ptr<Qp>> qp_store_;
    std::vector<std::unique_ptr<Cq>> cqs_;
    std::unordered_map<uint32_t, std::unique_ptr<Pd>> pds_;
    std::unordered_map<uint32_t, std::unique_ptr<Umem>> umems_;
    std::unordered_map<uint32_t, std::unique_ptr<UarPage>> uar_pages_;
    std::unordered_map<uint32_t, uint32_t> key_generation_;
    std::vector<bool> key_used_;
    std::set<Mr*> mrs_;
    std::set<DevxMkey*> devx_mkeys_;
    std::set<Uar*> uars_;
    uint32_t next_key_ = 2, next_variant_ = 0x5a;
    std::mutex mem_mutex_;
    std::unordered_map<uint64_t, std::weak_ptr<Mem>> mems_;
    std::mutex contexts_mutex_;  // the engine takes it, and never mutex_: commands wait for engines
    std::vector<Context*> contexts_;
    uint64_t next_mem_ = 1;
    uint32_t next_pd_ = 0x11, next_umem_ = 0x21, next_uar_ = 0x341, next_uid_ = 1, generation_ = 1;
    uint32_t live_qps_ = 0, live_cqs_ = 0, live_mkeys_ = 0, live_uars_ = 0;
    uint64_t pinned_ = 0;
    SharedCounters counters_;
    std::unique_ptr<ShmWire> wire_;
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<Service> service_;
};

}  // namespace pgas::softhca
