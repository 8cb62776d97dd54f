package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opCancel     = "cancel job"
	signalTerm   = "SIGTERM"
	signalKill   = "SIGKILL"
	notRunning   = "is not running"
	isPaused     = "is paused"
	alreadyGoing = "already in progress"
)

// CancelJob implements sdk.JobCanceler. It sends one signal: the image's
// STOPSIGNAL or TERM where there is a grace, KILL where it is zero. It doesn't
// leave the escalation to the engine's own stop call, which would have to stay
// open for the whole grace: a caller that wants the kill calls again with a
// grace of zero.
//
// A container that was never started is removed, so that nothing starts it.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	if err := r.Handle.Check(opCancel, p.identity); err != nil {
		return sdk.CancelJobResult{}, err
	}
	c, err := p.inspect(ctx, opCancel, r.Handle.ID)
	if errors.Is(err, sdk.NotFound) {
		if err := p.absent(ctx, opCancel, r.Handle.Metadata[keyEngine], nil); err != nil {
			return sdk.CancelJobResult{}, err
		}
		return sdk.CancelJobResult{Gone: true, Evidence: "no such container"}, nil
	}
	if err != nil {
		return sdk.CancelJobResult{}, err
	}
	st := readState(c)
	if st.startable() {
		switch err := p.removeContainer(ctx, opCancel, c.ID, false); {
		case err == nil, errors.Is(err, sdk.NotFound):
			return sdk.CancelJobResult{Accepted: true, Gone: true, Evidence: "the container was never started and is removed"}, nil
		case !errors.Is(err, sdk.FailedPrecondition):
			return sdk.CancelJobResult{}, err
		}
		// It was started in between.
	} else if !st.running {
		return sdk.CancelJobResult{Gone: true, Evidence: "the container is " + string(st.status)}, nil
	}
	kill := r.Grace != nil && *r.Grace == 0
	signal := signalKill
	if !kill {
		signal = stopSignal(c)
	}
	err = p.signal(ctx, c.ID, signal)
	if err != nil && strings.Contains(err.Error(), isPaused) {
		if err := p.unpause(ctx, c.ID); err != nil {
			return sdk.CancelJobResult{}, err
		}
		err = p.signal(ctx, c.ID, signal)
	}
	switch {
	case errors.Is(err, sdk.NotFound):
		return sdk.CancelJobResult{Gone: true, Evidence: "no such container"}, nil
	case err != nil && strings.Contains(err.Error(), notRunning):
		return sdk.CancelJobResult{Gone: true, Evidence: "the container is not running"}, nil
	case err != nil:
		return sdk.CancelJobResult{}, err
	}
	res := sdk.CancelJobResult{Accepted: true, Evidence: "sent " + signal}
	if kill {
		// The engine answers a KILL when the container is down.
		if c, err := p.inspect(ctx, opCancel, c.ID); errors.Is(err, sdk.NotFound) || err == nil && !readState(c).running {
			res.Gone = true
		}
	}
	return res, nil
}

func stopSignal(c container.InspectResponse) string {
	if c.Config != nil && c.Config.StopSignal != "" {
		return c.Config.StopSignal
	}
	return signalTerm
}

func (p *provider) signal(ctx context.Context, id, signal string) error {
	return p.client.Call(ctx, opCancel, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: signal})
		return err
	})
}

func (p *provider) unpause(ctx context.Context, id string) error {
	return p.client.Call(ctx, opCancel, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		return err
	})
}

// removeContainer removes a container with its anonymous volumes, and waits for
// a removal that goes on already. One that runs is FailedPrecondition unless
// force is set.
func (p *provider) removeContainer(ctx context.Context, op, id string, force bool) error {
	wait, deadline := rollbackFirst, p.clock.Now().Add(p.client.Timeout())
	for {
		err := p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
			_, err := api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{RemoveVolumes: true, Force: force})
			return err
		})
		if err == nil || !errors.Is(err, sdk.Aborted) {
			return err
		}
		switch {
		case strings.Contains(err.Error(), alreadyGoing) && p.clock.Now().Before(deadline):
			if err := p.clock.Sleep(ctx, wait); err != nil {
				return p.fail(sdk.CodeOf(err), op, err)
			}
			wait = min(2*wait, rollbackMost)
		case stillActive(err):
			e := p.fail(sdk.FailedPrecondition, op, fmt.Errorf("the job still runs: %w", unwrapSDK(err)))
			e.Remedy = "cancel it first"
			return e
		default:
			return err
		}
	}
}

// stillActive reads the engine's refusal to remove what runs, in the words of
// its several versions.
func stillActive(err error) bool {
	m := strings.ToLower(err.Error())
	for _, w := range []string{"running", "paused", "restarting"} {
		if strings.Contains(m, "remove a "+w+" container") || strings.Contains(m, "container is "+w) {
			return true
		}
	}
	return false
}
