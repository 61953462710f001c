// What device code and engines may call in the software GPU. The symbols live in the host program, which is linked
// with --export-dynamic; a kernel library resolves them when it is loaded. Plain C, so engines can include it alone.
#ifndef PGAS_SIMT_RUNTIME_H
#define PGAS_SIMT_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A waiter found its condition false. On a lane: the next runnable lane of the block runs. Once all lanes of a block do
// nothing but pause, the block's thread spins briefly, then yields about 20 times, then sleeps on the process' bell for
// at most 1 ms at a time. On a thread that runs no block: the same steps for that thread. Does not return on a
// lane whose launch was ended.
void simt_pause(void);

// Stores value at addr. In a registered register range the device's handler runs on this thread; elsewhere it is a
// release store.
void simt_mmio_store64(volatile void* addr, uint64_t value);

// To be called after a release store or an atomic at GPU or system scope: wakes the sleepers of this process.
void simt_notify(void);

// Wakes the sleepers of the process that owns the bell (wire.Bell, mapped here). NULL is allowed and does nothing.
void simt_bell_ring(void* bell);

// Nanoseconds of a monotonic clock common to all processes of the machine.
uint64_t simt_globaltimer(void);

// ThreadSanitizer does not model fences. simt_tsan_fence snapshots what the caller has seen and done;
// simt_tsan_release_at makes the next relaxed store to addr release that snapshot. Both do nothing in other builds.
void simt_tsan_fence(void);
void simt_tsan_release_at(const volatile void* addr);

#ifdef __cplusplus
}
#endif
#endif
