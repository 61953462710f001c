// Faults of lanes. A bad access, a division by zero or a trap ends the launch, not the process: the signal handler
// notes what happened and continues the thread in its scheduler. Signals of other threads go to the handlers that were
// there before, which in a Go program are Go's.
#include <signal.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "config.h"
#include "simt.h"
#include "tsan.h"

namespace softgpu {
namespace {

constexpr int handled[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction previous[64];

// Written by the handler, read by the scheduler right after: no allocation happens in between.
struct fault_note {
    int signal;
    const void* address;
    const void* pc;
};
__thread fault_note note;

bool in_stack_guard(const block_thread* t, const void* addr) {
    uintptr_t a = reinterpret_cast<uintptr_t>(addr), s = reinterpret_cast<uintptr_t>(t->stacks);
    return a >= s && a < s + t->stack_bytes * max_lanes && (a - s) % t->stack_bytes < 4096;
}

// Runs in the scheduler's place on the lane's thread, on the signal-free scheduler stack.
void describe(block_thread* t) {
    std::string who = lane_name(t, t->current);
    std::string at = " at " + code_name(note.pc);
    char addr[32];
    snprintf(addr, sizeof(addr), "%p", note.address);
    if (in_stack_guard(t, note.address)) {
        t->job->fail(CUDA_ERROR_LAUNCH_FAILED, who + at + " overflowed its stack of " +
                                                   std::to_string(options().stack) + " bytes [configure stack=...]");
        return;
    }
    if (note.signal == SIGFPE) {
        t->job->fail(CUDA_ERROR_LAUNCH_FAILED, who + at + " divided an integer by zero");
        return;
    }
    if (note.signal == SIGILL) {
        t->job->fail(CUDA_ERROR_ILLEGAL_INSTRUCTION, who + at + " executed an illegal instruction");
        return;
    }
    char nearest[256];
    softgpu_describe(note.address, nearest, sizeof(nearest));
    t->job->fail(CUDA_ERROR_ILLEGAL_ADDRESS, who + at + " accessed " + addr + ": " + nearest);
}

void chain(int sig, siginfo_t* info, void* context) {
    const struct sigaction& old = previous[sig];
    if (old.sa_flags & SA_SIGINFO) {
        old.sa_sigaction(sig, info, context);
    } else if (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN) {
        signal(sig, SIG_DFL);  // the access is repeated and ends the process as if we had not been there
    } else {
        old.sa_handler(sig);
    }
}

void on_signal(int sig, siginfo_t* info, void* context) {
    block_thread* t = this_block;
    if (!t || !t->on_lane || t->in_handler) {
        chain(sig, info, context);
        return;
    }
    auto* uc = static_cast<ucontext_t*>(context);
#if defined(__x86_64__)
    note = {sig, info->si_addr, reinterpret_cast<const void*>(uc->uc_mcontext.gregs[REG_RIP])};
    uc->uc_mcontext.gregs[REG_RSP] = greg_t(reinterpret_cast<uintptr_t>(t->scheduler_sp));
    uc->uc_mcontext.gregs[REG_RIP] = greg_t(reinterpret_cast<uintptr_t>(&simt_resume));
#else
    note = {sig, info->si_addr, reinterpret_cast<const void*>(uc->uc_mcontext.pc)};
    uc->uc_mcontext.sp = reinterpret_cast<uintptr_t>(t->scheduler_sp);
    uc->uc_mcontext.pc = reinterpret_cast<uintptr_t>(&simt_resume);
#endif
}

}  // namespace

// Called by the scheduler when a block has ended.
void take_fault(block_thread* t) {
    if (!note.signal) return;
    describe(t);
    note.signal = 0;
}

void install_fault_handlers() {
    if (tsan::enabled) return;  // TSan's own handlers stay
    static std::once_flag once;
    std::call_once(once, [] {
        for (int sig : handled) {
            struct sigaction sa = {};
            sa.sa_sigaction = on_signal;
            sa.sa_flags = SA_SIGINFO | SA_ONSTACK;
            sigfillset(&sa.sa_mask);
            sigaction(sig, &sa, &previous[sig]);
        }
    });
}

}  // namespace softgpu

using namespace softgpu;

void simt_trap(const char* what) {
    block_thread* t = this_block;
    if (!t || !t->on_lane) abort();
    t->job->fail(CUDA_ERROR_LAUNCH_FAILED, lane_name(t, t->current) + " called " + what);
    leave_block(t);
}

void simt_assert_fail(const char* text, const char* file, unsigned line, const char* function) {
    block_thread* t = this_block;
    std::string all = std::string(file) + ":" + std::to_string(line) + ": " + function + ": assertion failed: " + text;
    if (!t || !t->on_lane) {
        fprintf(stderr, "%s\n", all.c_str());
        abort();
    }
    t->job->fail(CUDA_ERROR_ASSERT, lane_name(t, t->current) + ": " + all);
    leave_block(t);
}
