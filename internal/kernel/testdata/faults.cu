// Kernels that do something wrong. Each must end with a report, not with a hang or a dead process.

extern "C" __global__ void out_of_bounds(int* data, long long index) {
    if (threadIdx.x == 3 && blockIdx.x == 1) data[index] = 1;
    __syncthreads();
}
PGAS_KERNEL(out_of_bounds)

extern "C" __global__ void barrier_deadlock() {
    if (threadIdx.x < 16)
        __syncthreads();
    else
        __syncwarp(0xffffffffu);
}
PGAS_KERNEL(barrier_deadlock)

extern "C" __global__ void mask_mismatch() {
    if (threadIdx.x < 8)
        __syncwarp(0x0000ffffu);
    else
        __syncwarp(0xffffffffu);
}
PGAS_KERNEL(mask_mismatch)

extern "C" __global__ void not_in_mask() { __syncwarp(0x1u); }
PGAS_KERNEL(not_in_mask)

extern "C" __global__ void traps() {
    if (threadIdx.x == 9) __trap();
    __syncthreads();
}
PGAS_KERNEL(traps)

extern "C" __global__ void asserts(int v) { assert(v == 42 && "the answer"); }
PGAS_KERNEL(asserts)

extern "C" __global__ void divides(int* out, int by) { out[0] = 7 / by; }
PGAS_KERNEL(divides)

__noinline__ int deep(volatile int* p, int n) {
    volatile char frame[1024];
    frame[n % 1024] = char(n);
    return n == 0 ? *p : deep(p, n - 1) + frame[n % 1024];
}
extern "C" __global__ void overflows(int* out) { out[0] = deep(out, 1000000); }
PGAS_KERNEL(overflows)

// One block faults, the others wait for it for ever.
extern "C" __global__ void fault_while_others_wait(int* flag, int* bad) {
    if (blockIdx.x == 0) *bad = 1;
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) simt_pause();
}
PGAS_KERNEL(fault_while_others_wait)
