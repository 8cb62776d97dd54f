package docker

import (
	"context"
	"errors"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const opFind = "find jobs"

// FindJobs implements sdk.JobFinder. A container that was created and never
// started runs nothing and will not: a search for its launch says absent, since
// the launch is to be sent again, which starts it. A search by run finds it.
func (p *provider) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	if r.Launch != nil {
		return p.findLaunch(ctx, *r.Launch)
	}
	filters := make(client.Filters).Add("label", sdk.LabelRun+"="+r.RunID.String(), sdk.LabelAttempt)
	if r.Owner != "" {
		filters.Add("label", sdk.LabelOwner+"="+r.Owner)
	}
	list, err := p.list(ctx, opFind, filters)
	if err != nil {
		return sdk.FindJobsResult{}, err
	}
	res := sdk.FindJobsResult{Outcome: sdk.FindAbsent}
	var engineID string
	if len(list) > 0 {
		info, err := p.engineInfo(ctx, opFind)
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
		engineID = info.ID
	}
	for _, c := range list {
		if j, ok := p.foundJob(c.ID, firstName(c.Names), c.Labels, engineID); ok {
			res.Outcome = sdk.FindFound
			res.Jobs = append(res.Jobs, j)
		}
	}
	return res, nil
}

func (p *provider) findLaunch(ctx context.Context, l sdk.Launch) (sdk.FindJobsResult, error) {
	if err := p.checkLaunch(opFind, l); err != nil {
		return sdk.FindJobsResult{}, err
	}
	engineID := l.Read[keyEngine]
	if err := p.sameEngine(ctx, opFind, engineID); err != nil {
		return sdk.FindJobsResult{}, err
	}
	name := containerName(l.AttemptID)
	c, err := p.inspect(ctx, opFind, name)
	if errors.Is(err, sdk.NotFound) {
		if err := p.absent(ctx, opFind, engineID, nil); err != nil {
			return sdk.FindJobsResult{}, err
		}
		return sdk.FindJobsResult{Outcome: sdk.FindAbsent}, nil
	}
	if err != nil {
		return sdk.FindJobsResult{}, err
	}
	if err := p.sameAttempt(opFind, c, l); err != nil {
		return sdk.FindJobsResult{}, err
	}
	if readState(c).startable() {
		return sdk.FindJobsResult{Outcome: sdk.FindAbsent}, nil
	}
	return sdk.FindJobsResult{Outcome: sdk.FindFound, Jobs: []sdk.FoundJob{p.launchJob(l, c.ID, name, engineID)}}, nil
}

func (p *provider) launchJob(l sdk.Launch, id, name, engineID string) sdk.FoundJob {
	return sdk.FoundJob{Handle: p.handle(id, name, engineID, l.AttemptID), RunID: l.RunID, AttemptID: l.AttemptID,
		Attempt: l.Attempt, Owner: l.Owner, LedgerID: l.LedgerID}
}

// foundJob reads a job off its labels; ok is false for labels that we don't write.
func (p *provider) foundJob(id, name string, labels map[string]string, engineID string) (sdk.FoundJob, bool) {
	run, err1 := sdk.ParseID(labels[sdk.LabelRun])
	attempt, err2 := sdk.ParseID(labels[sdk.LabelAttempt])
	number, err3 := strconv.Atoi(labels[sdk.LabelNumber])
	if err1 != nil || err2 != nil || err3 != nil {
		return sdk.FoundJob{}, false
	}
	return sdk.FoundJob{Handle: p.handle(id, name, engineID, attempt), RunID: run, AttemptID: attempt, Attempt: number,
		Owner: labels[sdk.LabelOwner], LedgerID: labels[sdk.LabelLedger]}, true
}

// list returns containers, ended ones too.
func (p *provider) list(ctx context.Context, op string, filters client.Filters) ([]container.Summary, error) {
	var out []container.Summary
	err := p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
		out = res.Items
		return err
	})
	return out, err
}

func firstName(names []string) string {
	if len(names) == 0 {
		return ""
	}
	if n := names[0]; len(n) > 0 && n[0] == '/' {
		return n[1:]
	}
	return names[0]
}
