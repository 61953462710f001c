// The one device and its primary context.
#ifndef PGAS_SOFTGPU_DEVICE_H
#define PGAS_SOFTGPU_DEVICE_H

#include "cuda_api.h"

namespace softgpu {

CUcontext the_context();
bool is_initialized();
bool context_is_current();  // on this thread, and alive
bool context_in_use();      // somebody holds the primary context

// The error that ended a launch: every later call of the context returns it.
int sticky_error();
void set_sticky(int code);

}  // namespace softgpu

#endif
