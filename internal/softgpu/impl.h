// The functions behind the table, with CUDA's signatures. table.cpp checks initialisation, context, sticky errors and
// faults before it calls them.
#ifndef PGAS_SOFTGPU_IMPL_H
#define PGAS_SOFTGPU_IMPL_H

#include "cuda_api.h"

namespace softgpu {
namespace impl {

#define PGAS_SOFTGPU_DECLARE(name, symbol, params, args) CUresult name params;
PGAS_CUDA_CALLS(PGAS_SOFTGPU_DECLARE, PGAS_SOFTGPU_DECLARE)
#undef PGAS_SOFTGPU_DECLARE

}  // namespace impl
}  // namespace softgpu

#endif
