package fake

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// describe answers one call about a job.
func (c *Cloud) describe(ctx context.Context, op Op, id string) (*view, time.Time, error) {
	in, err := c.enter(ctx, op, idBody{ID: id})
	if err != nil {
		return nil, time.Time{}, err
	}
	v, now, err := c.known(id)
	if err != nil {
		return nil, now, broken(op, err)
	}
	if v == nil || c.unseen(v) {
		return nil, now, absent(op, id)
	}
	return v, now, in.done()
}

// idBody is the request of calls that name jobs.
type idBody struct {
	ID  string   `json:"id,omitzero"`
	IDs []string `json:"ids,omitzero"`
}

func (c *Cloud) unseen(v *view) bool {
	d := time.Duration(c.knobs.Load().NotFoundFor)
	return d > 0 && c.clock.Now().Sub(v.rec.Accepted) < d
}

// checkHandle refuses what isn't this provider's.
func (p *provider) checkHandle(op Op, h sdk.JobHandle) error {
	if err := h.Check(opName(op), p.self); err != nil {
		return err
	}
	if !strings.HasPrefix(h.ID, jobPrefix) {
		return sdk.Errorf(sdk.InvalidArgument, opName(op), "%q is not an ID of this backend", h.ID)
	}
	return nil
}

// JobStatus implements sdk.JobRunner.
func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	if err := p.checkHandle(OpJobStatus, r.Handle); err != nil {
		return sdk.JobStatusResult{}, err
	}
	ctx, cancel := p.limit(ctx)
	defer cancel()
	v, now, err := p.cloud.describe(ctx, OpJobStatus, r.Handle.ID)
	return p.status(r.Handle, v, now, err)
}

// status tells a job's state. A job that was made just now may be missing as
// long as the cloud is allowed to hide it.
func (p *provider) status(h sdk.JobHandle, v *view, now time.Time, err error) (sdk.JobStatusResult, error) {
	if sdk.CodeOf(err) == sdk.NotFound && p.g.Found.Within > 0 {
		made, perr := time.Parse(time.RFC3339Nano, h.Metadata["accepted"])
		if perr == nil && now.Before(made.Add(p.g.Found.Within)) {
			return sdk.JobStatusResult{State: sdk.StatePending, Message: "not listed yet", Raw: map[string]string{"status": "NotFound"}}, nil
		}
	}
	if err != nil {
		return sdk.JobStatusResult{}, err
	}
	l := v.line
	st := sdk.JobStatusResult{State: l.stateAt(now), CreatedAt: v.rec.Accepted}
	if n := p.cloud.knobs.Load().Flicker; n > 0 && !st.State.Terminal() && p.cloud.flickers.Add(1)%int64(n) == 0 {
		st.State, st.Reason, st.Message = sdk.StateUnknown, sdk.ReasonUnknown, "the cloud can't tell at the moment"
		st.Raw = map[string]string{"status": "UNKNOWN"}
		return st, nil
	}
	st.Raw = map[string]string{"status": strings.ToUpper(string(st.State))}
	if !l.started.IsZero() && !now.Before(l.started) {
		st.StartedAt, st.Launches = l.started, 1
	}
	st.OOMObserved = l.oom && !now.Before(l.oomAt)
	if !st.State.Terminal() {
		return st, nil
	}
	st.Reason, st.Signal, st.EndedAt, st.Message = l.reason, l.signal, l.ended, l.message
	st.Raw["message"] = l.message
	if l.code != nil {
		code := *l.code
		st.ExitCode = &code
		st.Raw["exit_code"] = fmt.Sprint(code)
	}
	if p.g.ExitCode == sdk.ExitCodeAbsent {
		st.ExitCode, st.Signal = nil, ""
		delete(st.Raw, "exit_code")
		if st.Reason == sdk.ReasonNonzeroExit || st.Reason == sdk.ReasonSignaled {
			st.Reason, st.Message = sdk.ReasonUnknown, "ended without success"
			st.Raw["message"] = st.Message
		}
	}
	return st, nil
}

// JobStatuses implements sdk.JobBatcher.
func (p *provider) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	if limit := p.set.BatchMax; limit > 0 && len(r.Handles) > limit {
		return sdk.JobStatusesResult{}, sdk.Errorf(sdk.InvalidArgument, opName(OpJobStatuses), "%d handles, at most %d", len(r.Handles), limit)
	}
	ctx, cancel := p.limit(ctx)
	defer cancel()
	ids := make([]string, len(r.Handles))
	for i, h := range r.Handles {
		ids[i] = h.ID
	}
	in, err := p.cloud.enter(ctx, OpJobStatuses, idBody{IDs: ids})
	if err != nil {
		return sdk.JobStatusesResult{}, err
	}
	out := sdk.JobStatusesResult{Items: make([]sdk.JobStatusItem, len(r.Handles))}
	for i, h := range r.Handles {
		if err := p.checkHandle(OpJobStatuses, h); err != nil {
			out.Items[i].Err = err
			continue
		}
		v, now, err := p.cloud.known(h.ID)
		switch {
		case err != nil:
			return sdk.JobStatusesResult{}, broken(OpJobStatuses, err)
		case v == nil || p.cloud.unseen(v):
			err = absent(OpJobStatuses, h.ID)
		}
		out.Items[i].Result, out.Items[i].Err = p.status(h, v, now, err)
	}
	return out, in.done()
}

// FindJobs implements sdk.JobFinder.
func (p *provider) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	if r.Launch == nil && r.RunID.IsZero() {
		return sdk.FindJobsResult{}, sdk.Errorf(sdk.InvalidArgument, opName(OpFindJobs), "neither a launch nor a run is named")
	}
	if r.Launch != nil {
		if err := p.self.Check(opName(OpFindJobs), r.Launch.Identity); err != nil {
			return sdk.FindJobsResult{}, err
		}
	}
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.cloud.enter(ctx, OpFindJobs, nil)
	if err != nil {
		return sdk.FindJobsResult{}, err
	}
	now := p.cloud.clock.Now()
	out := sdk.FindJobsResult{Outcome: sdk.FindAbsent}
	var views []*view
	switch {
	case p.g.Submit.By == sdk.SubmitByNothing:
	case r.Launch != nil:
		views, err = p.cloud.store.ofAttempt(r.Launch.AttemptID)
	default:
		views, err = p.cloud.store.ofRun(r.RunID)
	}
	if err != nil {
		return sdk.FindJobsResult{}, broken(OpFindJobs, err)
	}
	owner, ledger := r.Owner, ""
	if r.Launch != nil {
		owner, ledger = r.Launch.Owner, r.Launch.LedgerID
	}
	for _, v := range views {
		// A name can be asked for at once; a search sees what is listed.
		byName := r.Launch != nil && p.g.Submit.By == sdk.SubmitByName
		if owner != "" && v.rec.Owner != owner || ledger != "" && v.rec.LedgerID != ledger || !byName && !p.cloud.visible(v, now) {
			continue
		}
		out.Outcome = sdk.FindFound
		out.Jobs = append(out.Jobs, sdk.FoundJob{Handle: p.handle(v), RunID: v.rec.RunID, AttemptID: v.rec.AttemptID,
			Attempt: v.rec.Attempt, Owner: v.rec.Owner, LedgerID: v.rec.LedgerID})
	}
	if out.Outcome == sdk.FindAbsent {
		p.judgeAbsence(r, now, &out)
	}
	return out, in.done()
}

// judgeAbsence says what it means that nothing was seen.
func (p *provider) judgeAbsence(r sdk.FindJobsRequest, now time.Time, out *sdk.FindJobsResult) {
	switch {
	case p.g.Submit.By == sdk.SubmitByNothing || !p.g.Found.Consistent:
		out.Outcome = sdk.FindNotVisible
		if p.g.Submit.By != sdk.SubmitByNothing && p.g.Found.Within > 0 && !r.SentAt.IsZero() && now.Before(r.SentAt.Add(p.g.Found.Within)) {
			out.VisibleAt = r.SentAt.Add(p.g.Found.Within)
		}
	case r.Launch != nil && p.g.Submit.By == sdk.SubmitByName:
	case p.g.Found.Within > 0:
		// Without a time of sending, only the whole window from now on is sure.
		at := now.Add(p.g.Found.Within)
		if !r.SentAt.IsZero() {
			at = r.SentAt.Add(p.g.Found.Within)
		}
		if now.Before(at) {
			out.Outcome, out.VisibleAt = sdk.FindNotVisible, at
		}
	}
}

// CancelJob implements sdk.JobCanceler.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	if err := p.checkHandle(OpCancelJob, r.Handle); err != nil {
		return sdk.CancelJobResult{}, err
	}
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.cloud.enter(ctx, OpCancelJob, idBody{ID: r.Handle.ID})
	if err != nil {
		return sdk.CancelJobResult{}, err
	}
	v, now, err := p.cloud.known(r.Handle.ID)
	if err != nil {
		return sdk.CancelJobResult{}, broken(OpCancelJob, err)
	}
	if v == nil {
		return sdk.CancelJobResult{Gone: true, Evidence: "the cloud knows no job of this ID"}, in.done()
	}
	if !v.line.stateAt(now).Terminal() {
		grace := v.rec.Request.Grace
		if r.Grace != nil {
			grace = Duration(*r.Grace)
		}
		if !p.g.Grace.Supported {
			grace = 0
		}
		if err := p.cloud.store.cancel(v.rec.ID, cancelFact{Grace: grace, Why: r.Why}); err != nil {
			return sdk.CancelJobResult{}, broken(OpCancelJob, err)
		}
		p.cloud.hub.publish(v.rec.ID)
		now = p.cloud.clock.Now()
		if v, err = p.cloud.store.load(v.rec.ID); err != nil {
			return sdk.CancelJobResult{}, broken(OpCancelJob, err)
		}
	}
	out := sdk.CancelJobResult{Accepted: true, Gone: true, Evidence: "the cloud knows no job of this ID"}
	if v != nil {
		out.Gone = p.g.CancelReadBack && v.line.stateAt(now).Terminal()
		out.Evidence = "the cloud took the cancel"
		if out.Gone {
			out.Evidence = v.line.message
		}
	}
	return out, in.done()
}

// CleanupJob implements sdk.JobCleaner.
func (p *provider) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	if err := p.checkHandle(OpCleanupJob, r.Handle); err != nil {
		return sdk.CleanupJobResult{}, err
	}
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.cloud.enter(ctx, OpCleanupJob, idBody{ID: r.Handle.ID})
	if err != nil {
		return sdk.CleanupJobResult{}, err
	}
	now := p.cloud.clock.Now()
	v, err := p.cloud.store.load(r.Handle.ID)
	if err != nil {
		return sdk.CleanupJobResult{}, broken(OpCleanupJob, err)
	}
	if v == nil {
		return sdk.CleanupJobResult{}, in.done()
	}
	if !v.line.stateAt(now).Terminal() {
		return sdk.CleanupJobResult{}, &sdk.Error{Code: sdk.FailedPrecondition, Op: opName(OpCleanupJob), Remedy: "cancel it first",
			Err: fmt.Errorf("job %s still runs", r.Handle.ID)}
	}
	if err := p.cloud.drop(v); err != nil {
		return sdk.CleanupJobResult{}, broken(OpCleanupJob, err)
	}
	return sdk.CleanupJobResult{Removed: []string{"job " + r.Handle.ID}}, in.done()
}

// drop removes a job and keeps its marks.
func (c *Cloud) drop(v *view) error {
	there, err := c.store.remove(v.rec.ID)
	if err != nil || !there {
		return err
	}
	var keys []string
	now := c.clock.Now()
	for _, m := range v.line.marks {
		if !m.at.After(now) {
			keys = append(keys, m.key)
		}
	}
	c.hub.publish(v.rec.ID)
	if len(keys) == 0 {
		return nil
	}
	return c.store.keepMarks(keys)
}
