// Our own declarations of the part of GDRCopy that pgas calls; names, signatures and layouts are those of NVIDIA's
// gdrapi.h 2.x. The same table is filled by libgdrapi.so.2 or by the software GPU.
#ifndef PGAS_NATIVE_GDR_API_H
#define PGAS_NATIVE_GDR_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gdr* gdr_t;
typedef struct gdr_mh_s {
    unsigned long h;
} gdr_mh_t;

// gdr_mapping_type_t
enum { GDR_MAPPING_TYPE_NONE = 0, GDR_MAPPING_TYPE_WC = 1, GDR_MAPPING_TYPE_CACHING = 2, GDR_MAPPING_TYPE_DEVICE = 3 };

typedef struct gdr_info_v2 {
    uint64_t va;
    uint64_t mapped_size;
    uint32_t page_size;
    uint64_t tm_cycles;
    uint32_t cycles_per_ms;
    unsigned mapped : 1;
    unsigned wc_mapping : 1;
    int mapping_type;
} gdr_info_v2_t;

// GPU pages: addresses and sizes given to gdr_pin_buffer are rounded by the caller.
#define GPU_PAGE_SHIFT 16
#define GPU_PAGE_SIZE (1UL << GPU_PAGE_SHIFT)
enum { GDR_PIN_FLAG_DEFAULT = 0, GDR_PIN_FLAG_FORCE_PCIE = 1 };

// Every call: X(result, field, symbol, parameters, arguments). OPT: GDRCopy 2.5 and newer.
#define PGAS_GDR_CALLS(REQ, OPT)                                                                                      \
    REQ(gdr_t, open, gdr_open, (), ())                                                                                \
    REQ(int, close, gdr_close, (gdr_t g), (g))                                                                        \
    REQ(int, pin_buffer, gdr_pin_buffer,                                                                              \
        (gdr_t g, unsigned long addr, size_t size, uint64_t p2p_token, uint32_t va_space, gdr_mh_t* handle),          \
        (g, addr, size, p2p_token, va_space, handle))                                                                 \
    OPT(int, pin_buffer_v2, gdr_pin_buffer_v2,                                                                        \
        (gdr_t g, unsigned long addr, size_t size, uint32_t flags, gdr_mh_t* handle), (g, addr, size, flags, handle)) \
    REQ(int, unpin_buffer, gdr_unpin_buffer, (gdr_t g, gdr_mh_t handle), (g, handle))                                 \
    REQ(int, map, gdr_map, (gdr_t g, gdr_mh_t handle, void** va, size_t size), (g, handle, va, size))                 \
    REQ(int, unmap, gdr_unmap, (gdr_t g, gdr_mh_t handle, void* va, size_t size), (g, handle, va, size))              \
    REQ(int, get_info_v2, gdr_get_info_v2, (gdr_t g, gdr_mh_t handle, gdr_info_v2_t * info), (g, handle, info))       \
    REQ(int, copy_to_mapping, gdr_copy_to_mapping, (gdr_mh_t handle, void* map_d, const void* h, size_t size),        \
        (handle, map_d, h, size))                                                                                     \
    REQ(int, copy_from_mapping, gdr_copy_from_mapping, (gdr_mh_t handle, void* h, const void* map_d, size_t size),    \
        (handle, h, map_d, size))                                                                                     \
    REQ(void, runtime_get_version, gdr_runtime_get_version, (int* major, int* minor), (major, minor))                 \
    REQ(int, driver_get_version, gdr_driver_get_version, (gdr_t g, int* major, int* minor), (g, major, minor))

#define PGAS_GDR_FIELD(ret, name, symbol, params, args) ret(*name) params;
struct pgas_gdr_api {
    PGAS_GDR_CALLS(PGAS_GDR_FIELD, PGAS_GDR_FIELD)
};
#undef PGAS_GDR_FIELD

#ifdef __cplusplus
}
#endif
#endif
