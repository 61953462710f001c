// Reports: what kernels did wrong, in words.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>

#include "simt.h"

namespace softgpu {
namespace {

constexpr size_t max_lines = 16;
std::mutex lock;
std::deque<std::string>& lines() {
    static auto* d = new std::deque<std::string>;  // never destroyed: block threads may outlive static destructors
    return *d;
}

}  // namespace

void report(const std::string& text) {
    std::lock_guard<std::mutex> hold(lock);
    if (lines().size() == max_lines) lines().pop_front();
    lines().push_back(text);
}

std::string lane_name(const block_thread* t, uint32_t i) {
    const lane& l = t->lanes[i];
    char s[160];
    snprintf(s, sizeof(s), "kernel %s block %llu thread %u (%u,%u,%u)", t->job->name.c_str(),
             static_cast<unsigned long long>(t->block_index), i, l.tid.x, l.tid.y, l.tid.z);
    return s;
}

std::string code_name(const void* pc) {
    Dl_info info;
    char s[256];
    if (pc && dladdr(pc, &info) && info.dli_sname)
        snprintf(s, sizeof(s), "%s+0x%zx", info.dli_sname,
                 size_t(static_cast<const char*>(pc) - static_cast<const char*>(info.dli_saddr)));
    else if (pc && dladdr(pc, &info))
        snprintf(s, sizeof(s), "module+0x%zx",
                 size_t(static_cast<const char*>(pc) - static_cast<const char*>(info.dli_fbase)));
    else
        snprintf(s, sizeof(s), "%p", pc);
    return s;
}

void launch::fail(int code, const std::string& text) {
    int none = 0;
    if (error.compare_exchange_strong(none, code)) report(text);
}

}  // namespace softgpu

using namespace softgpu;

size_t softgpu_last_report(char* text, size_t len) {
    std::lock_guard<std::mutex> hold(lock);
    std::string all;
    for (const std::string& l : lines()) all += (all.empty() ? "" : "\n") + l;
    if (len) {
        size_t n = all.size() < len - 1 ? all.size() : len - 1;
        memcpy(text, all.data(), n);
        text[n] = 0;
    }
    return all.size();
}

void softgpu_clear_report(void) {
    std::lock_guard<std::mutex> hold(lock);
    lines().clear();
}
