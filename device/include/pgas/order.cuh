// Order and completion: fence and quiet. Both speak of one context; other contexts are not touched.
#pragma once

#include "rma.cuh"

namespace pgas {

// Later operations of this context to that PE take effect after earlier ones. "Earlier" are the operations that this
// thread issued or that their issuers synchronised with it after. Nearly free: a context has one queue per peer, and
// only outstanding gets make it post a WQE. Thread scope.
//   Errors: invalid, timeout, aborted, peer_lost, completion_error.
PGAS_DEVICE status fence(context c, uint32_t pe) {
    if (!detail::valid(c, pe)) return detail::refuse(c, wire::op::fence, pe, nullptr, 0);
    mm::fence_system();
    if (c.w->queues == 0) return status::ok;
    return detail::fence_queue(c, detail::queue_of(c, pe), pe);
}

// Earlier operations of this context to that PE are complete: puts and signals are visible there, gets are here, and
// all sources and targets may be reused. Thread scope.
PGAS_DEVICE status quiet(context c, uint32_t pe) {
    if (!detail::valid(c, pe)) return detail::refuse(c, wire::op::quiet, pe, nullptr, 0);
    mm::fence_system();
    if (c.w->queues == 0) return status::ok;
    return detail::quiet_queue(c, detail::queue_of(c, pe), pe);
}

// To all PEs: the slow convenience. They go on after an error and return the first one.
PGAS_DEVICE status fence(context c) {
    status first = status::ok;
    for (uint32_t pe = 0; pe < c.w->n_pes; ++pe) {
        status s = fence(c, pe);
        if (first == status::ok) first = s;
    }
    return first;
}
PGAS_DEVICE status quiet(context c) {
    status first = status::ok;
    for (uint32_t pe = 0; pe < c.w->n_pes; ++pe) {
        status s = quiet(c, pe);
        if (first == status::ok) first = s;
    }
    return first;
}

}  // namespace pgas
