package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// ChangeRequest is what every change of a workload is asked with.
type ChangeRequest struct {
	Target sdk.Target
	// Actor is who asks; never empty.
	Actor string
	// Expect, AgainstAutoscaler and DryRun are as in sdk.OpRequest. A dry run gets
	// no row.
	Expect            sdk.Expect
	AgainstAutoscaler bool
	DryRun            bool
	// Wait, when above 0, follows the change until it is rolled out, for so long at
	// most. The row stays open meanwhile, without keeping others from the target, and
	// has failed where the backend gives the rollout up; see WorkloadRuntime.Wait for
	// the errors.
	Wait time.Duration
}

// Change is what a change came to.
type Change struct {
	Target sdk.Target
	// Row is the ledger's; zero for a dry run.
	Row ledger.Run
	// Before is how the workload was before, nil where there was none.
	Before *sdk.DeploymentStatus
	Op     sdk.OpResult
	// ReadBack: the reply was lost, and the backend tells that it has the change.
	ReadBack bool
	// Restores is how many replicas a start brings back after this stop; nil is not
	// known. Revision is that of a change of settings.
	Restores *int
	Revision string
	// Scaled is the number of replicas that a scale asked for.
	Scaled *int
	// After is how the workload is when a wait has ended, as far as it was seen.
	After *sdk.DeploymentStatus
}

// rowSettings is the runtime's own part of a row.
type rowSettings struct {
	V int `json:"v"`
	// Before is what was there.
	Before *before `json:"before,omitzero"`
}

// before is the part of a status that a row keeps.
type before struct {
	Generation string `json:"generation,omitzero"`
	Image      string `json:"image,omitzero"`
	Desired    *int   `json:"desired,omitzero"`
	Ready      *int   `json:"ready,omitzero"`
	Stopped    bool   `json:"stopped,omitzero"`
	Restores   *int   `json:"restores,omitzero"`
}

// verb is one way to change a workload.
type verb struct {
	// action is the row's.
	action string
	// need is the capability.
	need string
	// args are the row's spec: what was asked for, without secret values.
	args any
	// creates: the workload need not be there.
	creates bool
	// send makes the call, and puts what it answers besides into c.
	send func(ctx context.Context, back Backend, op sdk.OpRequest, c *Change) error
}

// change carries a change out.
func (w *WorkloadRuntime) change(ctx context.Context, r ChangeRequest, v verb) (Change, error) {
	c := Change{Target: r.Target}
	if r.Actor == "" {
		return c, sdk.Errorf(sdk.InvalidArgument, v.action, "the actor is empty")
	}
	if err := r.Target.Check(); err != nil {
		return c, err
	}
	back, err := w.backend(ctx, r.Target.Provider, v.need)
	if err != nil {
		return c, err
	}
	op := sdk.OpRequest{OpID: w.e.o.IDs.NewID(), Path: r.Target.Path, Expect: r.Expect, AgainstAutoscaler: r.AgainstAutoscaler, DryRun: r.DryRun}
	if r.DryRun {
		err := w.before(ctx, back, op, v, &c)
		if err == nil {
			err = w.send(ctx, back, v, op, &c)
		}
		return c, named(err, back.Name)
	}
	release, err := w.hold(ctx, back, r.Target.Path, r.Actor, v.action, op.OpID)
	if err != nil {
		return c, err
	}
	release = sync.OnceFunc(release)
	defer release()
	if err := w.settleOpen(ctx, back, r.Target.Path); err != nil {
		return c, err
	}
	w.closeSessions(ctx, r.Target)
	if err := w.before(ctx, back, op, v, &c); err != nil {
		return c, named(err, back.Name)
	}
	act, err := w.begin(ctx, r.Actor, back, op, v, c)
	if err != nil {
		return c, err
	}
	callErr := w.send(ctx, back, v, op, &c)
	callErr = w.settleCall(ctx, back, op, &c, callErr)
	if callErr == nil && r.Wait > 0 && act.accepted(ctx, c) == nil {
		release()
		err = act.rolledOut(ctx, &c, r.Wait)
	} else {
		err = act.finish(ctx, c, callErr)
	}
	if row, rowErr := w.e.o.Store.Run(context.WithoutCancel(ctx), act.id); rowErr == nil {
		c.Row = row
	}
	return c, named(err, back.Name)
}

// before reads what is there before a change, and refuses what can't be. Nothing
// was sent then, so there is no row either.
func (w *WorkloadRuntime) before(ctx context.Context, back Backend, op sdk.OpRequest, v verb, c *Change) error {
	res, err := w.look(ctx, back, sdk.WorkloadStatusRequest{Path: op.Path, Brief: true})
	switch {
	case err == nil:
		c.Before = &res.Status
		return op.Expect.Check(v.action, res.Status)
	case sdk.CodeOf(err) == sdk.NotFound && v.creates:
		return nil
	}
	return err
}

// send makes the call under the provider's time-out.
func (w *WorkloadRuntime) send(ctx context.Context, back Backend, v verb, op sdk.OpRequest, c *Change) error {
	// A call that is given up on may still write: into a Change of its own.
	got, err := call(ctx, back.callTimeout(), v.action, func(ctx context.Context) (Change, error) {
		var own Change
		err := v.send(ctx, back, op, &own)
		return own, err
	})
	c.Op, c.Restores, c.Revision, c.Scaled = got.Op, got.Restores, got.Revision, got.Scaled
	return err
}

// workloadAction is the row of one change.
type workloadAction struct {
	w  *WorkloadRuntime
	id sdk.ID
	by string
}

// begin writes the row. Without it nothing is sent.
func (w *WorkloadRuntime) begin(ctx context.Context, actor string, back Backend, op sdk.OpRequest, v verb, c Change) (workloadAction, error) {
	if err := w.e.join(ctx); err != nil {
		return workloadAction{}, err
	}
	spec, err := sdk.EncodeCanonical(v.args)
	if err != nil {
		return workloadAction{}, err
	}
	set := rowSettings{V: 1}
	if st := c.Before; st != nil {
		set.Before = &before{Generation: st.Generation, Image: st.Image, Desired: st.Desired, Ready: st.Ready, Stopped: st.Stopped, Restores: st.Restores}
	}
	settings, err := sdk.EncodeCanonical(set)
	if err != nil {
		return workloadAction{}, err
	}
	t := sdk.Target{Provider: back.Name, Path: op.Path}
	q := &ledger.Requested{Actor: actor, Action: v.action, Target: t.String(), Provider: back.Name, Identity: back.Info().Identity,
		Spec: spec, SpecHash: sdk.HashCanonical(spec), Settings: settings, Name: op.Path.Name()}
	err = w.write(ctx, ledger.Write{Run: op.OpID, Holder: w.e.self.ID, Claim: true, Events: []ledger.NewEvent{
		{Kind: ledger.KindRequested, Actor: actor, Change: ledger.Change{V: ledger.ChangeVersion, Requested: q}}}})
	return workloadAction{w: w, id: op.OpID, by: actor}, err
}

// finish records the outcome. A change that was made, and whose outcome can't be
// recorded, is an error, which says so.
func (a workloadAction) finish(ctx context.Context, c Change, callErr error) error {
	ch := ledger.Change{V: ledger.ChangeVersion, State: sdk.StateSucceeded, Reason: reason(sdk.ReasonCompleted), Finished: true, Detail: c.detail()}
	kind := ledger.KindFinished
	switch {
	case isUnconfirmed(callErr):
		// The row stays open: whoever looks next reads the operation back.
		kind = ledger.KindObserved
		ch.State, ch.Reason, ch.Finished = sdk.StateUnknown, reason(sdk.ReasonSubmitUnconfirmed), false
		ch.Message = text(a.w.e.o.Redact(strings.ToValidUTF8(callErr.Error(), "?")))
	case callErr != nil:
		ch.State, ch.Reason = sdk.StateFailed, reason(changeReason(callErr))
		ch.Message = text(a.w.e.o.Redact(strings.ToValidUTF8(callErr.Error(), "?")))
	}
	if err := a.record(ctx, kind, ch); err != nil && callErr == nil {
		return &sdk.Error{Code: sdk.CodeOf(err), Op: "record outcome", Remedy: "the row is closed by the next change of the same workload, or by `windlass reap`",
			Err: fmt.Errorf("the change was accepted, and run %s couldn't be closed: %w", a.id.Short(), err)}
	}
	return callErr
}

func (a workloadAction) record(ctx context.Context, kind ledger.Kind, ch ledger.Change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelCall)
	defer cancel()
	return a.w.write(ctx, ledger.Write{Run: a.id, Events: []ledger.NewEvent{{Kind: kind, Actor: a.by, Change: ch}}})
}

// WorkloadFailpoints returns the name of every boundary of the change of a workload:
// before and after each call and each write of its row. action is the row's.
func WorkloadFailpoints(action string) []string {
	var out []string
	for _, x := range []string{"call.svc.status", "write." + string(ledger.KindRequested), "call." + action, "write." + string(ledger.KindObserved), "write." + string(ledger.KindFinished)} {
		out = append(out, x+".before", x+".after")
	}
	return out
}

// write writes to the ledger, between two failpoints of each event.
func (w *WorkloadRuntime) write(ctx context.Context, x ledger.Write) error {
	hits("before", x.Events)
	err := w.e.o.Store.Write(ctx, x)
	if err == nil {
		hits("after", x.Events)
	}
	return err
}

// detail is what a row's outcome keeps for people.
func (c Change) detail() map[string]string {
	d := map[string]string{"changed": strconv.FormatBool(c.Op.Changed)}
	for k, v := range map[string]string{"generation": c.Op.Generation, "rollout": c.Op.Rollout, "trace": c.Op.Trace, "revision": c.Revision} {
		if v != "" {
			d[k] = v
		}
	}
	if c.ReadBack {
		d["read_back"] = "true"
	}
	if c.Restores != nil {
		d["restores"] = strconv.Itoa(*c.Restores)
	}
	return d
}

// unconfirmedError says that what became of a change can't be told.
type unconfirmedError struct {
	evidence string
	err      error
}

func (e *unconfirmedError) Error() string {
	return fmt.Sprintf("%v, and what became of it can't be told: %s", e.err, e.evidence)
}

func (e *unconfirmedError) Unwrap() error { return e.err }

func isUnconfirmed(err error) bool {
	var u *unconfirmedError
	return errors.As(err, &u)
}

// lookBacks are the times between two looks for an operation, and how many looks
// may fail before it is left in doubt.
const (
	lookBack     = 250 * time.Millisecond
	lookBackMost = 4
)

// settleCall finds out what became of a call whose error proves nothing. It
// returns nil when the backend has the change.
func (w *WorkloadRuntime) settleCall(ctx context.Context, back Backend, op sdk.OpRequest, c *Change, callErr error) error {
	if callErr == nil || sdk.IsClear(callErr) {
		return callErr
	}
	// The caller may be gone; the row is to have the truth all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), back.callTimeout()+back.Info().Guarantees.Workload.Ops.Within)
	defer cancel()
	generation := ""
	if c.Before != nil {
		generation = c.Before.Generation
	}
	tr, lookErr := w.readBack(ctx, back, op.OpID, op.Path, generation, w.e.clock.Now())
	if lookErr != nil {
		tr = sdk.OpTrace{State: sdk.OpUnknown, Evidence: "it can't be told at the moment: " + w.e.o.Redact(lookErr.Error())}
	}
	switch tr.State {
	case sdk.OpAccepted:
		c.ReadBack = true
		c.Op = sdk.OpResult{Changed: true, Generation: tr.Generation, Rollout: tr.Rollout, Trace: tr.Evidence}
		return nil
	case sdk.OpAbsent:
		return &sdk.Error{Code: sdk.CodeOf(callErr), Op: "change workload", Retryable: true, Err: fmt.Errorf("it was not carried out (%s): %w", tr.Evidence, callErr)}
	}
	return &sdk.Error{Code: sdk.Unknown, Op: "change workload", ID: ErrWorkloadUnconfirmed,
		Remedy: "look with `windlass svc status` before you repeat it", Err: &unconfirmedError{tr.Evidence, callErr}}
}

// readBack asks what became of an operation that was sent at a time, until it is
// known, or the guarantee's time and some more looks have passed. An error is of the
// last look: nothing is known, and a later one may tell.
func (w *WorkloadRuntime) readBack(ctx context.Context, back Backend, id sdk.ID, path sdk.WorkloadPath, generation string, sent time.Time) (sdk.OpTrace, error) {
	g := back.Info().Guarantees.Workload.Ops
	last := sdk.OpTrace{State: sdk.OpUnknown, Evidence: "the backend keeps no operations"}
	if g.By == sdk.OpNowhere {
		return last, nil
	}
	for look := 1; ; look++ {
		res, err := w.look(ctx, back, sdk.WorkloadStatusRequest{Path: path, OpID: id, Before: generation})
		seen := !w.e.clock.Now().Before(sent.Add(g.Within))
		switch {
		case err != nil:
		case res.Op == nil:
			return sdk.OpTrace{State: sdk.OpUnknown, Evidence: "the driver says nothing of it"}, nil
		case res.Op.State == sdk.OpAccepted:
			return *res.Op, nil
		case res.Op.State == sdk.OpAbsent && seen:
			return *res.Op, nil
		case res.Op.State == sdk.OpAbsent:
			last = sdk.OpTrace{State: sdk.OpUnknown, Evidence: "it isn't there, and may not be shown yet"}
		default:
			last = *res.Op
		}
		if seen && (err == nil || look >= lookBackMost) {
			return last, err
		}
		if cause := w.e.clock.Sleep(ctx, lookBack); cause != nil {
			return last, cause
		}
	}
}

// settleOpen closes the rows of processes that died over a change of this
// workload, which we hold: what they did comes first in the record.
func (w *WorkloadRuntime) settleOpen(ctx context.Context, back Backend, path sdk.WorkloadPath) error {
	rows, err := w.openRows(ctx, back.Info().Identity, path)
	if err != nil {
		return err
	}
	for _, run := range rows {
		err := w.settleRow(ctx, back, path, run)
		if err == nil {
			continue
		}
		if sdk.RetryAfter(err) > 0 {
			w.sayUnsettled(ctx, run, err)
		}
		return &sdk.Error{Code: sdk.CodeOf(err), Op: "settle earlier change", Provider: back.Name, ID: ErrWorkloadBusy,
			RetryAfter: sdk.RetryAfter(err), Remedy: repeatLater(run, err),
			Err: fmt.Errorf("what became of %s by %s (row %s) can't be told at the moment: %w", run.Action, run.Actor, run.ID.Short(), err)}
	}
	return nil
}

// settleRow reads one row's operation back and closes it. A backend that doesn't
// answer, or that still is at it, leaves it open, and so does a caller who leaves. Where
// it knows nothing of the operation, that is no end while the call may still come.
func (w *WorkloadRuntime) settleRow(ctx context.Context, back Backend, path sdk.WorkloadPath, run ledger.Run) error {
	var set rowSettings
	if len(run.Settings) > 0 {
		if err := json.Unmarshal(run.Settings, &set); err != nil {
			return sdk.Errorf(sdk.DataLoss, "read row of "+run.ID.Short(), "%w", err)
		}
	}
	if accepted(run) {
		return w.closeAccepted(ctx, run)
	}
	generation := ""
	if set.Before != nil {
		generation = set.Before.Generation
	}
	if _, err := w.look(ctx, back, sdk.WorkloadStatusRequest{Path: path, Brief: true}); err != nil && sdk.CodeOf(err) != sdk.NotFound {
		return err
	}
	tr, err := w.readBack(ctx, back, run.ID, path, generation, run.RequestedAt)
	if err != nil {
		return err
	}
	// Who keeps no operations tells no more later on.
	if tr.State != sdk.OpAccepted && back.Info().Guarantees.Workload.Ops.By != sdk.OpNowhere {
		if err := w.e.mayStillCome(back, run.Target, w.e.o.Redact(tr.Evidence), "", run.RequestedAt); err != nil {
			return err
		}
	}
	ch := ledger.Change{V: ledger.ChangeVersion, Finished: true, Detail: map[string]string{"read_back": "true", "evidence": w.e.o.Redact(tr.Evidence)}}
	switch tr.State {
	case sdk.OpAccepted:
		ch.State, ch.Reason = sdk.StateSucceeded, reason(sdk.ReasonCompleted)
		ch.Message = text("its process ended before the reply was recorded; the backend has the change")
	case sdk.OpAbsent:
		ch.State, ch.Reason = sdk.StateFailed, reason(sdk.ReasonInfrastructure)
		ch.Message = text("its process ended, or its reply was lost; the backend was never changed")
	default:
		ch.State, ch.Reason = sdk.StateLost, reason(sdk.ReasonSubmitUnconfirmed)
		ch.Message = text("its reply was lost, and what became of it can't be told: " + w.e.o.Redact(strings.ToValidUTF8(tr.Evidence, "?")))
	}
	return workloadAction{w: w, id: run.ID, by: w.e.o.Actor}.record(ctx, ledger.KindFinished, ch)
}

// sayUnsettled records, once, why the row of a process that died stays open.
func (w *WorkloadRuntime) sayUnsettled(ctx context.Context, run ledger.Run, cause error) {
	if run.State == sdk.StateUnknown {
		return
	}
	a := workloadAction{w: w, id: run.ID, by: w.e.o.Actor}
	if err := a.record(ctx, ledger.KindObserved, w.e.unsettled(cause)); err != nil {
		w.e.log.Warn("state not recorded", "run", run.ID, "err", err)
	}
}

// settleDead closes the row of a change whose process died, for a recovery. It
// reports false where the row can't be closed so, and is left.
func (w *WorkloadRuntime) settleDead(ctx context.Context, run ledger.Run) (bool, error) {
	t, err := sdk.ParseTarget(run.Target)
	if err != nil || run.Action == actionExec {
		return false, nil
	}
	back, err := w.e.o.Providers.BackendFor(ctx, run)
	if err != nil {
		return true, err
	}
	if !sdk.Has(back.Provider, sdk.WorkloadStates().String()) {
		return false, nil
	}
	release, err := w.hold(ctx, back, t.Path, w.e.o.Actor, "settle "+run.Action, run.ID)
	if err != nil {
		return true, err // somebody else is at it, and closes the row first
	}
	defer release()
	// It may have been closed before we held the workload.
	now, err := w.e.o.Store.Run(ctx, run.ID)
	if err != nil || !now.Open() {
		return true, err
	}
	return true, w.settleRow(ctx, back, t.Path, run)
}

// settleWorkload is settleDead for a row of any action; done is false for a row
// that isn't about a workload.
func (e *Engine) settleWorkload(ctx context.Context, run ledger.Run) (done bool, err error) {
	if !isWorkloadAction(run.Action) {
		return false, nil
	}
	return e.Workloads().settleDead(ctx, run)
}
