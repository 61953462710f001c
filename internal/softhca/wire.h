// The wire between HCAs. A Link carries the requests of this HCA's queue pairs to one other HCA. Today there are two
// kinds, both of which execute the responder's side on the requester's thread: to an HCA of this process, and to one of
// another process of this host by shared memory. A network wire is a third kind: it may answer `again` and wake the
// queue pair when the answer has come.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "counters.h"

namespace pgas::softhca {

class Hca;
struct Qp;

struct Iov {
    uint8_t* base;
    uint64_t length;
    bool transient = false;  // lies in the fetched WQE: gone when the step ends
};

// Where an operation's bytes go and when. The default does everything at once; chaos queues and splits.
class Effects {
  public:
    virtual ~Effects() = default;
    // Payload into the responder's memory, gathered from the requester's.
    virtual void write(Qp& qp, uint8_t* dst, const Iov* from, uint32_t n, bool relaxed);
    // READ payload into the requester's memory.
    virtual void read(Qp& qp, const Iov* to, uint32_t n, const uint8_t* src);
    // An atomic's old value into the requester's memory.
    virtual void result(Qp& qp, const Iov* to, uint32_t n, const uint8_t* bytes);
    // The operation left for the responder; more calls for it follow or came already.
    virtual void complete(Qp& qp, const struct Completion& c);
    // Makes every write so far of this queue pair land: what follows must not be seen before.
    virtual void settle(Qp& qp) { (void)qp; }
};

enum class Verb : uint8_t { write, write_imm, read, atomic, send };

struct Atomic {
    bool swap = false;      // compare and swap, else fetch and add
    bool extended = false;  // masked opcode
    uint32_t size = 8;
    uint64_t swap_add = 0, compare = 0, swap_mask = ~0ull, compare_mask = ~0ull, boundary = 0;
};

struct Request {
    Verb verb;
    bool solicited = false;
    bool has_imm = false;
    uint32_t imm_raw = 0;  // the four bytes as in the WQE
    uint32_t psn = 0;
    uint64_t va = 0;
    uint32_t rkey = 0;
    uint64_t length = 0;
    const Iov* iov = nullptr;  // payload, or where results go
    uint32_t iovs = 0;
    Atomic atomic;
};

enum class Reply : uint8_t {
    ack,
    duplicate,      // acknowledged without effect
    silent,         // no answer
    again,          // not executed yet: the link wakes the queue pair
    rnr,            // receiver not ready
    nak_invalid,    // 0x12
    nak_access,     // 0x13
    nak_operation,  // 0x14
};

struct Answer {
    Reply reply;
    uint8_t rnr_timer = 0;
};

class Link {
  public:
    virtual ~Link() = default;
    // Between begin and end the responder takes no memory away. begin is false when there is nobody.
    virtual bool begin(Qp& qp) = 0;
    virtual void end(Qp& qp) = 0;
    virtual Answer execute(Qp& qp, Request& request, Effects& effects) = 0;
    // Wakes sleeping waiters of the responder's PE. Call after making memory visible, outside begin/end.
    virtual void ring_bell(SharedCounters& counters) = 0;
    virtual bool alive() const = 0;
};

// Where a queue pair connects to.
struct Address {
    bool by_lid = false;
    uint16_t lid = 0;
    uint8_t gid[16] = {};

    std::string socket_name() const;  // abstract socket, without the leading NUL
    uint64_t hi() const;              // as QpShared::remote_gid_hi and _lo hold it
    uint64_t lo() const;
    bool operator==(const Address& o) const { return hi() == o.hi() && lo() == o.lo(); }
};

}  // namespace pgas::softhca
