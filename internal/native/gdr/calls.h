// C side of package gdr: the loader and one trampoline per call.
#ifndef PGAS_NATIVE_GDR_CALLS_H
#define PGAS_NATIVE_GDR_CALLS_H

#include "gdr_api.h"

struct pgas_gdr {
    struct pgas_gdr_api api;
};

// Opens lib and fills the table. Returns NULL and a text in err when the library or a required symbol is missing;
// *found then says whether the library itself was opened.
struct pgas_gdr* pgas_gdr_load(const char* lib, int* found, char* err, size_t err_len);
struct pgas_gdr* pgas_gdr_wrap(const void* table);

// Pins with the newest call that the library has.
int pgas_gdr_pin(struct pgas_gdr* d, gdr_t g, unsigned long addr, size_t size, uint32_t flags, gdr_mh_t* handle);

#define PGAS_GDR_WITH(...) (struct pgas_gdr * d __VA_OPT__(, ) __VA_ARGS__)
#define PGAS_GDR_TRAMPOLINE(ret, name, symbol, params, args) \
    static inline ret pgas_gdr_##name PGAS_GDR_WITH params { return d->api.name args; }
PGAS_GDR_CALLS(PGAS_GDR_TRAMPOLINE, PGAS_GDR_TRAMPOLINE)

// Go cannot read bit fields: 1 mapped, 2 write combining.
static inline int pgas_gdr_info_flags(const gdr_info_v2_t* i) { return (i->mapped ? 1 : 0) | (i->wc_mapping ? 2 : 0); }

#endif
