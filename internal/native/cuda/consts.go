package cuda

// Result codes (CUresult).
const (
	ErrInvalidValue                = 1
	ErrOutOfMemory                 = 2
	ErrNotInitialized              = 3
	ErrDeinitialized               = 4
	ErrNoDevice                    = 100
	ErrInvalidDevice               = 101
	ErrInvalidImage                = 200
	ErrInvalidContext              = 201
	ErrMapFailed                   = 205
	ErrAlreadyMapped               = 208
	ErrNotMapped                   = 211
	ErrFileNotFound                = 301
	ErrSharedObjectInitFailed      = 303
	ErrOperatingSystem             = 304
	ErrInvalidHandle               = 400
	ErrIllegalState                = 401
	ErrNotFound                    = 500
	ErrNotReady                    = 600
	ErrIllegalAddress              = 700
	ErrLaunchOutOfResources        = 701
	ErrLaunchTimeout               = 702
	ErrAssert                      = 710
	ErrHostMemoryAlreadyRegistered = 712
	ErrHostMemoryNotRegistered     = 713
	ErrIllegalInstruction          = 715
	ErrLaunchFailed                = 719
	ErrCooperativeLaunchTooLarge   = 720
	ErrNotPermitted                = 800
	ErrNotSupported                = 801
	ErrUnknown                     = 999
)

// Device attributes (CUdevice_attribute).
const (
	AttrMaxThreadsPerBlock                     = 1
	AttrMaxSharedMemoryPerBlock                = 8
	AttrWarpSize                               = 10
	AttrClockRate                              = 13
	AttrMultiprocessorCount                    = 16
	AttrIntegrated                             = 18
	AttrCanMapHostMemory                       = 19
	AttrPCIBusID                               = 33
	AttrPCIDeviceID                            = 34
	AttrMaxThreadsPerMultiprocessor            = 39
	AttrUnifiedAddressing                      = 41
	AttrPCIDomainID                            = 50
	AttrComputeCapabilityMajor                 = 75
	AttrComputeCapabilityMinor                 = 76
	AttrMaxSharedMemoryPerMultiprocessor       = 81
	AttrCanUse64BitStreamMemOps                = 93
	AttrCanUseStreamWaitValueNOR               = 94
	AttrCooperativeLaunch                      = 95
	AttrMaxSharedMemoryPerBlockOptin           = 97
	AttrCanFlushRemoteWrites                   = 98
	AttrHostRegisterSupported                  = 99
	AttrVirtualMemoryManagementSupported       = 102
	AttrHandleTypePosixFileDescriptorSupported = 103
	AttrMaxBlocksPerMultiprocessor             = 106
	AttrGPUDirectRDMAWithCUDAVMMSupported      = 110
	AttrGPUDirectRDMASupported                 = 116
	AttrGPUDirectRDMAFlushWritesOptions        = 117
	AttrGPUDirectRDMAWritesOrdering            = 118
	AttrDMABufSupported                        = 124
)

// Function attributes (CUfunction_attribute).
const (
	FuncMaxThreadsPerBlock        = 0
	FuncSharedSizeBytes           = 1
	FuncConstSizeBytes            = 2
	FuncLocalSizeBytes            = 3
	FuncNumRegs                   = 4
	FuncMaxDynamicSharedSizeBytes = 8
)

// Pointer attributes (CUpointer_attribute).
const (
	PointerContext        = 1
	PointerMemoryType     = 2
	PointerDevicePointer  = 3
	PointerHostPointer    = 4
	PointerSyncMemops     = 6
	PointerBufferID       = 7
	PointerDeviceOrdinal  = 9
	PointerRangeStartAddr = 11
	PointerRangeSize      = 12
	PointerMapped         = 13
)

// Values of PointerMemoryType.
const (
	MemoryTypeHost   = 1
	MemoryTypeDevice = 2
)

// Flags of MemHostAlloc and MemHostRegister.
const (
	HostAllocPortable      = 1
	HostAllocDevicemap     = 2
	HostAllocWritecombined = 4
	HostRegisterPortable   = 1
	HostRegisterDevicemap  = 2
	HostRegisterIomemory   = 4
	HostRegisterReadOnly   = 8
)

// Flags of StreamCreate, EventCreate and the stream memory operations.
const (
	StreamNonBlocking    = 1
	EventBlockingSync    = 1
	EventDisableTiming   = 2
	WaitGEQ              = 0
	WaitEQ               = 1
	WaitAnd              = 2
	WaitNOR              = 3
	WaitFlush            = 1 << 30
	WriteNoMemoryBarrier = 1
)

// Access flags of MemSetAccess.
const (
	AccessNone      = 0
	AccessRead      = 1
	AccessReadWrite = 3
)

// Targets and scopes of FlushGPUDirectRDMAWrites.
const (
	FlushCurrentCtx   = 0
	FlushToOwner      = 100
	FlushToAllDevices = 200
)
