package launcher

import (
	"context"
	"strings"

	"go.uber.org/zap"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/bootstrap/tcp"
	"github.com/pgas-go/pgas/internal/config"
)

// Open detects the launcher and joins the job. It is collective, as tcp.Connect is. A process that nothing launched is
// a job of one PE and opens no socket.
func Open(ctx context.Context, cfg *config.Config, environ []string, log *zap.Logger) (bootstrap.Exchanger, error) {
	job, err := Detect(cfg, environ)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = zap.NewNop()
	}
	log.Info("job", zap.String("launcher", job.Launcher), zap.Int("pe", job.Rank), zap.Int("size", job.Size),
		zap.String("root", job.Root), zap.String("root from", job.RootFrom), zap.String("id", job.ID))
	if job.Rank == 0 && job.Size > 1 && cfg.JobKey == "" && !strings.HasPrefix(job.Root, "unix:") {
		log.Warn("no PGAS_JOB_KEY: whoever reaches the root and knows the name of the job can join", zap.String("root", job.Root))
	}
	return tcp.Connect(ctx, tcp.Options{
		Rank: job.Rank, Size: job.Size, Root: job.Root, Job: job.ID, Key: []byte(cfg.JobKey), BootTimeout: cfg.BootTimeout,
		StepTimeout: cfg.Timeout, Interface: cfg.Interface, Logger: log,
	})
}
