package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// Jobs runs executions as runs of the engine: each has its row in the ledger,
// a holder, and everything else that windlass run gives.
type Jobs struct {
	Engine Engine
	// Keeper is nil where none may be used.
	Keeper Keeper
	// Mind, when not nil, looks after a run until ctx ends: where its holder
	// dies, it finds another.
	Mind func(ctx context.Context, run sdk.ID)
	// Watch, when not nil, waits in place of Engine.Wait, and says why that takes
	// long.
	Watch func(ctx context.Context, run ledger.Run, until control.Milestone, say func(text string)) (ledger.Run, error)
	// Attempts reads the attempts of a run.
	Attempts func(ctx context.Context, run sdk.ID) ([]ledger.Attempt, error)
	// Actor is who asks; never empty.
	Actor string
	// Prepare, when not nil, completes a request before it is sent: with what a
	// local job inherits of the submitter. It returns an error for each thing that
	// isn't here, such as a secret.
	Prepare func(ctx context.Context, r *control.SubmitRequest) []error
	// Asking, when not nil, is called as a backend is asked whether it takes a
	// request, and answered once it has told.
	Asking func(r control.SubmitRequest) (answered func())
	// Progress, when not nil, takes short lines, such as a pull's.
	Progress func(line string)
	// Now is the clock that durations are told by.
	Now func() time.Time
}

// jobs is an environment whose executions are runs on one provider.
type jobs struct {
	*Jobs
	name     string
	provider Provider
	// standing is the profile of an execution that sets none; unset is the
	// strongest that the provider takes.
	standing sdk.Profile
	// ttl stands for one that isn't set.
	ttl time.Duration
}

var _ Environment = (*jobs)(nil)

// Name implements Environment.
func (j *jobs) Name() string { return j.name }

// Combined implements Environment.
func (j *jobs) Combined() bool { return j.provider.Combined }

// Support implements Environment: it is the driver's, under a step's names.
func (j *jobs) Support() []sdk.FieldSupport {
	out := make([]sdk.FieldSupport, 0, len(Fields()))
	for _, f := range Fields() {
		row := sdk.FieldSupport{Field: f, Values: "as the provider takes it"}
		for _, s := range j.provider.Support {
			if s.Field == jobName(f) {
				row.Values, row.Refused = s.Values, s.Refused
			}
		}
		out = append(out, row)
	}
	return out
}

// Check implements Environment.
func (j *jobs) Check(e Exec) []sdk.Problem {
	ps := append(e.Validate(), Refused(j, e)...)
	if e.Image == "" && !j.provider.NoImage {
		ps = append(ps, sdk.Problem{Field: "image", Message: "is needed here", Code: sdk.InvalidArgument})
	}
	return ps
}

// Ask implements Environment: the run is planned as by a dry run.
func (j *jobs) Ask(ctx context.Context, e Exec) []error {
	var missing []error
	_, err := j.underAny(e, func(req control.SubmitRequest) error {
		if j.Prepare != nil {
			missing = j.Prepare(ctx, &req)
		}
		if j.Asking != nil {
			defer j.Asking(req)()
		}
		_, err := j.Engine.Plan(ctx, req)
		return err
	})
	if err != nil {
		missing = append(missing, err)
	}
	return missing
}

// Exec implements Environment.
func (j *jobs) Exec(ctx context.Context, r Request) (Result, error) {
	begun := j.Now()
	if ps := j.Check(r.Exec); len(ps) > 0 {
		return Result{}, j.refusal(ps)
	}
	sub, profile, err := j.submit(ctx, r)
	if err != nil {
		return Result{}, err
	}
	id := sub.Run.ID
	r.Output.Started(id)
	for _, w := range sub.Launch.Warnings {
		r.Output.Note(w)
	}
	out := &relay{to: r.Output}
	s := stay{j: j.Jobs, run: id, row: sub.Run, note: out.note, item: out.item, broken: out.broken, stop: r.Stop, why: r.Why}
	run, err := s.see(ctx)
	if err != nil {
		return Result{RunID: id, Profile: profile}, fmt.Errorf("run %s: %w", id.Short(), err)
	}
	s.settle(ctx)
	res := resultOf(run, j.last(ctx, id))
	res.Profile, res.Duration = profile, j.Now().Sub(begun)
	res.Partial = out.partial || Partial(run.Verdict)
	return res, nil
}

// errStopped is the end of an execution that hadn't begun.
func errStopped() error {
	return sdk.Errorf(sdk.Canceled, "start the execution", "it was cancelled before it began")
}

// submit makes the run. Stop ends the call while there is no row yet; what may
// have been made then stands in the ledger, and is taken up by the next command.
func (j *jobs) submit(ctx context.Context, r Request) (control.Submitted, sdk.Profile, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case <-r.Stop:
		return control.Submitted{}, "", errStopped()
	default:
	}
	stopped := make(chan bool, 1)
	go func() {
		select {
		case <-r.Stop:
			stopped <- true
			cancel()
		case <-ctx.Done():
			stopped <- false
		}
	}()
	sub, profile, err := j.submitAny(ctx, r)
	cancel()
	if <-stopped && err != nil {
		return control.Submitted{}, "", errStopped()
	}
	return sub, profile, err
}

// submitAny makes the run under the first profile that the provider takes.
func (j *jobs) submitAny(ctx context.Context, r Request) (sub control.Submitted, p sdk.Profile, err error) {
	p, err = j.underAny(r.Exec, func(req control.SubmitRequest) error {
		if j.Prepare != nil {
			if missing := j.Prepare(ctx, &req); len(missing) > 0 {
				return errors.Join(missing...)
			}
		}
		req.Progress = j.Progress
		var err error
		sub, err = j.Engine.Submit(ctx, req)
		return err
	})
	if err == nil && len(j.profiles(r.Exec)) > 1 {
		r.Output.Note(fmt.Sprintf("security_profile is %s, the strongest that %s gives", p, j.provider.Name))
	}
	return sub, p, err
}

// underAny makes a call with an execution's request under one profile after the
// other, until the provider takes one. It returns that profile.
func (j *jobs) underAny(e Exec, call func(control.SubmitRequest) error) (sdk.Profile, error) {
	if e.TTL == 0 {
		e.TTL = j.ttl
	}
	choice := j.profiles(e)
	for i, p := range choice {
		err := call(control.SubmitRequest{Provider: j.provider.Name, Spec: e.Spec(p), Actor: j.Actor})
		var refused *control.ProblemsError
		switch {
		case !errors.As(err, &refused):
			return p, uncancelable(err)
		case i+1 == len(choice) || !slices.ContainsFunc(refused.Problems, ofProfile):
			return p, j.refusal(named(refused.Problems, e, p))
		}
	}
	return "", sdk.Errorf(sdk.Internal, "start the execution", "there is no profile to try")
}

// uncancelable has a provider that can't end jobs be told of without the flag that
// permits it to a run: a step has none.
func uncancelable(err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) || e.ID != control.ErrIDNoCancel {
		return err
	}
	c := *e
	c.Remedy = "name a provider that can"
	return &c
}

func ofProfile(p sdk.Problem) bool { return p.Field == "profile" }

// profiles are those to try, in order.
func (j *jobs) profiles(e Exec) []sdk.Profile {
	switch {
	case e.Profile != sdk.ProfileUnset:
		return []sdk.Profile{e.Profile}
	case j.standing != sdk.ProfileUnset:
		return []sdk.Profile{j.standing}
	}
	return Profiles()
}

// named gives a provider's problems the names of a step's fields. Where one says that
// the profile is in the way, which was tried because nobody set one, it says so.
func named(ps []sdk.Problem, e Exec, tried sdk.Profile) []sdk.Problem {
	out := slices.Clone(ps)
	for i := range out {
		out[i].Field = Field(out[i].Field, len(e.Mounts))
		if e.Profile != sdk.ProfileUnset || !strings.Contains(out[i].Message, "the profile "+string(tried)) {
			continue
		}
		var looser []string
		for _, p := range Profiles()[slices.Index(Profiles(), tried)+1:] {
			looser = append(looser, string(p))
		}
		if len(looser) > 0 {
			out[i].Message += fmt.Sprintf("; %s is taken since security_profile isn't set, and is looser when set to %s", tried, strings.Join(looser, " or "))
		}
	}
	return out
}

// ErrRefused is the ID of a refusal before anything is started.
const ErrRefused = "step.refused"

// refusal is the error of values that can't be honoured.
func (j *jobs) refusal(ps []sdk.Problem) error { return Refusal(j.name, ps) }

// Refusal is the error of values that an environment can't honour; it isn't
// called without any.
func Refusal(env string, ps []sdk.Problem) error {
	code := sdk.InvalidArgument
	if len(ps) > 0 && ps[0].Code != 0 {
		code = ps[0].Code
	}
	return &sdk.Error{Code: code, Op: "run on " + env, ID: ErrRefused, Err: &ProblemsError{Problems: ps}}
}

// ProblemsError is everything that an environment can't honour, under the names
// of a step's fields.
type ProblemsError struct{ Problems []sdk.Problem }

// Error lists the problems in one line.
func (e *ProblemsError) Error() string { return sdk.JoinProblems(e.Problems) }

// last reads a run's last attempt; nil when there is none to be read.
func (j *jobs) last(ctx context.Context, id sdk.ID) *ledger.Attempt {
	list, err := j.Attempts(ctx, id)
	if err != nil || len(list) == 0 {
		return nil
	}
	return &list[len(list)-1]
}

// resultOf tells a run's end.
func resultOf(run ledger.Run, last *ledger.Attempt) Result {
	res := Result{RunID: run.ID, State: run.State, Reason: run.Reason, Verdict: run.Verdict, ExitCode: run.ExitCode,
		Signal: run.Signal, Message: run.Message, OOM: run.OOM}
	if last != nil {
		res.NotFound, res.NotExecutable = last.Raw[sdk.RawExec] == sdk.ExecNotFound, last.Raw[sdk.RawExec] == sdk.ExecNotExecutable
	}
	return res
}
