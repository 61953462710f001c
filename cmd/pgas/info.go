package main

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/pgas-go/pgas/bootstrap/launcher"
	"github.com/pgas-go/pgas/internal/config"
)

// fact is one line of a section of `pgas info`.
type fact struct{ name, value string }

// probe is a section of `pgas info`. A probe that cannot find something out says why in the value.
type probe struct {
	title string
	facts func(cfg *config.Config) []fact
}

// probes in the order of printing.
var probes = []probe{
	{"launcher", launcherFacts},
	{"machine", machineFacts},
	{"limits", limitFacts},
	{"network", networkFacts},
}

func infoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "info",
		Short: "Print the configuration, where it comes from, and what this machine has",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(os.Environ())
			if err != nil {
				return err
			}
			return printInfo(cmd.OutOrStdout(), cfg)
		},
	}
}

func printInfo(w io.Writer, cfg *config.Config) error {
	if _, err := fmt.Fprintf(w, "%s\n\nconfiguration\n", versionLine()); err != nil {
		return err
	}
	t := newTable()
	t.AppendHeader(table.Row{"variable", "value", "from", "meaning"})
	for _, s := range cfg.Settings() {
		t.AppendRow(table.Row{s.Name, s.Value, s.Source, s.Doc})
	}
	fmt.Fprintln(w, t.Render())
	for _, warning := range cfg.Warnings {
		fmt.Fprintln(w, "warning:", warning)
	}
	for _, p := range probes {
		fmt.Fprintf(w, "\n%s\n", p.title)
		t := newTable()
		for _, f := range p.facts(cfg) {
			t.AppendRow(table.Row{f.name, f.value})
		}
		if _, err := fmt.Fprintln(w, t.Render()); err != nil {
			return err
		}
	}
	return nil
}

// newTable is a table without borders: columns that both people and awk can read.
func newTable() table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = 0
	style.Box.PaddingLeft, style.Box.PaddingRight = "  ", ""
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	return t
}

func launcherFacts(cfg *config.Config) []fact {
	job, err := launcher.Detect(cfg, os.Environ())
	if err != nil {
		return []fact{{"error", err.Error()}}
	}
	facts := []fact{{"started by", job.Launcher}, {"PE", strconv.Itoa(job.Rank)}, {"PEs", strconv.Itoa(job.Size)}}
	if job.Root != "" {
		facts = append(facts, fact{"rendezvous", job.Root + " (" + job.RootFrom + ")"})
	}
	if job.ID != "" {
		facts = append(facts, fact{"job", job.ID})
	}
	return facts
}
