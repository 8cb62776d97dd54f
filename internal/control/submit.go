package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// Plan works out what Submit would send, and changes nothing. A refusal is a
// *ProblemsError.
func (e *Engine) Plan(ctx context.Context, req SubmitRequest) (Plan, error) {
	back, spec, err := e.check(ctx, req)
	if err != nil {
		return Plan{}, err
	}
	if err := e.refuse(ctx, back, spec, req.Ambient); err != nil {
		return Plan{}, err
	}
	l, err := e.prepare(ctx, back, spec, e.o.IDs.NewID(), e.o.IDs.NewID(), 1, req.Ambient)
	if err != nil {
		return Plan{}, named(err, back.Name)
	}
	p := Plan{Provider: back.Name, Identity: back.Info().Identity, Guarantees: back.Info().Guarantees, Launch: l}
	if len(l.Problems) > 0 {
		return p, problemsError(back.Name, l.Problems)
	}
	return p, nil
}

// ErrIDNoCancel names the error of a provider that can't end jobs.
const ErrIDNoCancel = "run.no-cancel"

// check opens the provider, which must be able to run jobs, and to cancel them unless
// the request does without.
func (e *Engine) check(ctx context.Context, req SubmitRequest) (Backend, sdk.JobSpec, error) {
	spec := req.Spec
	if spec.V == 0 {
		spec.V = sdk.SpecVersion
	}
	if req.Actor == "" {
		return Backend{}, spec, sdk.Errorf(sdk.InvalidArgument, "submit run", "the actor is empty")
	}
	switch req.Cleanup {
	case "", CleanupAlways, CleanupOnSuccess, CleanupNever:
	default:
		return Backend{}, spec, &sdk.Error{Code: sdk.InvalidArgument, Op: "submit run", Field: "cleanup",
			Err: fmt.Errorf("%q is none of always, on-success, never", req.Cleanup)}
	}
	back, err := e.o.Providers.Backend(ctx, req.Provider)
	if err != nil {
		return Backend{}, spec, err
	}
	if need := sdk.Runner().String(); !sdk.Has(back.Provider, need) {
		return back, spec, back.absent(need)
	}
	if need := sdk.Canceler().String(); !req.AllowNoCancel && !sdk.Has(back.Provider, need) {
		return back, spec, &sdk.Error{Code: sdk.Unimplemented, Op: "submit run", Provider: back.Name, ID: ErrIDNoCancel,
			Remedy: "with --allow-no-cancel it runs all the same, and nothing can end it",
			Err:    fmt.Errorf("kind %s has no %s, so that neither a cancel nor a time-out could end the job", back.Info().Kind, need)}
	}
	return back, spec, nil
}

// refuse returns a *ProblemsError where no backend could take the spec, or where
// this one's guarantees rule something out. The driver is asked as well, so that
// all that is wrong is told at once; its words are nearer to the backend, so they
// stand in the place of ours on the same field, but for a reference to a secret,
// where ours say how to get the secret there. Where it can't answer ours stand alone.
func (e *Engine) refuse(ctx context.Context, back Backend, spec sdk.JobSpec, amb *sdk.Ambient) error {
	invalid, ruledOut := sdk.ValidateSpec(spec), e.checkGuarantees(back, spec)
	if len(invalid) == 0 && len(ruledOut) == 0 {
		return nil
	}
	// about reports whether one of these problems is about the field of p.
	about := func(ps []sdk.Problem, p sdk.Problem) bool {
		return slices.ContainsFunc(ps, func(o sdk.Problem) bool { return o.Field == p.Field })
	}
	ps := invalid
	if l, err := e.prepare(ctx, back, spec, e.o.IDs.NewID(), e.o.IDs.NewID(), 1, amb); err == nil {
		for _, p := range l.Problems {
			ours := strings.HasPrefix(p.Field, "secrets.") && about(ruledOut, p)
			if !ours && !slices.Contains(ps, p) {
				ps = append(ps, p)
			}
		}
	}
	found := ps
	for _, p := range ruledOut {
		if !about(found, p) {
			ps = append(ps, p)
		}
	}
	return problemsError(back.Name, ps)
}

// problemsError is a refusal, by field.
func problemsError(provider string, ps []sdk.Problem) error {
	ps = slices.Clone(ps)
	slices.SortStableFunc(ps, func(a, b sdk.Problem) int { return strings.Compare(a.Field, b.Field) })
	return &ProblemsError{Provider: provider, Problems: ps}
}

// checkGuarantees refuses what the declared guarantees rule out, for every
// driver alike.
func (e *Engine) checkGuarantees(back Backend, spec sdk.JobSpec) []sdk.Problem {
	g := back.Info().Guarantees
	var ps []sdk.Problem
	if back.Driver != nil {
		ps = secret.Check(spec.Secrets, []string{secret.SchemeEnv, secret.SchemeFile}, *back.Driver)
	}
	bad := func(field, value, format string, args ...any) {
		ps = append(ps, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: sdk.Unimplemented})
	}
	if spec.Grace != nil {
		switch {
		case !g.Grace.Supported:
			bad("grace", spec.Grace.String(), "can't be set on provider %s, where the time between asking a job to end and killing it is the platform's own; leave it out", back.Name)
		case *spec.Grace < g.Grace.Min || g.Grace.Max > 0 && *spec.Grace > g.Grace.Max:
			bad("grace", spec.Grace.String(), "provider %s takes %s to %s", back.Name, g.Grace.Min, g.Grace.Max)
		}
	}
	if len(spec.Secrets) > 0 && g.Secrets == sdk.SecretVisibleEnv && !spec.AllowVisibleSecret {
		bad("secrets", "", "on provider %s anyone who may describe the job can read them; allow_visible_secret permits that (with run, --allow-visible-secret)", back.Name)
	}
	if spec.Stdin != sdk.StdinNone {
		ok := false
		for _, m := range g.Stdin {
			ok = ok || m == spec.Stdin
		}
		if !ok {
			bad("stdin", string(spec.Stdin), "provider %s can't give a job this input", back.Name)
		}
	}
	if g.NoImage && spec.Image != "" {
		bad("image", spec.Image, "provider %s runs programs of this machine, not images", back.Name)
	}
	if !g.NoImage && spec.Image == "" {
		bad("image", "", "provider %s runs images, and none is given", back.Name)
	}
	return ps
}

func named(err error, provider string) error {
	var e *sdk.Error
	if errors.As(err, &e) && e.Provider == "" {
		c := *e
		c.Provider = provider
		return &c
	}
	return err
}

// Submit makes a run: it prepares the launch, writes the row with the intent,
// and from then on drives the run in the background. When it returns, the row
// is durable; nothing was made without one. A refusal before launch is a
// *ProblemsError and leaves no row.
func (e *Engine) Submit(ctx context.Context, req SubmitRequest) (Submitted, error) {
	back, spec, err := e.check(ctx, req)
	if err != nil {
		return Submitted{}, err
	}
	if err := e.refuse(ctx, back, spec, req.Ambient); err != nil {
		return Submitted{}, err
	}
	specJSON, err := spec.Encode()
	if err != nil {
		return Submitted{}, err
	}
	hash := sdk.HashCanonical(specJSON)
	if s, found, err := e.existing(ctx, req, back, hash); found || err != nil {
		return s, err
	}
	runID, attemptID := e.o.IDs.NewID(), e.o.IDs.NewID()
	l, err := e.prepare(ctx, back, spec, runID, attemptID, 1, req.Ambient)
	if err != nil {
		return Submitted{}, named(err, back.Name)
	}
	if len(l.Problems) > 0 {
		return Submitted{}, problemsError(back.Name, l.Problems)
	}
	launchJSON, err := l.Encode()
	if err != nil {
		return Submitted{}, err
	}
	set := settings{V: 1, Cleanup: req.Cleanup}
	if set.Cleanup == "" {
		set.Cleanup = CleanupAlways
	}
	if err := e.join(ctx); err != nil {
		return Submitted{}, err
	}
	if err := e.spoolInputs(runID, req, &set); err != nil {
		e.removeSpool(runID)
		return Submitted{}, err
	}
	setJSON, err := sdk.EncodeCanonical(set)
	if err != nil {
		e.removeSpool(runID)
		return Submitted{}, err
	}
	w := ledger.Write{Run: runID, Holder: e.self.ID, Claim: true, Events: []ledger.NewEvent{
		{Kind: ledger.KindRequested, Actor: req.Actor, Change: ledger.Change{V: ledger.ChangeVersion, Requested: &ledger.Requested{
			Actor: req.Actor, Action: "run", Target: target(spec), Provider: back.Name, Identity: back.Info().Identity,
			RequestID: req.IdempotencyKey, SpecHash: hash, Spec: specJSON, Name: spec.Name, Settings: setJSON}}},
		{Kind: ledger.KindIntent, Attempt: 1, Actor: req.Actor, Change: ledger.Change{V: ledger.ChangeVersion, Phase: ledger.PhaseIntent,
			Launched: &ledger.Launched{ID: attemptID, Launch: launchJSON}}},
	}}
	direct := !req.Park && back.maxInFlight() <= 0 && back.SubmitRate <= 0
	if direct {
		// Nothing stands between intent and launch: one durable write for both.
		w.Events = append(w.Events, ledger.NewEvent{Kind: ledger.KindSubmitting, Attempt: 1, Actor: e.o.Actor,
			Change: ledger.Change{V: ledger.ChangeVersion, Phase: ledger.PhaseSubmitting, SentAt: e.clock.Now().UTC()}})
	}
	hits("before", w.Events)
	r, err := e.create(ctx, w, back, spec, set)
	if err != nil {
		e.removeSpool(runID)
		if sdk.CodeOf(err) == sdk.AlreadyExists && req.IdempotencyKey != "" {
			// Another process was first with the same key.
			if s, found, err2 := e.existing(ctx, req, back, hash); found || err2 != nil {
				return s, err2
			}
		}
		return Submitted{}, err
	}
	hits("after", w.Events)
	r.req, r.launch, r.fresh = req, l, direct
	row := r.run
	if !e.hold(r) {
		return Submitted{}, sdk.Errorf(sdk.Canceled, "submit run", "the engine is closing; run %s is left for another holder", runID)
	}
	return Submitted{Run: row, Launch: l}, nil
}

// existing returns the run that an idempotency key names.
func (e *Engine) existing(ctx context.Context, req SubmitRequest, back Backend, hash string) (Submitted, bool, error) {
	if req.IdempotencyKey == "" {
		return Submitted{}, false, nil
	}
	run, err := e.o.Store.RunByRequest(ctx, req.IdempotencyKey)
	if sdk.CodeOf(err) == sdk.NotFound {
		return Submitted{}, false, nil
	}
	if err != nil {
		return Submitted{}, false, err
	}
	if run.SpecHash != hash || run.Provider != back.Name {
		return Submitted{}, true, &sdk.Error{Code: sdk.AlreadyExists, Op: "submit run", Field: "idempotency_key", ID: "run.key-conflict",
			Remedy: "use another key, or the same spec and provider",
			Err:    fmt.Errorf("key %q belongs to run %s, which has another spec or provider", req.IdempotencyKey, run.ID.Short())}
	}
	return Submitted{Run: run, Existing: true}, true, nil
}

// create writes the row of a run that this engine will hold, and makes its
// runner.
func (e *Engine) create(ctx context.Context, w ledger.Write, back Backend, spec sdk.JobSpec, set settings) (*runner, error) {
	var at time.Time
	w.Stamp = &at
	if err := e.o.Store.Write(ctx, w); err != nil {
		return nil, err
	}
	run, attempts, err := fold(w.Run, ledger.Run{}, nil, at, w.Events)
	if err != nil {
		return nil, err
	}
	run.Holder, run.Fence = w.Holder, 1 // as the claim has it
	return e.newRunner(run, attempts, back, spec, set), nil
}

// target is what a run's row says that it acts on.
func target(spec sdk.JobSpec) string {
	if spec.Image != "" {
		return spec.Image
	}
	for _, list := range []sdk.Argv{spec.Entrypoint, spec.Args} {
		if len(list) > 0 {
			return strings.ToValidUTF8(list[0], "?")
		}
	}
	return ""
}
