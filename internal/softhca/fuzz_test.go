package softhca_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/native/mlx5"
	"github.com/pgas-go/pgas/internal/prm"
)

// FuzzCommand sends mailboxes of any content and length to every entry. Nothing may crash or be left behind.
func FuzzCommand(f *testing.F) {
	for _, op := range []prm.Cmd{prm.CmdQueryHcaCap, prm.CmdCreateCq, prm.CmdCreateQp, prm.CmdRst2initQp, prm.CmdInit2rtrQp,
		prm.CmdQp2rst, prm.CmdCreateMkey, prm.CmdQueryRoceAddress} {
		in, err := prm.NewCommand(op, prm.CreateQpInSize).Bytes()
		require.NoError(f, err)
		f.Add(in, 16)
		f.Add(in[:16], prm.QueryHcaCapOutSize)
	}
	configure(f, "")
	f.Fuzz(func(t *testing.T, in []byte, outlen int) {
		if outlen < 0 || outlen > 8192 {
			outlen = 16
		}
		d := openDevice(t, "mlx5_0")
		q := newQueue(d, defaults())
		out := make([]byte, outlen)
		for _, err := range []error{d.ctx.GeneralCmd(in, out), q.qp.Modify(in, out), q.qp.Query(in, out), q.cq.Query(in, out)} {
			var ce *mlx5.CommandError
			if errors.As(err, &ce) && ce.Errno == syscall.EREMOTEIO {
				require.NotZero(t, ce.Status)
			}
		}
		if obj, err := d.ctx.CreateObj(in, out); err == nil {
			require.NoError(t, obj.Destroy())
		}
	})
}

// FuzzSQ executes any WQE bytes. Whatever happens, memory outside the MRs stays as it was, and it ends.
func FuzzSQ(f *testing.F) {
	f.Add(write(8, 0, 0, 0, 0), true)
	f.Add(ctrl(prm.OpcodeRdmaWrite, 0, signaled, 0, raddr(0, 0), inline(make([]byte, 100))), false)
	f.Add(fetchAdd(1, 0, 0, 0, 0), true)
	f.Add(ctrl(prm.OpcodeSend, 0, signaled, 0, data(4, 0, 0)), true)
	configure(f, "time_scale=100000")
	f.Fuzz(func(t *testing.T, wqe []byte, keys bool) {
		if len(wqe) < 16 {
			return
		}
		if len(wqe) > 16*63 {
			wqe = wqe[:16*63]
		}
		cfg := defaults()
		cfg.logSQ, cfg.retry, cfg.rnrRetry = 4, 0, 0
		p := newPair(t, cfg)
		around := newMemory(t, 3*4096)
		mr, err := p.b.d.pd.RegDmabufMR(4096, 4096, 4096, around.fd, allAccess)
		require.NoError(t, err)
		defer func() { require.NoError(t, mr.Close()) }()
		w := append([]byte(nil), wqe...)
		if keys && len(w) >= 48 { // reach the parts behind the key checks
			copy(w[24:], []byte{byte(mr.RKey >> 24), byte(mr.RKey >> 16), byte(mr.RKey >> 8), byte(mr.RKey)})
			copy(w[36:], []byte{byte(p.lkey >> 24), byte(p.lkey >> 16), byte(p.lkey >> 8), byte(p.lkey)})
		}
		p.a.post(w)
		p.a.post(nop())
		p.a.ring()
		require.Eventually(t, func() bool { // executed or flushed
			return uint16(p.a.query().Get(prm.QueryQpOut.Qpc.HwSqWqebbCounter)) == p.a.next
		}, 10*time.Second, 50*time.Microsecond)
		require.Equal(t, make([]byte, 4096), around.b[:4096])
		require.Equal(t, make([]byte, 4096), around.b[8192:])
	})
}
