// Block threads: kept between launches with their stacks, and shared by all streams.
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>

#include "config.h"
#include "pool.h"
#include "simt.h"
#include "tsan.h"

namespace softgpu {
namespace {

constexpr size_t scheduler_stack = 256 << 10;
constexpr size_t signal_stack_bytes = 64 << 10;

struct worker {
    pthread_t thread;
    block_thread* block = nullptr;
    std::mutex m;
    std::condition_variable cv;
    launch* job = nullptr;
    bool stop = false;
};

struct pool {
    std::mutex m;
    std::condition_variable slots_free;
    std::vector<worker*> idle;
    std::vector<worker*> all;
    uint32_t slots_used = 0;
    uint64_t next_ticket = 0, serving = 0;  // launches get their slots in order
};

pool& the_pool() {
    static auto* p = new pool;  // never destroyed: threads may outlive static destructors
    return *p;
}

struct finish {
    std::mutex m;
    std::condition_variable cv;
};
// Made before any thread starts, and never destroyed.
finish& finished_launches = *new finish;
finish& finished() { return finished_launches; }

void leave_launch(launch* job) {
    finish& f = finished();
    std::lock_guard<std::mutex> hold(f.m);
    if (job->participants.fetch_sub(1) == 1) f.cv.notify_all();
}

void* worker_main(void* arg) {
    auto* w = static_cast<worker*>(arg);
    signal_stack alternate;
    for (;;) {
        launch* job;
        {
            std::unique_lock<std::mutex> hold(w->m);
            w->cv.wait(hold, [w] { return w->job || w->stop; });
            if (!w->job) return nullptr;
            job = w->job;
            w->job = nullptr;
        }
        run_blocks(w->block, job);
        {
            std::lock_guard<std::mutex> hold(the_pool().m);
            the_pool().idle.push_back(w);
        }
        leave_launch(job);
    }
}

worker* new_worker() {
    auto w = std::make_unique<worker>();
    w->block = block_thread_create();
    if (!w->block) return nullptr;
    if (!start_thread(&w->thread, worker_main, w.get(), scheduler_stack)) {
        block_thread_destroy(w->block);
        return nullptr;
    }
    return w.release();
}

// Takes n idle workers, making those that are missing. False when the machine gives no more threads.
bool take_workers(uint32_t n, std::vector<worker*>* out) {
    pool& p = the_pool();
    {
        std::lock_guard<std::mutex> hold(p.m);
        while (out->size() < n && !p.idle.empty()) {
            out->push_back(p.idle.back());
            p.idle.pop_back();
        }
    }
    while (out->size() < n) {
        worker* w = new_worker();
        std::lock_guard<std::mutex> hold(p.m);
        if (!w) {
            p.idle.insert(p.idle.end(), out->begin(), out->end());
            return false;
        }
        p.all.push_back(w);
        out->push_back(w);
    }
    return true;
}

void take_slots(uint32_t n) {
    pool& p = the_pool();
    std::unique_lock<std::mutex> hold(p.m);
    uint64_t ticket = p.next_ticket++;
    p.slots_free.wait(hold, [&] { return p.serving == ticket && p.slots_used + n <= block_slots(); });
    p.slots_used += n;
    p.serving++;
    p.slots_free.notify_all();
}

void give_slots(uint32_t n) {
    pool& p = the_pool();
    std::lock_guard<std::mutex> hold(p.m);
    p.slots_used -= n;
    p.slots_free.notify_all();
}

int run_with(block_thread* own, launch* job, uint32_t n) {
    std::vector<worker*> helpers;
    if (!take_workers(n - 1, &helpers)) {
        report("kernel " + job->name + ": the machine gives no more threads for " + std::to_string(n) +
               " resident blocks [configure fewer: sms=, blocks_per_sm=]");
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    job->participants = n;
    for (worker* w : helpers) {
        std::lock_guard<std::mutex> hold(w->m);
        w->job = job;
        w->cv.notify_one();
    }
    run_blocks(own, job);
    leave_launch(job);
    std::unique_lock<std::mutex> hold(finished().m);
    finished().cv.wait(hold, [job] { return job->participants.load() == 0; });
    return job->error.load();
}

}  // namespace

signal_stack::signal_stack() {
    memory = mmap(nullptr, signal_stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        memory = nullptr;
        return;
    }
    stack_t ss = {};
    ss.ss_sp = memory;
    ss.ss_size = signal_stack_bytes;
    sigaltstack(&ss, nullptr);
}

signal_stack::~signal_stack() {
    if (!memory) return;
    stack_t off = {};
    off.ss_flags = SS_DISABLE;
    sigaltstack(&off, nullptr);
    munmap(memory, signal_stack_bytes);
}

bool start_thread(pthread_t* thread, void* (*body)(void*), void* arg, size_t stack) {
    // Asynchronous signals belong to the program's other threads; faults must arrive here.
    sigset_t block, before;
    sigfillset(&block);
    for (int sig : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&block, sig);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, stack);
    pthread_sigmask(SIG_SETMASK, &block, &before);
    int r = pthread_create(thread, &attr, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attr);
    return r == 0;
}

uint32_t block_slots() { return options().sms * options().blocks_per_sm; }

uint32_t pool_threads() {
    std::lock_guard<std::mutex> hold(the_pool().m);
    return uint32_t(the_pool().all.size());
}

int run_launch(block_thread* own, launch* job) {
    uint32_t n = uint32_t(job->n_blocks < block_slots() ? job->n_blocks : block_slots());
    take_slots(n);
    tsan::release(&job->tsan_start);
    int r = run_with(own, job, n);
    tsan::acquire(&job->tsan_end);
    give_slots(n);
    return r;
}

void pool_shutdown() {
    pool& p = the_pool();
    std::vector<worker*> all;
    {
        std::lock_guard<std::mutex> hold(p.m);
        all.swap(p.all);
        p.idle.clear();
    }
    for (worker* w : all) {
        {
            std::lock_guard<std::mutex> hold(w->m);
            w->stop = true;
            w->cv.notify_one();
        }
        pthread_join(w->thread, nullptr);
        block_thread_destroy(w->block);
        delete w;
    }
}

}  // namespace softgpu
