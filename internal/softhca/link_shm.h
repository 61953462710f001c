// Links that execute the responder's side on the requester's thread.
#pragma once

#include <unordered_map>

#include "hca.h"
#include "requester.h"

namespace pgas::softhca {

// What both kinds share: guards and the call of the responder.
class SharedLink : public Link, public PeerView {
  public:
    SharedLink(Hca& own, std::shared_ptr<SharedMapping> peer, uint32_t client)
        : own_(own), mapping_(std::move(peer)), client_(client) {}
    bool begin(Qp& qp) override;
    void end(Qp& qp) override;
    Answer execute(Qp& qp, Request& request, Effects& effects) override;
    bool alive() const override { return mapping_->state->alive.load(std::memory_order_acquire) != 0; }
    Shared* peer() override { return mapping_->state; }

  protected:
    Hca& own_;
    std::shared_ptr<SharedMapping> mapping_;
    uint32_t client_;
};

// To an HCA of this process, itself included.
class LocalLink : public SharedLink {
  public:
    LocalLink(Hca& own, const std::shared_ptr<Hca>& peer);
    uint8_t* resolve(const MemRef& ref, uint64_t offset, bool* refused) override;
    void kick() override;
    void ring_bell(SharedCounters& counters) override;

  private:
    std::weak_ptr<Hca> peer_;
    Hca* const same_;  // the peer is the own HCA
};

// To an HCA of another process.
class ShmLink : public SharedLink {
  public:
    ShmLink(Hca& own, std::shared_ptr<SharedMapping> peer, uint32_t client, Address to, int socket, int kick_fd,
            Bell* bell);
    ~ShmLink() override;
    bool alive() const override { return !dead_.load(std::memory_order_acquire) && SharedLink::alive(); }
    uint8_t* resolve(const MemRef& ref, uint64_t offset, bool* refused) override;
    void kick() override;
    void ring_bell(SharedCounters& counters) override;

    const Address& address() const { return to_; }
    int socket() const { return socket_; }
    void die() { dead_.store(true, std::memory_order_release); }
    // The service thread brings answers of the peer.
    void add_mapping(uint64_t mem, int fd, uint64_t length, uint64_t offset, int status);
    void drop_mapping(uint64_t mem);

  private:
    struct Mapping {
        uint64_t mem = 0;
        uint8_t* base = nullptr;  // null: refused
        void* at = nullptr;
        size_t size = 0;
        ~Mapping();
    };
    static constexpr size_t cache_slots = 256;

    Address to_;
    int socket_;
    int kick_fd_;
    Bell* bell_;
    std::atomic<bool> dead_{false};
    std::atomic<Mapping*> cache_[cache_slots] = {};
    std::mutex mutex_;
    std::unordered_map<uint64_t, std::unique_ptr<Mapping>> mappings_;
    std::unordered_map<uint64_t, bool> requested_;
};

// Rings a bell if somebody sleeps.
void ring(Bell* bell, SharedCounters& counters);

}  // namespace pgas::softhca
