// The status record: the first error that any thread of this PE saw, for the host to read.
#pragma once

#include "../context.cuh"

namespace pgas {
namespace detail {

// Fills the record if nobody has. The caller fills `fill(record)` with what it knows; order and state are kept here.
template <class Fill>
PGAS_DEVICE void record_first(const wire::world* w, status s, wire::op op, uint32_t peer, uint32_t ctx, Fill fill) {
    auto* r = reinterpret_cast<wire::status_record*>(w->status);
    if (r == nullptr || mm::cas_system(&r->state, 0, 1) != 0) return;
    r->status = s;
    r->op = static_cast<uint32_t>(op);
    r->peer = peer;
    r->context = ctx;
#if defined(PGAS_HOST)
    r->block = ~0u;
    r->thread = ~0u;
#else
    r->block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    r->thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
#endif
    fill(r);
    mm::st_release<mm::scope::system>(&r->state, 2u);
}

// Records a timeout, unless the caller chose a deadline of its own: then it expects timeouts and handles them.
template <class Fill>
PGAS_DEVICE void record_timeout(context c, wire::op op, uint32_t peer, Fill fill) {
    if (c.timeout_ns == c.w->timeout_ns) record_first(c.w, status::timeout, op, peer, c.index, fill);
}

// Records a refused argument and returns status::invalid.
PGAS_COLD status refuse(context c, wire::op op, uint32_t pe, const void* address, uint64_t length) {
    record_first(c.w, status::invalid, op, pe, c.index, [&](wire::status_record* r) {
        r->address = reinterpret_cast<uint64_t>(address);
        r->expected = length;
    });
    return status::invalid;
}

}  // namespace detail
}  // namespace pgas
