package pgas

import (
	"context"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/bootstrap/launcher"
	"github.com/pgas-go/pgas/internal/config"
)

// refuse tells the other PEs of a configuration error here: they would otherwise wait for this PE until their start-up
// deadline. What it takes to find them is read again without the rest; if that is what is wrong, nobody can be told.
func (o *Options) refuse(ctx context.Context, cause error) {
	x := o.Exchanger
	if x == nil {
		var rest []string
		for _, v := range o.environ() {
			name, _, _ := strings.Cut(v, "=")
			if !strings.HasPrefix(name, "PGAS_") || slices.Contains(rendezvous, name) {
				rest = append(rest, v)
			}
		}
		cfg, err := config.Load(rest)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, cfg.BootTimeout)
		defer cancel()
		if x, err = launcher.Open(ctx, cfg, rest, zap.NewNop()); err != nil {
			return // the cause is what counts; the others learn of it by the same failure
		}
	}
	x.Abort(cause)
	_ = x.Close()
}

// rendezvous are the variables by which PEs find each other.
var rendezvous = []string{"PGAS_ROOT", "PGAS_RANK", "PGAS_SIZE", "PGAS_JOB_ID", "PGAS_JOB_KEY", "PGAS_INTERFACE", "PGAS_BOOT_TIMEOUT"}

// connect joins the job: by the Exchanger that the program brought, or as the environment says.
func connect(ctx context.Context, o *Options, cfg *config.Config, log *zap.Logger) (bootstrap.Exchanger, error) {
	if o.Exchanger != nil {
		return o.Exchanger, nil
	}
	return launcher.Open(ctx, cfg, o.environ(), log)
}
