package aci

import (
	"slices"
	"strings"
	"time"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
)

// The states that matter. Words are compared without case.
// https://learn.microsoft.com/en-us/azure/container-instances/container-state
const (
	stateRunning    = "Running"
	stateWaiting    = "Waiting"
	stateTerminated = "Terminated"
	stateStopped    = "Stopped"
	stateSucceeded  = "Succeeded"
	stateFailed     = "Failed"
)

// What a container's detailed status says. The first two stand on the page below;
// the others are the words of the runtime underneath.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-restart-policy
const (
	detailCompleted = "Completed"
	detailOOM       = "OOMKilled"
)

// The names of events.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-get-logs#get-diagnostic-events
const (
	eventKilling = "Killing"
	eventFailed  = "Failed"
)

// view is what a group shows of its only container and of itself.
type view struct {
	group, provisioning string
	spot                bool
	// current is nil where the container shows no state.
	current, previous *arm.ContainerState
	restarts          int
	events            []*arm.Event // the container's, then the group's
}

// viewOf reads a group. Anything may be missing.
func viewOf(g *arm.ContainerGroup) view {
	var v view
	if g == nil || g.Properties == nil {
		return v
	}
	p := g.Properties
	v.provisioning = deref(p.ProvisioningState)
	v.spot = deref(p.Priority) == arm.ContainerGroupPrioritySpot
	for _, c := range p.Containers {
		if c == nil || c.Properties == nil || deref(c.Name) != container || c.Properties.InstanceView == nil {
			continue
		}
		i := c.Properties.InstanceView
		v.current, v.previous, v.restarts = i.CurrentState, i.PreviousState, int(deref(i.RestartCount))
		v.events = append(v.events, i.Events...)
	}
	if i := p.InstanceView; i != nil {
		v.group = deref(i.State)
		v.events = append(v.events, i.Events...)
	}
	return v
}

// deploying reports whether Azure is still at bringing the group up.
// https://learn.microsoft.com/en-us/azure/container-instances/container-state#create-start-and-restart-operations
func (v view) deploying() bool {
	return slices.ContainsFunc([]string{"Pending", "Creating", "Repairing"}, func(s string) bool { return is(v.provisioning, s) })
}

func is(s, word string) bool { return strings.EqualFold(s, word) }

// in reports whether the container is in a state.
func (v view) in(state string) bool { return v.current != nil && is(deref(v.current.State), state) }

// detail is the container's detailed status.
func (v view) detail() string {
	if v.current == nil {
		return ""
	}
	return deref(v.current.DetailStatus)
}

// code is the exit code of the container as it is, nil for none and for one that
// no process can have: the platform's own are greater.
func (v view) code() *int {
	if v.current == nil || v.current.ExitCode == nil || *v.current.ExitCode < 0 || *v.current.ExitCode > 255 {
		return nil
	}
	n := int(*v.current.ExitCode)
	return &n
}

// platformCode reports whether the exit code is one of the platform's own, such
// as 7147 for a machine that is taken away.
// https://learn.microsoft.com/en-us/troubleshoot/azure/azure-container-instances/management/container-group-restart-killing-event-interruption
func (v view) platformCode() bool {
	return v.current != nil && deref(v.current.ExitCode) > 255
}

// killed reports whether the platform says that it ended the container as it is.
// Events count whole seconds.
func (v view) killed() bool {
	began := time.Time{}
	if v.current != nil {
		began = deref(v.current.StartTime).Truncate(time.Second)
	}
	for _, e := range v.events {
		if e != nil && is(deref(e.Name), eventKilling) && !deref(e.LastTimestamp).Before(began) {
			return true
		}
	}
	return false
}

// unstartable is the message of the event that says that the container couldn't be
// started, empty for none.
func (v view) unstartable() string {
	for _, e := range v.events {
		if e == nil || !is(deref(e.Name), eventFailed) {
			continue
		}
		if text := deref(e.Message); strings.Contains(strings.ToLower(text), "failed to start container") || strings.Contains(strings.ToLower(text), "failed to create containerd task") {
			return oneLine(text)
		}
	}
	return ""
}

// failures are the messages of events that tell of one.
func (v view) failures() []string {
	var out []string
	for _, e := range v.events {
		if e != nil && (is(deref(e.Name), eventFailed) || is(deref(e.Type), "Warning")) {
			out = append(out, oneLine(deref(e.Message)))
		}
	}
	return out
}

// launches is how often the container was started, as far as it shows.
func (v view) launches() int {
	began := v.current != nil && v.current.StartTime != nil && v.unstartable() == ""
	switch {
	case began:
		return 1 + v.restarts
	case v.restarts > 0 || v.previous != nil:
		return max(v.restarts, 1)
	}
	return 0
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
