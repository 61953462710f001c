package platform

import (
	"fmt"
	"math/bits"

	"github.com/pgas-go/pgas/internal/errs"
	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/prm"
)

// Caps are the capabilities of an mlx5 device that GPU-driven queues depend on, from QUERY_HCA_CAP.
type Caps struct {
	RC, CqOI, Atomic, Roce bool
	LogMaxQP               uint32 // queue pairs: 1<<this
	LogMaxQPSize           uint32 // basic blocks in a send queue: 1<<this
	LogMaxCQ, LogMaxCQSize uint32
	LogMaxMsg              uint32 // bytes of a message: 1<<this
	LogMaxRead             uint32 // outstanding READs and atomics of a requester
	LogMaxReadResp         uint32 // the same of a responder
	MaxWQE                 uint32 // bytes of a send WQE
	CqeVersion             uint32
	AtomicOps              uint32 // prm.AtomicOp bits
	AtomicSizes            uint32 // operand sizes in bytes, as a mask
	AtomicEndian           uint32 // 1: 8-byte atomics work on host-order memory
	TsFormat               prm.TsFormat
}

// QueryCaps asks the device.
func QueryCaps(ctx *mlx5.Context) (Caps, error) {
	var c Caps
	general, err := queryCap(ctx, prm.CapTypeGeneral)
	if err != nil {
		return c, err
	}
	g := prm.QueryHcaCapOut.General
	number := func(m prm.Mailbox, f prm.Field) uint32 { return uint32(m.Get(f)) }
	flag := func(f prm.Field) bool { return general.Get(f) != 0 }
	c.RC, c.CqOI, c.Atomic, c.Roce = flag(g.Rc), flag(g.CqOi), flag(g.Atomic), flag(g.Roce)
	c.LogMaxQP, c.LogMaxQPSize = number(general, g.LogMaxQp), number(general, g.LogMaxQpSz)
	c.LogMaxCQ, c.LogMaxCQSize = number(general, g.LogMaxCq), number(general, g.LogMaxCqSz)
	c.LogMaxMsg, c.MaxWQE = number(general, g.LogMaxMsg), number(general, g.MaxWqeSzSq)
	c.LogMaxRead, c.LogMaxReadResp = number(general, g.LogMaxRaReqQp), number(general, g.LogMaxRaResQp)
	c.CqeVersion = number(general, g.CqeVersion)
	if c.Atomic {
		atomic, err := queryCap(ctx, prm.CapTypeAtomic)
		if err != nil {
			return c, err
		}
		a := prm.QueryHcaCapOut.Atomic
		c.AtomicOps, c.AtomicSizes = number(atomic, a.AtomicOperations), number(atomic, a.AtomicSizeQp)
		c.AtomicEndian = number(atomic, a.AtomicReq8bEndiannessMode)
	}
	if c.Roce {
		roce, err := queryCap(ctx, prm.CapTypeRoce)
		if err != nil {
			return c, err
		}
		// As the kernel does: the default format where the device offers a choice.
		if roce.Get(prm.QueryHcaCapOut.Roce.QpTsFormat) != 0 {
			c.TsFormat = prm.TsFormatDefaultFormat
		}
	}
	return c, nil
}

func queryCap(ctx *mlx5.Context, kind prm.CapType) (prm.Mailbox, error) {
	in, err := prm.NewCommand(prm.CmdQueryHcaCap, prm.QueryHcaCapInSize).
		Set(prm.QueryHcaCapIn.OpMod, uint64(kind)<<1|prm.HcaCapCurrent).Bytes()
	if err != nil {
		return nil, err
	}
	out := prm.NewMailbox(prm.QueryHcaCapOutSize)
	if err = ctx.GeneralCmd(in, out); err != nil {
		return nil, fmt.Errorf("query %s capabilities of %s: %w", kind, ctx.Name(), err)
	}
	return out, nil
}

// wantMasked are the extended atomics that signals are made of.
const wantMasked = prm.AtomicOpMaskedCs | prm.AtomicOpMaskedFa

// Check lists what a device lacks for GPU-driven queues, each as an *errs.UnsupportedError; nil when nothing.
func (c Caps) Check(device string) []error {
	var missing []error
	need := func(ok bool, want, have, fix string) {
		if !ok {
			missing = append(missing, &errs.UnsupportedError{Feature: "ibgda on " + device, Need: want, Have: have, Fix: fix})
		}
	}
	need(c.RC, "reliable connected queue pairs", "none", "use another NIC")
	need(c.CqOI, "overrun-ignoring completion queues (cq_oi)", "none", "update the NIC's firmware")
	need(c.Atomic && c.AtomicOps&wantMasked == wantMasked, "masked atomics",
		fmt.Sprintf("atomic operations %#x", c.AtomicOps), "update the NIC's firmware, or set PGAS_PATH=p2p")
	need(c.AtomicSizes&8 != 0, "8-byte atomics", fmt.Sprintf("sizes %#x", c.AtomicSizes), "use another NIC")
	need(c.AtomicEndian == 1, "8-byte atomics on host-order memory (endianness mode 1)",
		fmt.Sprintf("mode %d", c.AtomicEndian), "load the mlx5 driver of a current kernel, which turns it on")
	need(c.MaxWQE >= 2*prm.BbBytes, fmt.Sprintf("WQEs of %d bytes", 2*prm.BbBytes), fmt.Sprint(c.MaxWQE), "use another NIC")
	need(c.LogMaxMsg >= 12, "messages of 4096 bytes", fmt.Sprint(uint64(1)<<c.LogMaxMsg), "use another NIC")
	return missing
}

// CheckDepth refuses send queues that the device cannot have. depth is a power of two of 64-byte basic blocks.
func (c Caps) CheckDepth(depth int) error {
	if log := uint32(bits.Len(uint(depth)) - 1); log <= c.LogMaxQPSize {
		return nil
	}
	return &errs.UnsupportedError{Feature: "ibgda", Need: fmt.Sprintf("send queues of %d basic blocks", depth),
		Have: fmt.Sprintf("at most %d", 1<<c.LogMaxQPSize), Fix: "lower PGAS_QUEUE_DEPTH"}
}
