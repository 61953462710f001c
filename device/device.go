// Package device carries the C++ headers that kernels include and the kernels that the runtime itself launches.
package device

import "embed"

// FS holds include/pgas and, where present, kernels. Its paths are relative to this package.
//
//go:embed include
var FS embed.FS
