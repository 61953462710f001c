package cuda

// #include "calls.h"
// #cgo noescape pgas_cuStreamCreate
// #cgo nocallback pgas_cuStreamCreate
// #cgo noescape pgas_cuEventCreate
// #cgo nocallback pgas_cuEventCreate
// #cgo noescape pgas_cuEventElapsedTime
// #cgo nocallback pgas_cuEventElapsedTime
import "C"

import (
	"time"
	"unsafe"
)

// StreamCreate makes a stream; flags is 0 or StreamNonBlocking.
func (d *Driver) StreamCreate(flags uint32) (Stream, error) {
	var s C.CUstream
	err := d.check("cuStreamCreate", C.pgas_cuStreamCreate(d.c, &s, C.uint(flags)))
	return Stream(s), err
}

// StreamDestroy destroys a stream once its work is done; it does not wait.
func (d *Driver) StreamDestroy(s Stream) error {
	return d.check("cuStreamDestroy", C.pgas_cuStreamDestroy(d.c, C.CUstream(s)))
}

// StreamSynchronize waits for all work in the stream.
func (d *Driver) StreamSynchronize(s Stream) error {
	return d.check("cuStreamSynchronize", C.pgas_cuStreamSynchronize(d.c, C.CUstream(s)))
}

// StreamQuery says whether all work in the stream is done.
func (d *Driver) StreamQuery(s Stream) (bool, error) {
	r := C.pgas_cuStreamQuery(d.c, C.CUstream(s))
	if r == C.CUDA_ERROR_NOT_READY {
		return false, nil
	}
	return r == C.CUDA_SUCCESS, d.check("cuStreamQuery", r)
}

// StreamWaitEvent makes later work in the stream wait for the event.
func (d *Driver) StreamWaitEvent(s Stream, e Event) error {
	return d.check("cuStreamWaitEvent", C.pgas_cuStreamWaitEvent(d.c, C.CUstream(s), C.CUevent(e), 0))
}

// StreamWriteValue64 stores value at p in stream order; flags is 0 or WriteNoMemoryBarrier.
func (d *Driver) StreamWriteValue64(s Stream, p DevicePtr, value uint64, flags uint32) error {
	return d.check("cuStreamWriteValue64",
		C.pgas_cuStreamWriteValue64(d.c, C.CUstream(s), C.CUdeviceptr(p), C.cuuint64_t(value), C.uint(flags)))
}

// StreamWaitValue64 makes later work in the stream wait until the word at p fulfils flags (a Wait value).
func (d *Driver) StreamWaitValue64(s Stream, p DevicePtr, value uint64, flags uint32) error {
	return d.check("cuStreamWaitValue64",
		C.pgas_cuStreamWaitValue64(d.c, C.CUstream(s), C.CUdeviceptr(p), C.cuuint64_t(value), C.uint(flags)))
}

// LaunchHostFunc runs the C function fn(user) in stream order on a thread of the driver. It must make no CUDA calls.
func (d *Driver) LaunchHostFunc(s Stream, fn, user unsafe.Pointer) error {
	return d.check("cuLaunchHostFunc", C.pgas_cuLaunchHostFunc(d.c, C.CUstream(s), C.CUhostFn(fn), user))
}

// EventCreate makes an event; flags are EventBlockingSync and EventDisableTiming.
func (d *Driver) EventCreate(flags uint32) (Event, error) {
	var e C.CUevent
	err := d.check("cuEventCreate", C.pgas_cuEventCreate(d.c, &e, C.uint(flags)))
	return Event(e), err
}

// EventRecord puts the event behind all earlier work in the stream.
func (d *Driver) EventRecord(e Event, s Stream) error {
	return d.check("cuEventRecord", C.pgas_cuEventRecord(d.c, C.CUevent(e), C.CUstream(s)))
}

// EventSynchronize waits for the event.
func (d *Driver) EventSynchronize(e Event) error {
	return d.check("cuEventSynchronize", C.pgas_cuEventSynchronize(d.c, C.CUevent(e)))
}

// EventQuery says whether the event has happened.
func (d *Driver) EventQuery(e Event) (bool, error) {
	r := C.pgas_cuEventQuery(d.c, C.CUevent(e))
	if r == C.CUDA_ERROR_NOT_READY {
		return false, nil
	}
	return r == C.CUDA_SUCCESS, d.check("cuEventQuery", r)
}

// EventElapsedTime returns the time between two events that have happened.
func (d *Driver) EventElapsedTime(start, end Event) (time.Duration, error) {
	var ms C.float
	err := d.check("cuEventElapsedTime", C.pgas_cuEventElapsedTime(d.c, &ms, C.CUevent(start), C.CUevent(end)))
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

// EventDestroy destroys an event.
func (d *Driver) EventDestroy(e Event) error {
	return d.check("cuEventDestroy", C.pgas_cuEventDestroy(d.c, C.CUevent(e)))
}
