package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/runner"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/step"
	"github.com/windlass-run/windlass/sdk"
)

func newStep(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "step run|schema",
		Short: "Run a file of sandboxed steps",
		Args:  group,
		RunE:  groupHelp,
	}
	cmd.AddCommand(newStepRun(f, nil), newStepSchema(f, nil))
	return cmd
}

type stepRunOptions struct {
	f    *Factory
	path string
	json bool
}

func newStepRun(f *Factory, runF func(context.Context, *stepRunOptions) error) *cobra.Command {
	o := &stepRunOptions{f: f}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run the steps of a file, one after the other",
		Long: `Run the steps of a file, one after the other; - reads standard input.

Each step is a sandboxed command in an environment: local-docker, ephemeral,
provider-ephemeral, or a remote runner of windlass.yaml. The whole file is
checked before its first step starts. What steps write goes to stdout and
stderr as it comes; what Windlass has to say goes to stderr.

A step that fails ends the file, unless its fail_on_error is false. The first
Ctrl-C, SIGTERM or hang-up cancels the step that runs and waits for proof that
it is gone; the second leaves at once. A remote runner cancels and proves at its
own side: its call ends at once.

Exit codes: 0 when all steps ran; else that of the step that ended the file, as
windlass run would end: its own, 124 when its time-out passed, 126 and 127 when
the command can't be executed or found, 130 when it was cancelled. 125 when
Windlass or the backend failed, a value was refused, or no code is known; 2 when
the command was called wrongly.`,
		Example:     "  windlass step run build.yaml\n  windlass step run --json build.yaml",
		Annotations: map[string]string{streamAnnotation: "-"},
		Args:        exactly(1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.path = args[0]
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON, a line for each event")
	return cmd
}

func (o *stepRunOptions) run(ctx context.Context) error {
	file, err := step.Read(ctx, o.path, o.f.Dir, o.f.Streams.In)
	if err != nil {
		return err
	}
	defer surviveBrokenPipe()()
	show := &stepShow{f: o.f, file: file, lines: o.json, out: newSink(o.f.Streams, sdk.ID{}, o.json)}
	show.out.onGone = func() { o.f.Streams.note("nobody reads the output any more; the steps go on") }
	places, done, err := o.f.places()
	if err != nil {
		return err
	}
	defer done()
	// The ledger is opened only for a file with a step that needs it.
	ready := func(ctx context.Context) error {
		if !usesEngine(file) {
			return nil
		}
		return o.f.openJobs(ctx, places.Jobs, show.progress)
	}
	stop := newStepStop(o.f.Streams, show.remote)
	ctx, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	defer leave(nil)
	o.f.interrupts.handle(func(n int, sig os.Signal) {
		if n > 1 {
			leave(errLeft)
			return
		}
		stop.signal(sig)
	})
	defer o.f.interrupts.handle(nil)
	r := step.Runner{Places: places, Show: show, Stop: stop.c, Why: stop.why, Ready: ready}
	all, err := r.Run(ctx, file)
	switch {
	case err == nil:
		return withExit(stepExit(all))
	case errors.Is(err, errLeft):
		o.f.left.Store(true)
		o.left(err, show.remote())
		return exitError{ExitInterrupted}
	}
	var failed *step.Failure
	if errors.As(err, &failed) && !failed.Run.IsZero() {
		err = &runError{failed.Run, err}
	}
	return &stepFailed{code: stepErrorExit(err), err: err}
}

// left says how to find the run of the step that was left behind.
func (o *stepRunOptions) left(err error, remote bool) {
	var failed *step.Failure
	if !errors.As(err, &failed) {
		return
	}
	if remote {
		o.f.Streams.note("left step %s; its runner cancels it and proves that at its own side: windlass ps -a on its machine tells", failed.Step)
		return
	}
	if failed.Run.IsZero() {
		o.f.Streams.note("left step %s before it was proven to be gone", failed.Step)
		return
	}
	id := failed.Run.Short()
	o.f.Streams.note("left step %s, run %s, before it was proven to be gone; windlass status %s tells what becomes of it", failed.Step, id, id)
}

// stepExit is the exit code of a file whose steps all have an end: that of the
// last one, where it ended the file.
func stepExit(all []*step.Output) int {
	if len(all) == 0 {
		return ExitOK
	}
	last := all[len(all)-1]
	if last.Forgiven {
		return ExitOK
	}
	return outcomeOfResult(last.Result).exit()
}

func outcomeOfResult(r sandbox.Result) outcome {
	o := outcome{State: r.State, Reason: r.Reason, Code: r.ExitCode, Signal: r.Signal}
	switch {
	case r.NotFound:
		o.Exec = sdk.ExecNotFound
	case r.NotExecutable:
		o.Exec = sdk.ExecNotExecutable
	}
	return o
}

// stepErrorExit is the exit code of a file that an error ended.
func stepErrorExit(err error) int {
	var failed *step.Failure
	if !errors.As(err, &failed) {
		return ExitWindlass
	}
	switch sdk.CodeOf(err) {
	case sdk.Canceled:
		return ExitInterrupted
	case sdk.DeadlineExceeded:
		return ExitTimedOut
	}
	return ExitWindlass
}

// stepFailed is an error that ended a file, with the exit code.
type stepFailed struct {
	code int
	err  error
}

func (e *stepFailed) Error() string { return e.err.Error() }
func (e *stepFailed) Unwrap() error { return e.err }

// stepStop is the first wish to end.
type stepStop struct {
	s *Streams
	// remote reports whether the step that runs does so on a remote runner.
	remote func() bool
	c      chan struct{}
	once   sync.Once
	mu     sync.Mutex
	sig    string
}

func newStepStop(s *Streams, remote func() bool) *stepStop {
	return &stepStop{s: s, remote: remote, c: make(chan struct{})}
}

func (p *stepStop) signal(sig os.Signal) {
	p.mu.Lock()
	p.sig = signalName(sig)
	p.mu.Unlock()
	p.once.Do(func() {
		if sig == os.Interrupt && p.s.InTerminal {
			p.s.midLine.Store(true) // the terminal has shown ^C
		}
		how := "cancelling the step and waiting for proof that it is gone; once more leaves at once"
		if p.remote() {
			how = "ending the call of the step; its runner cancels it and proves that at its own side"
		}
		p.s.note("%s: %s", signalName(sig), how)
		close(p.c)
	})
}

func (p *stepStop) why() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sig
}

// places are all environments that there are. The engine of those that need one
// isn't open yet. done frees them.
func (f *Factory) places() (p sandbox.Places, done func(), err error) {
	c, err := f.cfg()
	if err != nil {
		return p, nil, err
	}
	p = sandbox.Places{Runners: c.RunnerNames(), Jobs: &sandbox.Jobs{}}
	drivers := map[string]sdk.Driver{}
	for _, d := range f.Drivers() {
		drivers[d.Kind] = d
	}
	for _, name := range c.ProviderNames() {
		x, err := c.Provider(name)
		if err != nil {
			return p, nil, err
		}
		d := drivers[x.Kind]
		p.Providers = append(p.Providers, sandbox.Provider{Name: name, Kind: x.Kind, NoImage: d.Guarantees.NoImage, Support: d.Support,
			Combined: d.Kind != "" && !d.Guarantees.Logs.Apart})
	}
	var mu sync.Mutex
	dialled := map[string]*runner.Environment{}
	p.Dial = func(_ context.Context, name string) (sandbox.Environment, error) {
		mu.Lock()
		defer mu.Unlock()
		if e := dialled[name]; e != nil {
			return e, nil
		}
		e, err := f.dial(name)
		if err != nil {
			return nil, err
		}
		dialled[name] = e
		return e, nil
	}
	return p, func() {
		for _, e := range dialled {
			_ = e.Close() // nothing is under way any more
		}
	}, nil
}

func usesEngine(file *step.File) bool {
	for _, s := range file.Steps {
		if s.Choice.ThroughEngine() {
			return true
		}
	}
	return false
}

// dial makes the environment of a remote runner, and connects to nothing yet.
func (f *Factory) dial(name string) (*runner.Environment, error) {
	c, err := f.cfg()
	if err != nil {
		return nil, err
	}
	r, err := c.Runner(name)
	if err != nil {
		return nil, err
	}
	o := runner.ClientOptions{Name: name, Address: r.Address, ServerName: r.ServerName, CAFile: r.CA, CertFile: r.Cert, KeyFile: r.Key}
	if r.TokenEnv != "" {
		token, ok := c.Token(r)
		if !ok {
			return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: "find environment", Field: "exec_env", ID: idNoToken,
				Err:    fmt.Errorf("the token of remote runner %s isn't here: the variable %s is unset", name, r.TokenEnv),
				Remedy: "set it to the token that the runner's file of clients has"}
		}
		o.Token = sdk.NewSecretValue([]byte(token))
	}
	e, err := runner.NewEnvironment(o)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// openJobs opens the engine for steps.
func (f *Factory) openJobs(ctx context.Context, j *sandbox.Jobs, progress func(string)) error {
	c, err := f.cfg()
	if err != nil {
		return err
	}
	s, err := f.open(ctx)
	if err != nil {
		return err
	}
	// Steps run one after the other, so there is one run to tell of at a time.
	var told atomic.Pointer[herald]
	*j = sandbox.Jobs{Engine: s.Engine, Mind: s.Mind, Attempts: s.Store.Attempts, Actor: c.Actor, Now: f.Now,
		Progress: func(line string) {
			if h := told.Load(); h != nil {
				h.heard()
			}
			progress(line)
		},
		Watch: func(ctx context.Context, run ledger.Run, until control.Milestone, say func(string)) (ledger.Run, error) {
			h := f.newHerald(run, f.graceOf(run), func(format string, args ...any) { say(fmt.Sprintf(format, args...)) })
			told.Store(h)
			return h.wait(ctx, s.Engine, until)
		},
		Prepare: func(ctx context.Context, r *control.SubmitRequest) []error {
			var missing []error
			if err := f.addAmbient(r); err != nil {
				missing = append(missing, err)
			}
			for _, e := range f.missingSecrets(ctx, r.Spec) {
				missing = append(missing, e)
			}
			return missing
		},
		Asking: f.planning,
	}
	if s.Keeper != nil {
		j.Keeper = s.Keeper
	}
	return nil
}

type stepSchemaOptions struct{ f *Factory }

func newStepSchema(f *Factory, runF func(context.Context, *stepSchemaOptions) error) *cobra.Command {
	o := &stepSchemaOptions{f: f}
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON schema of step files, for editors",
		Example: "  windlass step schema > step.schema.json",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			b, err := step.Schema()
			if err != nil {
				return err
			}
			_, err = o.f.Streams.Out.Write(b)
			return err
		},
	}
}
