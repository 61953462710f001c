// One kernel per fast path, each nothing but the call: what ptxas and the SASS say of a kernel is what they say of the
// operation. report.txt holds the numbers; TestFastPathReport compares.
#include <pgas/pgas.cuh>

using pgas::status;

#define FAST_PATH(name, ...)                                                                                    \
    extern "C" __global__ void name(pgas::world w, uint64_t* dst, const uint64_t* src, uint64_t n, uint32_t pe, \
                                    uint64_t* flag, uint32_t* out) {                                            \
        pgas::context ctx = w.context(0);                                                                       \
        (void)dst, (void)src, (void)n, (void)flag;                                                              \
        *out = static_cast<uint32_t>(__VA_ARGS__);                                                              \
    }

FAST_PATH(put_thread, pgas::put_nbi(pgas::thread(), ctx, dst, src, n, pe))
FAST_PATH(put_warp, pgas::put_nbi(pgas::warp(), ctx, dst, src, n, pe))
FAST_PATH(put_block, pgas::put_nbi(pgas::block(), ctx, dst, src, n, pe))
FAST_PATH(put_value, pgas::p(ctx, dst, n, pe))
FAST_PATH(put_signal_thread, pgas::put_signal_nbi(pgas::thread(), ctx, dst, src, n, pe, pgas::signal_add(flag, 1)))
FAST_PATH(put_signal_warp, pgas::put_signal_nbi(pgas::warp(), ctx, dst, src, n, pe, pgas::signal_add(flag, 1)))
FAST_PATH(put_signal_block, pgas::put_signal_nbi(pgas::block(), ctx, dst, src, n, pe, pgas::signal_add(flag, 1)))
FAST_PATH(get_thread, pgas::get_nbi(pgas::thread(), ctx, dst, src, n, pe))
FAST_PATH(get_block, pgas::get(pgas::block(), ctx, dst, src, n, pe))
FAST_PATH(signal_thread, pgas::signal(pgas::thread(), ctx, pe, pgas::signal_set(flag, n)))
FAST_PATH(wait_thread, pgas::wait_until(ctx, flag, pgas::ge(n)))
FAST_PATH(fence_thread, pgas::fence(ctx, pe))
FAST_PATH(quiet_thread, pgas::quiet(ctx, pe))
