// pgas device library: one-sided operations from CUDA kernels into the memory of other GPUs.
//
// This is the only header to include. C++17; nvcc, NVRTC, clang CUDA, and the host compiler for the software GPU.
#pragma once

#include "amo.cuh"
#include "config.cuh"
#include "context.cuh"
#include "group.cuh"
#include "memory_model.cuh"
#include "order.cuh"
#include "rma.cuh"
#include "signal.cuh"
#include "wait.cuh"
