// Package pgas lets CUDA kernels and host programs read and write the memory of other GPUs.
//
// A job is N processing elements (PEs), one process each, with one GPU each. Every PE owns a symmetric heap: what Alloc
// returns lies at the same offset on every PE, so a handle names the same object everywhere. Put, Get and Signal move data
// and news from the host; kernels do the same with the device headers (pgas/pgas.cuh), without a CPU on the way.
//
// Order and visibility are those of docs/memory-model.md: PutSignal and WaitSignal are the pair that most programs
// need. Every wait is bounded by Options.Timeout and by its context, and ends when a PE dies (ErrPeerLost) or aborts.
//
// Without a GPU and a NIC everything runs on the software platform, which is chosen at run time (PGAS_PLATFORM).
package pgas
