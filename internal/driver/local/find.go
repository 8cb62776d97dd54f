//go:build linux || darwin

package local

import (
	"context"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// startTime is how long a search waits for an attempt that somebody is
	// just starting.
	startTime = time.Second
	// lookAgain is when a search is worth another try after that.
	lookAgain = 5 * time.Second
)

// FindJobs looks into the state folder, which is the whole truth at any moment.
// Only an attempt that another process is just starting is neither found nor
// absent.
func (p *provider) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	const op = "find jobs"
	if err := ctx.Err(); err != nil {
		return sdk.FindJobsResult{}, p.fail(op, context.Cause(ctx))
	}
	ids := []sdk.ID{}
	if r.Launch != nil {
		if err := p.identity.Check(op, r.Launch.Identity); err != nil {
			return sdk.FindJobsResult{}, p.fail(op, err)
		}
		ids = append(ids, r.Launch.AttemptID)
	} else {
		var err error
		if ids, err = attempt.List(p.state); err != nil {
			return sdk.FindJobsResult{}, p.fail(op, err)
		}
	}
	out := sdk.FindJobsResult{Outcome: sdk.FindAbsent}
	starting := false
	var damaged error
	for _, id := range ids {
		v, err := p.settled(ctx, attempt.In(p.state, id))
		if err != nil && (ctx.Err() != nil || r.Launch != nil) {
			return sdk.FindJobsResult{}, p.fail(op, err)
		}
		if err != nil {
			damaged = err // it may be the one that is sought
			continue
		}
		if r.Launch == nil && !matches(v.launch, r.RunID, r.Owner) {
			continue
		}
		if v.stage.begun() {
			out.Jobs = append(out.Jobs, p.found(v))
		}
		starting = starting || v.stage == stageStarting
	}
	switch {
	case len(out.Jobs) > 0:
		out.Outcome = sdk.FindFound
	case damaged != nil:
		return sdk.FindJobsResult{}, p.fail(op, damaged)
	case starting:
		out.Outcome, out.VisibleAt = sdk.FindNotVisible, p.clock.Now().Add(lookAgain)
	}
	return out, nil
}

// settled waits a little for an attempt that is being started.
func (p *provider) settled(ctx context.Context, f attempt.Folder) (view, error) {
	deadline := time.Now().Add(startTime)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		v, err := p.look(f)
		if err != nil || v.stage != stageStarting || time.Now().After(deadline) {
			return v, err
		}
		if err := p.clock.Sleep(ctx, pause); err != nil {
			return v, err
		}
	}
}

func matches(l attempt.Launch, run sdk.ID, owner string) bool {
	return (run.IsZero() || l.RunID == run) && (owner == "" || l.Owner == owner)
}

func (p *provider) found(v view) sdk.FoundJob {
	l, who := v.launch, v.begun.Supervisor
	if who.IsZero() {
		who.BootID = l.BootID
	}
	return sdk.FoundJob{Handle: p.handle(l, who), RunID: l.RunID, AttemptID: l.AttemptID, Attempt: l.Attempt, Owner: l.Owner, LedgerID: l.LedgerID}
}
