package compose

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

// The labels that Compose gives its containers.
// https://github.com/docker/compose/blob/main/pkg/api/labels.go
const (
	labelProject = "com.docker.compose.project"
	labelService = "com.docker.compose.service"
	labelNumber  = "com.docker.compose.container-number"
	labelOneOff  = "com.docker.compose.oneoff"
	labelHash    = "com.docker.compose.config-hash"
)

// instance is a container of a service.
type instance struct {
	id, name, service string
	number            int
	hash              string
	image             string
	state             container.ContainerState
	health            container.HealthStatus
	// policy says whether the engine starts it again by itself.
	policy            container.RestartPolicyMode
	restarts, code    int
	oom               bool
	started, finished time.Time
	// up is how long it has run, by the engine's clock, where that was asked for.
	// last is the code with which it ended before; nil is not known.
	up   time.Duration
	last *int
	// problem is the engine's word on why it didn't start, or isn't healthy.
	problem string
	tty     bool
}

// live: it runs, or the engine is to make it run.
func (c instance) live() bool {
	switch c.state {
	case container.StateRunning, container.StateRestarting, container.StatePaused:
		return true
	}
	return false
}

func (c instance) running() bool { return c.state == container.StateRunning }

// ready: it serves. Where nothing checks its health, running is enough, but not
// soon after an end that the engine had to mend.
func (c instance) ready() bool {
	return c.running() && (c.unchecked() || c.health == container.Healthy) && !c.shaky()
}

// unchecked: no health check tells whether it serves.
func (c instance) unchecked() bool { return c.health == "" || c.health == container.NoHealthcheck }

const (
	// steady is how long a container must be up to count as started by the engine's
	// own rule, after which its next restart waits no longer than the first.
	// https://docs.docker.com/engine/containers/start-containers-automatically/#restart-policy-details
	steady = 10 * time.Second
	// loops is how many restarts by the engine make a crash loop of one that hasn't
	// been up for so long since.
	loops = 3
)

// shaky: the engine started it again by itself, and it may end again any moment.
func (c instance) shaky() bool {
	if c.running() {
		return c.restarts > 0 && c.up < steady && c.health != container.Healthy
	}
	return c.state == container.StateRestarting
}

// looping: it is in a crash loop.
func (c instance) looping() bool { return c.shaky() && c.restarts >= loops }

// The codes of a process that TERM or KILL ended.
const (
	termedCode = 143
	killedCode = 137
)

// failed: it ended by itself, and not well. Of one with a restart policy the
// engine lets only those rest that were stopped.
func (c instance) failed() bool {
	if c.state != container.StateExited && c.state != container.StateDead {
		return c.state == container.StateCreated && c.problem != ""
	}
	switch c.policy {
	case container.RestartPolicyAlways, container.RestartPolicyUnlessStopped:
		return false
	}
	return c.oom || c.code != 0 && c.code != termedCode && c.code != killedCode || c.problem != ""
}

// list returns the containers of one service, or of all where it is empty. They
// are looked at one by one, but for a listing (brief), where it is enough to look
// at those that don't run, or haven't for long.
func (p *provider) list(ctx context.Context, op, name string, brief bool) ([]instance, error) {
	filters := make(client.Filters).Add("label", labelProject+"="+p.cfg.Project, labelOneOff+"=False")
	if name != "" {
		filters.Add("label", labelService+"="+name)
	}
	var found []container.Summary
	err := p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
		found = res.Items
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]instance, len(found))
	errs := make([]error, len(found))
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, s := range found {
		out[i] = summed(s)
		if brief && out[i].live() && !young(s) {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = p.inspect(ctx, op, &out[i])
		})
	}
	wg.Wait()
	kept := out[:0]
	for i, c := range out {
		switch {
		case errs[i] == nil:
			kept = append(kept, c)
		case sdk.CodeOf(errs[i]) != sdk.NotFound: // gone meanwhile
			return nil, errs[i]
		}
	}
	if err := p.since(ctx, op, kept); err != nil {
		return nil, err
	}
	slices.SortFunc(kept, func(a, b instance) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name))
	})
	return kept, nil
}

// atOnce bounds the looks at containers that are under way.
const atOnce = 8

// summed reads what a listing tells.
func summed(s container.Summary) instance {
	c := instance{id: s.ID, service: s.Labels[labelService], hash: s.Labels[labelHash], image: s.Image, state: s.State}
	c.number, _ = strconv.Atoi(s.Labels[labelNumber])
	if len(s.Names) > 0 {
		c.name = strings.TrimPrefix(s.Names[0], "/")
	}
	// Engines before API 1.52 tell the health in words alone.
	switch {
	case s.Health != nil:
		c.health = s.Health.Status
	case strings.HasSuffix(s.Status, "(healthy)"):
		c.health = container.Healthy
	case strings.HasSuffix(s.Status, "(unhealthy)"):
		c.health = container.Unhealthy
	case strings.HasSuffix(s.Status, "(health: starting)"):
		c.health = container.Starting
	}
	return c
}

// young reports whether a container was started within the last minute, in the
// engine's words ("Up 4 seconds"), or is about to be.
func young(s container.Summary) bool {
	return s.State == container.StateRestarting || strings.Contains(s.Status, "second")
}

// inspect adds what a look at the container itself tells.
func (p *provider) inspect(ctx context.Context, op string, c *instance) error {
	return p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
		if err != nil {
			return err
		}
		c.read(res.Container)
		return nil
	})
}

func (c *instance) read(x container.InspectResponse) {
	c.name, c.restarts = strings.TrimPrefix(x.Name, "/"), x.RestartCount
	if x.Config != nil {
		c.image, c.tty = x.Config.Image, x.Config.Tty
	}
	if x.HostConfig != nil {
		c.policy = x.HostConfig.RestartPolicy.Name
	}
	st := x.State
	if st == nil {
		return
	}
	c.state, c.code, c.oom, c.problem = st.Status, st.ExitCode, st.OOMKilled, st.Error
	c.started, c.finished = stamp(st.StartedAt), stamp(st.FinishedAt)
	if h := st.Health; h != nil {
		c.health = h.Status
		if n := len(h.Log); n > 0 && h.Status == container.Unhealthy && c.problem == "" {
			c.problem = h.Log[n-1].Output
		}
	}
}

// stamp reads a time of the engine's, which writes the year 1 for none.
func stamp(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}
