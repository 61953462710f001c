// Small kernels, one property of the software GPU each.

__device__ unsigned long long counter;
__constant__ int table[4];

struct wide {
    int a;
    double b;
    char c[24];
};

extern "C" __global__ void add_one(int* data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += 1;
}
PGAS_KERNEL(add_one)

extern "C" __global__ void by_value(wide w, float f, unsigned long long v, double* out) {
    if (threadIdx.x == 0) {
        out[0] = w.a + w.b + w.c[23];
        out[1] = f;
        out[2] = double(v);
        out[3] = table[2];
    }
}
PGAS_KERNEL(by_value)

// One shared tile, static; another, dynamic. Reverses a block's part of data.
extern "C" __global__ void reverse(int* data) {
    __shared__ int tile[1024];
    extern __shared__ int more[];
    tile[threadIdx.x] = data[blockIdx.x * blockDim.x + threadIdx.x];
    more[threadIdx.x] = 1;
    __syncthreads();
    data[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x] * more[threadIdx.x ^ 1];
}
PGAS_KERNEL(reverse)

extern "C" __global__ void shared_at_start(unsigned* out) {
    __shared__ unsigned word;
    extern __shared__ unsigned words[];
    if (threadIdx.x == 0) {
        out[0] = word;
        out[1] = words[3];
    }
    if (out == nullptr) word = 1;  // or the compiler takes it for a constant
}
PGAS_KERNEL(shared_at_start)

extern "C" __global__ void two_names(int* out) {
    extern __shared__ int first[];
    extern __shared__ double second[];
    out[0] = static_cast<void*>(first) == static_cast<void*>(second);
}
PGAS_KERNEL(two_names)

extern "C" __global__ void writes_behind_shared() {
    extern __shared__ char bytes[];
    volatile char* p = bytes;
    p[100] = 1;
}
PGAS_KERNEL(writes_behind_shared)

extern "C" __global__ void count_all(unsigned long long* total, unsigned* biggest, float* sum) {
    atomicAdd(total, 1ull);
    atomicAdd(&counter, 2ull);
    atomicMax(biggest, blockIdx.x * blockDim.x + threadIdx.x);
    atomicAdd(sum, 0.5f);
}
PGAS_KERNEL(count_all)

extern "C" __global__ void __launch_bounds__(96, 2) bounded(int* out) { out[0] = blockDim.x; }
PGAS_KERNEL(bounded)

constexpr int limit = 3 * 64;
extern "C" __global__ void __launch_bounds__(limit) bounded_by_constant(int* out) { out[0] = blockDim.x; }
PGAS_KERNEL(bounded_by_constant)

// All blocks meet: works only when they are resident together.
extern "C" __global__ void grid_barrier(unsigned* arrived, unsigned blocks) {
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1u);
        while (*static_cast<volatile unsigned*>(arrived) < blocks) simt_pause();
    }
    __syncthreads();
}
PGAS_KERNEL(grid_barrier)

extern "C" __global__ void nothing() {}
PGAS_KERNEL(nothing)

extern "C" __global__ void spin_until(unsigned long long* flag, unsigned long long value, unsigned long long* done) {
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < value) simt_pause();
    __atomic_store_n(done, value, __ATOMIC_RELEASE);
    simt_notify();
}
PGAS_KERNEL(spin_until)

// Lane 31 must run for lane 0 to end, although lane 0 never yields by itself.
extern "C" __global__ void bare_spin(volatile int* flag) {
    if (threadIdx.x == 0)
        while (*flag == 0) {
        }
    if (threadIdx.x == 31) *flag = 1;
}
PGAS_KERNEL(bare_spin)

// As above, but the flag comes from the host and takes its time.
extern "C" __global__ void long_bare_spin(volatile int* flag) {
    while (*flag == 0) {
    }
}
PGAS_KERNEL(long_bare_spin)

extern "C" __global__ void long_compute(unsigned* out, unsigned n) {
    unsigned x = threadIdx.x;
    for (unsigned i = 0; i < n; i++) x = x % 3 == 0 ? x * 1664525u + 1013904223u : x * 22695477u + 1u;
    out[threadIdx.x] = x;
}
PGAS_KERNEL(long_compute)

extern "C" __global__ void write_and_ring(unsigned long long* words, void* bell) {
    words[16] = 3;
    __atomic_store_n(words, 1ull, __ATOMIC_RELEASE);
    simt_bell_ring(bell);
}
PGAS_KERNEL(write_and_ring)
