#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "softgpu.h"

#define CHECK(call)                                              \
    do {                                                         \
        int code = call;                                         \
        if (code) {                                              \
            fprintf(stderr, "%s: CUDA error %d\n", #call, code); \
            exit(2);                                             \
        }                                                        \
    } while (0)

namespace {

uint64_t flag;
uint64_t recorded[2];

int flag_is_set(void*) { return __atomic_load_n(&flag, __ATOMIC_ACQUIRE) != 0; }
void record(void*, uint64_t offset, uint64_t value) {
    recorded[0] = offset;
    recorded[1] = value;
}

#define EXPECT(condition)                                \
    do {                                                 \
        if (!(condition)) {                              \
            fprintf(stderr, "not so: %s\n", #condition); \
            return 3;                                    \
        }                                                \
    } while (0)

int check_bell() {
    auto* bell = static_cast<uint32_t*>(softgpu_bell());
    uint64_t start = simt_globaltimer();
    EXPECT(!softgpu_bell_wait(bell, flag_is_set, nullptr, 20000000));
    EXPECT(simt_globaltimer() - start >= 20000000);
    uint64_t woken = 0;
    std::thread sleeper([&] {
        if (softgpu_bell_wait(bell, flag_is_set, nullptr, 5000000000)) woken = simt_globaltimer();
    });
    while (__atomic_load_n(bell, __ATOMIC_ACQUIRE) == 0) std::this_thread::yield();
    uint64_t rung = simt_globaltimer();
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    simt_notify();
    sleeper.join();
    EXPECT(woken && woken - rung < 1000000000);
    EXPECT(bell[0] == 0);
    return 0;
}

int check_registers() {
    alignas(64) static uint64_t page[512];
    EXPECT(softgpu_mmio_register(page, sizeof(page), record, nullptr) == 0);
    EXPECT(softgpu_mmio_register(&page[8], 64, record, nullptr) != 0);
    simt_mmio_store64(&page[9], 77);
    EXPECT(recorded[0] == 72 && recorded[1] == 77 && page[9] == 0);
    EXPECT(softgpu_mmio_unregister(page) == 0);
    simt_mmio_store64(&page[9], 78);
    EXPECT(page[9] == 78 && recorded[1] == 77);
    EXPECT(softgpu_mmio_unregister(page) != 0);
    return 0;
}

int check_runtime() {
    int r = check_bell();
    return r ? r : check_registers();
}

}  // namespace

// Runs the kernel named on the command line; its results are right on x86 whatever ThreadSanitizer says.
int main(int argc, char** argv) {
    if (argc != 2) return 2;
    if (!strcmp(argv[1], "runtime")) return check_runtime();
    const pgas_cuda_api& cu = *softgpu_cuda_table();
    CUcontext ctx;
    CHECK(cu.cuInit(0));
    CHECK(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
    CHECK(cu.cuCtxSetCurrent(ctx));
    CUmodule module;
    CUfunction fn;
    CHECK(cu.cuModuleLoad(&module, "softgpu:program"));
    CHECK(cu.cuModuleGetFunction(&fn, module, argv[1]));
    CUdeviceptr m, out;
    CHECK(cu.cuMemAlloc(&m, 256));
    CHECK(cu.cuMemAlloc(&out, 64 * 4));
    for (int round = 0; round < 20; round++) {
        CHECK(cu.cuMemsetD8(m, 0, 256));
        void* args[] = {&m, &out};
        CHECK(cu.cuLaunchKernel(fn, 2, 1, 1, 32, 1, 1, 128, nullptr, args, nullptr));
        CHECK(cu.cuCtxSynchronize());
        unsigned got[64];
        CHECK(cu.cuMemcpyDtoH(got, out, sizeof(got)));
        for (unsigned i = 0; i < 64; i++) {
            unsigned want = 7 + ((i % 32) ^ 1) + (i == 32 + 9 ? 42 : 0);
            if (got[i] != want) {
                fprintf(stderr, "lane %u got %u, want %u\n", i, got[i], want);
                return 3;
            }
        }
    }
    CHECK(cu.cuDevicePrimaryCtxRelease(0));
    puts("done");
    return 0;
}
