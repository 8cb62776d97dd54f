package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/pocket/aws"
	"github.com/windlass-run/windlass/internal/pocket/batch"
	pocketrun "github.com/windlass-run/windlass/internal/pocket/run"
)

// headerTime bounds how long a caller of a pocket cloud may take to say what it
// wants.
const headerTime = 10 * time.Second

// pocketCloud is one cloud of windlass pocket up.
type pocketCloud struct {
	handler http.Handler
	// close ends its jobs.
	close func() error
	// providers describes its kinds at an address.
	providers func(url string) []cli.PocketProvider
}

// pocketClouds lists the clouds that there are, in the order of their ports.
func pocketClouds() []func(cli.PocketRequest) (pocketCloud, error) {
	return []func(cli.PocketRequest) (pocketCloud, error){pocketAWS}
}

// pocketAWS is the cloud of the kinds aws-*.
func pocketAWS(r cli.PocketRequest) (pocketCloud, error) {
	executor, err := pocketExecutor(r)
	if err != nil {
		return pocketCloud{}, err
	}
	server, err := aws.New(aws.Options{Executor: executor, State: r.State})
	if err != nil {
		return pocketCloud{}, errors.Join(err, executor.Close())
	}
	return pocketCloud{handler: server, close: server.Close, providers: func(url string) []cli.PocketProvider {
		role := cli.PocketSetting{Name: "execution_role", Value: "arn:aws:iam::" + aws.Account + ":role/execution"}
		// A pocket cloud stores output at once.
		quiet := cli.PocketSetting{Name: "log_quiet", Value: "500ms"}
		return []cli.PocketProvider{
			{Kind: "aws-ecs", Address: url, Config: []cli.PocketSetting{{Name: "region", Value: aws.Region}, {Name: "endpoint", Value: url},
				{Name: "subnets", Value: []string{"subnet-0123456789abcdef0"}}, role, quiet}},
			{Kind: "aws-batch", Address: url, Config: []cli.PocketSetting{{Name: "region", Value: aws.Region}, {Name: "endpoint", Value: url},
				{Name: "queue", Value: batch.DefaultQueue}, role, quiet}},
		}
	}}, nil
}

// pocketExecutor is what runs the jobs of one cloud, which closes it.
func pocketExecutor(r cli.PocketRequest) (pocketrun.Executor, error) {
	if r.Docker == "" {
		return pocketrun.NewProcesses(nil), nil
	}
	return pocketrun.NewDocker(r.Docker)
}

// startPocket starts all pocket clouds on loopback.
func startPocket(ctx context.Context, r cli.PocketRequest) (_ *cli.PocketClouds, err error) {
	var closers []func(context.Context) error
	closeAll := func(ctx context.Context) error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c(ctx))
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(context.WithoutCancel(ctx)))
		}
	}()
	out := &cli.PocketClouds{Close: closeAll}
	makers := pocketClouds()
	failed := make(chan error, len(makers))
	out.Failed = failed
	for i, start := range makers {
		port := 0
		if r.Port > 0 {
			port = r.Port + i
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, err
		}
		cloud, err := start(r)
		if err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		server := &http.Server{Handler: cloud.handler, ReadHeaderTimeout: headerTime}
		served := make(chan struct{})
		go func() {
			defer close(served)
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve %s: %w", listener.Addr(), err)
			}
		}()
		closers = append(closers, func(ctx context.Context) error {
			err := server.Close() // callers learn at once that the cloud has gone
			<-served
			return errors.Join(err, cloud.close())
		})
		out.Providers = append(out.Providers, cloud.providers("http://"+listener.Addr().String())...)
	}
	return out, nil
}
