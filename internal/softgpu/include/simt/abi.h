// Calls and thread-local state between compiled kernels and the SIMT runner. Kernels use them through simt/cuda.h.
#ifndef PGAS_SIMT_ABI_H
#define PGAS_SIMT_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct simt_dim3 {
    uint32_t x, y, z;
};

// The running lane. The names are CUDA's.
struct simt_state {
    struct simt_dim3 thread, block, block_dim, grid_dim;
    uint32_t lane;  // in its warp
};
extern __thread struct simt_state simt_self __attribute__((tls_model("initial-exec")));
extern __thread int32_t simt_trace_budget __attribute__((tls_model("initial-exec")));

// Warp operations: every lane of mask calls with the same op and mask, and gets its own result.
enum simt_warp_op {
    SIMT_SYNC,       // __syncwarp: also orders memory
    SIMT_SHFL,       // value of lane aux
    SIMT_SHFL_UP,    // of lane - aux
    SIMT_SHFL_DOWN,  // of lane + aux
    SIMT_SHFL_XOR,   // of lane ^ aux
    SIMT_BALLOT,     // mask of lanes with value != 0
    SIMT_MATCH_ANY,  // mask of lanes with the same value
    SIMT_MATCH_ALL,  // mask if all values are equal, else 0
    SIMT_ADD,
    SIMT_MIN,
    SIMT_MAX,
    SIMT_MIN_SIGNED,
    SIMT_MAX_SIGNED,
    SIMT_AND,
    SIMT_OR,
    SIMT_XOR
};
uint64_t simt_warp(int op, uint32_t mask, uint64_t value, uint32_t aux, uint32_t width);
uint32_t simt_activemask(void);

// Block operations: every live lane of the block calls.
enum simt_block_op { SIMT_BLOCK_SYNC, SIMT_BLOCK_COUNT, SIMT_BLOCK_AND, SIMT_BLOCK_OR };
int simt_block(int op, int predicate);

void simt_nanosleep(uint32_t ns);
uint64_t simt_clock64(void);
void simt_trap(const char* what) __attribute__((noreturn));
void simt_assert_fail(const char* text, const char* file, unsigned line, const char* function)
    __attribute__((noreturn));

// What SIMT_KERNEL(name) leaves behind as simt_kernel_<name>.
struct simt_kernel {
    const char* name;
    void (*entry)(void** args);
    uint32_t n_params;
    const uint32_t* param_bytes;
    uint32_t (*max_threads)(void);  // of __launch_bounds__, 0 without
};

#ifdef __cplusplus
}
#endif
#endif
