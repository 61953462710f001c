// The software mlx5 HCA: a C++ library that fills struct pgas_mlx5_api and executes commands, WQEs and doorbells as
// the hardware would. It has no Go in it; plain C and C++ programs link it too.
//
// Layouts are the mlx5 PRM layouts as in rdma-core mlx5dv.h and Linux mlx5_ifc.h. docs: README.md of this directory.
#ifndef PGAS_SOFTHCA_H
#define PGAS_SOFTHCA_H

#include <stddef.h>
#include <stdint.h>

#include "../native/mlx5/mlx5_api.h"

#ifdef __cplusplus
extern "C" {
#endif

// The table. It is valid for the life of the process and the same on every call.
const struct pgas_mlx5_api* softhca_table(void);

// Sets the machine's devices, engine mode and faults from "key=value,key=value" (keys: README.md). An empty string is
// the default: one RoCE device mlx5_0, inline mode, no faults. Replaces the earlier configuration and resets all fault
// counts. Devices that are open keep what they were opened with; open them after configuring.
// Returns 0, or EINVAL with the reason in err (always terminated).
int softhca_configure(const char* spec, char* err, size_t errlen);

// What the software GPU lends to the HCA. A NULL member is a service that is not there.
typedef struct softhca_hooks {
    // Registers len bytes of doorbell page at base: later MMIO stores of 8 bytes to base+off call store(ctx, off, val),
    // val as the little-endian CPU stored it. Returns 0 or an errno value.
    int (*mmio_register)(void* base, size_t len, void (*store)(void* ctx, uint64_t off, uint64_t val), void* ctx);
    // Ends that; when it returns no store is running or will be.
    void (*mmio_unregister)(void* base);
    // Names the memfd behind [addr, addr+len) so that HCAs of other processes can map it. *fd is a new descriptor that
    // the HCA closes; *offset is that of addr. Returns 0, or an errno value when the memory cannot be shared.
    int (*export_range)(const void* addr, size_t len, int* fd, uint64_t* offset);
    // Descriptor of this PE's bell page ({uint32 sleepers; uint32 seq}, shared memfd), or -1. Stays the caller's.
    int (*bell_fd)(void);
} softhca_hooks;

// Sets the hooks for devices opened and memory registered from now on. NULL removes them. The struct is copied.
void softhca_set_hooks(const softhca_hooks* hooks);

// An 8-byte MMIO store by a CPU, for programs without the software GPU. Returns 0, or EFAULT when reg is in no UAR
// page.
int softhca_mmio_store(void* reg, uint64_t value);
int softhca_mmio_store_at(uintptr_t reg, uint64_t value);  // for Go, where a register is no pointer

// Counters, summed over all devices of the process since they were first opened (or since softhca_configure).
#define SOFTHCA_COUNTERS(X)                                                                      \
    X(doorbells)                /* MMIO stores to send registers */                              \
    X(doorbells_ignored)        /* wrong UAR page, unknown QP, or QP not in RTS/ERR */           \
    X(doorbell_ahead_of_record) /* doorbell index beyond the doorbell record */                  \
    X(doorbells_dropped)        /* chaos: an early doorbell lost because a later one followed */ \
    X(wqe_nop)                                                                                   \
    X(wqe_write)                                                                                 \
    X(wqe_write_imm)                                                                             \
    X(wqe_read)                                                                                  \
    X(wqe_atomic_cs)                                                                             \
    X(wqe_atomic_fa)                                                                             \
    X(wqe_masked_cs)                                                                             \
    X(wqe_masked_fa)                                                                             \
    X(wqe_send)                                                                                  \
    X(wqe_send_imm)                                                                              \
    X(wqe_dump)                                                                                  \
    X(wqe_flushed)                                                                               \
    X(cqes)                                                                                      \
    X(cqe_errors)                                                                                \
    X(cq_overruns)                                                                               \
    X(bytes_written)                                                                             \
    X(bytes_read)                                                                                \
    X(bytes_sent)                                                                                \
    X(nak_access)                                                                                \
    X(nak_invalid)                                                                               \
    X(nak_rnr)                                                                                   \
    X(timeouts)   /* acknowledge timers that fired */                                            \
    X(retries)    /* requests sent again */                                                      \
    X(duplicates) /* requests behind the expected PSN */                                         \
    X(commands)                                                                                  \
    X(commands_refused)                                                                          \
    X(faults_injected)                                                                           \
    X(bells_rung)                                                                                \
    X(engine_sleeps)                                                                             \
    X(objects_leaked) /* alive when their context was closed */

typedef struct softhca_counts {
#define SOFTHCA_COUNT_MEMBER(name) uint64_t name;
    SOFTHCA_COUNTERS(SOFTHCA_COUNT_MEMBER)
#undef SOFTHCA_COUNT_MEMBER
} softhca_counts;

void softhca_counters(softhca_counts* out);

// The same for one queue pair of this process: only the counters that belong to a QP are not 0. Returns 0 or ENOENT.
int softhca_qp_counters(uint32_t qpn, softhca_counts* out);

// Number of objects (contexts, PDs, MRs, umems, UARs, CQs, QPs) that are alive in this process.
typedef struct softhca_objects {
    uint32_t contexts, pds, mkeys, umems, uars, cqs, qps;
} softhca_objects;
void softhca_live_objects(softhca_objects* out);

#ifdef __cplusplus
}
#endif

#endif  // PGAS_SOFTHCA_H
