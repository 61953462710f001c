// A good protocol, and mutants of it that ThreadSanitizer must report.

struct mailbox {
    unsigned data;
    unsigned pad[31];
    unsigned flag;
};

#define KERNEL_INFO(name) PGAS_KERNEL(name)
#define JOIN(a, b) a##b
#define PUBLISH_OF(name) JOIN(publish_in_, name)
#define PUBLISH(name) PUBLISH_OF(name)

#define KERNEL good
#include "protocol.inc"
#undef KERNEL

#define KERNEL no_syncwarp
#define NO_SYNCWARP
#include "protocol.inc"
#undef NO_SYNCWARP
#undef KERNEL

#define KERNEL early_fence
#define EARLY_FENCE
#include "protocol.inc"
#undef EARLY_FENCE
#undef KERNEL

#define KERNEL relaxed
#define RELAXED
#include "protocol.inc"
#undef RELAXED
#undef KERNEL
