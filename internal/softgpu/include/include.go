// Package include carries the headers that let a host compiler build CUDA source for the software GPU.
package include

import "embed"

// FS holds simt/*: cuda.h is to be included first in every translation unit, and the directory itself must be on
// the include path for <cuda_bf16.h> and <cuda_fp8.h>.
//
//go:embed simt
var FS embed.FS
