// Package cuda holds the checks of the device code that need NVIDIA's compilers but no GPU: everything compiles with
// nvcc and with NVRTC for every supported architecture, and the fast paths stay within the committed report. The
// compilers come from .cache/cuda-toolchain (`make cuda-toolchain`) or from an installed CUDA toolkit.
package cuda
