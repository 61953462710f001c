package launch

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pgas-go/pgas/internal/errs"
)

// foreign are the variables by which other launchers tell a process its rank. A job started by pgas inside an mpirun
// or an srun must not see them.
var foreign = []string{
	"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
	"PMI_RANK", "PMI_SIZE", "PMI_FD", "PMI_PORT", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMIX_RANK", "PMIX_NAMESPACE",
	"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
	"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS",
}

// own are the variables that tell a PE its place; only the launcher sets them.
var own = []string{"PGAS_RANK", "PGAS_SIZE", "PGAS_ROOT", "PGAS_JOB_ID", "PGAS_JOB_KEY"}

// CheckEnv checks settings of the form NAME=value that a user wants all PEs to have.
func CheckEnv(settings []string) error {
	for _, kv := range settings {
		name, _, ok := strings.Cut(kv, "=")
		switch {
		case !ok || name == "" || strings.ContainsAny(name, " \t\n\x00"):
			return errs.Arg("run", "env", strconv.Quote(kv), "NAME=value")
		case slices.Contains(own, name):
			return errs.Arg("run", "env", strconv.Quote(kv), "anything but "+strings.Join(own, ", ")+", which differ between PEs or jobs")
		}
	}
	return nil
}

// setEnv puts settings into an environment; later ones win over earlier ones.
func setEnv(environ []string, settings ...string) []string {
	for _, kv := range settings {
		name, _, _ := strings.Cut(kv, "=")
		environ = dropEnv(environ, name)
		environ = append(environ, kv)
	}
	return environ
}

func dropEnv(environ []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(names, name)
	})
}

// rendezvous is what the PEs of one job share. The key travels in the environment, which only this user can read.
type rendezvous struct {
	id, key, root string
}

// newRendezvous makes names that no other job has. Without a root of the user's, the PEs meet at an abstract Unix
// socket: it needs no free port, leaves nothing on disk, and other users are refused by the kernel's word.
func newRendezvous(root string) rendezvous {
	r := rendezvous{id: "run-" + strings.ToLower(rand.Text()[:12]), key: rand.Text() + rand.Text(), root: root}
	if r.root == "" {
		r.root = "unix:@pgas-" + r.id
	}
	return r
}

// peEnv is the environment of one PE.
func (r rendezvous) peEnv(base []string, rank, size int) []string {
	return setEnv(base, "PGAS_RANK="+strconv.Itoa(rank), "PGAS_SIZE="+strconv.Itoa(size), "PGAS_ROOT="+r.root,
		"PGAS_JOB_ID="+r.id, "PGAS_JOB_KEY="+r.key)
}

// BaseEnv is the environment that all PEs have in common: environ without the ranks of other launchers and jobs, with
// the user's settings.
func BaseEnv(environ, settings []string) []string {
	return setEnv(dropEnv(environ, append(slices.Clone(foreign), own...)...), settings...)
}

// tagOf is the prefix of a PE's lines, aligned for the size of the job.
func tagOf(rank, size int) string {
	return fmt.Sprintf("[%*d] ", len(strconv.Itoa(size-1)), rank)
}
