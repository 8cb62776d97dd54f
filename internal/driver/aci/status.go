package aci

import (
	"context"
	"errors"
	"fmt"
	"time"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/driver/noexec"
	"github.com/windlass-run/windlass/sdk"
)

const opStatus = "read state"

// JobStatus implements sdk.JobRunner. There is no batch of it: lists have no
// instance views.
func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	h := r.Handle
	if err := p.checkHandle(opStatus, h); err != nil {
		return sdk.JobStatusResult{}, err
	}
	g, err := p.getGroup(ctx, opStatus, h.ID)
	switch {
	case absent(err) && p.young(h):
		return sdk.JobStatusResult{State: sdk.StatePending, Message: "accepted; Azure doesn't show it yet"}, nil
	case absent(err):
		return sdk.JobStatusResult{}, p.fail(sdk.NotFound, opStatus, fmt.Errorf("there is no container group %s: %w", h.ID, errors.Unwrap(err)))
	case err != nil:
		return sdk.JobStatusResult{}, err
	}
	p.show(h.ID)
	res := p.result(h, g)
	if res.State.Terminal() {
		p.seen.Change(h.ID, func(s *seen) { s.ended = true })
	}
	return res, nil
}

// result is the state that a group tells.
func (p *provider) result(h sdk.JobHandle, g *arm.ContainerGroup) sdk.JobStatusResult {
	v := viewOf(g)
	d := judge(v)
	if p.stopping(h.ID, v, d) {
		d = verdict{state: sdk.StateRunning, message: "being stopped"}
	}
	res := sdk.JobStatusResult{State: d.state, Reason: d.reason, ExitCode: d.code, OOMObserved: d.oom, Message: d.message, Launches: v.launches(), Raw: raw(v)}
	if why := noexec.Why(v.unstartable()); why != "" && d.state == sdk.StateFailed {
		res.Raw[sdk.RawExec] = why
	}
	if h.Metadata[keyAgain] != "" {
		res.Launches = max(res.Launches, 2)
	}
	if v.current != nil {
		res.StartedAt = deref(v.current.StartTime).UTC()
		if d.state.Terminal() {
			res.EndedAt = deref(v.current.FinishTime).UTC()
		}
	}
	if res.EndedAt.Before(res.StartedAt) && !res.EndedAt.IsZero() {
		res.EndedAt = res.StartedAt
	}
	return res
}

// stopHold is how long a container that was killed is waited for to be shown as
// stopped.
const stopHold = 30 * time.Second

// stopping reports whether a container that has ended was killed, and its group
// has yet to say that it was stopped: its code would be taken for the job's own.
// One whose group never says so is left to what its container says.
func (p *provider) stopping(id string, v view, d verdict) bool {
	if !v.in(stateTerminated) || is(v.group, stateStopped) || is(v.group, stateFailed) || is(v.group, stateSucceeded) || !v.killed() || !d.state.Terminal() {
		return false
	}
	since := time.Now()
	p.seen.Change(id, func(s *seen) {
		if s.killed.IsZero() {
			s.killed = since
		}
		since = s.killed
	})
	return time.Since(since) < stopHold
}

// raw keeps what Azure says, in its own words.
func raw(v view) map[string]string {
	m := map[string]string{}
	add := func(key, value string) {
		if value != "" {
			m[key] = value
		}
	}
	add("provisioning_state", v.provisioning)
	add("group_state", v.group)
	for name, s := range map[string]*arm.ContainerState{"current_state": v.current, "previous_state": v.previous} {
		if s == nil {
			continue
		}
		add(name, deref(s.State))
		add(name+".detail_status", deref(s.DetailStatus))
		if s.ExitCode != nil {
			m[name+".exit_code"] = itoa(int64(*s.ExitCode))
		}
	}
	m["restart_count"] = itoa(int64(v.restarts))
	for i, e := range v.events {
		if e != nil {
			add(fmt.Sprintf("event.%d", i), oneLine(deref(e.Type)+" "+deref(e.Name)+": "+deref(e.Message)))
		}
	}
	return m
}
