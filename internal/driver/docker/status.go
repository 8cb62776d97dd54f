package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opStatus = "read job status"
	// fewJobs are asked for one by one: a list tells less.
	fewJobs = 2
)

// JobStatus implements sdk.JobRunner.
func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	if err := r.Handle.Check(opStatus, p.identity); err != nil {
		return sdk.JobStatusResult{}, err
	}
	return p.status(ctx, r.Handle)
}

func (p *provider) status(ctx context.Context, h sdk.JobHandle) (sdk.JobStatusResult, error) {
	c, err := p.inspect(ctx, opStatus, h.ID)
	if errors.Is(err, sdk.NotFound) {
		return sdk.JobStatusResult{}, p.absent(ctx, opStatus, h.Metadata[keyEngine], err)
	}
	if err != nil {
		return sdk.JobStatusResult{}, err
	}
	st := readState(c)
	if st.running {
		p.started.keep(h.ID, st)
	} else {
		p.started.forget(h.ID)
	}
	res := st.result()
	if !st.ended || !st.ran {
		return res, nil
	}
	cancelled, err := p.marked(ctx, opStatus, containerLabels(c))
	if err != nil {
		return sdk.JobStatusResult{}, err
	}
	p.explainOutage(st, &res)
	if st.code == killedCode && !st.oom {
		p.explainKill(ctx, c.ID, st, &res)
	}
	p.explainInput(c, &res)
	if cancelled {
		res.State, res.Reason = sdk.StateCancelled, sdk.ReasonCancelled
		if st.code == 0 {
			res.ExitCode = nil // it ended, and did not complete
		}
	}
	return res, nil
}

// explainKill looks in the engine's events for what its state of a killed
// container lacks: the kernel's notice of a kill for memory, which may arrive behind
// the end, and a KILL that the engine sent, which nothing can catch, so that together
// with the code it is proof. The engine remembers only so many events; without one
// the code stands alone.
func (p *provider) explainKill(ctx context.Context, id string, st containerState, res *sdk.JobStatusResult) {
	if st.finished.IsZero() {
		return
	}
	told, err := p.events(ctx, opStatus, id, st, events.ActionKill, events.ActionOOM)
	if err != nil {
		p.log.Debug("events of a killed container not read", "container", id, "err", err)
		return
	}
	if res.Reason == sdk.ReasonNonzeroExit && slices.ContainsFunc(told, func(m events.Message) bool { return m.Action == events.ActionOOM }) {
		st.oom = true
		res.OOMObserved, res.Raw[rawOOM] = true, "true"
		st.afterRun(res)
		return
	}
	if !slices.Contains(signalsOf(told), killNumber) {
		return
	}
	res.Signal = signalKill
	if res.Reason == sdk.ReasonNonzeroExit {
		res.Reason = sdk.ReasonSignaled
	}
}

// killNumber is SIGKILL as the engine's events have it.
const killNumber = "9"

// signalsOf are the numbers of those that the engine sent.
func signalsOf(told []events.Message) []string {
	var sent []string
	for _, m := range told {
		if m.Action == events.ActionKill {
			sent = append(sent, m.Actor.Attributes["signal"])
		}
	}
	return sent
}

// events lists what the engine tells of a container that has ended, as far as it
// remembers.
func (p *provider) events(ctx context.Context, op, id string, st containerState, of ...events.Action) ([]events.Message, error) {
	filters := make(client.Filters).Add("container", id)
	for _, a := range of {
		filters = filters.Add("event", string(a))
	}
	var told []events.Message
	err := p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream := api.Events(ctx, client.EventsListOptions{
			Since: engineStamp(st.started), Until: engineStamp(st.finished.Add(time.Second)), Filters: filters,
		})
		for {
			select {
			case m := <-stream.Messages:
				told = append(told, m)
			case err := <-stream.Err:
				return endOfStream(err)
			}
		}
	})
	return told, err
}

// explainOutage says so when a container ended while the engine was away: an
// engine that stops, or starts again, ends its containers by TERM and KILL and
// leaves no trace of it in their state.
func (p *provider) explainOutage(st containerState, res *sdk.JobStatusResult) {
	if res.Reason != sdk.ReasonNonzeroExit || st.code != killedCode && st.code != termedCode {
		return
	}
	o, ok := p.client.OutageAt(st.finished)
	if !ok {
		return
	}
	res.Reason = sdk.ReasonInfrastructure
	res.Message = fmt.Sprintf("it ended while the engine was away, between %s and %s", o.From.UTC().Format(time.RFC3339), o.To.UTC().Format(time.RFC3339))
}

// explainInput says so when a job that was promised its whole input may have
// seen a part of it. Its own code doesn't count then: it may have taken the part
// for the whole.
func (p *provider) explainInput(c container.InspectResponse, res *sdk.JobStatusResult) {
	attempt, err := sdk.ParseID(containerLabels(c)[sdk.LabelAttempt])
	if err != nil || !p.cutOff(attempt) {
		return
	}
	res.State, res.Reason = sdk.StateFailed, sdk.ReasonInfrastructure
	res.Message = "its input was cut off: the process that fed it was gone before all was delivered"
}

// engineStamp writes a time as the engine reads it: seconds and nanoseconds.
func engineStamp(t time.Time) string {
	return strconv.FormatInt(t.Unix(), 10) + fmt.Sprintf(".%09d", t.Nanosecond())
}

// JobStatuses implements sdk.JobBatcher: one list tells of all that run, and
// only those that don't are looked at one by one.
func (p *provider) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	if len(r.Handles) > batchMax {
		return sdk.JobStatusesResult{}, p.fail(sdk.InvalidArgument, opStatus, fmt.Errorf("%d handles, at most %d", len(r.Handles), batchMax))
	}
	items := make([]sdk.JobStatusItem, len(r.Handles))
	running := map[string]container.ContainerState{}
	if len(r.Handles) > fewJobs {
		filters := make(client.Filters)
		for _, h := range r.Handles {
			filters.Add("id", h.ID)
		}
		err := p.client.Call(ctx, opStatus, func(ctx context.Context, api *client.Client) error {
			res, err := api.ContainerList(ctx, client.ContainerListOptions{Filters: filters})
			for _, c := range res.Items {
				running[c.ID] = c.State
			}
			return err
		})
		if err != nil {
			return sdk.JobStatusesResult{}, err
		}
	}
	for i, h := range r.Handles {
		if err := h.Check(opStatus, p.identity); err != nil {
			items[i].Err = err
			continue
		}
		if st, ok := p.started.get(h.ID); ok && running[h.ID] == container.StateRunning {
			items[i].Result = st.result()
			continue
		}
		items[i].Result, items[i].Err = p.status(ctx, h)
		if ctx.Err() != nil {
			return sdk.JobStatusesResult{}, items[i].Err
		}
	}
	if lost := firstUnreached(items); lost != nil {
		return sdk.JobStatusesResult{}, lost
	}
	return sdk.JobStatusesResult{Items: items}, nil
}

// firstUnreached returns the error when no item was answered at all.
func firstUnreached(items []sdk.JobStatusItem) error {
	if len(items) == 0 || slices.ContainsFunc(items, func(i sdk.JobStatusItem) bool {
		return i.Err == nil || sdk.CodeOf(i.Err) != sdk.Unavailable && sdk.CodeOf(i.Err) != sdk.DeadlineExceeded
	}) {
		return nil
	}
	return items[0].Err
}

// startTimes remembers what a look at a running container gave, which a list
// doesn't tell and which doesn't change while it runs.
type startTimes struct {
	mu sync.Mutex
	of map[string]containerState
}

func (s *startTimes) keep(id string, st containerState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]containerState{}
	}
	st.oom, st.paused = false, false
	s.of[id] = st
}

func (s *startTimes) get(id string) (containerState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, ok := s.of[id]
	return st, ok
}

func (s *startTimes) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, id)
}
