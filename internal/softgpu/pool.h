// Threads of the software GPU.
#ifndef PGAS_SOFTGPU_POOL_H
#define PGAS_SOFTGPU_POOL_H

#include <pthread.h>

#include <cstddef>

namespace softgpu {

// The alternate signal stack of a thread that runs lanes: a lane that overflows its stack has none left for the
// handler.
struct signal_stack {
    void* memory;
    signal_stack();
    ~signal_stack();
    signal_stack(const signal_stack&) = delete;
    signal_stack& operator=(const signal_stack&) = delete;
};

bool start_thread(pthread_t* thread, void* (*body)(void*), void* arg, size_t stack);

}  // namespace softgpu

#endif
