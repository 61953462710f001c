// Command pgas is the tool of pgas: it starts jobs and tells what it finds on this machine.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pgas-go/pgas/internal/launch"
)

func main() {
	launch.GuardMain()
	os.Exit(run(os.Args[1:]))
}

// exitCode is an error that has been printed already.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// run executes one command line and returns the exit code.
func run(args []string) int {
	root := &cobra.Command{
		Use:           "pgas",
		Short:         "Run and inspect jobs of GPU one-sided communication",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(runCommand(), infoCommand(), versionCommand())
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintf(os.Stderr, "%s: %v (see %s --help)\n", cmd.CommandPath(), err, cmd.CommandPath())
	return launch.CodeUsage
}
