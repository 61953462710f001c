// SIMT_KERNEL(name): how the software GPU finds a kernel and calls it without knowing its parameter types.
#ifndef PGAS_SIMT_KERNEL_H
#define PGAS_SIMT_KERNEL_H

// __launch_bounds__(n) must leave n where the loader finds it, with nothing but an attribute to say it in. So it asks
// for n bytes of patch area before the function's entry: they are never executed, and the compiler lists their start in
// a section of its own.
#if defined(__x86_64__)
// sizeof, because g++ wants a constant that is already folded.
#define SIMT_BOUND_(a, ...) sizeof(char[a])
#define __launch_bounds__(...) \
    __attribute__((patchable_function_entry(SIMT_BOUND_(__VA_ARGS__, 0), SIMT_BOUND_(__VA_ARGS__, 0))))
#else
#define __launch_bounds__(...)
#endif

extern "C" {
extern const uintptr_t __start___patchable_function_entries[] __attribute__((weak, visibility("hidden")));
extern const uintptr_t __stop___patchable_function_entries[] __attribute__((weak, visibility("hidden")));
}

namespace simt {

// The patch area in front of fn, in bytes: what __launch_bounds__ said, or 0.
inline uint32_t launch_bounds(const void* fn) {
#if defined(__x86_64__)
    constexpr unsigned char nop = 0x90;
    const uintptr_t at = reinterpret_cast<uintptr_t>(fn);
    for (const uintptr_t* p = __start___patchable_function_entries; p != __stop___patchable_function_entries; ++p) {
        if (*p >= at || at - *p > 1024) continue;
        auto* area = reinterpret_cast<const unsigned char*>(*p);
        uint32_t n = uint32_t(at - *p), i = 0;
        while (i < n && area[i] == nop) i++;
        if (i == n) return n;
    }
#endif
    return 0;
}

template <class F>
struct kernel_traits;

template <class... A>
struct kernel_traits<void (*)(A...)> {
    static constexpr uint32_t count = sizeof...(A);
    static constexpr uint32_t bytes[sizeof...(A) + 1] = {uint32_t(sizeof(A))..., 0};
    template <void (*F)(A...), size_t... I>
    static void call(void** args, std::index_sequence<I...>) {
        (void)args;
        F(*static_cast<std::remove_reference_t<A>*>(args[I])...);
    }
    template <void (*F)(A...)>
    static void entry(void** args) {
        call<F>(args, std::index_sequence_for<A...>{});
    }
};

}  // namespace simt

// After the definition of extern "C" __global__ void name(...).
#define SIMT_KERNEL(name)                                                                                              \
    extern "C" {                                                                                                       \
    extern __attribute__((visibility("default"))) const simt_kernel simt_kernel_##name;                                \
    const simt_kernel simt_kernel_##name = {#name, &simt::kernel_traits<decltype(&name)>::entry<&name>,                \
                                            simt::kernel_traits<decltype(&name)>::count,                               \
                                            simt::kernel_traits<decltype(&name)>::bytes,                               \
                                            [] { return simt::launch_bounds(reinterpret_cast<const void*>(&name)); }}; \
    }
#define PGAS_KERNEL(name) SIMT_KERNEL(name)

#endif
