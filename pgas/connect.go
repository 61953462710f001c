package pgas

import (
	"context"

	"go.uber.org/zap"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/bootstrap/launcher"
	"github.com/pgas-go/pgas/internal/config"
)

// connect joins the job: by the Exchanger that the program brought, or as the environment says.
func connect(ctx context.Context, o *Options, cfg *config.Config, log *zap.Logger) (bootstrap.Exchanger, error) {
	if o.Exchanger != nil {
		return o.Exchanger, nil
	}
	return launcher.Open(ctx, cfg, o.environ(), log)
}
