// world and context: what a kernel holds.
//
// A kernel takes a `pgas::world` parameter (the host passes World.Device()) and issues operations on a context:
//
//     extern "C" __global__ void ring(pgas::world w, uint64_t* box, uint64_t* flag) {
//         pgas::context ctx = w.context(0);
//         ...
//     }
//     PGAS_KERNEL(ring)
//
// A context has its own queue to each peer. Order is a property of (context, peer); see docs/memory-model.md.
#pragma once

#include "wait.cuh"

namespace pgas {

// Issues operations. Plain data: copy it freely.
struct context {
    const wire::world* w;
    uint32_t index;
    uint64_t timeout_ns;  // deadline of every wait made on this context; 0 means none

    PGAS_DEVICE uint32_t my_pe() const { return w->my_pe; }
    PGAS_DEVICE uint32_t n_pes() const { return w->n_pes; }

    // The same context with another deadline. 0 means none; an abort of the job still ends every wait. A timeout on
    // such a context is left to the caller: it is not recorded for the host.
    PGAS_DEVICE context with_timeout_ns(uint64_t ns) const { return {w, index, ns}; }
};

// This PE's view of the job. Plain data of pointer size, a kernel parameter.
struct world {
    const wire::world* w;

    PGAS_DEVICE uint32_t my_pe() const { return w->my_pe; }
    PGAS_DEVICE uint32_t n_pes() const { return w->n_pes; }
    PGAS_DEVICE uint32_t n_contexts() const { return w->n_contexts; }

    // Context i, 0 <= i < n_contexts(). Operations on a context outside that range return status::invalid.
    PGAS_DEVICE pgas::context context(uint32_t i) const { return {w, i, w->timeout_ns}; }
};

static_assert(sizeof(world) == 8, "a kernel parameter of one pointer");

}  // namespace pgas
