// Inside of the SIMT runner. A block is an OS thread, a CUDA thread is a lane: a fiber of that thread. Lanes of a block
// never run at the same time, blocks do.
#ifndef PGAS_SOFTGPU_SIMT_H
#define PGAS_SOFTGPU_SIMT_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "include/simt/abi.h"
#include "softgpu.h"

extern "C" {
void simt_switch(void** save_sp, void* load_sp);
void simt_resume(void);
}

namespace softgpu {

constexpr uint32_t max_lanes = 1024;
constexpr uint32_t warp_lanes = 32;
constexpr uint32_t max_warps = max_lanes / warp_lanes;

// One launch of a grid. Owned by the stream operation that runs it.
struct launch {
    std::string name;
    void (*entry)(void** args) = nullptr;
    std::vector<unsigned char> packed;  // argument values
    std::vector<void*> args;            // into packed
    simt_dim3 grid{}, block{};
    uint32_t shared = 0;  // dynamic shared memory in bytes
    uint32_t n_lanes = 0;
    uint64_t n_blocks = 0;
    struct module* code = nullptr;
    uint32_t tls_module = 0;  // of the module's shared memory; 0 without any

    std::atomic<uint64_t> next_block{0};
    std::atomic<uint32_t> participants{0};  // threads that still work on it
    std::atomic<int> error{0};              // first CUDA error; not 0 ends every block
    std::atomic<bool> spin_named{false};
    int tsan_start = 0, tsan_end = 0;  // addresses for happens-before edges

    // Ends the launch with an error and a report line, unless it has one.
    void fail(int code, const std::string& text);
};

enum class wait_kind : uint8_t { none, warp, block };

struct lane {
    void* sp;
    simt_dim3 tid;
    wait_kind waiting;
    bool exited;
    uint8_t op;        // simt_warp_op or simt_block_op
    uint32_t mask;     // of a warp operation
    uint64_t value;    // operand, then result
    uint32_t aux;      // source lane, delta or predicate
    uint32_t width;    // of a shuffle
    const void* site;  // return address of the operation: for reports
    uint64_t spin_hash;
    const void* spin_pc;
    uint32_t spin_count, spin_misses;
    void* tsan_fiber;
    void* tsan_shadow;  // clock at the last fence
    int tsan_clock;
    int* tsan_sync;  // where the barrier that releases this lane keeps its clock
};

// How a waiting thread gets from spinning to sleeping.
struct idle_state {
    uint32_t steps = 0;
    bool armed = false;  // counted among the bell's sleepers
    uint32_t seq = 0;    // of the bell when armed
};

struct block_thread {
    lane lanes[max_lanes];
    uint32_t run[max_warps];   // runnable lanes
    uint32_t gone[max_warps];  // exited lanes, and lanes that the block does not have
    uint32_t n_lanes, n_warps;
    uint32_t live;      // lanes that have not exited
    uint32_t runnable;  // lanes in run
    uint32_t arrived;   // lanes at the block barrier
    uint32_t current;
    uint32_t pauses;  // consecutive, since any lane made progress
    uint32_t forced;  // consecutive yields forced by the trace hook
    uint64_t rng;
    idle_state idle;
    launch* job;
    uint64_t block_index;
    bool on_lane;     // a lane's stack is in use
    bool in_handler;  // a register handler of a device runs on it
    void* scheduler_sp;
    unsigned char* stacks;  // max_lanes stacks of stack_bytes, kept between launches
    size_t stack_bytes;
    uint32_t guarded;  // stacks whose guard is in place
    bool unguarded;    // some have a canary instead
    void* tsan_scheduler;
    uint32_t tsan_blocks;  // run so far
    int tsan_reuse[2];     // orders the use of shared memory by one block after another, by parity
    int tsan_block[2];
    int tsan_warp[max_warps][warp_lanes][2];
    uint8_t tsan_block_phase;
    uint8_t tsan_warp_phase[max_warps][warp_lanes];
};

extern __thread block_thread* this_block;

// block.cpp
block_thread* block_thread_create();  // nullptr when memory is short
void block_thread_destroy(block_thread* t);
void run_blocks(block_thread* t, launch* job);   // until the grid has no more
[[noreturn]] void leave_block(block_thread* t);  // from a lane back to the scheduler; the block is over
void switch_next(block_thread* t);               // from a runnable lane to the next one
void switch_away(block_thread* t);               // from a lane that now waits; reports a deadlock
void make_runnable(block_thread* t, uint32_t lane_index);
inline void check_stop(block_thread* t) {
    if (t->job->error.load(std::memory_order_relaxed)) leave_block(t);
}
inline bool is_runnable(const block_thread* t, uint32_t i) { return t->run[i / warp_lanes] >> (i % warp_lanes) & 1; }

// warp.cpp
void complete_after_exit(block_thread* t, uint32_t lane_index);  // barriers that waited for an exited lane

// bell.cpp
void progress(block_thread* t);  // a lane got past a wait
void idle_end(idle_state* s);
void idle_step(idle_state* s, uint32_t spins);
uint32_t spin_limit();

// mmio.cpp
uint32_t mmio_count();

// pool.cpp
// Runs the grid on the calling stream's thread and on pool threads; returns the launch's error.
int run_launch(block_thread* own, launch* job);
uint32_t block_slots();
uint32_t pool_threads();
void pool_shutdown();

// fault.cpp
void install_fault_handlers();
void take_fault(block_thread* t);  // after a block: turns a noted fault into the launch's error

// report.cpp
void report(const std::string& text);
std::string lane_name(const block_thread* t, uint32_t lane_index);
std::string code_name(const void* pc);

}  // namespace softgpu

#endif
