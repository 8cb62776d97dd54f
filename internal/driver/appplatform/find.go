package appplatform

import (
	"context"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/do"
	"github.com/windlass-run/windlass/sdk"
)

const opFind = "find jobs"

// soon is when an app that exists and isn't listed may be.
const soon = 2 * time.Second

// FindJobs implements sdk.JobFinder. A launch is looked for by its name among all
// apps; where none has it, the platform is asked whether the name is free. A run
// is looked for by what its apps carry.
func (p *provider) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.FindJobsResult{}, p.fail(sdk.CodeOf(err), opFind, err)
	}
	if r.Launch != nil {
		if _, _, err := p.launches().Read(opFind, *r.Launch); err != nil {
			return sdk.FindJobsResult{}, err
		}
	}
	var out sdk.FindJobsResult
	for a, err := range p.apps(ctx, opFind) {
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
		m, ours := markOf(a)
		if !ours || r.Launch != nil && !m.of(*r.Launch) || r.Launch == nil && (m.run != r.RunID || r.Owner != "" && m.owner != r.Owner) {
			continue
		}
		h, err := p.found(ctx, opFind, a)
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
		out.Jobs = append(out.Jobs, sdk.FoundJob{Handle: h, RunID: m.run, AttemptID: m.attempt, Attempt: m.number, Owner: m.owner, LedgerID: m.ledger})
		if r.Launch != nil {
			break // there is one at most
		}
	}
	now := p.clock.Now()
	switch visible := r.SentAt.Add(time.Duration(p.cfg.VisibleWithin)); {
	case len(out.Jobs) > 0:
		out.Outcome = sdk.FindFound
		return out, nil
	case r.SentAt.IsZero():
		out.Outcome, out.VisibleAt = sdk.FindNotVisible, now.Add(time.Duration(p.cfg.VisibleWithin))
		return out, nil
	case now.Before(visible):
		out.Outcome, out.VisibleAt = sdk.FindNotVisible, visible
		return out, nil
	}
	if r.Launch != nil {
		free, err := p.free(ctx, opFind, do.AppName(r.Launch.AttemptID))
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
		if !free {
			out.Outcome, out.VisibleAt = sdk.FindNotVisible, now.Add(soon)
			return out, nil
		}
	}
	out.Outcome = sdk.FindAbsent
	return out, nil
}
