// The configuration of the machine: devices, engine mode, limits and faults. Parsed once from a string; README.md
// lists the keys.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace pgas::softhca {

enum class Mode { inline_mode, thread, chaos };

enum class GidKind : uint8_t { hole, link_local_v1, link_local_v2, ipv4_v1, ipv4_v2, ib };

struct DeviceConfig {
    std::string name;
    bool infiniband = false;
    bool mlx5 = true;
    uint16_t lid = 0;    // 0: chosen
    int open_errno = 0;  // not 0: cannot be opened
    uint8_t active_mtu = 5;
    std::vector<GidKind> gids;  // empty: the usual table
};

// The n-th call of one function fails.
struct FailRule {
    std::string function;
    uint64_t nth = 1;
    bool and_later = false;
    int error = 0;       // errno, when status is 0
    uint8_t status = 0;  // firmware status
    std::atomic<uint64_t> calls{0};
};

struct Config {
    Mode mode = Mode::inline_mode;
    uint64_t seed = 1;
    std::vector<DeviceConfig> devices;
    double time_scale = 1;  // timers run this many times faster
    uint32_t delay_us = 0;  // before every WQE
    uint32_t chaos_delay_us = 20;
    uint32_t chaos_split = 4;  // chunks of one WRITE at most
    bool chaos_drop_doorbells = true;
    uint32_t max_qp = 0;  // 0: no extra limit
    uint32_t log_max_msg = 30;
    uint32_t log_max_qp_sz = 15;
    uint32_t log_max_cq_sz = 22;
    uint64_t pinned_limit = 0;  // bytes; 0: none
    bool no_dmabuf = false;
    bool no_atomics = false;
    bool no_zero_write = false;
    uint32_t no_uar = 0;     // 1 BF, 2 NC, 4 NC_DEDICATED
    uint64_t error_wqe = 0;  // the n-th WQE ends in error_syndrome; 0: none
    uint8_t error_syndrome = 0;
    uint64_t drop_request = 0;  // the n-th request gets no answer
    uint64_t drop_count = 1;    // and so many after it
    uint64_t port_down = 0;     // the port goes down before the n-th WQE
    std::vector<std::unique_ptr<FailRule>> fail;

    // Progress of the faults that count, shared by all devices.
    std::atomic<uint64_t> wqes{0};
    std::atomic<uint64_t> requests{0};

    bool counts_wqes() const { return error_wqe != 0 || port_down != 0; }
};

// Returns null and sets *err when the string is not a configuration.
std::shared_ptr<Config> parse_config(const std::string& spec, std::string* err);

// What a fault rule says about this call.
struct Failure {
    int error = 0;
    uint8_t status = 0;
    explicit operator bool() const { return error != 0 || status != 0; }
};
Failure next_failure(Config& config, const char* function);

}  // namespace pgas::softhca
