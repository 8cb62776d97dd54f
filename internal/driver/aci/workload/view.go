package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/sdk"
)

// The states that matter. Words are compared without case.
// https://learn.microsoft.com/en-us/azure/container-instances/container-state
const (
	stateRunning    = "Running"
	stateTerminated = "Terminated"
	stateStopped    = "Stopped"
	stateSucceeded  = "Succeeded"
	stateFailed     = "Failed"

	eventKilling = "Killing"
	eventFailed  = "Failed"

	detailOOM       = "OOMKilled"
	detailCompleted = "Completed"
)

func is(s, word string) bool { return strings.EqualFold(s, word) }

// view is what a group shows.
type view struct {
	g                   *arm.ContainerGroup
	group, provisioning string
	containers          []*arm.Container
}

func viewOf(g *arm.ContainerGroup) view {
	v := view{g: g, provisioning: deref(g.Properties.ProvisioningState), containers: containersOf(g)}
	if i := g.Properties.InstanceView; i != nil {
		v.group = deref(i.State)
	}
	return v
}

// deploying reports whether Azure is at bringing the group up.
// https://learn.microsoft.com/en-us/azure/container-instances/container-state#create-start-and-restart-operations
func (v view) deploying() bool {
	return slices.ContainsFunc([]string{"Pending", "Creating", "Repairing"}, func(s string) bool { return is(v.provisioning, s) })
}

func (v view) stopped() bool { return is(v.group, stateStopped) }

// ended reports whether the group has come to an end by itself.
func (v view) ended() bool {
	return !v.deploying() && (is(v.group, stateSucceeded) || is(v.group, stateFailed))
}

// current is a container's state, nil where none is shown.
func current(c *arm.Container) *arm.ContainerState {
	if c.Properties.InstanceView == nil {
		return nil
	}
	return c.Properties.InstanceView.CurrentState
}

func in(c *arm.Container, state string) bool {
	s := current(c)
	return s != nil && is(deref(s.State), state)
}

// ready is how many containers run.
func (v view) ready() int {
	n := 0
	for _, c := range v.containers {
		if in(c, stateRunning) && !v.stopped() {
			n++
		}
	}
	return n
}

// desired is how many containers are to run.
func (v view) desired() int {
	if v.stopped() || v.ended() {
		return 0
	}
	return len(v.containers)
}

// newest is the latest start of a container; zero where none is shown.
func (v view) newest() time.Time {
	var out time.Time
	for _, c := range v.containers {
		if s := current(c); s != nil && s.StartTime != nil && s.StartTime.After(out) {
			out = *s.StartTime
		}
	}
	return out
}

// allAfter reports whether every container was started after a time.
func (v view) allAfter(t time.Time) bool {
	for _, c := range v.containers {
		if s := current(c); s == nil || s.StartTime == nil || !s.StartTime.After(t) {
			return false
		}
	}
	return true
}

// kills is how often the platform says that it ended a container.
func (v view) kills() int {
	n := 0
	for _, c := range v.containers {
		if c.Properties.InstanceView == nil {
			continue
		}
		for _, e := range c.Properties.InstanceView.Events {
			if e != nil && is(deref(e.Name), eventKilling) {
				n += max(1, int(deref(e.Count)))
			}
		}
	}
	return n
}

// generationOf names what was asked for last: all of a group but what Azure fills
// in while it runs. A start, stop or restart of ours is in it by its tag; one by
// others isn't.
func generationOf(g *arm.ContainerGroup) string {
	bare := *g
	p := *g.Properties
	bare.ID, bare.Type, bare.Properties = nil, nil, &p
	p.InstanceView, p.ProvisioningState = nil, nil
	if p.IPAddress != nil {
		a := *p.IPAddress
		a.IP, a.Fqdn = nil, nil
		p.IPAddress = &a
	}
	p.Containers = nil
	for _, c := range containersOf(g) {
		own, inner := *c, *c.Properties
		inner.InstanceView, own.Properties = nil, &inner
		p.Containers = append(p.Containers, &own)
	}
	p.InitContainers = nil
	for _, c := range g.Properties.InitContainers {
		if c == nil || c.Properties == nil {
			continue
		}
		own, inner := *c, *c.Properties
		inner.InstanceView, own.Properties = nil, &inner
		p.InitContainers = append(p.InitContainers, &own)
	}
	data, err := json.Marshal(bare)
	if err != nil {
		return "" // it came out of JSON
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// status is how a group is.
func (o *Operator) status(w at, v view) sdk.DeploymentStatus {
	n, ready, desired := len(v.containers), v.ready(), v.desired()
	st := sdk.DeploymentStatus{Path: w.path(), Image: deref(v.containers[0].Properties.Image), Desired: &desired, Ready: &ready, Updated: &ready,
		Generation: generationOf(v.g), Stopped: v.stopped(), Rollout: o.rollout(v), Raw: raw(v)}
	if st.Stopped {
		st.Restores = &n
	}
	for _, c := range v.containers {
		st.Instances = append(st.Instances, o.instance(v, c))
	}
	st.Failure = o.failure(v)
	if v.g.Properties.IPAddress != nil && (st.Stopped || v.ended()) {
		st.Warnings = append(st.Warnings, newAddress)
	}
	if policy := deref(v.g.Properties.RestartPolicy); policy != "" && policy != arm.ContainerGroupRestartPolicyAlways {
		st.Warnings = append(st.Warnings, fmt.Sprintf("its restart policy is %s: Azure doesn't keep it up", policy))
	}
	return st
}

const newAddress = "Azure deploys a group that was stopped, or has ended, anew: its IP address may be another one"

// rollout is how far the last change has come, by Azure's own states.
func (o *Operator) rollout(v view) sdk.RolloutState {
	m, marked := markOf(v.g)
	switch {
	case is(v.provisioning, stateFailed), is(v.group, stateFailed) && !v.deploying():
		return sdk.RolloutFailed
	case v.deploying():
		return sdk.RolloutProgressing
	case marked && o.young(m) && !m.done(v):
		return sdk.RolloutProgressing // Azure shows what was before, or is at it
	case v.stopped(), is(v.group, stateSucceeded), v.ready() == len(v.containers):
		return sdk.RolloutComplete
	}
	return sdk.RolloutProgressing
}

// instance is how one container is.
func (o *Operator) instance(v view, c *arm.Container) sdk.InstanceStatus {
	out := sdk.InstanceStatus{Name: *c.Name, State: sdk.InstancePending}
	if i := c.Properties.InstanceView; i != nil && i.RestartCount != nil {
		n := int(*i.RestartCount)
		out.Restarts = &n
	}
	s := current(c)
	switch {
	case v.stopped(), s != nil && is(deref(s.State), stateTerminated):
		out.State = sdk.InstanceEnded
	case s != nil && is(deref(s.State), stateRunning):
		out.State, out.Ready = sdk.InstanceRunning, true
	}
	if s != nil {
		out.Started = deref(s.StartTime).UTC()
		if d := deref(s.DetailStatus); !is(d, detailCompleted) {
			out.Message = oneLine(d)
		}
	}
	if !out.Ready {
		if f := o.trouble(v, c); f != nil {
			out.Reason, out.Message = f.Reason, f.Message
		}
	}
	return out
}

// failure is the last of the group's that Azure tells of.
func (o *Operator) failure(v view) *sdk.WorkloadFailure {
	var last *sdk.WorkloadFailure
	for _, c := range v.containers {
		if f := o.trouble(v, c); f != nil && (last == nil || f.At.After(last.At)) {
			last = f
		}
	}
	if i := v.g.Properties.InstanceView; i != nil && last == nil {
		last = o.told(i.Events)
	}
	if last == nil && (is(v.provisioning, stateFailed) || is(v.group, stateFailed)) {
		last = &sdk.WorkloadFailure{Reason: sdk.ReasonUnknown, Message: "Azure gives no reason"}
	}
	return last
}

// trouble is what went wrong with a container: how it ended last, else what events
// tell.
func (o *Operator) trouble(v view, c *arm.Container) *sdk.WorkloadFailure {
	i := c.Properties.InstanceView
	if i == nil {
		return nil
	}
	var f *sdk.WorkloadFailure
	for _, s := range []*arm.ContainerState{i.PreviousState, i.CurrentState} {
		if s == nil || !is(deref(s.State), stateTerminated) {
			continue
		}
		switch {
		case ended(v, i.Events, s):
			continue
		case is(deref(s.DetailStatus), detailOOM):
			f = &sdk.WorkloadFailure{Reason: sdk.ReasonOOMKilled, Message: oneLine(deref(s.DetailStatus))}
		case deref(s.ExitCode) > 255:
			// https://learn.microsoft.com/en-us/troubleshoot/azure/azure-container-instances/management/container-group-restart-killing-event-interruption
			f = &sdk.WorkloadFailure{Reason: sdk.ReasonEvicted, Message: fmt.Sprintf("the platform ended it with its code %d", *s.ExitCode)}
		case deref(s.ExitCode) != 0:
			f = &sdk.WorkloadFailure{Reason: sdk.ReasonNonzeroExit, Message: fmt.Sprintf("it ended with exit code %d", *s.ExitCode)}
		default:
			continue
		}
		f.At = deref(s.FinishTime).UTC()
	}
	if told := o.told(i.Events); told != nil && (f == nil || told.At.After(f.At)) {
		f = told
	}
	if f != nil {
		f.Instance = *c.Name
	}
	return f
}

// killedWithin is how long before a container's end Azure may say that it ends it.
const killedWithin = 2 * time.Minute

// ended reports whether a container ended as Azure asked it to, for a stop, a restart
// or another deployment: by TERM, or by KILL after that. It is no failure.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-stop-start
func ended(v view, events []*arm.Event, s *arm.ContainerState) bool {
	if code := deref(s.ExitCode); code != 143 && code != 137 || is(deref(s.DetailStatus), detailOOM) {
		return false
	}
	if v.stopped() {
		return true
	}
	end := deref(s.FinishTime)
	for _, e := range events {
		if e != nil && is(deref(e.Name), eventKilling) && e.LastTimestamp != nil && !e.LastTimestamp.After(end.Add(time.Second)) && e.LastTimestamp.After(end.Add(-killedWithin)) {
			return true
		}
	}
	return false
}

// told is the last failure that events tell of. One of a known reason counts
// before others.
func (o *Operator) told(events []*arm.Event) *sdk.WorkloadFailure {
	var out *sdk.WorkloadFailure
	for _, e := range events {
		if e == nil || !is(deref(e.Name), eventFailed) && !is(deref(e.Type), "Warning") {
			continue
		}
		f := &sdk.WorkloadFailure{Reason: o.Reason(deref(e.Message)), Message: oneLine(deref(e.Message)), At: deref(e.LastTimestamp).UTC()}
		if f.Reason == "" {
			f.Reason = sdk.ReasonUnknown
		}
		if out == nil || out.Reason == sdk.ReasonUnknown || f.Reason != sdk.ReasonUnknown && !f.At.Before(out.At) {
			out = f
		}
	}
	return out
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
	add("restart_policy", string(deref(v.g.Properties.RestartPolicy)))
	if a := v.g.Properties.IPAddress; a != nil {
		add("ip_address", deref(a.IP))
	}
	for _, c := range v.containers {
		if s := current(c); s != nil {
			add(*c.Name+".state", deref(s.State))
			add(*c.Name+".detail_status", deref(s.DetailStatus))
		}
	}
	return m
}
