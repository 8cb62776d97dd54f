package docker

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

// The keys of JobStatusResult.Raw, besides the engine's own.
const (
	rawStatus = "status"
	rawCode   = "exit_code"
	rawError  = "error"
	rawOOM    = "oom_killed"
)

func (p *provider) inspect(ctx context.Context, op, id string) (container.InspectResponse, error) {
	var c container.InspectResponse
	err := p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		c = res.Container
		return err
	})
	return c, err
}

// Podman's own words: a process has ended and isn't tidied up yet, or somebody waits for
// its end. https://github.com/containers/podman/blob/v4.3.1/libpod/define/containerstate.go
const (
	stateStopped  container.ContainerState = "stopped"
	stateStopping container.ContainerState = "stopping"
)

// containerState is what the engine's record proves.
type containerState struct {
	status container.ContainerState
	// ran: a process of the container was started at some time.
	ran bool
	// running: one may run now. ended: none does and none will, for all that
	// is ours to do.
	running, ended    bool
	started, finished time.Time
	created           time.Time
	code              int
	oom               bool
	message           string
	restarts          int
	paused, removing  bool
}

// readState reads an inspect answer.
func readState(c container.InspectResponse) containerState {
	s := c.State
	if s == nil {
		return containerState{}
	}
	st := containerState{
		status: s.Status, code: s.ExitCode, oom: s.OOMKilled, message: s.Error, restarts: c.RestartCount,
		started: engineTime(s.StartedAt), finished: engineTime(s.FinishedAt), created: engineTime(c.Created),
		paused: s.Paused, removing: s.Status == container.StateRemoving,
	}
	st.ran = !st.started.IsZero()
	switch s.Status {
	case container.StateRunning, container.StatePaused, container.StateRestarting, stateStopping:
		st.running = true
	case container.StateExited, container.StateDead, stateStopped:
		st.ended = true
	case container.StateRemoving:
		st.ended = true
	default:
		// created: a start that failed leaves its words and can't be had again.
		st.ended = !st.ran && st.message != ""
	}
	return st
}

// startable reports whether the container was created and nothing came of it yet.
func (s containerState) startable() bool {
	return s.status == container.StateCreated && !s.ran && s.message == ""
}

func engineTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t.UTC()
}

// result turns the engine's record into a state with its evidence.
func (s containerState) result() sdk.JobStatusResult {
	r := sdk.JobStatusResult{
		CreatedAt: s.created, StartedAt: s.started, OOMObserved: s.oom,
		Raw: map[string]string{rawStatus: string(s.status)},
	}
	if s.ran {
		r.Launches = 1 + s.restarts
	}
	if s.message != "" {
		r.Raw[rawError] = s.message
	}
	if s.oom {
		r.Raw[rawOOM] = "true"
	}
	switch {
	case s.running:
		r.State = sdk.StateRunning
		if s.paused {
			r.Message = "the container is paused"
		}
		return r
	case !s.ended:
		r.State = sdk.StatePending
		r.Message = "the container is created and not started"
		return r
	}
	r.EndedAt = s.finished
	r.Raw[rawCode] = strconv.Itoa(s.code)
	if !s.ran {
		s.neverRan(&r)
		return r
	}
	s.afterRun(&r)
	return r
}

// afterRun is for a container whose process ran and ended. The engine gives the
// code of the process; a code of 128+n is no proof of a signal.
func (s containerState) afterRun(r *sdk.JobStatusResult) {
	if lost, why := s.lostByEngine(); lost {
		r.State, r.Reason, r.Message = sdk.StateFailed, sdk.ReasonInfrastructure, why
		return
	}
	code := s.code
	r.ExitCode = &code
	switch {
	case code == 0:
		r.State, r.Reason = sdk.StateSucceeded, sdk.ReasonCompleted
	case s.oom && code == killedCode:
		r.State, r.Reason = sdk.StateFailed, sdk.ReasonOOMKilled
		r.Message = "killed for exceeding its memory"
	default:
		r.State, r.Reason = sdk.StateFailed, sdk.ReasonNonzeroExit
	}
}

// The codes of a process that KILL or TERM ended, and of one that chose them.
const (
	killedCode = 137
	termedCode = 143
)

// lostByEngine recognises the code that the engine writes when it lost sight of
// the process: then the process's own code is not known.
func (s containerState) lostByEngine() (bool, string) {
	if s.message != "" && s.code == 255 {
		return true, "the engine lost the container: " + s.message
	}
	return false, ""
}

// neverRan says why a container could not be started.
func (s containerState) neverRan(r *sdk.JobStatusResult) {
	r.State, r.Message = sdk.StateFailed, s.message
	r.Reason = startReason(s.code, s.message)
	switch {
	case s.code == 127:
		r.Raw[sdk.RawExec] = sdk.ExecNotFound
	case s.code == 126:
		r.Raw[sdk.RawExec] = sdk.ExecNotExecutable
	}
	if r.Message == "" {
		r.Message = "the container never ran"
	}
}

// startReason reads the engine's words for a start that failed. The codes 126
// and 127 are the engine's own for a command that isn't there or can't be run.
func startReason(code int, message string) sdk.Reason {
	m := strings.ToLower(message)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(m, w) {
				return true
			}
		}
		return false
	}
	switch {
	case code == 126 || code == 127:
		return sdk.ReasonInvalidSpec
	case has("no space left", "input/output error", "cannot allocate memory", "failed to create endpoint", "iptables", "failed to set up container networking: failed", "context deadline exceeded", "containerd", "no available ipv4", "address already in use", "transport is closing"):
		return sdk.ReasonInfrastructure
	case has("unable to find user", "unable to find group", "no matching entries", "not found", "no such container", "could not select device driver", "invalid mount", "bind source path", "not a directory", "no command specified", "cannot join network", "invalid argument", "unknown capability", "bad request"):
		return sdk.ReasonInvalidSpec
	}
	return sdk.ReasonFailedToStart
}

func containerLabels(c container.InspectResponse) map[string]string {
	if c.Config == nil {
		return nil
	}
	return c.Config.Labels
}
