package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opCancel   = "cancel job"
	signalKill = "SIGKILL"
	signalTerm = "SIGTERM"
	notRunning = "is not running"
	// onlyRunning is what Podman says of the same.
	onlyRunning  = "can only kill running containers"
	alreadyGoing = "already in progress"
)

// CancelJob implements sdk.JobCanceler. With a grace it is the engine that
// waits and kills: its stop call stays open in the background, and the engine
// carries it through also when this process is gone. A grace of zero kills at
// once, also while the engine waits. The signal that asks is the image's
// STOPSIGNAL, else TERM.
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
	switch {
	case st.startable():
		err := p.removeContainer(ctx, opCancel, c.ID, false)
		if err == nil || errors.Is(err, sdk.NotFound) {
			return sdk.CancelJobResult{Accepted: true, Gone: true, Evidence: "the container was never started and is removed"}, nil
		}
		if !errors.Is(err, sdk.FailedPrecondition) {
			return sdk.CancelJobResult{}, err
		}
		// It was started in between.
	case !st.running:
		return sdk.CancelJobResult{Gone: true, Evidence: "the container is " + string(st.status)}, nil
	}
	if st.paused {
		// The engine stops no paused container.
		if err := p.unpause(ctx, c.ID); err != nil && !errors.Is(err, sdk.Aborted) {
			return sdk.CancelJobResult{}, err
		}
	}
	// The mark comes first: nobody must see the end before it.
	if err := p.mark(ctx, containerLabels(c)); err != nil {
		if ctx.Err() != nil {
			return sdk.CancelJobResult{}, err
		}
		p.log.Warn("cancel not marked on the engine", "container", c.ID, "err", err)
	}
	info, err := p.engineInfo(ctx, opCancel) // without an answer it is taken for Docker
	return p.end(ctx, c, r.Grace, err == nil && isPodman(info))
}

// end kills or stops a container that ran a moment ago.
func (p *provider) end(ctx context.Context, c container.InspectResponse, grace *time.Duration, podman bool) (sdk.CancelJobResult, error) {
	var delivered string
	var err error
	switch {
	case grace != nil && *grace == 0:
		delivered, err = signalKill, p.signal(ctx, c.ID, signalKill)
	case podman:
		delivered, err = p.askThenKill(ctx, c, grace)
	default:
		delivered, err = p.stopSoon(ctx, c.ID, grace)
	}
	switch {
	case errors.Is(err, sdk.NotFound):
		return sdk.CancelJobResult{Gone: true, Evidence: "no such container"}, nil
	case err != nil && !strings.Contains(err.Error(), notRunning) && !strings.Contains(err.Error(), onlyRunning):
		return sdk.CancelJobResult{}, err
	}
	gone := false
	var st containerState
	now, look := p.inspect(ctx, opCancel, c.ID)
	switch {
	case errors.Is(look, sdk.NotFound):
		gone = true
	case look != nil:
		return sdk.CancelJobResult{}, look
	default:
		st = readState(now)
		gone = !st.running
	}
	if err != nil || delivered == "" {
		if !gone {
			e := p.fail(sdk.Unavailable, opCancel, errors.New("the engine sent no signal, and the container runs"))
			e.Retryable = true
			return sdk.CancelJobResult{}, e
		}
		// It ended before the signal: by that of another cancel, whose mark stays,
		// or by itself.
		if !st.finished.IsZero() {
			told, err := p.events(ctx, opCancel, c.ID, st, events.ActionKill)
			if err != nil {
				return sdk.CancelJobResult{}, err
			}
			if sent := signalsOf(told); len(sent) > 0 {
				return sdk.CancelJobResult{Accepted: true, Gone: true, Evidence: "the engine sent signal " + sent[0] + " for another cancel"}, nil
			}
		}
		if attempt, err := sdk.ParseID(containerLabels(c)[sdk.LabelAttempt]); err == nil {
			if _, err := p.unmark(ctx, opCancel, attempt); err != nil {
				return sdk.CancelJobResult{}, err
			}
		}
		return sdk.CancelJobResult{Gone: true, Evidence: "the container ended by itself"}, nil
	}
	return sdk.CancelJobResult{Accepted: true, Gone: gone, Evidence: "the engine sent " + delivered}, nil
}

// stopSoon has the engine stop a container and returns when the engine has sent
// the first signal, whose name it returns; nothing when there was none to send.
func (p *provider) stopSoon(ctx context.Context, id string, grace *time.Duration) (delivered string, err error) {
	var stream client.EventsResult
	release, err := p.client.Stream(ctx, opCancel, func(ctx context.Context, api *client.Client) error {
		stream = api.Events(ctx, client.EventsListOptions{Filters: make(client.Filters).
			Add("type", string(events.ContainerEventType)).Add("container", id).Add("event", string(events.ActionKill))})
		select {
		case err := <-stream.Err:
			return err
		default:
			return nil
		}
	})
	if err != nil {
		return "", err
	}
	defer release()
	var seconds *int
	if grace != nil {
		s := int((*grace + time.Second - 1) / time.Second)
		seconds = &s
	}
	done := make(chan error, 1)
	ok := p.background.run(func(ctx context.Context) {
		done <- p.client.Long(ctx, opCancel, func(ctx context.Context, api *client.Client) error {
			_, err := api.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: seconds})
			return err
		})
	})
	if !ok {
		return "", p.fail(sdk.Unavailable, opCancel, errors.New("the provider is closed"))
	}
	timer := time.NewTimer(p.client.Timeout())
	defer timer.Stop()
	for broken := stream.Err; ; {
		select {
		case m := <-stream.Messages:
			return "signal " + m.Actor.Attributes["signal"], nil
		case err := <-broken:
			p.log.Debug("events of a cancel broke off", "container", id, "err", err)
			broken = nil // only the stop call itself can tell now
		case err := <-done:
			// An event that came just before may still be on its way.
			select {
			case m := <-stream.Messages:
				return "signal " + m.Actor.Attributes["signal"], err
			case <-time.After(eventLag):
				return "", err
			}
		case <-ctx.Done():
			return "", p.fail(sdk.CodeOf(ctx.Err()), opCancel, ctx.Err())
		case <-timer.C:
			e := p.fail(sdk.DeadlineExceeded, opCancel, fmt.Errorf("the engine sent no signal within %s", p.client.Timeout()))
			e.Retryable = true
			return "", e
		}
	}
}

// eventLag is how long the event of a signal may lag behind the end of the call
// that sent it.
const eventLag = 200 * time.Millisecond

// askThenKill is stopSoon for Podman, whose events tell of no signal that a stop sends:
// that a signal was taken is the proof there. It is this process that waits and kills;
// where it ends before, the next cancel asks anew.
func (p *provider) askThenKill(ctx context.Context, c container.InspectResponse, grace *time.Duration) (delivered string, err error) {
	ask, wait := signalTerm, defaultGrace
	if c.Config != nil && c.Config.StopSignal != "" {
		ask = c.Config.StopSignal
	}
	if grace != nil {
		wait = *grace
	}
	if err := p.signal(ctx, c.ID, ask); err != nil {
		return "", err
	}
	if !p.background.run(func(ctx context.Context) {
		if p.clock.Sleep(ctx, wait) == nil {
			if err := p.signal(ctx, c.ID, signalKill); err != nil {
				p.log.Debug("not killed behind its grace", "container", c.ID, "err", err)
			}
		}
	}) {
		return "", p.fail(sdk.Unavailable, opCancel, errors.New("the provider is closed"))
	}
	return "signal " + ask, nil
}

// signal has the engine send a signal to a container's process.
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
		// Podman says that it still runs with the status 500.
		if err == nil || !errors.Is(err, sdk.Aborted) && !stillActive(err) {
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
		if strings.Contains(m, "remove a "+w+" container") || strings.Contains(m, "container is "+w) || strings.Contains(m, "as it is "+w) {
			return true
		}
	}
	return false
}
