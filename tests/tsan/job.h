// A job whose PEs are threads of one process, so that ThreadSanitizer sees both ends of every transfer: each PE has its
// own software HCA context, heap and queues, set up by the same mailboxes as a real one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../internal/softhca/softhca.h"
#include "pgas/pgas.cuh"

namespace tsan {

struct options {
    uint32_t pes = 2;
    uint32_t contexts = 1;
    uint32_t depth = 8;
    pgas::wire::path path = pgas::wire::path::ibgda;
    uint64_t segment_bytes = 1 << 20;
    uint64_t timeout_ns = 60'000'000'000;
    uint32_t max_msg = 1u << 30;
};

// One PE. Its segments have the layout of a real heap; `world` is what a kernel would get.
class pe {
  public:
    pe(uint32_t rank, const options& o);
    ~pe();
    pe(const pe&) = delete;
    pe& operator=(const pe&) = delete;

    pgas::world world() const { return {world_}; }
    template <class T>
    T* device(uint64_t offset) const {
        return reinterpret_cast<T*>(world_->seg[0].base + offset);
    }
    uint64_t* signal(uint64_t i) const { return reinterpret_cast<uint64_t*>(world_->seg[2].base + i * 64); }
    const pgas::wire::status_record& record() const { return *record_; }
    void abort(pgas::status s);

  private:
    friend class job;
    struct queue_memory;

    void* take(size_t bytes, size_t align = 64);
    void register_segments();
    void create_queues();
    uint32_t create_cq(const queue_memory& m);
    uint32_t create_qp(const queue_memory& m, uint32_t cqn, mlx5dv_devx_obj** object);
    void connect(uint32_t queue, const pe& to, uint32_t remote_queue);

    options o_;
    uint32_t rank_;
    const pgas_mlx5_api* api_;
    uint8_t* arena_ = nullptr;
    size_t arena_used_ = 0;
    ibv_context* context_ = nullptr;
    ibv_pd* pd_ = nullptr;
    mlx5dv_devx_umem* umem_ = nullptr;
    mlx5dv_devx_uar* uar_ = nullptr;
    ibv_mr* sink_mr_ = nullptr;
    std::vector<ibv_mr*> mrs_;
    std::vector<mlx5dv_devx_obj*> objects_;
    std::vector<mlx5dv_devx_obj*> qps_;
    std::vector<uint32_t> qpns_;
    pgas::wire::world* world_ = nullptr;
    pgas::wire::peer* peers_ = nullptr;
    pgas::wire::queue* queues_ = nullptr;
    pgas::wire::status_record* record_ = nullptr;
    pgas::wire::control* control_ = nullptr;
};

class job {
  public:
    explicit job(const options& o);
    pe& operator[](uint32_t i) { return *pes_[i]; }

  private:
    std::vector<std::unique_ptr<pe>> pes_;
};

// Ends the program with a message when something that cannot fail here has failed.
void require(bool ok, const std::string& what);

}  // namespace tsan
