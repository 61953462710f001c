// Our own declarations of the part of the CUDA driver API that pgas calls, so that neither building nor starting
// needs a CUDA toolkit. Names, signatures and values are those of NVIDIA's cuda.h (CUDA 12); symbols are the
// versioned ones that libcuda.so.1 exports. The same table is filled by libcuda or by the software GPU.
#ifndef PGAS_NATIVE_CUDA_API_H
#define PGAS_NATIVE_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef uint64_t cuuint64_t;
// Handles are pointers to opaque structs. cgo code sees them as integers of the same size, because a handle such as
// CU_STREAM_LEGACY (0x1) is no address and Go's collector stops on it.
#ifdef PGAS_CUDA_INTEGER_HANDLES
typedef uintptr_t CUcontext;
typedef uintptr_t CUmodule;
typedef uintptr_t CUfunction;
typedef uintptr_t CUstream;
typedef uintptr_t CUevent;
#else
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
#endif
typedef void (*CUhostFn)(void* userData);

typedef struct {
    char bytes[16];
} CUuuid;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_MAP_FAILED = 205,
    CUDA_ERROR_ALREADY_MAPPED = 208,
    CUDA_ERROR_NOT_MAPPED = 211,
    CUDA_ERROR_FILE_NOT_FOUND = 301,
    CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303,
    CUDA_ERROR_OPERATING_SYSTEM = 304,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_ILLEGAL_STATE = 401,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
    CUDA_ERROR_NOT_PERMITTED = 800,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_UNKNOWN = 999
};

// CUdevice_attribute
enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 93,
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR = 94,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES = 98,
    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED = 116,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING = 118,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124
};

// CUfunction_attribute
enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};

// CUpointer_attribute
enum {
    CU_POINTER_ATTRIBUTE_CONTEXT = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
    CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
    CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
    CU_POINTER_ATTRIBUTE_MAPPED = 13
};
enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 };

// Flags of cuMemHostAlloc and cuMemHostRegister.
enum {
    CU_MEMHOSTALLOC_PORTABLE = 1,
    CU_MEMHOSTALLOC_DEVICEMAP = 2,
    CU_MEMHOSTALLOC_WRITECOMBINED = 4,
    CU_MEMHOSTREGISTER_PORTABLE = 1,
    CU_MEMHOSTREGISTER_DEVICEMAP = 2,
    CU_MEMHOSTREGISTER_IOMEMORY = 4,
    CU_MEMHOSTREGISTER_READ_ONLY = 8
};

// Virtual memory management.
enum {
    CU_MEM_ALLOCATION_TYPE_PINNED = 1,
    CU_MEM_HANDLE_TYPE_NONE = 0,
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
    CU_MEM_LOCATION_TYPE_DEVICE = 1,
    CU_MEM_LOCATION_TYPE_HOST = 2,
    CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
    CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1
};
typedef struct {
    int type;
    int id;
} CUmemLocation;
typedef struct {
    int type;
    int requestedHandleTypes;
    CUmemLocation location;
    void* win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;
typedef struct {
    CUmemLocation location;
    int flags;
} CUmemAccessDesc;

// Streams and events.
enum {
    CU_STREAM_DEFAULT = 0,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DEFAULT = 0,
    CU_EVENT_BLOCKING_SYNC = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_STREAM_WAIT_VALUE_GEQ = 0,
    CU_STREAM_WAIT_VALUE_EQ = 1,
    CU_STREAM_WAIT_VALUE_AND = 2,
    CU_STREAM_WAIT_VALUE_NOR = 3,
    CU_STREAM_WAIT_VALUE_FLUSH = 1 << 30,
    CU_STREAM_WRITE_VALUE_DEFAULT = 0,
    CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 1
};
#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

enum {
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX = 0,
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER = 100,
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES = 200
};

// Every call: REQ(field, exported symbol, parameters, arguments). OPT: newer than CUDA 11.2; its field may be NULL.
#define PGAS_CUDA_CALLS(REQ, OPT)                                                                                      \
    REQ(cuInit, cuInit, (unsigned flags), (flags))                                                                     \
    REQ(cuDriverGetVersion, cuDriverGetVersion, (int* version), (version))                                             \
    REQ(cuGetErrorName, cuGetErrorName, (CUresult error, const char** name), (error, name))                            \
    REQ(cuGetErrorString, cuGetErrorString, (CUresult error, const char** text), (error, text))                        \
    REQ(cuDeviceGetCount, cuDeviceGetCount, (int* count), (count))                                                     \
    REQ(cuDeviceGet, cuDeviceGet, (CUdevice * dev, int ordinal), (dev, ordinal))                                       \
    REQ(cuDeviceGetName, cuDeviceGetName, (char* name, int len, CUdevice dev), (name, len, dev))                       \
    REQ(cuDeviceGetUuid, cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice dev), (uuid, dev))                               \
    REQ(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, (char* id, int len, CUdevice dev), (id, len, dev))                   \
    REQ(cuDeviceGetAttribute, cuDeviceGetAttribute, (int* value, int attr, CUdevice dev), (value, attr, dev))          \
    REQ(cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t* bytes, CUdevice dev), (bytes, dev))                            \
    REQ(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext * ctx, CUdevice dev), (ctx, dev))               \
    REQ(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice dev), (dev))                                \
    REQ(cuCtxSetCurrent, cuCtxSetCurrent, (CUcontext ctx), (ctx))                                                      \
    REQ(cuCtxGetCurrent, cuCtxGetCurrent, (CUcontext * ctx), (ctx))                                                    \
    REQ(cuCtxSynchronize, cuCtxSynchronize, (), ())                                                                    \
    REQ(cuMemGetInfo, cuMemGetInfo_v2, (size_t* avail, size_t* total), (avail, total))                                 \
    REQ(cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr * ptr, size_t bytes), (ptr, bytes))                                    \
    REQ(cuMemFree, cuMemFree_v2, (CUdeviceptr ptr), (ptr))                                                             \
    REQ(cuMemHostAlloc, cuMemHostAlloc, (void** ptr, size_t bytes, unsigned flags), (ptr, bytes, flags))               \
    REQ(cuMemFreeHost, cuMemFreeHost, (void* ptr), (ptr))                                                              \
    REQ(cuMemHostRegister, cuMemHostRegister_v2, (void* ptr, size_t bytes, unsigned flags), (ptr, bytes, flags))       \
    REQ(cuMemHostUnregister, cuMemHostUnregister, (void* ptr), (ptr))                                                  \
    REQ(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (CUdeviceptr * dptr, void* ptr, unsigned flags),      \
        (dptr, ptr, flags))                                                                                            \
    REQ(cuMemcpyHtoD, cuMemcpyHtoD_v2, (CUdeviceptr dst, const void* src, size_t bytes), (dst, src, bytes))            \
    REQ(cuMemcpyDtoH, cuMemcpyDtoH_v2, (void* dst, CUdeviceptr src, size_t bytes), (dst, src, bytes))                  \
    REQ(cuMemcpyDtoD, cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), (dst, src, bytes))            \
    REQ(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void* src, size_t bytes, CUstream stream),    \
        (dst, src, bytes, stream))                                                                                     \
    REQ(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void* dst, CUdeviceptr src, size_t bytes, CUstream stream),          \
        (dst, src, bytes, stream))                                                                                     \
    REQ(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),    \
        (dst, src, bytes, stream))                                                                                     \
    REQ(cuMemsetD8, cuMemsetD8_v2, (CUdeviceptr dst, unsigned char value, size_t bytes), (dst, value, bytes))          \
    REQ(cuMemsetD8Async, cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream),       \
        (dst, value, bytes, stream))                                                                                   \
    REQ(cuMemAddressReserve, cuMemAddressReserve,                                                                      \
        (CUdeviceptr * ptr, size_t bytes, size_t align, CUdeviceptr hint, unsigned long long flags),                   \
        (ptr, bytes, align, hint, flags))                                                                              \
    REQ(cuMemAddressFree, cuMemAddressFree, (CUdeviceptr ptr, size_t bytes), (ptr, bytes))                             \
    REQ(cuMemCreate, cuMemCreate,                                                                                      \
        (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp* prop,                         \
         unsigned long long flags),                                                                                    \
        (handle, bytes, prop, flags))                                                                                  \
    REQ(cuMemRelease, cuMemRelease, (CUmemGenericAllocationHandle handle), (handle))                                   \
    REQ(cuMemMap, cuMemMap,                                                                                            \
        (CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags), \
        (ptr, bytes, offset, handle, flags))                                                                           \
    REQ(cuMemUnmap, cuMemUnmap, (CUdeviceptr ptr, size_t bytes), (ptr, bytes))                                         \
    REQ(cuMemSetAccess, cuMemSetAccess, (CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc* desc, size_t count),    \
        (ptr, bytes, desc, count))                                                                                     \
    REQ(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity,                                                  \
        (size_t* bytes, const CUmemAllocationProp* prop, int option), (bytes, prop, option))                           \
    REQ(cuMemExportToShareableHandle, cuMemExportToShareableHandle,                                                    \
        (void* out, CUmemGenericAllocationHandle handle, int type, unsigned long long flags),                          \
        (out, handle, type, flags))                                                                                    \
    REQ(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle,                                                \
        (CUmemGenericAllocationHandle * handle, void* os_handle, int type), (handle, os_handle, type))                 \
    OPT(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange,                                                  \
        (void* out, CUdeviceptr ptr, size_t bytes, int type, unsigned long long flags),                                \
        (out, ptr, bytes, type, flags))                                                                                \
    REQ(cuPointerGetAttribute, cuPointerGetAttribute, (void* data, int attr, CUdeviceptr ptr), (data, attr, ptr))      \
    REQ(cuPointerSetAttribute, cuPointerSetAttribute, (const void* data, int attr, CUdeviceptr ptr),                   \
        (data, attr, ptr))                                                                                             \
    REQ(cuStreamCreate, cuStreamCreate, (CUstream * stream, unsigned flags), (stream, flags))                          \
    REQ(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream), (stream))                                              \
    REQ(cuStreamSynchronize, cuStreamSynchronize, (CUstream stream), (stream))                                         \
    REQ(cuStreamQuery, cuStreamQuery, (CUstream stream), (stream))                                                     \
    REQ(cuStreamWaitEvent, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),                        \
        (stream, event, flags))                                                                                        \
    REQ(cuStreamWriteValue64, cuStreamWriteValue64_v2,                                                                 \
        (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned flags), (stream, addr, value, flags))           \
    REQ(cuStreamWaitValue64, cuStreamWaitValue64_v2,                                                                   \
        (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned flags), (stream, addr, value, flags))           \
    REQ(cuLaunchHostFunc, cuLaunchHostFunc, (CUstream stream, CUhostFn fn, void* user), (stream, fn, user))            \
    REQ(cuEventCreate, cuEventCreate, (CUevent * event, unsigned flags), (event, flags))                               \
    REQ(cuEventRecord, cuEventRecord, (CUevent event, CUstream stream), (event, stream))                               \
    REQ(cuEventSynchronize, cuEventSynchronize, (CUevent event), (event))                                              \
    REQ(cuEventQuery, cuEventQuery, (CUevent event), (event))                                                          \
    REQ(cuEventElapsedTime, cuEventElapsedTime, (float* ms, CUevent start, CUevent end), (ms, start, end))             \
    REQ(cuEventDestroy, cuEventDestroy_v2, (CUevent event), (event))                                                   \
    REQ(cuModuleLoad, cuModuleLoad, (CUmodule * module, const char* path), (module, path))                             \
    REQ(cuModuleLoadData, cuModuleLoadData, (CUmodule * module, const void* image), (module, image))                   \
    REQ(cuModuleUnload, cuModuleUnload, (CUmodule module), (module))                                                   \
    REQ(cuModuleGetFunction, cuModuleGetFunction, (CUfunction * fn, CUmodule module, const char* name),                \
        (fn, module, name))                                                                                            \
    REQ(cuModuleGetGlobal, cuModuleGetGlobal_v2,                                                                       \
        (CUdeviceptr * ptr, size_t* bytes, CUmodule module, const char* name), (ptr, bytes, module, name))             \
    REQ(cuFuncGetAttribute, cuFuncGetAttribute, (int* value, int attr, CUfunction fn), (value, attr, fn))              \
    REQ(cuFuncSetAttribute, cuFuncSetAttribute, (CUfunction fn, int attr, int value), (fn, attr, value))               \
    OPT(cuFuncGetParamInfo, cuFuncGetParamInfo, (CUfunction fn, size_t index, size_t* offset, size_t* bytes),          \
        (fn, index, offset, bytes))                                                                                    \
    REQ(cuLaunchKernel, cuLaunchKernel,                                                                                \
        (CUfunction fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, \
         CUstream stream, void** params, void** extra),                                                                \
        (fn, gx, gy, gz, bx, by, bz, shared, stream, params, extra))                                                   \
    REQ(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel,                                                          \
        (CUfunction fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, \
         CUstream stream, void** params),                                                                              \
        (fn, gx, gy, gz, bx, by, bz, shared, stream, params))                                                          \
    REQ(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor,                      \
        (int* blocks, CUfunction fn, int threads, size_t shared), (blocks, fn, threads, shared))                       \
    OPT(cuFlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites, (int target, int scope), (target, scope))

#define PGAS_CUDA_FIELD(name, symbol, params, args) CUresult(*name) params;
struct pgas_cuda_api {
    PGAS_CUDA_CALLS(PGAS_CUDA_FIELD, PGAS_CUDA_FIELD)
};
#undef PGAS_CUDA_FIELD

#ifdef __cplusplus
}
#endif
#endif
