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
	"github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/internal/pocket/batch"
	"github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	pocketrun "github.com/windlass-run/windlass/internal/pocket/run"
)

// headerTime bounds how long a caller of a pocket cloud may take to say what it
// wants.
const headerTime = 10 * time.Second

// pocketCloud is one cloud of windlass pocket up.
type pocketCloud struct {
	// serve answers callers until close, which makes it return nil.
	serve func(net.Listener) error
	// close ends its jobs, and lets callers learn that it has gone.
	close func() error
	// providers describes its kinds at an address of host and port.
	providers func(address string) []cli.PocketProvider
}

// pocketClouds lists the clouds that there are, in the order of their ports.
func pocketClouds() []func(cli.PocketRequest) (pocketCloud, error) {
	return []func(cli.PocketRequest) (pocketCloud, error){pocketAWS, pocketGCP, pocketAzure, pocketDigitalOcean, pocketKubernetes, pocketArgo}
}

// quiet is how long an ended job's log must be silent: a pocket cloud stores
// output at once.
const quiet = "500ms"

// pocketAWS is the cloud of the kinds aws-*.
func pocketAWS(r cli.PocketRequest) (pocketCloud, error) {
	executor, err := pocketExecutor(r)
	if err != nil {
		return pocketCloud{}, err
	}
	server, err := aws.New(aws.Options{Executor: executor, State: r.State, Instances: true})
	if err != nil {
		return pocketCloud{}, errors.Join(err, executor.Close())
	}
	return overHTTP(server, server.Close, func(address string) []cli.PocketProvider {
		url, role := "http://"+address, "arn:aws:iam::"+aws.Account+":role/execution"
		return []cli.PocketProvider{
			{Kind: "aws-ecs", Address: url, Config: []cli.PocketSetting{{Name: "region", Value: aws.Region}, {Name: "endpoint", Value: url},
				{Name: "subnets", Value: []string{"subnet-0123456789abcdef0"}}, {Name: "execution_role", Value: role}, {Name: "log_quiet", Value: quiet},
				// Commands in tasks need a role, and a look at what they use costs nothing here.
				{Name: "task_role", Value: "arn:aws:iam::" + aws.Account + ":role/task"}, {Name: "metric_interval", Value: "1s"}}},
			{Kind: "aws-batch", Address: url, Config: []cli.PocketSetting{{Name: "region", Value: aws.Region}, {Name: "endpoint", Value: url},
				{Name: "queue", Value: batch.DefaultQueue}, {Name: "execution_role", Value: role}, {Name: "log_quiet", Value: quiet}}},
		}
	}), nil
}

// pocketGCP is the cloud of the kind gcp-cloudrun.
func pocketGCP(r cli.PocketRequest) (pocketCloud, error) {
	executor, err := pocketExecutor(r)
	if err != nil {
		return pocketCloud{}, err
	}
	server, err := gcp.New(gcp.Options{Executor: executor, State: r.State})
	if err != nil {
		return pocketCloud{}, errors.Join(err, executor.Close())
	}
	// Google's quota of 60 reads a minute would have users wait for output.
	server.Logging().TuneKnobs(func(k *cloudlogging.Knobs) { k.ReadsPerMinute = 0 })
	return pocketCloud{serve: server.Serve, close: server.Close, providers: func(address string) []cli.PocketProvider {
		url := "http://" + address
		return []cli.PocketProvider{
			{Kind: "gcp-cloudrun", Address: url, Config: []cli.PocketSetting{{Name: "project", Value: gcp.Project}, {Name: "region", Value: gcp.Location},
				{Name: "endpoint", Value: url}, {Name: "log_late", Value: "100ms"}, {Name: "log_quiet", Value: quiet}, {Name: "log_rate", Value: 600}}},
		}
	}}, nil
}

// pocketAzure is the cloud of the kind azure-aci.
func pocketAzure(r cli.PocketRequest) (pocketCloud, error) {
	executor, err := pocketExecutor(r)
	if err != nil {
		return pocketCloud{}, err
	}
	server, err := azure.New(azure.Options{Executor: executor, State: r.State})
	if err != nil {
		return pocketCloud{}, errors.Join(err, executor.Close())
	}
	return pocketCloud{serve: server.Serve, close: server.Close, providers: func(address string) []cli.PocketProvider {
		url := "https://" + address
		return []cli.PocketProvider{
			{Kind: "azure-aci", Address: url, Config: []cli.PocketSetting{{Name: "subscription", Value: azure.SubscriptionID},
				{Name: "resource_group", Value: azure.ResourceGroup}, {Name: "location", Value: azure.Location}, {Name: "endpoint", Value: url},
				{Name: "ca_file", Value: cli.PocketFile{Suffix: "-azure-ca.pem", Data: server.CA()}},
				{Name: "log_poll", Value: "100ms"}, {Name: "log_quiet", Value: quiet}, {Name: "read_rate", Value: 6000}}},
		}
	}}, nil
}

// pocketDigitalOcean is the cloud of the kind digitalocean.
func pocketDigitalOcean(r cli.PocketRequest) (pocketCloud, error) {
	executor, err := pocketExecutor(r)
	if err != nil {
		return pocketCloud{}, err
	}
	server, err := digitalocean.New(digitalocean.Options{Executor: executor, State: r.State})
	if err != nil {
		return pocketCloud{}, errors.Join(err, executor.Close())
	}
	return overHTTP(server, server.Close, func(address string) []cli.PocketProvider {
		url := "http://" + address
		return []cli.PocketProvider{
			// It counts no calls, and DigitalOcean's 5,000 an hour are soon spent. It
			// reads a run command by a shell, which then passes TERM on to the job.
			{Kind: "digitalocean", Address: url, Config: []cli.PocketSetting{{Name: "endpoint", Value: url}, {Name: "command_read_by", Value: "shell"},
				{Name: "minute_rate", Value: 6000}, {Name: "hour_rate", Value: 360000}}},
		}
	}), nil
}

// pocketExecutor is what runs the jobs of one cloud, which closes it.
func pocketExecutor(r cli.PocketRequest) (pocketrun.Executor, error) {
	if r.Docker == "" {
		return pocketrun.NewProcesses(nil), nil
	}
	return pocketrun.NewDocker(r.Docker)
}

// overHTTP is a cloud that is a handler.
func overHTTP(h http.Handler, closeCloud func() error, providers func(address string) []cli.PocketProvider) pocketCloud {
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerTime}
	return pocketCloud{
		serve: func(l net.Listener) error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
		close:     func() error { return errors.Join(server.Close(), closeCloud()) },
		providers: providers,
	}
}

// startPocket starts all pocket clouds on loopback.
func startPocket(ctx context.Context, r cli.PocketRequest) (_ *cli.PocketClouds, err error) {
	var closers []func() error
	closeAll := func(context.Context) error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(ctx))
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
		served := make(chan struct{})
		go func() {
			defer close(served)
			if err := cloud.serve(listener); err != nil {
				failed <- fmt.Errorf("serve %s: %w", listener.Addr(), err)
			}
		}()
		closers = append(closers, func() error {
			err := cloud.close()
			<-served
			return err
		})
		out.Providers = append(out.Providers, cloud.providers(listener.Addr().String())...)
	}
	return out, nil
}
