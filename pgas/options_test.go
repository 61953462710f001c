package pgas

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/pgas-go/pgas/internal/config"
)

func TestOptionsPrecedence(t *testing.T) {
	t.Setenv("PGAS_HEAP_SIZE", "8M")
	t.Setenv("PGAS_PATH", "p2p")
	t.Setenv("PGAS_TIMEOUT", "7s")

	cfg, err := (&Options{}).config()
	require.NoError(t, err)
	require.Equal(t, config.Size(8<<20), cfg.HeapSize)
	require.Equal(t, config.PathP2P, cfg.Path)
	require.Equal(t, 4, cfg.Contexts)

	cfg, err = (&Options{HeapSize: 3 << 20, Path: "ibgda", Contexts: 2, QueueDepth: 64}).config()
	require.NoError(t, err)
	require.Equal(t, config.Size(3<<20), cfg.HeapSize)
	require.Equal(t, config.PathIBGDA, cfg.Path)
	require.Equal(t, 2, cfg.Contexts)
	require.Equal(t, 64, cfg.QueueDepth)
	require.Equal(t, 7*time.Second, cfg.Timeout, "what Options leave out stays")

	cfg, err = (&Options{Environ: []string{"PGAS_HEAP_SIZE=1M"}}).config()
	require.NoError(t, err)
	require.Equal(t, config.Size(1<<20), cfg.HeapSize, "Environ replaces the environment")
	require.Equal(t, config.PathAuto, cfg.Path)
}

func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]Options{
		"PGAS_PLATFORM":    {Platform: "cloud"},
		"PGAS_PATH":        {Path: "pigeon"},
		"PGAS_QUEUE_DEPTH": {QueueDepth: 100},
		"PGAS_CONTEXTS":    {Contexts: -1},
		"PGAS_TIMEOUT":     {Timeout: -time.Second},
		"PGAS_HEAP_SIZE":   {HeapSize: 1 << 63},
	} {
		_, err := o.config()
		var bad *config.ValueError
		require.ErrorAs(t, err, &bad, want)
		require.Equal(t, want, bad.Name)
	}
}

func TestLogger(t *testing.T) {
	level := func(o Options) zapcore.Level {
		cfg, err := o.config()
		require.NoError(t, err)
		return o.logger(cfg).Level()
	}
	require.Equal(t, zapcore.InvalidLevel, level(Options{Environ: []string{}}), "silent by default")
	require.Equal(t, zapcore.InfoLevel, level(Options{Environ: []string{"PGAS_LOG=info"}}))
	require.Equal(t, zapcore.ErrorLevel, level(Options{Environ: []string{"PGAS_LOG=error"}}))
	core, _ := observer.New(zapcore.WarnLevel)
	require.Equal(t, zapcore.WarnLevel, level(Options{Environ: []string{"PGAS_LOG=debug"}, Logger: zap.New(core)}), "the program's logger wins")
}

// Init says once per PE which path it took and why.
func TestPathIsLogged(t *testing.T) {
	core, lines := observer.New(zapcore.InfoLevel)
	w, err := Init(t.Context(), Options{Platform: "soft", HeapSize: 1 << 20, Path: "ibgda", Logger: zap.New(core)})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	chosen := lines.FilterMessage("paths").All()
	require.Len(t, chosen, 1)
	require.Equal(t, "ibgda to all 1 PEs, as PGAS_PATH asks", chosen[0].ContextMap()["choice"])
	queues := lines.FilterMessage("queues").All()
	require.Len(t, queues, 1)
	require.Equal(t, "mlx5_0 port 1, 4 contexts, depth 1024, rings in GPU memory by dma-buf", queues[0].ContextMap()["ibgda"])
}
