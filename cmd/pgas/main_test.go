package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/pgas-go/pgas/bootstrap/launcher"
	"github.com/pgas-go/pgas/internal/config"
	"github.com/pgas-go/pgas/internal/launch"
)

func TestMain(m *testing.M) {
	launch.GuardMain()
	testscript.Main(m, map[string]func(){
		"pgas": main,
		"pe":   func() { os.Exit(peMain()) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", Setup: func(env *testscript.Env) error {
		// Nothing of the machine's launchers or settings may leak in.
		env.Setenv("PGAS_BOOT_TIMEOUT", "20s")
		return nil
	}})
}

// peMain is a PE that joins its job and then does as its argument says.
func peMain() int {
	err := pe(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "pe:", err)
		return 1
	}
	return 0
}

func pe(what string) error {
	cfg, err := config.Load(os.Environ())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	x, err := launcher.Open(ctx, cfg, os.Environ(), nil)
	if err != nil {
		return err
	}
	defer x.Close()
	last := x.Rank() == x.Size()-1
	switch {
	case what == "gather":
		all, err := x.AllGather(ctx, fmt.Append(nil, 10*x.Rank()))
		if err != nil {
			return err
		}
		fmt.Printf("%s platform=%s path=%s heap=%v\n", all, cfg.Platform, cfg.Path, cfg.HeapSize)
		return nil
	case what == "abort" && last:
		x.Abort(errors.New("the mesh has a hole"))
		os.Exit(5)
	case what == "die" && last:
		if err := unix.Kill(os.Getpid(), unix.SIGKILL); err != nil {
			return err
		}
	}
	<-x.Watch()
	return x.Cause()
}
