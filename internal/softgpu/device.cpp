#include "device.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "config.h"
#include "errors.h"
#include "impl.h"
#include "memory.h"
#include "module.h"
#include "simt.h"
#include "stream.h"

struct CUctx_st {
    int unused;
};

namespace softgpu {
namespace {

CUctx_st context;
std::atomic<bool> initialized{false};
std::atomic<int> sticky{0};
std::mutex lock;
uint32_t retained;               // guarded by lock
std::atomic<bool> alive{false};  // retained > 0
__thread CUcontext current;

void destroy_context() {
    shutdown_streams();
    drop_all_events();
    unload_all_modules();
    pool_shutdown();
    free_all_memory();
    sticky = 0;
}

struct attribute {
    int key;
    int value;
};

bool fixed_attribute(int key, int* value) {
    static const attribute table[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, int(max_lanes)},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, int(default_dynamic_shared)},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, int(warp_lanes)},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0},
        {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, int(threads_per_sm)},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, int(shared_per_sm)},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 0},
        {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, int(max_dynamic_shared)},
        {CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0},
        {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 1},  // by the host
        // Writes are ordered for every observer: cu.h CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES.
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 200},
    };
    for (const attribute& a : table) {
        if (a.key != key) continue;
        *value = a.value;
        return true;
    }
    return false;
}

bool configured_attribute(int key, int* value) {
    const config& c = options();
    switch (key) {
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            *value = int(c.sms);
            return true;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
            *value = int(c.blocks_per_sm);
            return true;
        case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
            *value = int(c.pci_device);
            return true;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            *value = int(c.cc / 10);
            return true;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            *value = int(c.cc % 10);
            return true;
        case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
            *value = c.memops;
            return true;
        case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
            *value = c.vmm;
            return true;
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
            *value = c.vmm && c.rdma;
            return true;
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
            *value = c.rdma;
            return true;
        case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
            *value = c.dmabuf;
            return true;
        default:
            return false;
    }
}

}  // namespace

CUcontext the_context() { return &context; }
bool is_initialized() { return initialized.load(); }
bool context_is_current() { return current == &context && alive.load(); }
bool context_in_use() { return alive.load(); }
int sticky_error() { return sticky.load(); }

void set_sticky(int code) {
    int none = 0;
    sticky.compare_exchange_strong(none, code);
}

namespace impl {

CUresult cuInit(unsigned flags) {
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    initialized = true;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = 12040;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = error_name(error);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = error_text(error);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int* count) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* dev, int ordinal) {
    if (!dev) return CUDA_ERROR_INVALID_VALUE;
    if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
    *dev = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
    if (!name || len < 1) return CUDA_ERROR_INVALID_VALUE;
    if (dev) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, size_t(len), "%s", options().name.c_str());
    return CUDA_SUCCESS;
}

// Every process has its own device, so the identity holds the process and its start.
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    if (dev) return CUDA_ERROR_INVALID_DEVICE;
    static const uint64_t start = simt_globaltimer();
    uint64_t id[2] = {(uint64_t(getpid()) << 32) | 0x50674153u, start};
    memcpy(uuid->bytes, id, sizeof(id));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int len, CUdevice dev) {
    if (!id || len < 13) return CUDA_ERROR_INVALID_VALUE;
    if (dev) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, size_t(len), "0000:00:%02x.0", options().pci_device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, int attr, CUdevice dev) {
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (dev) return CUDA_ERROR_INVALID_DEVICE;
    return fixed_attribute(attr, value) || configured_attribute(attr, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice dev) {
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (dev) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = options().memory;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* ctx, CUdevice dev) {
    if (!ctx) return CUDA_ERROR_INVALID_VALUE;
    if (dev) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard<std::mutex> hold(lock);
    if (retained++ == 0) {
        install_fault_handlers();
        start_streams();
        alive = true;
    }
    *ctx = &context;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
    if (dev) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard<std::mutex> hold(lock);
    if (!retained) return CUDA_ERROR_INVALID_CONTEXT;
    if (--retained) return CUDA_SUCCESS;
    alive = false;
    destroy_context();
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
    if (ctx && (ctx != &context || !alive.load())) return CUDA_ERROR_INVALID_CONTEXT;
    current = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* ctx) {
    if (!ctx) return CUDA_ERROR_INVALID_VALUE;
    *ctx = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
    wait_for_all_streams();
    return sticky_error();
}

CUresult cuFlushGPUDirectRDMAWrites(int target, int scope) {
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER && scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
        return CUDA_ERROR_INVALID_VALUE;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return CUDA_SUCCESS;
}

}  // namespace impl
}  // namespace softgpu
