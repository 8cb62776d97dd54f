package aci

import (
	"context"
	"fmt"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/sdk"
)

const opCancel = "cancel job"

// A group that is only just coming up can't be stopped yet.
const (
	stopFirst = 20 * time.Millisecond
	stopLast  = time.Second
	stopMost  = 15 * time.Second
)

// CancelJob implements sdk.JobCanceler. It keeps the log, of which a stopped group
// shows little or nothing, stops the group, and reads it back. The group stays,
// stopped, until it is cleaned up.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CancelJobResult{}, p.fail(sdk.CodeOf(err), opCancel, err)
	}
	h := r.Handle
	if err := p.checkHandle(opCancel, h); err != nil {
		return sdk.CancelJobResult{}, err
	}
	wait, until := stopFirst, time.Now().Add(stopMost)
	for {
		g, err := p.getGroup(ctx, opCancel, h.ID)
		var busy error
		switch {
		case absent(err) && !p.young(h):
			return sdk.CancelJobResult{Gone: true, Evidence: "Azure knows no such container group"}, nil
		case absent(err):
			busy = p.fail(sdk.Unavailable, opCancel, fmt.Errorf("the container group %s isn't shown yet", h.ID))
		case err != nil:
			return sdk.CancelJobResult{}, err
		default:
			p.show(h.ID)
			v := viewOf(g)
			if judge(v).state.Terminal() {
				return sdk.CancelJobResult{Gone: true, Evidence: evidenceOf(v)}, nil
			}
			if v.launches() > 0 {
				p.keepLog(ctx, h)
			}
			if busy = p.stop(ctx, h.ID); busy == nil {
				return p.stopped(ctx, h)
			}
			switch code, _ := azure.CodeText(busy); {
			case code != codeTransitioning && !absent(busy):
				return sdk.CancelJobResult{}, busy
			case v.killed():
				// An earlier stop is at it.
				return sdk.CancelJobResult{Accepted: true, Evidence: evidenceOf(v)}, nil
			}
		}
		if time.Now().After(until) {
			e := p.fail(sdk.Unavailable, opCancel, fmt.Errorf("the container group %s can't be stopped yet: %w", h.ID, busy))
			e.Retryable = true
			return sdk.CancelJobResult{}, e
		}
		if err := sdk.SystemClock().Sleep(ctx, wait); err != nil {
			return sdk.CancelJobResult{}, p.fail(sdk.CodeOf(err), opCancel, err)
		}
		wait = min(2*wait, stopLast)
	}
}

// stop makes the call that ends a group. It does nothing to one that has ended.
// https://learn.microsoft.com/en-us/rest/api/container-instances/container-groups/stop
func (p *provider) stop(ctx context.Context, id string) error {
	_, err := call(ctx, p, p.writes, opCancel, func(ctx context.Context) (struct{}, error) {
		_, err := p.groups.Stop(ctx, p.cfg.ResourceGroup, id, nil)
		return struct{}{}, err
	})
	return err
}

// stopped reads back what a stop came to.
func (p *provider) stopped(ctx context.Context, h sdk.JobHandle) (sdk.CancelJobResult, error) {
	g, err := p.getGroup(ctx, opCancel, h.ID)
	switch {
	case absent(err):
		return sdk.CancelJobResult{Accepted: true, Gone: true, Evidence: "Azure knows no such container group"}, nil
	case err != nil:
		return sdk.CancelJobResult{Accepted: true, Evidence: "Azure took the stop"}, nil
	}
	v := viewOf(g)
	d := judge(v)
	// What ended by itself before the stop is no cancel's doing.
	accepted := !d.state.Terminal() || d.state == sdk.StateCancelled || v.killed()
	return sdk.CancelJobResult{Accepted: accepted, Gone: d.state.Terminal(), Evidence: "Azure took the stop; read back: " + evidenceOf(v)}, nil
}

// keepLog keeps the log of a container that is about to be stopped.
func (p *provider) keepLog(ctx context.Context, h sdk.JobHandle) {
	text, err := p.fetch(ctx, h, 0)
	if err == nil && text != "" {
		err = p.spool.keep(h.ID, text)
	}
	if err != nil {
		p.log.Warn("the log of a container that is being stopped can't be kept", "provider", p.name, "group", h.ID, "err", err)
	}
}

func evidenceOf(v view) string {
	s := "group state " + v.group + ", provisioning state " + v.provisioning
	if v.current != nil {
		s += ", container state " + deref(v.current.State)
	}
	return s
}
