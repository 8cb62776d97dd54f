package aci

import (
	"context"
	"strconv"
	"time"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/sdk"
)

const opFind = "find jobs"

// FindJobs implements sdk.JobFinder. A launch is looked for by its group's name,
// a run among all groups of the resource group. That nothing is there proves
// something only when no request can take effect any more.
func (p *provider) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.FindJobsResult{}, p.fail(sdk.CodeOf(err), opFind, err)
	}
	var out sdk.FindJobsResult
	// The look is for what was sent before it began.
	began := p.clock.Now()
	switch {
	case r.Launch != nil:
		if _, _, err := p.launches().Read(opFind, *r.Launch); err != nil {
			return out, err
		}
		g, err := p.getGroup(ctx, opFind, groupID(r.Launch.AttemptID))
		if err != nil && !absent(err) {
			return out, err
		}
		if err == nil {
			if found, ok := p.found(g); ok && found.AttemptID == r.Launch.AttemptID {
				out.Jobs = append(out.Jobs, found)
			}
		}
	case !r.RunID.IsZero():
		err := p.listGroups(ctx, opFind, func(g *arm.ContainerGroup) bool {
			if found, ok := p.found(g); ok && found.RunID == r.RunID && (r.Owner == "" || found.Owner == r.Owner) {
				out.Jobs = append(out.Jobs, found)
			}
			return true
		})
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
	}
	sent := r.SentAt
	if r.Launch != nil && !sent.IsZero() {
		// A launch may have been sent again since: that request counts too.
		if last := p.seen.Get(groupID(r.Launch.AttemptID)).sent; last.After(sent) {
			sent = last
		}
	}
	switch visible := sent.Add(time.Duration(p.cfg.VisibleWithin)); {
	case len(out.Jobs) > 0:
		out.Outcome = sdk.FindFound
	case sent.IsZero():
		out.Outcome, out.VisibleAt = sdk.FindNotVisible, began.Add(time.Duration(p.cfg.VisibleWithin))
	case began.Before(visible):
		out.Outcome, out.VisibleAt = sdk.FindNotVisible, visible
	default:
		out.Outcome = sdk.FindAbsent
	}
	return out, nil
}

// found reads what a group carries. ok is false for one that isn't ours.
func (p *provider) found(g *arm.ContainerGroup) (sdk.FoundJob, bool) {
	o, ok := owned(g)
	if !ok {
		return sdk.FoundJob{}, false
	}
	n, err := strconv.Atoi(tag(g, sdk.LabelNumber))
	if err != nil || n < 1 {
		return sdk.FoundJob{}, false
	}
	p.show(o.ID)
	o = p.named(o)
	return sdk.FoundJob{Handle: p.handle(o.ID, p.clock.Now()), RunID: o.RunID, AttemptID: o.AttemptID, Attempt: n, Owner: o.Owner, LedgerID: o.LedgerID}, true
}

// listGroups gives the groups of the resource group until yield returns false.
// Lists have no filter, and no instance views.
// https://learn.microsoft.com/en-us/rest/api/container-instances/container-groups/list-by-resource-group
// https://github.com/Azure/azure-rest-api-specs/issues/21280
func (p *provider) listGroups(ctx context.Context, op string, yield func(*arm.ContainerGroup) bool) error {
	pager := p.groups.NewListByResourceGroupPager(p.cfg.ResourceGroup, nil)
	for pager.More() {
		page, err := call(ctx, p, p.reads, op, func(ctx context.Context) (arm.ContainerGroupsClientListByResourceGroupResponse, error) {
			return pager.NextPage(ctx)
		})
		if err != nil {
			return err
		}
		for _, g := range page.Value {
			if g != nil && !yield(g) {
				return nil
			}
		}
	}
	return nil
}
