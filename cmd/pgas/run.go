package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgas-go/pgas/internal/config"
	"github.com/pgas-go/pgas/internal/launch"
)

type runFlags struct {
	n              int
	platform, path string
	env            []string
	timeout, grace time.Duration
	root           string
	tag, noTag     bool
}

func runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] [--] program [arguments]",
		Short: "Start a job of N PEs on this host",
		Long: `Start a job of N PEs on this host, each a process that runs the program.

The PEs' lines are printed whole, with the PE in front. If one PE fails, the
others get SIGTERM, and SIGKILL after the grace period; the last line printed is
the cause, and the exit code is that of the PE that failed first (128 + signal
if it was killed). SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on; the second one kills.
Standard input of the PEs is empty.

Exit codes of its own: 2 wrong usage, 124 timeout, 126 and 127 program cannot be
started or found.`,
		Example: `  pgas run -n 4 ./moe
  pgas run -n 8 --platform soft --path ibgda --env PGAS_HEAP_SIZE=64M --timeout 60s -- ./halo -size 512`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows the program is the program's
	flags.SortFlags = false
	flags.IntVarP(&f.n, "n", "n", 1, "number of PEs")
	flags.StringVar(&f.platform, "platform", "", "auto, soft or hw (sets PGAS_PLATFORM)")
	flags.StringVar(&f.path, "path", "", "auto, p2p or ibgda (sets PGAS_PATH)")
	flags.StringArrayVar(&f.env, "env", nil, "NAME=value for all PEs; may be repeated")
	flags.DurationVar(&f.timeout, "timeout", 0, "end the job after this time; 0 means never")
	flags.DurationVar(&f.grace, "grace", 3*time.Second, "time between SIGTERM and SIGKILL")
	flags.StringVar(&f.root, "root", "", "where the PEs meet: host:port (default: a fresh Unix socket)")
	flags.BoolVar(&f.tag, "tag", false, "put the PE in front of each line (default with several PEs)")
	flags.BoolVar(&f.noTag, "no-tag", false, "do not put the PE in front of each line")
	cmd.MarkFlagsMutuallyExclusive("tag", "no-tag")
	return cmd
}

func (f *runFlags) run(ctx context.Context, args []string) error {
	switch {
	case f.timeout < 0:
		return fmt.Errorf("--timeout is %v, want 0 or more", f.timeout)
	case f.grace <= 0:
		return fmt.Errorf("--grace is %v, want more than 0", f.grace)
	}
	settings := f.env
	if err := launch.CheckEnv(settings); err != nil {
		return err
	}
	if f.platform != "" {
		settings = append(settings, "PGAS_PLATFORM="+f.platform)
	}
	if f.path != "" {
		settings = append(settings, "PGAS_PATH="+f.path)
	}
	env := launch.BaseEnv(os.Environ(), settings)
	// One complaint here is better than one per PE.
	checked := env
	if f.root != "" {
		checked = append(checked[:len(checked):len(checked)], "PGAS_ROOT="+f.root)
	}
	if _, err := config.Load(checked); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	err := launch.Run(ctx, launch.Options{N: f.n, Command: args, Env: env, Root: f.root, Tag: f.tag || f.n > 1 && !f.noTag,
		Timeout: f.timeout, Grace: f.grace, Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals})
	if err == nil {
		return nil
	}
	// The last line of the output is the cause, whatever else has been printed.
	fmt.Fprintf(os.Stderr, "pgas run: %v\n", err)
	return exitCode(launch.CodeOf(err))
}
