// The wire on one host. HCAs meet on abstract Unix sockets named by GID or LID; they vanish with the process, and a
// network namespace has its own. Descriptors of shared state, memory, bell and wake-up go over the socket, then data
// moves by shared memory. The death of a peer is seen as end of file.
#pragma once

#include <poll.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "hca.h"
#include "requester.h"

namespace pgas::softhca {

class ShmLink;

class ShmWire {
  public:
    explicit ShmWire(Hca& hca) : hca_(hca) {}
    ~ShmWire();

    // Binds the sockets of all addresses. EADDRINUSE when another HCA has one.
    int listen(const std::vector<Address>& addresses);
    // Reaches the HCA of an address, or null. Waits at most timeout_ms for its answer.
    std::shared_ptr<Link> connect(const Address& to, int timeout_ms);
    // Tells every peer that a memory object is gone.
    void broadcast_drop(uint64_t mem);

    // For the service thread.
    void add_descriptors(std::vector<pollfd>* fds);
    void handle(const std::vector<pollfd>& fds);

  private:
    void accept_client(int listen_fd);
    bool serve(int fd);
    void serve_link(int fd);

    Hca& hca_;
    std::mutex mutex_;
    std::vector<int> listeners_;
    std::map<int, uint32_t> clients_;  // descriptor to client number
    std::map<int, std::shared_ptr<ShmLink>> links_;
    uint32_t next_client_ = 1;
};

}  // namespace pgas::softhca
