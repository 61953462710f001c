// Messages of the shared-memory wire, one per packet of a SOCK_SEQPACKET socket, with up to three descriptors.
#pragma once

#include <cstdint>
#include <vector>

namespace pgas::softhca {

enum class MessageType : uint32_t { hello = 1, welcome, get_mem, mem, drop_mem };

struct Message {
    uint32_t magic;
    MessageType type;
    uint32_t version;
    int32_t status;     // mem: 0 or an errno value
    uint32_t client;    // welcome: number of the client in QpShared::holder
    uint32_t has_bell;  // welcome
    uint64_t mem;
    uint64_t length;
    uint64_t offset;
};

constexpr uint32_t message_magic = 0x70676873, message_version = 1;

// Sends without blocking. The descriptors stay the caller's.
bool send_message(int fd, Message m, const std::vector<int>& fds);

// Receives one message; descriptors are the caller's to close. 1 got one, 0 none yet, -1 the peer is gone or talks
// nonsense.
int receive_message(int fd, Message* m, std::vector<int>* fds);

// Waits up to timeout_ms for a message.
int await_message(int fd, int timeout_ms, Message* m, std::vector<int>* fds);

// Does the socket's peer run under our user?
bool same_user(int fd);

}  // namespace pgas::softhca
