// Options of the software GPU.
#ifndef PGAS_SOFTGPU_CONFIG_H
#define PGAS_SOFTGPU_CONFIG_H

#include <cstdint>
#include <string>
#include <vector>

namespace softgpu {

// "Fail the n-th call of a function with a code."
struct fault {
    std::string call;
    uint64_t nth = 0;       // 1 is the first; 0 every call
    bool iomemory = false;  // cuMemHostRegister: only calls for device registers
    int code = 0;
};

struct config {
    std::string name = "pgas software GPU";
    uint32_t sms = 32;            // multiprocessors
    uint32_t blocks_per_sm = 32;  // resident blocks on each
    uint64_t memory = 0;          // bytes; 0 is half of the machine's, at most 16 GiB
    uint64_t seed = 1;
    uint64_t stack = 64 << 10;  // bytes per lane
    uint32_t local_pes = 1;     // processes like this one that share the machine
    uint32_t spin = 0;          // pauses before yielding; 0 chooses by the cores
    uint32_t cc = 90;           // compute capability
    uint32_t pci_device = 0;
    bool shuffle = false;  // lanes take turns in seeded random order
    bool vmm = true;       // capabilities, to be taken away in tests
    bool dmabuf = true;
    bool rdma = true;
    bool memops = true;
    int32_t trace_budget = 4096;  // basic blocks before a lane must yield
    std::vector<fault> faults;
};

const config& options();

// Parses text over the defaults. Returns an empty string or what is wrong.
std::string parse_config(const char* text, config* out);
void set_options(const config& c);

}  // namespace softgpu

#endif
