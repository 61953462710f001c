// Warp operations, with masks.

extern "C" __global__ void shuffles(int* out) {
    unsigned lane = threadIdx.x;
    int v = int(lane) * 10;
    out[lane] = __shfl_sync(0xffffffffu, v, 5);
    out[32 + lane] = __shfl_up_sync(0xffffffffu, v, 3);
    out[64 + lane] = __shfl_down_sync(0xffffffffu, v, 3);
    out[96 + lane] = __shfl_xor_sync(0xffffffffu, v, 1);
    out[128 + lane] = __shfl_sync(0xffffffffu, v, 9, 8);
    out[160 + lane] = __shfl_up_sync(0xffffffffu, v, 2, 8);
    out[192 + lane] = __shfl_down_sync(0xffffffffu, v, 2, 8);
    out[224 + lane] = __shfl_xor_sync(0xffffffffu, v, 12, 8);
}
PGAS_KERNEL(shuffles)

extern "C" __global__ void votes(unsigned* out, int* bad) {
    unsigned lane = threadIdx.x & 31;
    out[0] = __ballot_sync(0xffffffffu, lane % 3 == 0);
    out[1] = unsigned(__any_sync(0xffffffffu, lane == 7));
    out[2] = unsigned(__all_sync(0xffffffffu, lane < 32));
    out[3] = unsigned(__all_sync(0xffffffffu, lane < 31));
    unsigned same = __match_any_sync(0xffffffffu, lane / 8);
    if (same != 0xffu << (lane / 8 * 8)) atomicAdd(bad, 1);
    if (__reduce_add_sync(0xffffffffu, lane) != 496) atomicAdd(bad, 1);
    if (__reduce_max_sync(0xffffffffu, lane) != 31) atomicAdd(bad, 1);
    if (__reduce_min_sync(0xffffffffu, -int(lane)) != -31) atomicAdd(bad, 1);
    if (__reduce_xor_sync(0xffffffffu, 1u << lane) != 0xffffffffu) atomicAdd(bad, 1);
    double d = __shfl_sync(0xffffffffu, 1.5 * lane, 4);
    if (d != 6.0) atomicAdd(bad, 1);
}
PGAS_KERNEL(votes)

// The halves of a warp work apart, in different numbers of steps, then together.
extern "C" __global__ void diverged(unsigned* out) {
    unsigned lane = threadIdx.x & 31;
    unsigned r = 0;
    if (lane < 16) {
        for (int i = 0; i < 5; i++) r += __ballot_sync(0x0000ffffu, (lane + i) % 2);
    } else if (lane % 2) {
        r = __shfl_sync(0xaaaa0000u, lane, 31);
    } else {
        __syncwarp(0x55550000u);
        r = unsigned(__reduce_add_sync(0x55550000u, lane));
    }
    __syncwarp();
    out[threadIdx.x] = r + __popc(__activemask()) * 0x1000000u;
}
PGAS_KERNEL(diverged)

extern "C" __global__ void active(unsigned* out) {
    unsigned lane = threadIdx.x;
    if (lane % 4 == 1)
        out[lane] = __activemask();
    else
        out[lane] = 0;
}
PGAS_KERNEL(active)

extern "C" __global__ void block_votes(int* out) {
    int p = threadIdx.x % 5 == 0;
    int count = __syncthreads_count(p);
    int any = __syncthreads_or(threadIdx.x == 77);
    int all = __syncthreads_and(threadIdx.x != 77);
    if (threadIdx.x == 3) {
        out[0] = count;
        out[1] = any;
        out[2] = all;
    }
}
PGAS_KERNEL(block_votes)

// Lanes that have returned do not hold up the others.
extern "C" __global__ void early_exit(int* out) {
    if (threadIdx.x % 2) return;
    __syncthreads();
    __syncwarp();
    atomicAdd(out, 1);
}
PGAS_KERNEL(early_exit)

extern "C" __global__ void three_dimensions(unsigned* out) {
    unsigned i = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    out[b * blockDim.x * blockDim.y * blockDim.z + i] = threadIdx.z * 100 + threadIdx.y * 10 + threadIdx.x + b * 1000;
}
PGAS_KERNEL(three_dimensions)

extern "C" __global__ void intrinsics(unsigned* bad) {
    auto check = [bad](bool ok, unsigned bit) {
        if (!ok) *bad |= 1u << bit;
    };
    check(__popc(0xf0f0u) == 8 && __popcll(~0ull) == 64, 0);
    check(__ffs(0) == 0 && __ffs(8) == 4 && __ffsll(1ll << 40) == 41, 1);
    check(__clz(0) == 32 && __clz(1) == 31 && __clzll(1) == 63, 2);
    check(__brev(1u) == 0x80000000u && __brevll(2ull) == 1ull << 62, 3);
    check(__byte_perm(0x33221100u, 0x77665544u, 0x7531) == 0x77553311u, 4);
    check(__byte_perm(0x80u, 0, 0x8888) == 0xffffffffu, 5);
    check(__umulhi(0x80000000u, 4) == 2 && __umul64hi(1ull << 63, 6) == 3, 6);
    check(__float_as_uint(1.0f) == 0x3f800000u && __uint_as_float(0x40000000u) == 2.0f, 7);
    check(__funnelshift_l(0x80000000u, 1, 1) == 3 && __funnelshift_r(1, 3, 1) == 0x80000000u, 8);
    unsigned word = 5;
    check(atomicInc(&word, 5u) == 5 && word == 0 && atomicDec(&word, 9u) == 0 && word == 9, 9);
    check(atomicCAS(&word, 9u, 3u) == 9 && atomicExch(&word, 4u) == 3 && atomicMin(&word, 2u) == 4 && word == 2, 10);
    int s = -5;
    check(atomicMax(&s, -7) == -5 && s == -5 && atomicMin(&s, -7) == -5 && s == -7 && atomicSub(&s, 1) == -7, 11);
    long long t0 = clock64();
    __nanosleep(100);
    check(clock64() >= t0, 12);
}
PGAS_KERNEL(intrinsics)
