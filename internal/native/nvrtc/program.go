package nvrtc

// #include <stdlib.h>
// #include "calls.h"
import "C"

import (
	"bytes"
	"sync"
	"unsafe"

	"github.com/pgas-go/pgas/internal/errs"
)

// Program is one source to compile. Only Cancel may be called while another call runs. The caller destroys it.
type Program struct {
	lib *Lib
	mu  sync.Mutex // keeps c alive in Cancel
	// In C memory, because the compiler keeps its address until the program is destroyed.
	c *C.struct_pgas_nvrtc_program
}

// CreateProgram copies source. name is what messages call it; its folder is where quoted includes are searched first.
func (l *Lib) CreateProgram(source []byte, name string) (*Program, error) {
	if at := bytes.IndexByte(source, 0); at >= 0 {
		return nil, errs.Arg("nvrtcCreateProgram", "source", at, "text without a zero byte, here at this offset")
	}
	text, file := C.CString(string(source)), C.CString(name)
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(file))
	c := (*C.struct_pgas_nvrtc_program)(C.malloc(C.sizeof_struct_pgas_nvrtc_program))
	*c = C.struct_pgas_nvrtc_program{}
	if err := l.check("nvrtcCreateProgram", C.pgas_nvrtc_create(l.c, c, text, file)); err != nil {
		C.free(unsafe.Pointer(c))
		return nil, err
	}
	return &Program{lib: l, c: c}, nil
}

// Destroy frees the program. It is idempotent.
func (p *Program) Destroy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.c == nil {
		return nil
	}
	err := p.lib.check("nvrtcDestroyProgram", C.pgas_nvrtc_destroy(p.lib.c, p.c))
	C.free(unsafe.Pointer(p.c))
	p.c = nil
	return err
}

// Compile compiles with the options and returns when that has ended, which may take a minute. Code ErrCompilation means
// that Log says what is wrong with the source.
func (p *Program) Compile(options []string) error {
	list := make([]*C.char, len(options)+1)
	for i, o := range options {
		list[i] = C.CString(o)
		defer C.free(unsafe.Pointer(list[i]))
	}
	// C memory: a Go array that holds pointers may not be handed over.
	array := (**C.char)(C.malloc(C.size_t(len(list)) * C.size_t(unsafe.Sizeof(list[0]))))
	defer C.free(unsafe.Pointer(array))
	copy(unsafe.Slice(array, len(list)), list)
	return p.lib.check("nvrtcCompileProgram", C.pgas_nvrtc_compile(p.lib.c, p.c, C.int(len(options)), array))
}

// Cancel asks a running Compile to end with code ErrCancelled. It may be called from any goroutine, at any time. A
// library without nvrtcSetFlowCallback compiles to the end.
func (p *Program) Cancel() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.c != nil {
		C.pgas_nvrtc_cancel(p.c)
	}
}

// Log is what the compiler printed, warnings included.
func (p *Program) Log() (string, error) {
	text, err := p.output(C.PGAS_NVRTC_LOG, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
	return string(bytes.TrimRight(text, "\x00")), err
}

// CUBIN is the machine code. It is empty when the program was compiled for a virtual architecture.
func (p *Program) CUBIN() ([]byte, error) {
	return p.output(C.PGAS_NVRTC_CUBIN, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")
}

// PTX is the assembly text, without a zero byte at its end.
func (p *Program) PTX() ([]byte, error) {
	text, err := p.output(C.PGAS_NVRTC_PTX, "nvrtcGetPTXSize", "nvrtcGetPTX")
	return bytes.TrimRight(text, "\x00"), err
}

func (p *Program) output(what C.enum_pgas_nvrtc_output, sizeCall, call string) ([]byte, error) {
	var size C.size_t
	if err := p.lib.check(sizeCall, C.pgas_nvrtc_size(p.lib.c, p.c, what, &size)); err != nil || size == 0 {
		return nil, err
	}
	out := make([]byte, size)
	err := p.lib.check(call, C.pgas_nvrtc_copy(p.lib.c, p.c, what, (*C.char)(unsafe.Pointer(&out[0]))))
	return out, err
}
