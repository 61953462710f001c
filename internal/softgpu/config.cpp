// Keys: name=TEXT sms=N blocks_per_sm=N mem=BYTES seed=N stack=BYTES local_pes=N spin=N cc=N pci=N shuffle=0|1 vmm=0|1
// dmabuf=0|1 rdma=0|1 memops=0|1 trace=N fail=CALL:N|every|io:CODE (may be repeated). BYTES takes K, M or G.
#include "config.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cuda_api.h"
#include "errors.h"

namespace softgpu {
namespace {

bool parse_number(const std::string& s, uint64_t lo, uint64_t hi, bool bytes, uint64_t* out) {
    if (s.empty() || s[0] < '0' || s[0] > '9') return false;
    char* end;
    errno = 0;
    unsigned long long v = strtoull(s.c_str(), &end, 10);
    if (errno) return false;
    unsigned shift = 0;
    if (bytes && *end) {
        shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
        if (!shift) return false;
        end++;
    }
    if (*end || (shift && v >> (64 - shift))) return false;
    *out = uint64_t(v) << shift;
    return *out >= lo && *out <= hi;
}

struct number_key {
    const char* name;
    uint64_t lo, hi;
    bool bytes;
    void (*set)(config*, uint64_t);
};

const number_key number_keys[] = {
    {"sms", 1, 1024, false, [](config* c, uint64_t v) { c->sms = uint32_t(v); }},
    {"blocks_per_sm", 1, 64, false, [](config* c, uint64_t v) { c->blocks_per_sm = uint32_t(v); }},
    {"mem", 1 << 20, 1ull << 46, true, [](config* c, uint64_t v) { c->memory = v; }},
    {"seed", 0, ~0ull, false, [](config* c, uint64_t v) { c->seed = v; }},
    {"stack", 16 << 10, 16 << 20, true, [](config* c, uint64_t v) { c->stack = (v + 4095) & ~4095ull; }},
    {"local_pes", 1, 65536, false, [](config* c, uint64_t v) { c->local_pes = uint32_t(v); }},
    {"spin", 1, 1 << 20, false, [](config* c, uint64_t v) { c->spin = uint32_t(v); }},
    {"cc", 70, 120, false, [](config* c, uint64_t v) { c->cc = uint32_t(v); }},
    {"pci", 0, 31, false, [](config* c, uint64_t v) { c->pci_device = uint32_t(v); }},
    {"shuffle", 0, 1, false, [](config* c, uint64_t v) { c->shuffle = v; }},
    {"vmm", 0, 1, false, [](config* c, uint64_t v) { c->vmm = v; }},
    {"dmabuf", 0, 1, false, [](config* c, uint64_t v) { c->dmabuf = v; }},
    {"rdma", 0, 1, false, [](config* c, uint64_t v) { c->rdma = v; }},
    {"memops", 0, 1, false, [](config* c, uint64_t v) { c->memops = v; }},
    {"trace", 16, 1 << 30, false, [](config* c, uint64_t v) { c->trace_budget = int32_t(v); }},
};

std::string parse_fault(const std::string& s, config* c) {
    size_t a = s.find(':'), b = a == std::string::npos ? a : s.find(':', a + 1);
    if (b == std::string::npos) return "fail=" + s + ": want fail=CALL:N:CODE, with N a number, \"every\" or \"io\"";
    fault f;
    f.call = s.substr(0, a);
    std::string when = s.substr(a + 1, b - a - 1), code = s.substr(b + 1);
    if (!is_call_name(f.call.c_str())) return "fail=" + s + ": the software GPU has no call " + f.call;
    if (when == "io") {
        if (f.call != "cuMemHostRegister") return "fail=" + s + ": \"io\" is for cuMemHostRegister only";
        f.iomemory = true;
    } else if (when != "every" && !parse_number(when, 1, ~0ull, false, &f.nth)) {
        return "fail=" + s + ": N is \"" + when + "\", want a number from 1, \"every\" or \"io\"";
    }
    f.code = error_by_name(code.c_str());
    if (f.code <= 0) return "fail=" + s + ": unknown code " + code + ", want one such as OUT_OF_MEMORY";
    c->faults.push_back(f);
    return "";
}

std::string parse_pair(const std::string& key, const std::string& value, config* c) {
    if (key == "name") {
        c->name = value;
        return value.empty() ? "name is empty" : "";
    }
    if (key == "fail") return parse_fault(value, c);
    for (const number_key& k : number_keys) {
        if (key != k.name) continue;
        uint64_t v;
        if (!parse_number(value, k.lo, k.hi, k.bytes, &v))
            return key + " is \"" + value + "\", want " + std::to_string(k.lo) + ".." + std::to_string(k.hi) +
                   (k.bytes ? " bytes (K, M, G allowed)" : "");
        k.set(c, v);
        return "";
    }
    return "unknown key \"" + key + "\" [keys are listed in internal/softgpu/config.cpp]";
}

uint64_t default_memory() {
    uint64_t all = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
    uint64_t half = all / 2, most = 16ull << 30;
    return (half < most ? half : most) & ~((2ull << 20) - 1);
}

}  // namespace

static config& current() {
    static config c = [] {
        config d;
        d.memory = default_memory();
        return d;
    }();
    return c;
}

const config& options() { return current(); }

void set_options(const config& c) {
    current() = c;
    if (!c.memory) current().memory = default_memory();
}

std::string parse_config(const char* text, config* out) {
    config c;
    std::string rest = text ? text : "";
    while (!rest.empty()) {
        size_t comma = rest.find(',');
        std::string pair = rest.substr(0, comma);
        rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
        size_t eq = pair.find('=');
        if (eq == std::string::npos) return "\"" + pair + "\" is not key=value";
        std::string wrong = parse_pair(pair.substr(0, eq), pair.substr(eq + 1), &c);
        if (!wrong.empty()) return wrong;
    }
    *out = c;
    return "";
}

}  // namespace softgpu
