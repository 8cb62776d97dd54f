package control

import (
	"context"
	"fmt"
	"strings"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// RemoteJob is a job as the backend knows it, on a machine whose ledger has no
// row of it.
type RemoteJob struct {
	Found  sdk.FoundJob
	Status sdk.JobStatusResult
}

// Remote finds the latest attempt of a run by its labels alone.
func (e *Engine) Remote(ctx context.Context, provider string, run sdk.ID) (RemoteJob, error) {
	back, found, err := e.findRemote(ctx, provider, run)
	if err != nil {
		return RemoteJob{}, err
	}
	st, err := e.statusOf(ctx, back, found.Handle)
	return RemoteJob{Found: found, Status: st}, err
}

// RemoteCancel ends the latest attempt of a run, found by labels alone. The
// ledger gets a row of its own for it, before the call.
func (e *Engine) RemoteCancel(ctx context.Context, provider string, run sdk.ID, actor, why string) (sdk.CancelJobResult, error) {
	back, found, err := e.findRemote(ctx, provider, run)
	if err != nil {
		return sdk.CancelJobResult{}, err
	}
	jc, ok := sdk.Of(back.Provider, sdk.Canceler())
	if !ok {
		return sdk.CancelJobResult{}, back.absent(sdk.Canceler().String())
	}
	act, err := e.begin(ctx, actor, "cancel", run.String(), back)
	if err != nil {
		return sdk.CancelJobResult{}, err
	}
	res, err := call(ctx, max(cancelCall, back.callTimeout()), "cancel", func(ctx context.Context) (sdk.CancelJobResult, error) {
		return jc.CancelJob(ctx, sdk.CancelJobRequest{Handle: found.Handle, Why: why})
	})
	return res, act.end(ctx, err, map[string]string{"accepted": fmt.Sprint(res.Accepted), "gone": fmt.Sprint(res.Gone), "evidence": res.Evidence})
}

func (e *Engine) findRemote(ctx context.Context, provider string, run sdk.ID) (Backend, sdk.FoundJob, error) {
	back, err := e.o.Providers.Backend(ctx, provider)
	if err != nil {
		return back, sdk.FoundJob{}, err
	}
	jobs, err := e.findRun(ctx, back, run)
	if err != nil {
		return back, sdk.FoundJob{}, err
	}
	last := jobs[0]
	for _, j := range jobs[1:] {
		if j.Attempt > last.Attempt {
			last = j
		}
	}
	return back, last, nil
}

func (e *Engine) findRun(ctx context.Context, back Backend, run sdk.ID) ([]sdk.FoundJob, error) {
	finder, ok := sdk.Of(back.Provider, sdk.Finder())
	if !ok {
		return nil, back.absent(sdk.Finder().String())
	}
	res, err := call(ctx, back.callTimeout(), "find", func(ctx context.Context) (sdk.FindJobsResult, error) {
		return finder.FindJobs(ctx, sdk.FindJobsRequest{RunID: run})
	})
	if err != nil {
		return nil, err
	}
	if res.Outcome != sdk.FindFound || len(res.Jobs) == 0 {
		e := &sdk.Error{Code: sdk.NotFound, Op: "find run", Provider: back.Name, ID: "run.not-on-provider",
			Remedy: "check the ID and the provider; a run that was cleaned up is gone from there",
			Err:    fmt.Errorf("nothing there carries the run %s", run)}
		if !res.VisibleAt.IsZero() {
			e.Remedy = "what was made just now may show only after " + res.VisibleAt.UTC().Format("15:04:05 UTC")
		}
		return nil, e
	}
	return res.Jobs, nil
}

// AdoptRequest asks to take up a run that another installation submitted.
type AdoptRequest struct {
	Provider string
	Run      sdk.ID
	Actor    string
	Cleanup  CleanupPolicy
}

// Adopt makes a row for a run from its labels alone and drives it on: its
// output is captured and its end recorded here. A run that the ledger has
// already is AlreadyExists.
func (e *Engine) Adopt(ctx context.Context, req AdoptRequest) (ledger.Run, error) {
	if _, err := e.o.Store.Run(ctx, req.Run); err == nil {
		return ledger.Run{}, &sdk.Error{Code: sdk.AlreadyExists, Op: "adopt run", Err: fmt.Errorf("run %s is in this ledger", req.Run.Short())}
	} else if sdk.CodeOf(err) != sdk.NotFound {
		return ledger.Run{}, err
	}
	back, found, err := e.findRemote(ctx, req.Provider, req.Run)
	if err != nil {
		return ledger.Run{}, err
	}
	handle, err := found.Handle.Encode()
	if err != nil {
		return ledger.Run{}, err
	}
	info := back.Info()
	spec := sdk.JobSpec{V: sdk.SpecVersion}
	specJSON, err := spec.Encode()
	if err != nil {
		return ledger.Run{}, err
	}
	launch := sdk.Launch{V: sdk.LaunchVersion, Kind: info.Kind, Identity: info.Identity, RunID: req.Run, AttemptID: found.AttemptID,
		Attempt: 1, Owner: found.Owner, LedgerID: found.LedgerID, Resubmit: sdk.ResubmitRule{By: sdk.SubmitByNothing}}
	launchJSON, err := launch.Encode()
	if err != nil {
		return ledger.Run{}, err
	}
	set := settings{V: 1, Cleanup: req.Cleanup}
	if set.Cleanup == "" {
		set.Cleanup = CleanupAlways
	}
	setJSON, err := sdk.EncodeCanonical(set)
	if err != nil {
		return ledger.Run{}, err
	}
	if err := e.join(ctx); err != nil {
		return ledger.Run{}, err
	}
	change := func(c ledger.Change) ledger.Change { c.V = ledger.ChangeVersion; return c }
	w := ledger.Write{Run: req.Run, Holder: e.self.ID, Claim: true, Events: []ledger.NewEvent{
		{Kind: ledger.KindRequested, Actor: req.Actor, Change: change(ledger.Change{Requested: &ledger.Requested{Actor: req.Actor, Action: "adopt",
			Target: found.Handle.Name, Provider: back.Name, Identity: info.Identity, Spec: specJSON, Settings: setJSON}})},
		{Kind: ledger.KindIntent, Attempt: 1, Actor: req.Actor, Change: change(ledger.Change{Phase: ledger.PhaseIntent,
			Launched: &ledger.Launched{ID: found.AttemptID, Launch: launchJSON}})},
		{Kind: ledger.KindAdopted, Attempt: 1, Actor: req.Actor, Change: change(ledger.Change{Phase: ledger.PhaseSubmitted, State: sdk.StatePending,
			Handle: handle, SentAt: e.clock.Now().UTC(), Detail: map[string]string{"owner": found.Owner, "ledger": found.LedgerID, "attempt": fmt.Sprint(found.Attempt)}})},
	}}
	r, err := e.create(ctx, w, back, spec, set)
	if err != nil {
		return ledger.Run{}, err
	}
	row := r.run
	e.hold(r)
	return row, nil
}

// action is a mutating call that is no run: one row, written before the call.
type action struct {
	e  *Engine
	id sdk.ID
	by string
}

func (e *Engine) begin(ctx context.Context, actor, verb, target string, back Backend) (action, error) {
	return e.beginRow(ctx, ledger.Requested{Actor: actor, Action: verb, Target: target}, back)
}

// beginRow is begin for a row with more in it; provider and identity are the
// backend's.
func (e *Engine) beginRow(ctx context.Context, row ledger.Requested, back Backend) (action, error) {
	if row.Actor == "" {
		return action{}, sdk.Errorf(sdk.InvalidArgument, row.Action, "the actor is empty")
	}
	if err := e.join(ctx); err != nil {
		return action{}, err
	}
	row.Provider, row.Identity = back.Name, back.Info().Identity
	a := action{e: e, id: e.o.IDs.NewID(), by: row.Actor}
	w := ledger.Write{Run: a.id, Holder: e.self.ID, Claim: true, Events: []ledger.NewEvent{{Kind: ledger.KindRequested, Actor: row.Actor,
		Change: ledger.Change{V: ledger.ChangeVersion, Requested: &row}}}}
	return a, e.writeAction(ctx, w)
}

// writeAction writes the events of a row that is no run.
func (e *Engine) writeAction(ctx context.Context, w ledger.Write) error {
	hits("before", w.Events)
	err := e.o.Store.Write(ctx, w)
	hits("after", w.Events)
	return err
}

// end records the outcome and returns the call's own error first.
func (a action) end(ctx context.Context, callErr error, detail map[string]string) error {
	c := ledger.Change{V: ledger.ChangeVersion, State: sdk.StateSucceeded, Reason: reason(sdk.ReasonCompleted), Finished: true, Detail: detail}
	if callErr != nil {
		c.State, c.Reason, c.Message = sdk.StateFailed, reason(changeReason(callErr)), text(a.words(callErr))
	}
	return a.record(ctx, ledger.KindFinished, c, callErr)
}

// changeReason is refusalReason for what isn't a job: the state of what was to be
// changed is no fault of the request.
func changeReason(err error) sdk.Reason {
	r := refusalReason(err)
	switch sdk.CodeOf(err) {
	case sdk.FailedPrecondition, sdk.Aborted, sdk.AlreadyExists, sdk.NotFound:
		if !sdk.IsUnreached(err) && (r == sdk.ReasonInvalidSpec || r == sdk.ReasonInfrastructure) {
			return sdk.ReasonRefused
		}
	}
	return r
}

// doubt records that nothing proves whether the call did what it should, and returns
// its error.
func (a action) doubt(ctx context.Context, callErr error) error {
	return a.record(ctx, ledger.KindFinished, ledger.Change{V: ledger.ChangeVersion, State: sdk.StateLost, Reason: reason(sdk.ReasonSubmitUnconfirmed), Finished: true,
		Message: text(a.words(callErr))}, callErr)
}

// leave records that nothing can be told of the call at the moment, and returns its
// error. The row stays open, and is nobody's: whoever looks next reads it back.
func (a action) leave(ctx context.Context, callErr error) error {
	defer a.e.letGo(ctx, ledger.Run{ID: a.id, Fence: 1}) // as it was made
	return a.record(ctx, ledger.KindObserved, ledger.Change{V: ledger.ChangeVersion, State: sdk.StateUnknown, Reason: reason(sdk.ReasonSubmitUnconfirmed),
		Message: text(a.words(callErr))}, callErr)
}

func (a action) words(err error) string {
	return strings.ToValidUTF8(a.e.o.Redact(err.Error()), "?")
}

// record writes what became of the call, and returns the call's own error first.
func (a action) record(ctx context.Context, kind ledger.Kind, c ledger.Change, callErr error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelCall)
	defer cancel()
	w := ledger.Write{Run: a.id, Events: []ledger.NewEvent{{Kind: kind, Actor: a.by, Change: c}}}
	if err := a.e.writeAction(ctx, w); err != nil && callErr == nil {
		return err
	}
	return callErr
}

func (a action) note(ctx context.Context, kind ledger.Kind, detail map[string]string) error {
	w := ledger.Write{Run: a.id, Events: []ledger.NewEvent{{Kind: kind, Actor: a.by, Change: ledger.Change{V: ledger.ChangeVersion, Detail: detail}}}}
	return a.e.o.Store.Write(ctx, w)
}
