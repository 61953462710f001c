// Runs groups.cu for two PEs of one process.
//
//     groups warp|block p2p|ibgda HCA-SPEC
#include <cstdio>
#include <cstring>
#include <string>

#include "../../internal/softgpu/softgpu.h"
#include "job.h"

using tsan::require;

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: groups warp|block p2p|ibgda HCA-SPEC\n");
        return 2;
    }
    char err[256];
    require(softhca_configure(argv[3], err, sizeof err) == 0, "configure");
    softhca_hooks hooks{};
    hooks.mmio_register = softgpu_mmio_register;
    hooks.mmio_unregister = [](void* base) { softgpu_mmio_unregister(base); };
    softhca_set_hooks(&hooks);

    const pgas_cuda_api* cu = softgpu_cuda_table();
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    require(cu->cuInit(0) == 0 && cu->cuDeviceGet(&device, 0) == 0, "device");
    require(cu->cuDevicePrimaryCtxRetain(&context, device) == 0 && cu->cuCtxSetCurrent(context) == 0, "context");
    require(cu->cuModuleLoad(&module, "softgpu:program") == 0, "module");
    require(cu->cuModuleGetFunction(&kernel, module, "groups") == 0, "kernel");

    tsan::options o;
    o.path = std::strcmp(argv[2], "p2p") == 0 ? pgas::wire::path::p2p : pgas::wire::path::ibgda;
    tsan::job j(o);
    uint32_t warp = std::strcmp(argv[1], "warp") == 0;
    uint32_t results[2] = {};
    CUstream streams[2];
    for (uint32_t i = 0; i < 2; ++i) {
        pgas::world w = j[i].world();
        uint64_t* box = j[i].device<uint64_t>(0);
        uint64_t* src = j[i].device<uint64_t>(65536);
        uint64_t n = 500, rounds = 40;
        uint64_t* sig = j[i].signal(0);
        uint32_t* result = &results[i];
        void* args[] = {&w, &warp, &box, &src, &n, &sig, &rounds, &result};
        require(cu->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING) == 0, "stream");
        require(cu->cuLaunchKernel(kernel, 1, 1, 1, warp ? 32 : 96, 1, 1, 0, streams[i], args, nullptr) == 0, "launch");
    }
    for (auto& s : streams) {
        require(cu->cuStreamSynchronize(s) == 0, "synchronize");
        cu->cuStreamDestroy(s);
    }
    require(cu->cuModuleUnload(module) == 0 && cu->cuCtxSetCurrent(nullptr) == 0, "unload");
    require(cu->cuDevicePrimaryCtxRelease(device) == 0, "release");  // joins the block threads
    require(results[0] == 0 && results[1] == 0,
            "payload or status: " + std::to_string(results[0]) + ", " + std::to_string(results[1]));
    std::printf("groups %s %s %s: ok\n", argv[1], argv[2], argv[3]);
    return 0;
}
