// Package launcher finds out from the environment which launcher started this process, which PE it is, and where the
// PEs meet. It never guesses: a half-present or contradictory environment is an error, because its usual outcome is N
// jobs of one PE.
package launcher

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/pgas-go/pgas/internal/config"
	"github.com/pgas-go/pgas/internal/errs"
)

// Job is what the environment says about this process.
type Job struct {
	Launcher string // "none", "PGAS_RANK", "Open MPI", "MPICH (Hydra)", "torchrun", "Slurm"
	Rank     int
	Size     int
	Root     string // as in tcp.Options; empty for a job of one PE
	RootFrom string // where Root comes from, for people
	ID       string // name of the job
}

// family is one launcher's way to tell a process its rank.
type family struct {
	name string
	rank string
	size []string // the first that is set counts
	// oneHost says whether all PEs are on this host, as far as the launcher tells.
	oneHost func(v vars, size int) bool
	// jobID tells this launch from all others on the host; empty if the launcher does not.
	jobID func(v vars) string
}

// vars is an environment; empty variables count as unset.
type vars map[string]string

func parse(environ []string) vars {
	v := make(vars)
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if _, twice := v[name]; value != "" && !twice {
			v[name] = value
		}
	}
	return v
}

func (v vars) first(names ...string) (name, value string) {
	for _, n := range names {
		if v[n] != "" {
			return n, v[n]
		}
	}
	return "", ""
}

// equals says whether a variable is the number n.
func (v vars) equals(name string, n int) bool {
	got, err := strconv.Atoi(v[name])
	return err == nil && got == n
}

// families are in order of precedence: PGAS_* is the most explicit, Slurm the most likely to be an outer launcher.
var families = []family{
	{
		name: "PGAS_RANK", rank: "PGAS_RANK", size: []string{"PGAS_SIZE"},
		oneHost: func(vars, int) bool { return false },
		jobID:   func(vars) string { return "" },
	}, {
		name: "Open MPI", rank: "OMPI_COMM_WORLD_RANK", size: []string{"OMPI_COMM_WORLD_SIZE"},
		oneHost: func(v vars, size int) bool { return v.equals("OMPI_COMM_WORLD_LOCAL_SIZE", size) },
		jobID: func(v vars) string {
			_, id := v.first("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid")
			return id
		},
	}, {
		name: hydraName, rank: "PMI_RANK", size: []string{"PMI_SIZE"},
		oneHost: func(v vars, size int) bool { return v.equals("MPI_LOCALNRANKS", size) },
		jobID:   func(vars) string { return ancestorID("/proc", os.Getpid(), "hydra_pmi_proxy") },
	}, {
		name: "torchrun", rank: "RANK", size: []string{"WORLD_SIZE"},
		oneHost: func(v vars, size int) bool { return v.equals("LOCAL_WORLD_SIZE", size) },
		jobID:   torchJobID,
	}, {
		name: slurmName, rank: "SLURM_PROCID", size: []string{"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
		oneHost: func(v vars, size int) bool {
			name, _ := v.first("SLURM_STEP_NUM_NODES", "SLURM_NNODES")
			return v.equals(name, 1)
		},
		jobID: func(v vars) string {
			if v["SLURM_JOB_ID"] == "" {
				return ""
			}
			return v["SLURM_JOB_ID"] + "." + v["SLURM_STEP_ID"]
		},
	},
}

const (
	hydraName = "MPICH (Hydra)"
	slurmName = "Slurm"
)

func torchJobID(v vars) string {
	if v["MASTER_PORT"] == "" {
		return ""
	}
	return strings.Join([]string{v["TORCHELASTIC_RUN_ID"], v["MASTER_ADDR"], v["MASTER_PORT"], v["TORCHELASTIC_RESTART_COUNT"]}, ":")
}

// claim is one family's opinion.
type claim struct {
	*family
	sizeName   string
	rank, size int
}

func (c claim) String() string {
	return fmt.Sprintf("%s says PE %d of %d (%s, %s)", c.name, c.rank, c.size, c.family.rank, c.sizeName)
}

// Detect reads the environment. Variables of pgas come from cfg, which has checked them.
func Detect(cfg *config.Config, environ []string) (*Job, error) {
	v := parse(environ)
	v.fromConfig(cfg)
	claims, err := collect(v)
	if err != nil {
		return nil, err
	}
	if len(claims) == 0 {
		if name, _ := v.first("PMIX_RANK", "PMIX_NAMESPACE"); name != "" {
			return nil, &errs.UnsupportedError{Feature: "start by a PMIx launcher", Need: "the number of PEs in the environment",
				Have: "only " + name, Fix: "set PGAS_RANK, PGAS_SIZE and PGAS_ROOT, or start with mpirun, srun or pgas run"}
		}
		return &Job{Launcher: "none", Size: 1, ID: cfg.JobID}, nil
	}
	c, err := agree(claims)
	if err != nil {
		return nil, err
	}
	job := &Job{Launcher: c.name, Rank: c.rank, Size: c.size, ID: cfg.JobID}
	launch := c.jobID(v)
	if job.ID == "" {
		job.ID = "pgas"
		if launch != "" {
			job.ID = c.name + " " + launch
		}
	}
	if c.size > 1 {
		job.Root, job.RootFrom, err = root(c, v, cfg, launch)
	}
	return job, err
}

// fromConfig makes sure that PGAS_RANK and PGAS_SIZE are those of cfg.
func (v vars) fromConfig(cfg *config.Config) {
	for name, value := range map[string]*int{"PGAS_RANK": cfg.Rank, "PGAS_SIZE": cfg.Size} {
		delete(v, name)
		if value != nil {
			v[name] = strconv.Itoa(*value)
		}
	}
}

// collect finds all families whose variables are present. Half of a family is an error.
func collect(v vars) ([]claim, error) {
	var claims []claim
	for i := range families {
		f := &families[i]
		sizeName, sizeText := v.first(f.size...)
		rankText := v[f.rank]
		switch {
		case rankText == "" && sizeText == "":
			continue
		case f.name == slurmName && rankText == "":
			continue // an allocation without a step: sbatch, salloc
		case rankText == "":
			return nil, fmt.Errorf("launcher: %s=%s is set but %s is not (%s sets both; unset it, or set both)", sizeName, sizeText, f.rank, f.name)
		case sizeText == "":
			return nil, fmt.Errorf("launcher: %s=%s is set but %s is not (%s sets both; unset it, or set both)", f.rank, rankText,
				strings.Join(f.size, " or "), f.name)
		}
		rank, rankErr := strconv.Atoi(rankText)
		size, sizeErr := strconv.Atoi(sizeText)
		if rankErr != nil || sizeErr != nil || size < 1 || rank < 0 || rank >= size {
			return nil, fmt.Errorf("launcher: %s=%q and %s=%q are not a rank and a size", f.rank, rankText, sizeName, sizeText)
		}
		claims = append(claims, claim{f, sizeName, rank, size})
	}
	return claims, nil
}

// agree picks the launcher that started this process. An mpirun inside a Slurm job sees Slurm's variables of the
// mpirun's own processes, so Slurm gives way, unless the other one is a job of one PE: that is how one program becomes
// N separate jobs.
func agree(claims []claim) (claim, error) {
	c := claims[0]
	for _, other := range claims[1:] {
		if other.rank == c.rank && other.size == c.size {
			continue
		}
		if other.name == slurmName && c.size > 1 && c.name != "PGAS_RANK" {
			continue
		}
		return c, fmt.Errorf("launcher: %v but %v (unset the variables of the one that did not start this program)", c, other)
	}
	return c, nil
}

// root finds the rendezvous address.
func root(c claim, v vars, cfg *config.Config, launch string) (address, from string, err error) {
	switch {
	case cfg.Root != "":
		return cfg.Root, "PGAS_ROOT", nil
	case launch != "" && c.oneHost(v, c.size):
		// All PEs are on this host: a socket name that only this launch has needs no free port.
		name := sha256.Sum256([]byte(c.name + "\x00" + launch))
		return fmt.Sprintf("unix:@pgas-%d-%x", os.Geteuid(), name[:12]), "one host, " + c.name + " job " + launch, nil
	case v["MASTER_ADDR"] != "" && v["MASTER_PORT"] != "":
		return masterRoot(v)
	case v["MASTER_ADDR"] != "" && launch != "":
		return joinPort(v["MASTER_ADDR"], hashedPort(launch)), "MASTER_ADDR and a port made from the job " + launch, nil
	case c.name == slurmName && launch != "":
		_, list := v.first("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
		if host := firstHost(list); host != "" {
			return joinPort(host, hashedPort(launch)), "first host of " + list + " and a port made from the job " + launch, nil
		}
	}
	return "", "", fmt.Errorf("launcher: %s does not say where %d PEs can meet (set PGAS_ROOT=host:port, a free port on the host of PE 0)",
		c.name, c.size)
}

// masterRoot is MASTER_ADDR:MASTER_PORT, or the port above if torchrun's agent has a store of its own on that port.
func masterRoot(v vars) (address, from string, err error) {
	port, err := strconv.ParseUint(v["MASTER_PORT"], 10, 16)
	if err != nil || port == 0 || port == 65535 {
		return "", "", fmt.Errorf("launcher: MASTER_PORT=%q is not a port from 1 to 65534", v["MASTER_PORT"])
	}
	if strings.EqualFold(v["TORCHELASTIC_USE_AGENT_STORE"], "true") {
		return joinPort(v["MASTER_ADDR"], uint16(port)+1), "MASTER_ADDR, MASTER_PORT+1", nil
	}
	return joinPort(v["MASTER_ADDR"], uint16(port)), "MASTER_ADDR, MASTER_PORT", nil
}

// hashedPort maps a job to a port below the ephemeral range. Two jobs may meet on one port; then the start fails and
// names both.
func hashedPort(launch string) uint16 {
	sum := sha256.Sum256([]byte(launch))
	return 20000 + binary.BigEndian.Uint16(sum[:])%12000
}
