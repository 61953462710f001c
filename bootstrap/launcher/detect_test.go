package launcher

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/config"
	"github.com/pgas-go/pgas/internal/errs"
)

const childMarker = "PGAS_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMarker) == "" {
		os.Exit(m.Run())
	}
	if err := childMain(); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// childMain joins whatever job its environment describes, gathers, and says what it found.
func childMain() error {
	cfg, err := config.Load(os.Environ())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	x, err := Open(ctx, cfg, os.Environ(), nil)
	if err != nil {
		return err
	}
	all, err := x.AllGather(ctx, fmt.Append(nil, x.Rank()))
	if err != nil {
		return err
	}
	fmt.Printf("PE %d of %d sees %s\n", x.Rank(), x.Size(), all)
	return x.Close()
}

func detect(t *testing.T, environ string) (*Job, error) {
	t.Helper()
	list := strings.Fields(environ)
	cfg, err := config.Load(list)
	require.NoError(t, err)
	return Detect(cfg, list)
}

func TestDetect(t *testing.T) {
	const ompi = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 "
	const torch = "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 "
	const slurm = "SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_JOB_ID=77 SLURM_STEP_ID=2 "
	for _, c := range []struct{ env, launcher, root string }{
		{"PGAS_RANK=1 PGAS_SIZE=4 PGAS_ROOT=h:5", "PGAS_RANK", "h:5"},
		{"PGAS_RANK=1 PGAS_SIZE=4 MASTER_ADDR=h MASTER_PORT=6", "PGAS_RANK", "h:6"},
		{ompi + "PGAS_ROOT=[fd00::1]:5", "Open MPI", "[fd00::1]:5"},
		{ompi + "MASTER_ADDR=fd00::1 MASTER_PORT=5", "Open MPI", "[fd00::1]:5"},
		{ompi + "MASTER_ADDR=h PMIX_NAMESPACE=prterun-1", "Open MPI", "h:" + fmt.Sprint(hashedPort("prterun-1"))},
		{ompi + "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=prterun-1", "Open MPI", "unix:@"},
		{ompi + "OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_MCA_ess_base_jobid=99", "Open MPI", "unix:@"},
		{"PMI_RANK=1 PMI_SIZE=4 PGAS_ROOT=h:5", "MPICH (Hydra)", "h:5"},
		{torch, "torchrun", "10.0.0.1:29500"},
		{torch + "LOCAL_WORLD_SIZE=2 TORCHELASTIC_USE_AGENT_STORE=True", "torchrun", "10.0.0.1:29501"},
		{torch + "LOCAL_WORLD_SIZE=4 TORCHELASTIC_RUN_ID=r", "torchrun", "unix:@"},
		{slurm + "SLURM_NNODES=1", "Slurm", "unix:@"},
		{slurm + "SLURM_NNODES=2 SLURM_STEP_NODELIST=gpu[03-04]", "Slurm", "gpu03:" + fmt.Sprint(hashedPort("77.2"))},
		{"SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=8 SLURM_PROCID=1 PGAS_ROOT=h:5", "Slurm", "h:5"},
		// mpirun in a Slurm job: Slurm's numbers are those of mpirun's daemons.
		{ompi + "SLURM_PROCID=0 SLURM_NTASKS=2 PGAS_ROOT=h:5", "Open MPI", "h:5"},
		// srun --mpi=pmi2 sets both, equally.
		{slurm + "PMI_RANK=1 PMI_SIZE=4 PGAS_ROOT=h:5", "MPICH (Hydra)", "h:5"},
	} {
		job, err := detect(t, c.env)
		require.NoError(t, err, c.env)
		require.Equal(t, c.launcher, job.Launcher, c.env)
		require.Equal(t, []int{1, 4}, []int{job.Rank, job.Size}, c.env)
		if c.root == "unix:@" {
			require.True(t, strings.HasPrefix(job.Root, c.root), job.Root)
		} else {
			require.Equal(t, c.root, job.Root, c.env)
		}
		require.NotEmpty(t, job.RootFrom)
		require.NotEmpty(t, job.ID)
	}
	for _, env := range []string{"", "HOME=/", "MASTER_ADDR=h", "SLURM_JOB_ID=5 SLURM_NTASKS=8 SLURM_NNODES=2", "PGAS_JOB_ID=x"} {
		job, err := detect(t, env)
		require.NoError(t, err, env)
		require.Equal(t, "none", job.Launcher)
		require.Equal(t, 1, job.Size)
	}
}

func TestLaunchesDoNotMeet(t *testing.T) {
	base := "RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=1 TORCHELASTIC_RESTART_COUNT="
	a, err := detect(t, base+"0")
	require.NoError(t, err)
	b, err := detect(t, base+"1")
	require.NoError(t, err)
	require.NotEqual(t, a.Root, b.Root)
	require.NotEqual(t, a.ID, b.ID)
}

func TestDetectRefuses(t *testing.T) {
	for env, want := range map[string]string{
		"PGAS_RANK=1":             "PGAS_RANK=1 is set but PGAS_SIZE is not",
		"PGAS_SIZE=4":             "PGAS_SIZE=4 is set but PGAS_RANK is not",
		"OMPI_COMM_WORLD_RANK=1":  "OMPI_COMM_WORLD_RANK=1 is set but OMPI_COMM_WORLD_SIZE is not",
		"PMI_SIZE=2":              "PMI_SIZE=2 is set but PMI_RANK is not",
		"RANK=1 MASTER_ADDR=h":    "RANK=1 is set but WORLD_SIZE is not",
		"SLURM_PROCID=1":          "SLURM_PROCID=1 is set but SLURM_STEP_NUM_TASKS or SLURM_NTASKS is not",
		"RANK=4 WORLD_SIZE=4":     `RANK="4" and WORLD_SIZE="4" are not a rank and a size`,
		"PMI_RANK=x PMI_SIZE=4":   `PMI_RANK="x"`,
		"PGAS_RANK=1 PGAS_SIZE=4": "set PGAS_ROOT=host:port",
		"PMI_RANK=0 PMI_SIZE=4":   "set PGAS_ROOT=host:port",
		"PMIX_RANK=0":             "start by a PMIx launcher: not supported",
		"PMIX_NAMESPACE=dead":     "start by a PMIx launcher: not supported",
		"RANK=1 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=http":                                  `MASTER_PORT="http"`,
		"PGAS_RANK=0 PGAS_SIZE=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4":               "says PE 0 of 1 (PGAS_RANK, PGAS_SIZE) but Open MPI says PE 1 of 4",
		"PGAS_RANK=0 PGAS_SIZE=2 PGAS_ROOT=h:5 SLURM_PROCID=1 SLURM_NTASKS=4":                 "but Slurm says PE 1 of 4",
		"PMI_RANK=0 PMI_SIZE=1 SLURM_PROCID=1 SLURM_NTASKS=4":                                 "but Slurm says PE 1 of 4",
		"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 RANK=0 WORLD_SIZE=3 PGAS_ROOT=h:5":     "but torchrun says PE 0 of 3",
		"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=7 SLURM_NNODES=2 SLURM_NODELIST=a[1]b[2]": "set PGAS_ROOT=host:port",
	} {
		_, err := detect(t, env)
		require.ErrorContains(t, err, want, env)
	}
	_, err := detect(t, "PMIX_RANK=0")
	require.ErrorIs(t, err, errs.ErrNotSupported)
}

func TestFirstHost(t *testing.T) {
	for list, want := range map[string]string{"a": "a", "a,b": "a", "n[03-07,9],x": "n03", "n[5]": "n5", "n[1-2]-ib,x": "n1-ib",
		"x,n[1-2]": "x", "": "", "n[": "", "n[]": "", "r[1]n[2]": ""} {
		require.Equal(t, want, firstHost(list), list)
	}
}

func TestAncestorID(t *testing.T) {
	proc := t.TempDir()
	write := func(pid int, comm string, parent, start int) {
		dir := filepath.Join(proc, fmt.Sprint(pid))
		require.NoError(t, os.Mkdir(dir, 0o700))
		stat := fmt.Sprintf("%d (%s) S %d 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 1 1", pid, comm, parent, start)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o600))
	}
	write(40, "prog", 30, 900)
	write(30, "sh) x (y", 20, 800)
	write(20, "hydra_pmi_proxy", 10, 700)
	write(10, "mpiexec.hydra", 1, 600)
	require.Equal(t, "20.700", ancestorID(proc, 40, "hydra_pmi_proxy"))
	require.Empty(t, ancestorID(proc, 40, "slurmstepd"))
	require.Empty(t, ancestorID(proc, 99, "hydra_pmi_proxy"))
	self := ancestorID("/proc", os.Getpid(), filepath.Base(os.Args[0]))
	require.True(t, strings.HasPrefix(self, fmt.Sprint(os.Getpid())+"."), self)
}

// runAll starts one child per environment and returns their outputs.
func runAll(t *testing.T, envs []string) []string {
	t.Helper()
	out := make([]string, len(envs))
	var wg sync.WaitGroup
	for i, env := range envs {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(strings.Fields(env), childMarker+"=1")
			b, _ := cmd.CombinedOutput()
			out[i] = strings.TrimSpace(string(b))
		})
	}
	wg.Wait()
	return out
}

func TestRealProcessesJoin(t *testing.T) {
	unique := fmt.Sprint(os.Getpid(), ".", time.Now().UnixNano())
	for _, format := range []string{
		"OMPI_COMM_WORLD_RANK=%d OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_SIZE=3 PMIX_NAMESPACE=" + unique,
		"RANK=%d WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=" + unique,
		"SLURM_PROCID=%d SLURM_NTASKS=3 SLURM_NNODES=1 SLURM_STEP_ID=0 SLURM_JOB_ID=" + unique,
	} {
		var envs, want []string
		for rank := range 3 {
			envs = append(envs, fmt.Sprintf(format, rank))
			want = append(want, fmt.Sprintf("PE %d of 3 sees [0 1 2]", rank))
		}
		require.Equal(t, want, runAll(t, envs))
	}
}

// The two programs of one launch follow each other at the same rendezvous.
func TestMpirunTwoProgramsInOneLaunch(t *testing.T) {
	mpirun, err := exec.LookPath("mpirun")
	if err != nil {
		t.Skip((&errs.UnsupportedError{Feature: "test under mpirun", Need: "mpirun", Have: "none on the path"}).Error())
	}
	script := fmt.Sprintf("%s=1 %s && %s=1 %s", childMarker, os.Args[0], childMarker, os.Args[0])
	cmd := exec.Command(mpirun, "--oversubscribe", "-n", "3", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	b, err := cmd.CombinedOutput()
	require.NoError(t, err, string(b))
	for rank := range 3 {
		require.Equal(t, 2, strings.Count(string(b), fmt.Sprintf("PE %d of 3 sees [0 1 2]", rank)), string(b))
	}
}
