package appplatform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/driver/sight"
	"github.com/windlass-run/windlass/sdk"
)

const opStatus = "read state"

// JobStatus implements sdk.JobRunner.
func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	if err := p.checkHandle(opStatus, r.Handle); err != nil {
		return sdk.JobStatusResult{}, err
	}
	return p.state(ctx, r.Handle)
}

// JobStatuses implements sdk.JobBatcher. A list of apps shows what is under way in
// each, a page of them for one call; what has ended costs calls of its own.
func (p *provider) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusesResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	if len(r.Handles) > batchMax {
		return sdk.JobStatusesResult{}, p.fail(sdk.InvalidArgument, opStatus, fmt.Errorf("%d handles, at most %d", len(r.Handles), batchMax))
	}
	out := sdk.JobStatusesResult{Items: make([]sdk.JobStatusItem, len(r.Handles))}
	wanted := map[string]bool{}
	for i, h := range r.Handles {
		if err := p.checkHandle(opStatus, h); err != nil {
			out.Items[i].Err = err
			continue
		}
		wanted[h.ID] = true
	}
	listed, err := p.listed(ctx, wanted)
	if err != nil {
		return sdk.JobStatusesResult{}, err
	}
	var rest []int
	for i, h := range r.Handles {
		if out.Items[i].Err != nil {
			continue
		}
		if res, ok := p.underWay(h, listed[h.ID]); ok {
			out.Items[i].Result = res
			continue
		}
		rest = append(rest, i)
	}
	sight.Each(ctx, rest, func(ctx context.Context, i int) {
		out.Items[i].Result, out.Items[i].Err = p.state(ctx, r.Handles[i])
	})
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusesResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	return out, nil
}

// listed returns those of the wanted apps that the list has, as long as that can
// save calls.
func (p *provider) listed(ctx context.Context, wanted map[string]bool) (map[string]*godo.App, error) {
	got := map[string]*godo.App{}
	if len(wanted) < 2 {
		return got, nil
	}
	looked := 0
	for a, err := range p.apps(ctx, opStatus) {
		if err != nil {
			return nil, err
		}
		if a != nil && wanted[a.ID] {
			got[a.ID] = a
		}
		// A page more must be worth its call.
		if looked++; len(got) == len(wanted) || looked%pageMax == 0 && looked/pageMax >= len(wanted)-len(got) {
			break
		}
	}
	return got, nil
}

// underWay judges a job by what the list shows of its app. ok is false for one that
// may have ended, and for what the list doesn't tell.
func (p *provider) underWay(h sdk.JobHandle, a *godo.App) (res sdk.JobStatusResult, ok bool) {
	if a == nil {
		return res, false
	}
	var now []*godo.Deployment
	for _, d := range []*godo.Deployment{a.PendingDeployment, a.InProgressDeployment} {
		if d != nil {
			now = append(now, d)
		}
	}
	id := h.Metadata[keyDeployment]
	if len(now) != 1 || a.ActiveDeployment != nil || id == "" || now[0].ID != id || now[0].Progress == nil && now[0].Phase == godo.DeploymentPhase_Deploying {
		return res, false
	}
	res = judge(now[0], nil, nil)
	if res.State.Terminal() {
		return res, false
	}
	p.note(h.ID, false, res.Launches > 0)
	p.poll(h.ID)
	return res, true
}

// look judges a job by all of its app's deployments, in one or two calls.
func (p *provider) look(ctx context.Context, op string, h sdk.JobHandle) (sdk.JobStatusResult, error) {
	list, err := p.deployments(ctx, op, h.ID)
	switch {
	case notFound(err) && p.young(h):
		return sdk.JobStatusResult{State: sdk.StatePending, Message: "accepted; DigitalOcean doesn't show it yet"}, nil
	case notFound(err):
		return sdk.JobStatusResult{}, p.fail(sdk.NotFound, op, errors.New("DigitalOcean knows no app "+h.ID))
	case err != nil:
		return sdk.JobStatusResult{}, err
	}
	own, later := split(list, h.Metadata[keyDeployment])
	if own == nil {
		if p.recent(h) {
			return sdk.JobStatusResult{State: sdk.StatePending, Message: "accepted; the deployment isn't shown yet"}, nil
		}
		return sdk.JobStatusResult{State: sdk.StateUnknown, Reason: sdk.ReasonUnknown, Message: "the app is there, and its deployment isn't listed"}, nil
	}
	res := judge(own, later, nil)
	if res.State.Terminal() {
		inv, err := p.invocations(ctx, op, h.ID, own.ID)
		if err != nil && !notFound(err) {
			return sdk.JobStatusResult{}, err
		}
		res = judge(own, later, inv)
	}
	if h.Metadata[keyDeployment] == "" {
		full := p.withDeployment(h, own.ID)
		res.Handle = &full
	}
	p.note(h.ID, res.State.Terminal(), res.Launches > 0)
	return res, nil
}

// withDeployment returns a handle that names the deployment.
func (p *provider) withDeployment(h sdk.JobHandle, id string) sdk.JobHandle {
	m := map[string]string{keyDeployment: id}
	for k, v := range h.Metadata {
		if k != keyDeployment {
			m[k] = v
		}
	}
	h.Metadata = m
	return h
}

// state is a job's state, with the exit code that its wrapped command has written.
func (p *provider) state(ctx context.Context, h sdk.JobHandle) (sdk.JobStatusResult, error) {
	res, err := p.look(ctx, opStatus, h)
	if err == nil {
		p.poll(h.ID)
	}
	if err != nil || h.Metadata[keyNonce] == "" || res.Launches == 0 || res.State != sdk.StateSucceeded && res.State != sdk.StateFailed {
		return res, err
	}
	code, whole, err := p.exitCode(ctx, h, res)
	switch {
	case ctx.Err() != nil:
		return sdk.JobStatusResult{}, p.fail(sdk.CodeOf(ctx.Err()), opStatus, ctx.Err())
	case err == nil && code != nil:
		return coded(res, *code), nil
	case err == nil && whole:
		return res, nil // it was ended before it could write
	}
	if time.Since(p.seen.Get(h.ID).over) < time.Duration(p.cfg.LogMax) {
		res.State, res.Reason, res.OOMObserved, res.EndedAt, res.Message = sdk.StateRunning, "", false, time.Time{}, "the job has ended; its exit code is waited for"
		return res, nil
	}
	res.Message += "; its exit code was not in the log in time"
	return res, nil
}

// coded adds an exit code that doesn't contradict the platform.
func coded(res sdk.JobStatusResult, code int) sdk.JobStatusResult {
	switch {
	case res.State == sdk.StateSucceeded && code == 0:
		res.ExitCode = &code
	case res.State == sdk.StateFailed && code != 0:
		res.ExitCode = &code
		if res.Reason == sdk.ReasonUnknown {
			res.Reason = sdk.ReasonNonzeroExit
		}
	}
	return res
}
