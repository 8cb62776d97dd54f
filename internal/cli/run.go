package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

type runOptions struct {
	f      *Factory
	job    jobFlags
	args   []string
	detach bool
	dryRun bool
	json   bool
}

func newRun(f *Factory, runF func(context.Context, *runOptions) error) *cobra.Command {
	o := &runOptions{f: f}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] [ARG...]",
		Short: "Run a job and see it through",
		Long: `Run a job, show its output as it comes, and end with its exit code.

The job's bytes go to stdout and stderr and nothing else does: what Windlass has
to say goes to stderr. The arguments reach the job as a list that no shell
re-reads; --shell asks for one. Without --on the job runs on default_provider,
else on docker when an image is given, else on this machine.

The first Ctrl-C, SIGTERM or hang-up cancels the job and waits for proof that it
is gone; the second leaves at once, as the first does where nothing could ever
prove it (--allow-no-cancel). A reader of stdout that goes away (| head) doesn't
end the job: the rest of its output is kept for windlass logs.

Exit codes: the job's own; 124 when its time-out passed, 125 when Windlass or
the provider failed or no code is known, 126 and 127 when the command can't be
executed or found, 130 when it was cancelled.`,
		Example: `  windlass run -- sh -c 'echo hello; exit 3'
  windlass run --image busybox -- echo hello
  windlass run --on prod --image app:1.4 --timeout 10m -- ./migrate up
  windlass run -d --name nightly --shell -- 'make report | gzip > report.gz'`,
		Annotations: map[string]string{streamAnnotation: "detach,dry-run"},
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.args = given(cmd, args)
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			err := o.run(cmd.Context())
			var flags *flagError
			if errors.As(err, &flags) {
				return usageOf(cmd, flags.err)
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.SortFlags = false
	o.job.bind(fs)
	fs.BoolVarP(&o.detach, "detach", "d", false, "print the run's ID and leave it to itself")
	fs.BoolVar(&o.dryRun, "dry-run", false, "show what would be sent, and send nothing")
	fs.BoolVar(&o.json, "json", false, "print JSON: a line for each event, or one document with -d and --dry-run")
	completeJob(cmd, f)
	return cmd
}

// flagError is a flag whose value doesn't fit.
type flagError struct{ err error }

func (e *flagError) Error() string { return e.err.Error() }
func (e *flagError) Unwrap() error { return e.err }

func (o *runOptions) run(ctx context.Context) error {
	req, err := o.request(ctx)
	if err != nil {
		return err
	}
	return submit(ctx, o.f, req, submitMode{detach: o.detach, dryRun: o.dryRun, json: o.json})
}

// request reads the flags. A value that doesn't fit is a flagError.
func (o *runOptions) request(ctx context.Context) (control.SubmitRequest, error) {
	var req control.SubmitRequest
	c, err := o.f.cfg()
	if err != nil {
		return req, err
	}
	req.Provider = chooseProvider(o.job.on, o.job.image, c.DefaultProvider)
	if _, err := c.Provider(req.Provider); err != nil {
		return req, err
	}
	if err := o.f.learn(ctx, req.Provider); err != nil {
		return req, err
	}
	jc := jobContext{lookup: o.f.Env.Lookup, dir: o.f.Dir, warn: o.f.Streams.note, detach: o.detach, schema: o.f.optionSchema}
	if req.Spec, err = o.job.spec(o.args, req.Provider, jc); err != nil {
		return req, &flagError{err}
	}
	if req.Cleanup, err = o.job.policy(); err != nil {
		return req, &flagError{err}
	}
	req.Actor, req.IdempotencyKey, req.AllowNoCancel = c.Actor, o.job.key, o.job.allowNoCancel
	if req.Spec.Stdin != sdk.StdinNone {
		req.Stdin = o.f.Streams.In
	}
	return req, o.f.addAmbient(&req)
}

// addAmbient gives a run what its provider's jobs inherit from the submitter:
// the folder and the environment less our own variables.
func (f *Factory) addAmbient(req *control.SubmitRequest) error {
	d := f.driverOf(req.Provider)
	if d == nil || !d.Guarantees.Ambient {
		return nil
	}
	dir := f.Dir
	if dir == "" && filepath.IsAbs(req.Spec.Workdir) {
		dir = req.Spec.Workdir
	}
	if dir == "" {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "run", Err: errors.New("the working folder is gone"),
			Remedy: "cd to one that exists, or name one by -w"}
	}
	req.Ambient = &sdk.Ambient{Dir: dir, Env: f.Env.Ambient()}
	return nil
}

// driverOf returns the driver of a configured provider, nil when there is none, or it
// is a plugin's and wasn't learned.
func (f *Factory) driverOf(provider string) *sdk.Driver {
	c, err := f.cfg()
	if err != nil {
		return nil
	}
	p, err := c.Provider(provider)
	if err != nil {
		return nil
	}
	for _, d := range f.Drivers() {
		if d.Kind == p.Kind {
			return &d
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.learned[provider]
}

// learn asks for the driver of a provider that a plugin serves. Those that are built in
// are known.
func (f *Factory) learn(ctx context.Context, provider string) error {
	c, err := f.cfg()
	if err != nil {
		return err
	}
	p, err := c.Provider(provider)
	if err != nil || f.driverOf(provider) != nil {
		return err
	}
	if !slices.Contains(c.PluginNames(), p.Kind) {
		return p.Validate(f.Drivers())
	}
	s, err := f.open(ctx)
	if err != nil {
		return err
	}
	back, err := s.Providers.Backend(ctx, provider)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.learned == nil {
		f.learned = map[string]*sdk.Driver{}
	}
	f.learned[provider] = back.Driver
	return nil
}

func (f *Factory) optionSchema(provider string) sdk.Schema {
	if d := f.driverOf(provider); d != nil {
		return d.Options
	}
	return sdk.Schema{}
}

// submitMode is what becomes of a request.
type submitMode struct{ detach, dryRun, json bool }

// submit sends a request and sees it through as the mode says.
func submit(ctx context.Context, f *Factory, req control.SubmitRequest, mode submitMode) error {
	c, err := f.cfg()
	if err != nil {
		return err
	}
	if !mode.dryRun {
		if err := f.checkSecrets(ctx, req.Provider, req.Spec); err != nil {
			return err
		}
	}
	if mode.detach && !mode.dryRun && !c.Keeper {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "run", ID: idDetach,
			Err: errors.New("-d needs a keeper, and WINDLASS_KEEPER=off forbids one"), Remedy: "leave out -d, or unset WINDLASS_KEEPER"}
	}
	s, err := f.open(ctx)
	if err != nil {
		return err
	}
	switch {
	case mode.dryRun:
		p, err := s.Engine.Plan(ctx, req)
		if err != nil {
			return err
		}
		return printPlan(f, req, p, mode.json)
	case mode.detach:
		return submitDetached(ctx, f, s, req, mode.json)
	}
	return attach(ctx, f, s, req, mode.json)
}

func submitDetached(ctx context.Context, f *Factory, s *Session, req control.SubmitRequest, asJSON bool) error {
	if s.Keeper == nil {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "run", ID: idDetach, Err: errors.New("-d needs a keeper, and there is none"),
			Remedy: "leave out -d"}
	}
	// Input may have to be fed for as long as the job reads it: the keeper sends
	// such a run.
	req.Park = req.Spec.Stdin != sdk.StdinNone
	answered := f.planning(req)
	sub, err := s.Engine.Submit(ctx, req)
	answered()
	if err != nil {
		return err
	}
	id := sub.Run.ID
	if err := s.Keeper.Take(ctx, id); err != nil {
		return &runError{id, fmt.Errorf("hand run %s to the keeper: %w", id.Short(), err)}
	}
	if asJSON {
		return writeJSON(f.Streams.Out, viewRun(sub.Run, nil))
	}
	if _, err := fmt.Fprintln(f.Streams.Out, id); err != nil {
		return &runError{id, err}
	}
	f.Streams.hint("next: %s", nextWords(id))
	return nil
}

// nextWords are the commands that make sense for a run that goes on, short enough for a
// line of 80 columns with the run in front.
func nextWords(id sdk.ID) string {
	return forRun("windlass status|logs|cancel RUN", id)
}

// PlanView is what run --dry-run shows.
type PlanView struct {
	Provider string            `json:"provider" doc:"Configured name of the provider."`
	Identity string            `json:"identity" doc:"Kind, account, region and endpoint."`
	Kind     string            `json:"kind" doc:"The provider's kind."`
	Names    map[string]string `json:"names,omitzero" doc:"Names of the objects that would be made, by role."`
	Request  any               `json:"request" doc:"The exact request, values of variables and secrets redacted."`
	Secrets  map[string]string `json:"secrets,omitzero" doc:"References that would be resolved or passed on."`
	Fitted   []sdk.Fitted      `json:"fitted,omitzero" doc:"Defaults that were changed to suit the provider."`
	Warnings []string          `json:"warnings,omitzero" doc:"What should be known before launch."`
	Resubmit sdk.ResubmitRule  `json:"resubmit" doc:"When the launch may be sent again after an unclear error."`
	Deadline string            `json:"native_deadline,omitzero" doc:"The provider's own time-out."`
}

func printPlan(f *Factory, req control.SubmitRequest, p control.Plan, asJSON bool) error {
	l := p.Launch
	v := PlanView{Provider: p.Provider, Identity: p.Identity.String(), Kind: l.Kind, Names: l.Names, Fitted: l.Fitted, Warnings: l.Warnings,
		Resubmit: l.Resubmit, Request: redactRequest(l.Request, req.Spec.Env)}
	for k, ref := range l.Secrets {
		if v.Secrets == nil {
			v.Secrets = map[string]string{}
		}
		v.Secrets[k] = string(ref)
	}
	if l.NativeDeadline > 0 {
		v.Deadline = l.NativeDeadline.String()
	}
	if asJSON {
		return writeJSON(f.Streams.Out, v)
	}
	t := &fields{s: f.Streams}
	t.add("Provider", v.Provider+" ("+v.Identity+")")
	t.add("Command", commandOf(req.Spec))
	for _, k := range sortedKeys(v.Names) {
		t.add("Would make", k+" "+v.Names[k])
	}
	for _, x := range v.Fitted {
		t.add("Fitted", strings.TrimSpace(x.Field+" to "+x.Value+" "+x.Why))
	}
	for _, k := range sortedKeys(v.Secrets) {
		t.add("Secret", k+" from "+v.Secrets[k])
	}
	if v.Deadline != "" {
		t.add("Time-out", v.Deadline+" on the provider's side")
	}
	for _, w := range v.Warnings {
		t.add("Mind", w)
	}
	t.add("Nothing sent", "this was a dry run; the request would be")
	if err := t.print(); err != nil {
		return err
	}
	return encode(f.Streams.Out, v.Request, true)
}

// redactRequest shows a provider's request without the values of the job's
// variables, in whichever form the provider writes them.
func redactRequest(raw json.RawMessage, env sdk.Env) any {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return nil
	}
	hidden := map[string]bool{}
	for k, val := range env {
		if val == "" {
			continue
		}
		hidden[val] = true
		hidden[base64Of(val)] = true
		hidden[base64Of(k+"="+val)] = true
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch t := v.(type) {
		case map[string]any:
			for k := range t {
				t[k] = walk(t[k])
			}
		case []any:
			for i := range t {
				t[i] = walk(t[i])
			}
		case string:
			if hidden[t] {
				return sdk.Redacted
			}
			if k, val, ok := strings.Cut(t, "="); ok && val != "" && env[k] == val {
				return k + "=" + sdk.Redacted
			}
		}
		return v
	}
	return walk(v)
}

// completeJob adds completions for the flags that describe a job.
func completeJob(cmd *cobra.Command, f *Factory) {
	complete(cmd, "on", f.completeProviders)
	complete(cmd, "profile", fixed("strict", "standard", "permissive"))
	complete(cmd, "cleanup", fixed("always", "on-success", "never"))
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
