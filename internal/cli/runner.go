package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/runner"
	"github.com/windlass-run/windlass/sdk"
)

func newRunner(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runner serve",
		Short: "Run jobs for other machines",
		Args:  group,
		RunE:  groupHelp,
	}
	cmd.AddCommand(newRunnerServe(f, nil))
	return cmd
}

type runnerServeOptions struct {
	f            *Factory
	on           string
	listen       string
	cert         string
	key          string
	ca           string
	clients      string
	maxJobs      int
	startTimeout time.Duration
}

// defaultListen is reached from this machine alone: to be reached from others is
// asked for.
const defaultListen = "127.0.0.1:7443"

func newRunnerServe(f *Factory, runF func(context.Context, *runnerServeOptions) error) *cobra.Command {
	o := &runnerServeOptions{f: f}
	cmd := &cobra.Command{
		Use:   "serve --tls-cert FILE --tls-key FILE [--client-ca FILE] [--clients FILE]",
		Short: "Serve jobs to known clients until interrupted",
		Long: `Run jobs for other machines on a provider, until interrupted. It speaks the
service SandboxExecService over TLS 1.3, which steps with an exec_env under
runners: in windlass.yaml use.

Callers are known by a certificate of --client-ca, whose name they then have, or
by a token in the file --clients, which also says what each may have: the security
profile at most, the secrets, and how many jobs at a time. Without that file every
certificate of --client-ca may run jobs, under the profile strict and without
secrets. Without either it doesn't start.

Every job stands in the ledger, with its client as actor. One whose caller leaves
is cancelled. At the first Ctrl-C or SIGTERM the runner takes no more jobs, cancels
those that it has and waits, without a bound, for proof that they are gone; the
second leaves at once, and the next start cancels what is left.

When it listens, the line "ready" is printed; the address and the log go to stderr.`,
		Example: `  windlass runner serve --tls-cert server.pem --tls-key server-key.pem --client-ca ca.pem
  windlass runner serve --on docker --listen :7443 --tls-cert server.pem --tls-key server-key.pem --clients clients.yaml`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.cert == "" || o.key == "" {
				return usagef(cmd, "--tls-cert and --tls-key are missing: a runner speaks TLS alone")
			}
			if o.maxJobs < 1 {
				return usagef(cmd, "--max-jobs %d: it is 1 or more", o.maxJobs)
			}
			if o.startTimeout < 0 {
				return usagef(cmd, "--start-timeout %s: it is 0 or more", o.startTimeout)
			}
			if err := checkListen(cmd.Context(), o.listen); err != nil {
				return usagef(cmd, "--listen: %w", err)
			}
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.on, "on", "docker", "`provider` to run the jobs on")
	fl.StringVar(&o.listen, "listen", defaultListen, "`address` to listen on, HOST:PORT; :PORT is every address of this machine")
	fl.StringVar(&o.cert, "tls-cert", "", "`file` of the runner's certificate, PEM; a renewed one is used without a restart")
	fl.StringVar(&o.key, "tls-key", "", "`file` of the certificate's key, PEM")
	fl.StringVar(&o.ca, "client-ca", "", "`file` of the CAs whose certificates let clients in, PEM")
	fl.StringVar(&o.clients, "clients", "", "`file` of the clients, YAML: their tokens, profiles, secrets and limits")
	fl.IntVar(&o.maxJobs, "max-jobs", runner.DefaultMaxJobs, "most jobs at a time, a `number`; more are refused")
	fl.DurationVar(&o.startTimeout, "start-timeout", runner.DefaultStartTimeout, "end a job that hasn't started within this `duration`, as when its image can't be pulled; 0 is no bound")
	complete(cmd, "on", f.completeProviders)
	return cmd
}

// checkListen refuses what is no address to listen on. Whether it is this machine's
// shows when it is used.
func checkListen(ctx context.Context, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is no HOST:PORT, as in 127.0.0.1:7443 or :7443", address)
	}
	if _, err := net.DefaultResolver.LookupPort(ctx, "tcp", port); err != nil || port == "" {
		return fmt.Errorf("%q is no port: it is 0 to 65535", port)
	}
	return nil
}

func (o *runnerServeOptions) run(ctx context.Context) (err error) {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	if _, err := c.Provider(o.on); err != nil {
		return err
	}
	if err := o.f.learn(ctx, o.on); err != nil {
		return err
	}
	if d := o.f.driverOf(o.on); d != nil && d.Guarantees.Ambient {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "serve runner", Provider: o.on, ID: runner.ErrUnfit,
			Err: errors.New("its jobs get this command's folder and environment, and no sandbox"), Remedy: "serve a provider of containers, such as docker"}
	}
	r := runner.Options{Provider: o.on, CertFile: o.path(o.cert), KeyFile: o.path(o.key), ClientCAFile: o.path(o.ca), MaxJobs: o.maxJobs, StartTimeout: o.startTimeout, Actor: c.Actor,
		Log: slog.New(slog.NewTextHandler(redacting{o.f.Streams}, nil)), Redact: o.f.Streams.redact,
		Stopping: func(jobs int) { o.f.Streams.note("%s", stopWords(jobs)) }}
	if o.clients != "" {
		if r.Clients, err = runner.ReadClients(o.path(o.clients), o.f.Env.Lookup); err != nil {
			return err
		}
	}
	if err := runner.Check(r); err != nil {
		return err
	}
	s, err := o.f.open(ctx)
	if err != nil {
		return err
	}
	if err := s.Store.Writable(); err != nil {
		return err
	}
	b, err := s.Providers.Backend(ctx, o.on)
	if err != nil {
		return err
	}
	if !sdk.Has(b.Provider, sdk.Runner().String()) {
		return &sdk.Error{Code: sdk.Unimplemented, Op: "serve runner", Provider: o.on, Err: errors.New("it runs no jobs")}
	}
	r.Engine, r.Runs, r.Mind = s.Engine, s.Store, s.Mind
	if r.StateDir, err = c.StatePath(); err != nil {
		return err
	}
	server, err := runner.New(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "serve runner", ID: runner.ErrListen, Err: err, Remedy: "name another address with --listen"}
	}
	o.f.Streams.note("runner on %s listens on %s", o.on, lis.Addr())
	if _, err := fmt.Fprintln(o.f.Streams.Out, "ready"); err != nil {
		return errors.Join(err, lis.Close())
	}
	return server.Serve(ctx, lis)
}

// stopWords say what a runner that is being stopped waits for.
func stopWords(jobs int) string {
	if jobs == 0 {
		return "stopping: no more jobs are taken, and there is none to wait for"
	}
	return fmt.Sprintf("stopping: no more jobs are taken; cancelling %s and waiting, without a bound, for proof that nothing is left; a second signal leaves at once, and the next start cancels what is left",
		count(jobs, "job", "jobs"))
}

// path is a file's from the folder of the command; none stays none.
func (o *runnerServeOptions) path(file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(o.f.Dir, file)
}

// redacting is stderr without secret values.
type redacting struct{ s *Streams }

// Write implements io.Writer.
func (r redacting) Write(b []byte) (int, error) {
	if _, err := r.s.Err.Write([]byte(r.s.redact(string(b)))); err != nil {
		return 0, err
	}
	return len(b), nil
}
