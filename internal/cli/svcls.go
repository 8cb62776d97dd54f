package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

type svcLsOptions struct {
	f    *Factory
	on   []string
	name string
	json bool
}

func newSvcLs(f *Factory, runF func(context.Context, *svcLsOptions) error) *cobra.Command {
	o := &svcLsOptions{f: f}
	cmd := &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List live workloads",
		Long: `List the workloads of all providers, or of those that --on names; with NAME
those of that name. The first column is what every other command takes. A provider
that doesn't answer is named on stderr, and the exit code is then 1: what it has
isn't known.`,
		Example: "  windlass svc ls\n  windlass svc ls --on prod",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.name = args[0]
			}
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&o.on, "on", nil, "only those of this `provider`; may be repeated")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	complete(cmd, "on", f.completeProviders)
	return cmd
}

// WorkloadsView is what svc ls prints.
type WorkloadsView struct {
	Workloads []WorkloadItemView `json:"workloads" doc:"The workloads."`
	Failed    []ListFailView     `json:"failed,omitzero" doc:"Providers whose workloads aren't known."`
}

// WorkloadItemView is a workload of a listing.
type WorkloadItemView struct {
	Target  string `json:"target" doc:"PROVIDER/PATH, which every command takes."`
	Image   string `json:"image,omitzero" doc:"The container image."`
	Desired *int   `json:"desired" doc:"How many instances there are to be; null when the listing doesn't tell."`
	Ready   *int   `json:"ready" doc:"How many serve; null when the listing doesn't tell."`
	Stopped bool   `json:"stopped" doc:"It was stopped, and waits to be started."`
	Unmade  bool   `json:"unmade,omitzero" doc:"It is described, and was never made: svc start does."`
}

// ListFailView is a provider that could not be listed.
type ListFailView struct {
	Provider string    `json:"provider" doc:"Its name."`
	Error    ErrorBody `json:"error" doc:"Why."`
}

func (o *svcLsOptions) run(ctx context.Context) error {
	w, err := o.f.workloads(ctx)
	if err != nil {
		return err
	}
	s := o.f.Streams
	v := WorkloadsView{Workloads: []WorkloadItemView{}}
	var failed []error
	t := &table{head: []string{"TARGET", "READY", "STATE", "IMAGE"}, flex: 3}
	for _, l := range w.ListAll(ctx, o.on, o.name) {
		if errors.Is(l.Err, sdk.Unimplemented) && len(o.on) == 0 {
			continue // it has no workloads, which nobody asked it for
		}
		if l.Err != nil {
			v.Failed = append(v.Failed, ListFailView{l.Provider, s.describe(l.Err)})
			failed = append(failed, fmt.Errorf("the workloads of %s aren't known: %w", l.Provider, l.Err))
			continue
		}
		for _, x := range l.Workloads {
			v.Workloads = append(v.Workloads, viewItem(x))
			t.add(plain(x.Target.String()), plain(readyWords(x.Item.Ready, x.Item.Desired)), plain(itemState(x.Item)), plain(x.Item.Image))
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch {
	case !o.json:
		err = t.print(s)
		for _, f := range failed {
			writeError(s, f)
		}
	case len(failed) > 0:
		err = writePartialJSON(s, v, failed)
	default:
		err = writeJSON(s.Out, v)
	}
	if err == nil && len(failed) > 0 {
		return exitError{ExitFaults}
	}
	return err
}

func viewItem(x control.Workload) WorkloadItemView {
	return WorkloadItemView{Target: x.Target.String(), Image: x.Item.Image, Desired: x.Item.Desired, Ready: x.Item.Ready, Stopped: x.Item.Stopped, Unmade: x.Item.Unmade}
}

func itemState(it sdk.WorkloadItem) string {
	switch {
	case it.Unmade:
		return notCreated
	case it.Stopped:
		return "stopped"
	case it.Ready == nil || it.Desired == nil:
		return notTold
	case *it.Ready < *it.Desired:
		return "not ready"
	}
	return "running"
}

type svcStatusOptions struct {
	f   *Factory
	ref string
	waitFlags
	json bool
}

func newSvcStatus(f *Factory, runF func(context.Context, *svcStatusOptions) error) *cobra.Command {
	o := &svcStatusOptions{f: f}
	cmd := &cobra.Command{
		Use:     "status TARGET",
		Short:   "Show how a live workload is",
		Long:    `Show a workload's counts, instances and last failure. With --wait it first waits until the newest change is rolled out.`,
		Example: "  windlass svc status prod/shop/api\n  windlass svc status api --wait --wait-timeout 2m",
		Args:    exactly(1, "TARGET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			if err := o.check(); err != nil {
				return usageOf(cmd, err)
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: f.completeWorkloads,
	}
	o.add(cmd.Flags())
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *svcStatusOptions) run(ctx context.Context) error {
	w, t, err := o.f.workload(ctx, o.ref)
	if err != nil {
		return err
	}
	var st sdk.DeploymentStatus
	if o.wait {
		st, err = w.Wait(ctx, t, "", o.timeout)
	} else {
		st, err = w.Status(ctx, t)
	}
	if err != nil {
		return err
	}
	v := viewStatus(t, st)
	if o.json {
		return writeJSON(o.f.Streams.Out, v)
	}
	return printWorkload(o.f.Streams, v)
}

// printWorkload shows a workload for people.
func printWorkload(s *Streams, v WorkloadView) error {
	var err error
	say := func(name, format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(s.Out, "%-11s %s\n", name, clean(fmt.Sprintf(format, args...)))
		}
	}
	say("Target", "%s", v.Target)
	say("State", "%s", v.State)
	say("Image", "%s", v.Image)
	updated := ""
	if v.Updated != nil {
		updated = fmt.Sprintf(", %d updated", *v.Updated)
	}
	say("Ready", "%s%s", readyWords(v.Ready, v.Desired), updated)
	if v.Restores != nil {
		say("Restores", "%s", count(*v.Restores, "replica", "replicas"))
	}
	seen := ""
	if v.Seen != "" && v.Seen != v.Gen {
		seen = ", not seen yet: the provider works on " + v.Seen
	}
	say("Generation", "%s%s", v.Gen, seen)
	say("Rollout", "%s", v.Rollout)
	if a := v.Autoscaler; a != nil {
		say("Autoscaler", "%s, between %d and %d", a.Name, a.Min, a.Max)
	}
	if f := v.Failure; f != nil {
		say("Failure", "%s: %s", f.Reason, f.Message)
	}
	for _, w := range v.Warnings {
		say("Note", "%s", w)
	}
	if err != nil || len(v.Instances) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(s.Out); err != nil {
		return err
	}
	t := &table{head: []string{"INSTANCE", "STATE", "READY", "RESTARTS", "WHY"}, flex: 4, wrap: true}
	for _, in := range v.Instances {
		ready, why := "no", string(in.Reason)
		if in.Ready {
			ready = "yes"
		}
		if in.Message != "" {
			why += ": " + in.Message
		}
		t.add(plain(in.Name), plain(string(in.State)), plain(ready), plain(known(in.Restarts)), plain(why))
	}
	return t.print(s)
}
