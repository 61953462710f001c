package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/pgas-go/pgas/pgas"
)

// api checks what kernels see and what they are refused.
func api(ctx context.Context, args []string) error {
	w, err := pgas.Init(ctx, pgas.Options{HeapSize: 1 << 20, Contexts: 3})
	if err != nil {
		return err
	}
	m, err := w.Load(ctx, source, "conformance.cu")
	if err != nil {
		return err
	}
	if err := identity(ctx, w, m, args[0] == "p2p"); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	if err := misuse(ctx, w, m); err != nil {
		return fmt.Errorf("misuse: %w", err)
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	return w.Close()
}

func identity(ctx context.Context, w *pgas.World, m *pgas.Module, p2p bool) error {
	k, err := m.Kernel("identity")
	if err != nil {
		return err
	}
	object, err := pgas.Alloc[uint64](w, 1)
	if err != nil {
		return err
	}
	out, err := pgas.Alloc[uint64](w, 8)
	if err != nil {
		return err
	}
	if err := k.Launch(ctx, pgas.Grid{Blocks: 1, Threads: 1}, w.Device(), object, uint32(w.Next()), out); err != nil {
		return err
	}
	got := make([]uint64, 8)
	if err := pgas.CopyOut(got, out); err != nil {
		return err
	}
	mapped := uint64(0)
	if p2p {
		mapped = 1
	}
	want := []uint64{uint64(w.PE()), uint64(w.NPEs()), 3, mapped, 0, 0, 1, 0}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("my_pe, n_pes, n_contexts, ptr(peer), ptr(bad PE), ptr(not symmetric), test(eq), test(ne) = %v, want %v", got, want)
	}
	return nil
}

func misuse(ctx context.Context, w *pgas.World, m *pgas.Module) error {
	k, err := m.Kernel("misuse")
	if err != nil {
		return err
	}
	object, err := pgas.Alloc[byte](w, 4096)
	if err != nil {
		return err
	}
	sig, err := pgas.AllocSignals(w, 1)
	if err != nil {
		return err
	}
	refused, err := pgas.Alloc[uint32](w, 1)
	if err != nil {
		return err
	}
	err = k.Launch(ctx, pgas.Grid{Blocks: 1, Threads: 1}, w.Device(), object, sig, uint64(4096), refused)
	if !errors.Is(err, pgas.ErrInvalid) {
		return fmt.Errorf("launch: %v, want an error that is ErrInvalid: the first refusal is recorded for the host", err)
	}
	var got [1]uint32
	if err := pgas.CopyOut(got[:], refused); err != nil {
		return err
	}
	if want := uint32(1<<15 - 1); got[0] != want {
		return fmt.Errorf("calls refused: %#b, want %#b", got[0], want)
	}
	v, err := pgas.SignalFetch(sig.At(0))
	if err != nil || v != 0 {
		return fmt.Errorf("signal word is %d after refused updates, want 0 (%v)", v, err)
	}
	return nil
}

// huge puts 4 GiB + 4099 bytes from one half of the heap to the other, and checks the edges and samples.
func huge(ctx context.Context, _ []string) error {
	ctx, cancel := within(ctx)
	defer cancel()
	w, err := pgas.Init(ctx, pgas.Options{})
	if err != nil {
		return err
	}
	const n = 4<<30 + 4099
	m, err := w.Load(ctx, source, "conformance.cu")
	if err != nil {
		return err
	}
	k, err := m.Kernel("rma")
	if err != nil {
		return err
	}
	src, err := pgas.Alloc[byte](w, n+64)
	if err != nil {
		return err
	}
	dst, err := pgas.Alloc[byte](w, n+64)
	if err != nil {
		return err
	}
	result, err := pgas.Alloc[uint32](w, 1)
	if err != nil {
		return err
	}
	sig, err := pgas.AllocSignals(w, 1)
	if err != nil {
		return err
	}
	places := []int{0, 1<<31 - 4, 1<<31 + 4, 1<<32 - 4, 1<<32 + 4, n - 8} // 8 bytes each, across both wraps
	for i, at := range places {
		if err := pgas.CopyIn(src.Slice(at+1, at+9), bytesOf(i)); err != nil {
			return err
		}
	}
	if err := k.Launch(ctx, pgas.Grid{Blocks: 1, Threads: 32}, w.Device(), uint32(0), opPutSignal, scopeBlock, dst.Slice(5, 5+n), src.Slice(1, 1+n),
		uint64(n), uint32(0), uint32(0), sig, uint32(0), uint64(9), result); err != nil {
		return err
	}
	if _, err := pgas.WaitSignal(ctx, sig.At(0), pgas.Eq(9)); err != nil {
		return err
	}
	for i, at := range places {
		got := make([]byte, 8)
		if err := pgas.CopyOut(got, dst.Slice(at+5, at+13)); err != nil {
			return err
		}
		if string(got) != string(bytesOf(i)) {
			return fmt.Errorf("at %#x: %v, want %v", at, got, bytesOf(i))
		}
	}
	var after [1]byte
	if err := pgas.CopyOut(after[:], dst.Slice(n+5, n+6)); err != nil || after[0] != 0 {
		return fmt.Errorf("byte after the target is %d (%v)", after[0], err)
	}
	return w.Close()
}

func bytesOf(i int) []byte { return []byte{byte(i + 1), 2, 3, 4, 5, 6, 7, byte(0xf0 + i)} }
