// What chaos keeps per queue pair: see engine_chaos.cpp.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "requester.h"

namespace pgas::softhca {

// A piece of payload that has not landed.
struct Chunk {
    uint8_t* dst;
    const uint8_t* src;
    size_t length;
};

// One WQE between its request and its completion.
struct InFlight {
    std::vector<std::vector<uint8_t>> copies;  // inline data and relaxed payload: the WQE or source may be reused
    std::vector<Chunk> chunks;                 // of a WRITE, in the order in which they will land
    bool relaxed = false;                      // later WQEs need not wait for the chunks
    bool has_result = false;                   // READ or atomic whose bytes have not been delivered
    std::vector<uint8_t> result;
    const uint8_t* unread = nullptr;  // READ whose bytes the responder has not fetched yet
    std::vector<Iov> to;
    bool completed = false;
    Completion completion;
};

struct ChaosQueue {
    std::deque<InFlight> flights;
    bool open = false;       // guards are held
    bool has_limit = false;  // acts on a doorbell's value
    uint16_t limit = 0;
    Clock::time_point not_before;
};

}  // namespace pgas::softhca
