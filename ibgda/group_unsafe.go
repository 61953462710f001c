package ibgda

import (
	"unsafe"

	"github.com/pgas-go/pgas/internal/wire"
)

// bytesOf views the table as the bytes that kernels read.
func bytesOf(q []wire.Queue) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(q))), len(q)*queueBytes)
}
