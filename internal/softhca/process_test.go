package softhca_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/prm"
	"github.com/pgas-go/pgas/internal/softhca"
)

// A second process: it opens its own HCA, prints what a peer must know, reads the same, connects, and obeys.

const childEnv = "SOFTHCA_TEST_CHILD"

// TestSecondProcess is what the second process runs. Without a parent it checks that one which is left alone ends.
func TestSecondProcess(t *testing.T) {
	if spec, ok := os.LookupEnv(childEnv); ok {
		child(t, spec)
		return
	}
	c := startChild(t, "")
	var r remote
	require.NoError(t, c.out.Decode(&r))
	require.NotZero(t, r.QPN)
	require.NoError(t, c.in.Close())
	require.NoError(t, c.cmd.Wait())
}

func child(t *testing.T, spec string) {
	configure(t, spec)
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.NewFile(3, "answers"))
	d := openDevice(t, "mlx5_0")
	cfg := defaults()
	cfg.logRQ = 4
	q := newQueue(d, cfg)
	mem := newMemory(t, pairMemory)
	mr := d.mr(mem, allAccess)
	target, err := d.pd.RegDmabufMR(0, pairMemory, 0, mem.fd, allAccess)
	require.NoError(t, err)
	r := q.remote()
	r.RKey = target.RKey
	require.NoError(t, out.Encode(r))
	var peer remote
	if !in.Scan() {
		require.NoError(t, target.Close())
		return
	}
	require.NoError(t, json.Unmarshal(in.Bytes(), &peer))
	q.connect(peer)
	q.postReceive(data(4096, mr.LKey, 0x8000))
	require.NoError(t, out.Encode("connected"))
	for in.Scan() {
		var line struct {
			Op string
			At int
		}
		require.NoError(t, json.Unmarshal(in.Bytes(), &line))
		switch line.Op {
		case "word":
			require.NoError(t, out.Encode(atomic.LoadUint64(mem.word64(line.At))))
		case "write":
			*mem.word64(line.At) = 0x1122334455667788
			requireOK(t, q.do(write(8, mr.LKey, uint64(line.At), peer.RKey, uint64(line.At))), q.next-1)
			require.NoError(t, out.Encode("done"))
		case "recv":
			cqe := q.waitRecv()
			require.NoError(t, out.Encode(cqe.Get(prm.Cqe.ByteCnt)))
		case "state":
			require.NoError(t, out.Encode(uint32(q.state())))
		case "dereg":
			require.NoError(t, target.Close())
			require.NoError(t, out.Encode("done"))
		}
	}
}

type childProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func startChild(t *testing.T, spec string) *childProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondProcess$")
	cmd.Env = append(os.Environ(), childEnv+"="+spec)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	out, answers, err := os.Pipe()
	require.NoError(t, err)
	cmd.ExtraFiles = []*os.File{answers}
	require.NoError(t, cmd.Start())
	require.NoError(t, answers.Close())
	c := &childProcess{t: t, cmd: cmd, in: in, out: json.NewDecoder(out)}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = out.Close()
	})
	return c
}

func (c *childProcess) ask(op string, at int, answer any) {
	c.t.Helper()
	_, err := fmt.Fprintf(c.in, "{\"Op\":%q,\"At\":%d}\n", op, at)
	require.NoError(c.t, err)
	require.NoError(c.t, c.out.Decode(answer))
}

// remotePair is a queue here connected to the child's.
type remotePair struct {
	q     *queue
	mem   *memory
	lkey  uint32
	child *childProcess
	peer  remote
}

func connectChild(t *testing.T, cfg queueConfig, spec string) *remotePair {
	t.Helper()
	c := startChild(t, spec)
	d := openDevice(t, "mlx5_0")
	p := &remotePair{q: newQueue(d, cfg), mem: newMemory(t, pairMemory), child: c}
	mr := d.mr(p.mem, allAccess)
	p.lkey = mr.LKey
	require.NoError(t, c.out.Decode(&p.peer))
	own := p.q.remote()
	own.RKey = mr.RKey
	line, err := json.Marshal(own)
	require.NoError(t, err)
	p.q.connect(p.peer)
	_, err = fmt.Fprintf(c.in, "%s\n", line)
	require.NoError(t, err)
	var connected string
	require.NoError(t, c.out.Decode(&connected))
	return p
}

func TestTwoProcesses(t *testing.T) {
	eachMode(t, "", func(t *testing.T) {
		cfg := defaults()
		p := connectChild(t, cfg, "mode=thread")
		*p.mem.word64(64) = 0xabcdef
		requireOK(t, p.q.do(write(8, p.lkey, 64, p.peer.RKey, 4096)), 0)
		var word uint64
		p.child.ask("word", 4096, &word)
		require.Equal(t, uint64(0xabcdef), word)

		requireOK(t, p.q.do(fetchAdd(1, p.lkey, 128, p.peer.RKey, 4096)), 1)
		require.Equal(t, uint64(0xabcdef), *p.mem.word64(128))
		requireOK(t, p.q.do(read(8, p.lkey, 256, p.peer.RKey, 4096)), 2)
		require.Equal(t, uint64(0xabcdf0), *p.mem.word64(256))

		requireOK(t, p.q.do(ctrl(prm.OpcodeSend, 0, signaled, 0, data(1000, p.lkey, 0))), 3)
		var n uint64
		p.child.ask("recv", 0, &n)
		require.Equal(t, uint64(1000), n)

		var done string
		p.child.ask("write", 0x9000, &done)
		require.Equal(t, uint64(0x1122334455667788), atomic.LoadUint64(p.mem.word64(0x9000)))

		// A key that its owner took back names nothing any more, and the error reaches both sides.
		p.child.ask("dereg", 0, &done)
		requireError(t, p.q.do(write(8, p.lkey, 64, p.peer.RKey, 4096)), prm.SyndromeRemoteAccess)
		var state uint32
		p.child.ask("state", 0, &state)
		require.Equal(t, uint32(prm.QpStateErr), state)
	})
}

func TestPeerKilled(t *testing.T) {
	eachMode(t, "", func(t *testing.T) {
		cfg := defaults()
		cfg.ackTimeout, cfg.retry = 10, 2 // 4 ms each
		p := connectChild(t, cfg, "")
		requireOK(t, p.q.do(write(8, p.lkey, 0, p.peer.RKey, 0)), 0)
		require.NoError(t, p.child.cmd.Process.Kill())
		_ = p.child.cmd.Wait()
		require.Eventually(t, func() bool {
			p.q.post(write(8, p.lkey, 0, p.peer.RKey, 0))
			p.q.ring()
			cqe := p.q.wait()
			return prm.CqeOpcode(cqe.Get(prm.Cqe.Opcode)) == prm.CqeOpcodeReqErr &&
				prm.Syndrome(cqe.Get(prm.ErrCqe.Syndrome)) == prm.SyndromeTransportRetry
		}, 5*time.Second, time.Millisecond)
		require.Equal(t, prm.QpStateErr, p.q.state())
	})
}

// A queue pair that connects to nobody gets no answer.
func TestAbsentPeer(t *testing.T) {
	configure(t, "")
	d := openDevice(t, "mlx5_0")
	cfg := defaults()
	cfg.ackTimeout, cfg.retry = 8, 1
	q := newQueue(d, cfg)
	q.connect(remote{GID: [16]byte{0xfe, 0x80, 15: 9}, QPN: 77, PSN: 1})
	require.Equal(t, prm.QpStateRts, q.state())
	requireError(t, q.do(ctrl(prm.OpcodeRdmaWrite, 0, signaled, 0, raddr(0, 1))), prm.SyndromeTransportRetry)
	require.Equal(t, uint64(2), softhca.Counters().Timeouts)
}

// A PSN that does not fit is never answered; one behind is taken for a duplicate and has no effect.
func TestPSNMismatch(t *testing.T) {
	configure(t, "")
	cfg := defaults()
	cfg.ackTimeout, cfg.retry = 8, 1
	for _, ahead := range []bool{true, false} {
		a, b := openDevice(t, "mlx5_0"), openDevice(t, "mlx5_0")
		src, dst := newMemory(t, 4096), newMemory(t, 4096)
		qa, qb := newQueue(a, cfg), newQueue(b, cfg)
		ra, rb := qa.remote(), qb.remote()
		ra.PSN = (ra.PSN + 1) & 0xffffff
		if ahead {
			ra.PSN = (ra.PSN - 2) & 0xffffff
		}
		qb.connect(ra)
		qa.connect(rb)
		src.b[0] = 1
		lkey, rkey := a.mr(src, allAccess).LKey, b.mr(dst, allAccess).RKey
		cqe := qa.do(write(1, lkey, 0, rkey, 0))
		if ahead {
			requireError(t, cqe, prm.SyndromeTransportRetry)
		} else {
			requireOK(t, cqe, 0)
			require.Equal(t, uint64(1), softhca.Counters().Duplicates)
		}
		require.Zero(t, dst.b[0])
	}
}
