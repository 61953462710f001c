// The CUDA table. Every entry checks, in CUDA's order: initialised, current context, injected fault, sticky error; then
// it calls its function.
#include <atomic>
#include <cstdio>
#include <cstring>

#include "config.h"
#include "device.h"
#include "impl.h"
#include "memory.h"
#include "module.h"
#include "simt.h"
#include "softgpu.h"
#include "stream.h"

namespace softgpu {
namespace {

enum class need { nothing, init, context };

// What a call needs, and whether it still does its work after a sticky error, because it gives something back.
struct rule {
    need needs;
    bool after_error;
};

constexpr bool same(const char* a, const char* b) {
    for (; *a && *a == *b; ++a, ++b) {
    }
    return *a == *b;
}

constexpr bool among(const char* name, const char* const* list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (same(name, list[i])) return true;
    return false;
}

constexpr const char* need_nothing[] = {"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"};
constexpr const char* need_init[] = {
    "cuDeviceGetCount",         "cuDeviceGet",      "cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceGetPCIBusId",
    "cuDeviceGetAttribute",     "cuDeviceTotalMem", "cuCtxSetCurrent", "cuCtxGetCurrent", "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease"};
constexpr const char* giving_back[] = {"cuMemFree",       "cuMemFreeHost",  "cuMemHostUnregister",
                                       "cuMemUnmap",      "cuMemRelease",   "cuMemAddressFree",
                                       "cuStreamDestroy", "cuEventDestroy", "cuModuleUnload"};

constexpr rule rule_of(const char* name) {
    if (among(name, need_nothing, sizeof(need_nothing) / sizeof(*need_nothing))) return {need::nothing, false};
    if (among(name, need_init, sizeof(need_init) / sizeof(*need_init))) return {need::init, false};
    return {need::context, among(name, giving_back, sizeof(giving_back) / sizeof(*giving_back))};
}

enum call_id {
#define PGAS_ID(name, symbol, params, args) id_##name,
    PGAS_CUDA_CALLS(PGAS_ID, PGAS_ID)
#undef PGAS_ID
        call_ids
};

// Calls since the last configuration, counted while faults are configured.
std::atomic<uint64_t> call_counts[call_ids];

int injected(const char* name, call_id id, bool iomemory) {
    if (options().faults.empty()) return 0;
    uint64_t n = call_counts[id].fetch_add(1) + 1;
    for (const fault& f : options().faults)
        if (f.call == name && (f.iomemory ? iomemory : !f.nth || f.nth == n)) return f.code;
    return 0;
}

int check(const char* name, call_id id, rule r, bool iomemory) {
    if (r.needs != need::nothing && !is_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    if (r.needs == need::context && !context_is_current()) return CUDA_ERROR_INVALID_CONTEXT;
    int code = injected(name, id, iomemory);
    if (code) return code;
    return r.needs == need::context && !r.after_error ? sticky_error() : 0;
}

#define PGAS_ENTRY(name, symbol, params, args)                 \
    CUresult name params {                                     \
        constexpr rule r = rule_of(#name);                     \
        int code = check(#name, id_##name, r, false);          \
        if (code) return code;                                 \
        code = impl::name args;                                \
        return r.after_error && !code ? sticky_error() : code; \
    }
namespace entry {
PGAS_CUDA_CALLS(PGAS_ENTRY, PGAS_ENTRY)
}  // namespace entry
#undef PGAS_ENTRY

// Registration of device registers has a fault of its own: "fail=cuMemHostRegister:io:CODE".
CUresult host_register(void* ptr, size_t bytes, unsigned flags) {
    bool io = flags & CU_MEMHOSTREGISTER_IOMEMORY;
    int code = check("cuMemHostRegister", id_cuMemHostRegister, rule_of("cuMemHostRegister"), io);
    return code ? code : impl::cuMemHostRegister(ptr, bytes, flags);
}

}  // namespace

}  // namespace softgpu

using namespace softgpu;

const struct pgas_cuda_api* softgpu_cuda_table(void) {
    static const pgas_cuda_api table = [] {
        pgas_cuda_api t;
#define PGAS_FILL(name, symbol, params, args) t.name = entry::name;
        PGAS_CUDA_CALLS(PGAS_FILL, PGAS_FILL)
#undef PGAS_FILL
        t.cuMemHostRegister = host_register;
        return t;
    }();
    return &table;
}

int softgpu_configure(const char* text, char* err, size_t err_len) {
    config c;
    std::string wrong = parse_config(text, &c);
    if (wrong.empty() && context_in_use()) wrong = "the primary context is in use [configure before it is retained]";
    if (err_len) snprintf(err, err_len, "%s", wrong.c_str());
    if (!wrong.empty()) return -1;
    set_options(c);
    for (auto& n : call_counts) n = 0;
    return 0;
}

void softgpu_get_usage(struct softgpu_usage* out) {
    memset(out, 0, sizeof(*out));
    out->threads = pool_threads() + stream_threads();
    out->streams = stream_count();
    out->events = event_count();
    out->modules = module_count();
    out->mmio_ranges = mmio_count();
    memory_state& s = memory();
    std::lock_guard<std::mutex> hold(s.m);
    for (auto& [base, a] : s.by_base) {
        if (a.kind == mem_kind::module) continue;
        out->allocations++;
        out->bytes += a.size;
    }
}
