package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

// maxDeploymentBytes bounds the file of a deployment, as a configuration's.
const maxDeploymentBytes = 256 << 10

type svcStartOptions struct {
	f *Factory
	changeFlags
	ref      string
	file     string
	replicas int
}

func newSvcStart(f *Factory, runF func(context.Context, *svcStartOptions) error) *cobra.Command {
	o := &svcStartOptions{f: f}
	cmd := &cobra.Command{
		Use:   "start [TARGET] [-f FILE]",
		Short: "Make a live workload, or resume one that was stopped",
		Long: `With -f, make the workload that a file describes; it must not be there yet. It stays
until the backend's own command removes it (see svc stop). Without, resume one that
svc stop ended, with as many replicas as it had then.

A file is YAML:

  target: prod/shop/api       # or TARGET on the command line
  image: shop/api:1.4
  command: [serve, --port, "8080"]
  env: {MODE: fast}
  secrets: {TOKEN: secret://env/TOKEN}
  ports: [{port: 8080}]
  replicas: 3
  resources: {cpu: 500m, memory: 128Mi}
  health: {http_path: /ready, port: 8080}
  config: {LEVEL: info}`,
		Example: "  windlass svc start api\n  windlass svc start -f api.yaml --wait",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.ref = args[0]
			}
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			switch fs := cmd.Flags(); {
			case o.ref == "" && o.file == "":
				return usagef(cmd, "TARGET is missing, or -f FILE")
			case fs.Changed("replicas") && o.replicas < 0:
				return usagef(cmd, "--replicas: is 0 or more")
			case o.file != "" && fs.Changed("replicas"):
				return usagef(cmd, "--replicas: stands in the file")
			}
			if err := o.check(cmd.Flags()); err != nil {
				return usageOf(cmd, err)
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: f.completeWorkloads,
	}
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "the `file` that describes the workload")
	cmd.Flags().IntVar(&o.replicas, "replicas", unset, "resume with so `many` replicas")
	o.add(cmd.Flags(), true)
	return cmd
}

func (o *svcStartOptions) run(ctx context.Context) error {
	w, r, err := o.read(ctx)
	if err != nil {
		return err
	}
	c, err := w.Start(ctx, r)
	return o.done(o.f, "svc.start", c, err)
}

// read finds out what is to be started.
func (o *svcStartOptions) read(ctx context.Context) (*control.WorkloadRuntime, control.StartChange, error) {
	var r control.StartChange
	if o.file == "" {
		w, t, err := o.f.workload(ctx, o.ref)
		if err != nil {
			return nil, r, err
		}
		if n := o.replicas; n != unset {
			r.Replicas = &n
		}
		r.ChangeRequest, err = o.request(o.f, t)
		return w, r, err
	}
	data, err := readLimited(o.file, maxDeploymentBytes)
	if err != nil {
		return nil, r, fmt.Errorf("read deployment: %w", err)
	}
	d, err := config.ParseDeployment(o.file, data)
	if err != nil {
		return nil, r, err
	}
	// A workload that isn't there has no name that could be looked up.
	if o.ref != "" {
		if d.Target, err = sdk.ParseTarget(o.ref); err != nil {
			return nil, r, err
		}
	}
	if d.Target.IsZero() {
		return nil, r, &sdk.Error{Code: sdk.InvalidArgument, Op: "start workload", Field: "target", Remedy: "name it as PROVIDER/PATH, on the command line or in the file",
			Err: errors.New("where the workload goes isn't said")}
	}
	if d.Spec.Name == "" {
		d.Spec.Name = d.Target.Path.Name()
	}
	w, err := o.f.workloads(ctx)
	if err != nil {
		return nil, r, err
	}
	r.Spec = &d.Spec
	r.ChangeRequest, err = o.request(o.f, d.Target)
	return w, r, err
}

type svcStopOptions struct {
	f *Factory
	changeFlags
	yes bool
}

func newSvcStop(f *Factory, runF func(context.Context, *svcStopOptions, string) error) *cobra.Command {
	o := &svcStopOptions{f: f}
	cmd := &cobra.Command{
		Use:   "stop TARGET --yes",
		Short: "Stop a live workload so that it can be started again",
		Long: `End all instances of a workload, and keep the workload: svc start brings back what
was there. Nobody is served meanwhile, so it wants --yes.

No command here removes a workload, also one that svc start -f made: that is
provisioning, done by what made it, or by the backend's own command (kubectl delete,
aws ecs delete-service, az container delete, gcloud run services delete; for Compose
svc stop says it).`,
		Example: "  windlass svc stop prod/shop/api --yes",
	}
	changeCommand(f, cmd, &o.changeFlags, 1, "TARGET", true, func(ctx context.Context, _ *cobra.Command, args []string) error {
		if runF != nil {
			return runF(ctx, o, args[0])
		}
		w, t, err := f.workload(ctx, args[0])
		if err != nil {
			return err
		}
		if !o.yes && !o.dryRun {
			return &sdk.Error{Code: sdk.FailedPrecondition, Op: "stop workload", ID: idNoConfirm, Remedy: "repeat it with --yes",
				Err: fmt.Errorf("this ends every instance of %s", t)}
		}
		r, err := o.request(f, t)
		if err != nil {
			return err
		}
		c, err := w.Stop(ctx, r)
		return o.done(f, "svc.stop", c, err)
	})
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do it")
	return cmd
}

type svcRestartOptions struct {
	f *Factory
	changeFlags
}

func newSvcRestart(f *Factory, runF func(context.Context, *svcRestartOptions, string) error) *cobra.Command {
	o := &svcRestartOptions{f: f}
	cmd := &cobra.Command{
		Use:   "restart TARGET",
		Short: "Restart the instances of a live workload",
		Long: `Restart or replace every instance. Whether somebody serves all the while is the
provider's own: windlass provider describe says it.`,
		Example: "  windlass svc restart api --wait",
	}
	return changeCommand(f, cmd, &o.changeFlags, 1, "TARGET", false, func(ctx context.Context, _ *cobra.Command, args []string) error {
		if runF != nil {
			return runF(ctx, o, args[0])
		}
		w, t, err := f.workload(ctx, args[0])
		if err != nil {
			return err
		}
		r, err := o.request(f, t)
		if err != nil {
			return err
		}
		c, err := w.Restart(ctx, r)
		return o.done(f, "svc.restart", c, err)
	})
}

type svcScaleOptions struct {
	f *Factory
	changeFlags
}

func newSvcScale(f *Factory, runF func(context.Context, *svcScaleOptions, string, int) error) *cobra.Command {
	o := &svcScaleOptions{f: f}
	cmd := &cobra.Command{
		Use:   "scale TARGET REPLICAS",
		Short: "Change how many instances a live workload has",
		Long: `Ask for a number of instances. Where an autoscaler owns the number the command is
refused, since its choice would be undone; --against-autoscaler does it all the
same.`,
		Example: "  windlass svc scale api 5 --wait\n  windlass svc scale api 5 --expect-replicas 3",
	}
	return changeCommand(f, cmd, &o.changeFlags, 2, "TARGET or REPLICAS", true, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 0 {
			return usagef(cmd, "%q is no number of replicas", args[1])
		}
		if runF != nil {
			return runF(ctx, o, args[0], n)
		}
		w, t, err := f.workload(ctx, args[0])
		if err != nil {
			return err
		}
		r, err := o.request(f, t)
		if err != nil {
			return err
		}
		c, err := w.Scale(ctx, r, n)
		return o.done(f, "svc.scale", c, err)
	})
}

type svcConfigOptions struct {
	f *Factory
	changeFlags
	set, secrets, unset []string
}

func newSvcConfig(f *Factory, runF func(context.Context, *svcConfigOptions, string) error) *cobra.Command {
	o := &svcConfigOptions{f: f}
	cmd := &cobra.Command{
		Use:   "config TARGET --set NAME=VALUE",
		Short: "Change the settings of a live workload",
		Long: `Set and unset settings of a workload, and bring them to its instances, which are
replaced for it. What isn't named stays. The ledger keeps the names, the references
of secrets, and hashes of plain values, never a value.`,
		Example: "  windlass svc config api --set LEVEL=debug --wait\n  windlass svc config api --secret TOKEN=secret://env/TOKEN --unset OLD",
	}
	changeCommand(f, cmd, &o.changeFlags, 1, "TARGET", false, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		r, err := o.read()
		if err != nil {
			return usageOf(cmd, err)
		}
		if runF != nil {
			return runF(ctx, o, args[0])
		}
		w, t, err := f.workload(ctx, args[0])
		if err != nil {
			return err
		}
		if r.ChangeRequest, err = o.request(f, t); err != nil {
			return err
		}
		c, err := w.Configure(ctx, r)
		return o.done(f, "svc.config", c, err)
	})
	fs := cmd.Flags()
	fs.StringArrayVar(&o.set, "set", nil, "set a plain setting, as in `NAME=VALUE`; may be repeated")
	fs.StringArrayVar(&o.secrets, "secret", nil, "set a secret one by its reference, as in `NAME=secret://env/TOKEN`; may be repeated")
	fs.StringArrayVar(&o.unset, "unset", nil, "remove the setting of this `name`; may be repeated")
	return cmd
}

func (o *svcConfigOptions) read() (control.ConfigChange, error) {
	r := control.ConfigChange{Set: map[string]string{}, Secrets: map[string]sdk.SecretRef{}, Unset: o.unset}
	if len(o.set)+len(o.secrets)+len(o.unset) == 0 {
		return r, errors.New("nothing is to be changed; --set, --secret or --unset is missing")
	}
	for _, pair := range o.set {
		k, v, err := parsePair(pair)
		if err != nil {
			return r, fmt.Errorf("--set: %w", err)
		}
		r.Set[k] = v
	}
	for _, pair := range o.secrets {
		k, v, err := parsePair(pair)
		if err != nil {
			return r, fmt.Errorf("--secret: %w", err)
		}
		r.Secrets[k] = sdk.SecretRef(v)
	}
	return r, nil
}
