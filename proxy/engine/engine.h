// Host-initiated operations: the CPU posts on the same queues as kernels do, with the device library's own code.
//
// An engine works on a wire::world whose pointers, queues and heap the CPU can reach. All calls are thread-safe and
// return a wire::status as uint32_t. timeout_ns 0 means no deadline; an abort of the job ends every wait.
#ifndef PGAS_PROXY_ENGINE_H
#define PGAS_PROXY_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pgas_engine pgas_engine;

// What the platform's CPU side needs. Null members: plain MMIO stores, and nobody sleeps on bells. Process-wide.
typedef struct pgas_engine_hooks {
    void (*doorbell)(volatile void* addr, uint64_t value);
    void (*pause)(void);
    void (*notify)(void);
    void (*ring_bell)(void* bell);
} pgas_engine_hooks;

void pgas_engine_set_hooks(const pgas_engine_hooks* hooks);

// `stage` is memory inside a segment or registered region of the world; it carries data to and from memory that the NIC
// does not know. It is cut into slots of at most 64 KiB. 0 bytes: such transfers are refused.
pgas_engine* pgas_engine_new(const void* world, void* stage, size_t stage_bytes);
void pgas_engine_free(pgas_engine* e);

// put: returns when src may be reused. put_nbi differs only for registered sources, which stay in use until quiet.
uint32_t pgas_engine_put(pgas_engine* e, uint64_t dst, const void* src, uint64_t n, uint32_t pe, uint64_t timeout_ns);
uint32_t pgas_engine_put_nbi(pgas_engine* e, uint64_t dst, const void* src, uint64_t n, uint32_t pe,
                             uint64_t timeout_ns);
uint32_t pgas_engine_get(pgas_engine* e, void* dst, uint64_t src, uint64_t n, uint32_t pe, uint64_t timeout_ns);
uint32_t pgas_engine_put_signal(pgas_engine* e, uint64_t dst, const void* src, uint64_t n, uint64_t word, int add,
                                uint64_t value, uint32_t pe, uint64_t timeout_ns);
uint32_t pgas_engine_signal(pgas_engine* e, uint64_t word, int add, uint64_t value, uint32_t pe, uint64_t timeout_ns);
uint32_t pgas_engine_fetch_add(pgas_engine* e, uint64_t word, uint64_t value, uint32_t pe, uint64_t timeout_ns,
                               uint64_t* old);
uint32_t pgas_engine_fence(pgas_engine* e, uint32_t pe, uint64_t timeout_ns);

// A quiet that times out has no effect and may be repeated.
uint32_t pgas_engine_quiet(pgas_engine* e, uint32_t pe, uint64_t timeout_ns);

// Looks once at the completions of every queue: completion_error when an operation issued here has failed.
uint32_t pgas_engine_check(pgas_engine* e);

#ifdef __cplusplus
}
#endif
#endif
