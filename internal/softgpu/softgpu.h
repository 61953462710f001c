// The software GPU: one device per process behind the CUDA driver and GDRCopy tables. Plain C interface, no Go in it,
// so that a C++ test program can link the same objects. Kernels see it through include/simt/runtime.h.
#ifndef PGAS_SOFTGPU_H
#define PGAS_SOFTGPU_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_api.h"
#include "gdr_api.h"
#include "include/simt/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// The tables. Both live as long as the process.
const struct pgas_cuda_api* softgpu_cuda_table(void);
const struct pgas_gdr_api* softgpu_gdr_table(void);

// Sets options from "key=value,key=value"; an empty text sets the defaults. Keys are listed in config.cpp. Must come
// before the primary context is retained. Returns 0, or -1 with a text in err (always terminated).
int softgpu_configure(const char* options, char* err, size_t err_len);

// The memfd behind [addr, addr+len), which must lie in one allocation. *fd is a duplicate that the caller closes;
// *offset is where addr lies in it. Returns 0 or a CUDA error code.
int softgpu_export_range(const void* addr, size_t len, int* fd, uint64_t* offset);

// Describes addr in words: the allocation that holds it or the nearest one. Returns the length written.
size_t softgpu_describe(const void* addr, char* text, size_t len);

// What the last failed launches did wrong and what was noted about running ones (bare spins), newest last; empty when
// all is well. Returns the full length; text is cut to len and terminated.
size_t softgpu_last_report(char* text, size_t len);
void softgpu_clear_report(void);

// Number and sizes of a kernel's parameters. sizes may be NULL; at most max are written. Returns 0 or a CUDA error.
int softgpu_func_params(CUfunction fn, uint32_t* count, uint32_t* sizes, uint32_t max);

// Makes the range a device register file: simt_mmio_store64 into it calls store. Returns 0, or -1 when it overlaps
// another range or the table is full. Unregister waits until no store is running.
int softgpu_mmio_register(void* base, size_t len, void (*store)(void* ctx, uint64_t offset, uint64_t value), void* ctx);
int softgpu_mmio_unregister(void* base);

// This process' bell: a page in a memfd that other processes may map (wire.Bell is its first 64 bytes). The fd
// belongs to the software GPU; duplicate it to pass it on.
int softgpu_bell_fd(void);
void* softgpu_bell(void);

// Sleeps until the bell rings, ready(ctx) is not 0, or timeout_ns has passed; ready is called again after the sleep was
// announced, so a ring between the check and the sleep is not lost. Returns the last value of ready.
int softgpu_bell_wait(void* bell, int (*ready)(void* ctx), void* ctx, uint64_t timeout_ns);

// What the process holds now: for leak checks.
struct softgpu_usage {
    uint64_t bytes;        // memory of live allocations
    uint32_t allocations;  // live allocations and mappings
    uint32_t threads;      // block and stream threads
    uint32_t streams;
    uint32_t events;
    uint32_t modules;
    uint32_t mmio_ranges;
};
void softgpu_get_usage(struct softgpu_usage* out);

#ifdef __cplusplus
}
#endif
#endif
