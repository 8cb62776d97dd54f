package aci

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/sdk"
)

func current(state, detail string, code int) *arm.ContainerState {
	s := &arm.ContainerState{State: to.Ptr(state), DetailStatus: to.Ptr(detail)}
	if state != stateWaiting {
		s.StartTime = to.Ptr(time.Unix(1000, 0))
	}
	if strings.EqualFold(state, stateTerminated) && code >= 0 {
		s.ExitCode, s.FinishTime = to.Ptr(int32(code)), to.Ptr(time.Unix(1010, 0))
	}
	return s
}

func happened(name, text string) *arm.Event {
	kind := "Normal"
	if name == eventFailed {
		kind = "Warning"
	}
	return &arm.Event{Name: to.Ptr(name), Type: to.Ptr(kind), Message: to.Ptr(text), LastTimestamp: to.Ptr(time.Unix(1005, 0))}
}

// TestF30ContainerDecides: the container's own state counts, whatever the group's
// says.
func TestF30ContainerDecides(t *testing.T) {
	type want struct {
		state  sdk.JobState
		reason sdk.Reason
		code   int // -1 for none
	}
	groups := []string{"", "Pending", stateRunning, stateSucceeded, stateFailed}
	for container, w := range map[string]struct {
		c *arm.ContainerState
		want
	}{
		"running":  {current(stateRunning, "", -1), want{sdk.StateRunning, "", -1}},
		"done":     {current(stateTerminated, detailCompleted, 0), want{sdk.StateSucceeded, sdk.ReasonCompleted, 0}},
		"code 3":   {current(stateTerminated, "Error", 3), want{sdk.StateFailed, sdk.ReasonNonzeroExit, 3}},
		"code 137": {current(stateTerminated, "Error", 137), want{sdk.StateFailed, sdk.ReasonNonzeroExit, 137}},
		"OOM":      {current(stateTerminated, detailOOM, 137), want{sdk.StateFailed, sdk.ReasonOOMKilled, 137}},
		"OOM of a child": {current(stateTerminated, detailOOM, 0),
			want{sdk.StateSucceeded, sdk.ReasonCompleted, 0}},
		"maintenance": {current(stateTerminated, "Error", 7147), want{sdk.StateFailed, sdk.ReasonEvicted, -1}},
	} {
		for _, group := range groups {
			got := judge(view{group: group, provisioning: stateSucceeded, current: w.c})
			code := -1
			if got.code != nil {
				code = *got.code
			}
			if (want{got.state, got.reason, code}) != w.want {
				t.Errorf("container %s, group %q: got %s (%s) with code %d", container, group, got.state, got.reason, code)
			}
			if got.oom != (w.c.DetailStatus != nil && *w.c.DetailStatus == detailOOM) {
				t.Errorf("container %s, group %q: OOM observed is %t", container, group, got.oom)
			}
		}
	}
}

// TestJudge has a row for each end that the container alone doesn't tell.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		v      view
		state  sdk.JobState
		reason sdk.Reason
		code   string
	}{
		"new":                          {view{group: "Pending", provisioning: "Pending"}, sdk.StatePending, "", "none"},
		"nothing at all":               {view{}, sdk.StatePending, "", "none"},
		"pulling":                      {view{provisioning: "Creating", current: current(stateWaiting, "", -1), events: []*arm.Event{happened("Pulling", `pulling image "x"`)}}, sdk.StatePending, "", "none"},
		"pull backs off":               {view{provisioning: "Creating", current: current(stateWaiting, "ImagePullBackOff", -1), events: []*arm.Event{happened(eventFailed, `Failed to pull image "x": no`)}}, sdk.StatePending, sdk.ReasonImagePull, "none"},
		"pull given up":                {view{group: stateFailed, provisioning: stateFailed, current: current(stateWaiting, "ImagePullBackOff", -1)}, sdk.StateFailed, sdk.ReasonImagePull, "none"},
		"F30 failed without events":    {view{group: stateFailed, provisioning: stateSucceeded}, sdk.StateFailed, sdk.ReasonUnknown, "none"},
		"failed before it began":       {view{group: stateFailed, provisioning: stateFailed}, sdk.StateFailed, sdk.ReasonFailedToStart, "none"},
		"no room":                      {view{group: stateFailed, provisioning: stateFailed, events: []*arm.Event{happened(eventFailed, "The requested resource is not available in the location 'x' at this moment.")}}, sdk.StateFailed, sdk.ReasonCapacity, "none"},
		"deployment failed, may yet":   {view{group: "Pending", provisioning: stateFailed}, sdk.StatePending, "", "none"},
		"stopped while it ran":         {view{group: stateStopped, current: current(stateTerminated, "Error", 143)}, sdk.StateCancelled, sdk.ReasonCancelled, "143"},
		"stopped with code 0":          {view{group: stateStopped, current: current(stateTerminated, detailCompleted, 0)}, sdk.StateCancelled, sdk.ReasonCancelled, "0"},
		"stopped, recycled":            {view{group: stateStopped}, sdk.StateCancelled, sdk.ReasonCancelled, "none"},
		"stopped, container runs on":   {view{group: stateStopped, current: current(stateRunning, "", -1)}, sdk.StateRunning, "", "none"},
		"F18 no code, failed":          {view{group: stateFailed, current: current(stateTerminated, detailCompleted, -1)}, sdk.StateFailed, sdk.ReasonUnknown, "none"},
		"no code, succeeded":           {view{group: stateSucceeded, current: current(stateTerminated, detailCompleted, -1)}, sdk.StateSucceeded, sdk.ReasonCompleted, "none"},
		"code 0 against all else":      {view{group: stateFailed, current: current(stateTerminated, "Error", 0)}, sdk.StateFailed, sdk.ReasonUnknown, "none"},
		"spot":                         {view{spot: true, group: stateFailed, current: current(stateTerminated, "Error", 7147)}, sdk.StateFailed, sdk.ReasonPreempted, "none"},
		"no such program":              {view{group: stateFailed, current: current(stateTerminated, "Error", 127), events: []*arm.Event{happened(eventFailed, "Error: Failed to start container main, Error response: no such file")}}, sdk.StateFailed, sdk.ReasonInvalidSpec, "127"},
		"succeeded, nothing shown":     {view{group: stateSucceeded}, sdk.StateSucceeded, sdk.ReasonCompleted, "none"},
		"F32 waits to be run again":    {view{restarts: 3, current: current(stateWaiting, "CrashLoopBackOff: Back-off restarting failed", -1), previous: current(stateTerminated, "Error", 1)}, sdk.StateRunning, "", "none"},
		"words of unknown states":      {view{group: "Hibernating", provisioning: "Repairing", current: &arm.ContainerState{State: to.Ptr("Dreaming")}}, sdk.StatePending, "", "none"},
		"states in another case":       {view{group: "STOPPED", current: current("terminated", "Error", 143)}, sdk.StateCancelled, sdk.ReasonCancelled, "143"},
		"terminated, group never says": {view{group: stateRunning, current: current(stateTerminated, "", 4)}, sdk.StateFailed, sdk.ReasonNonzeroExit, "4"},
	} {
		got := judge(c.v)
		code := "none"
		if got.code != nil {
			code = fmt.Sprint(*got.code)
		}
		if got.state != c.state || got.reason != c.reason || code != c.code || !sdk.LegalReason(got.state, got.reason) {
			t.Errorf("%s: got %s (%s), code %s: %s; want %s (%s), code %s", name, got.state, got.reason, code, got.message, c.state, c.reason, c.code)
		}
	}
}

// TestF98Capabilities has what container groups can do, and no more: nothing that
// would run a job's container again, and no Scaler, for a group has no replicas.
func TestF98Capabilities(t *testing.T) {
	g := guarantees(config{}.filled())
	if g.Submit.By != sdk.SubmitBySearch || g.Deadline.Native || g.Grace.Supported || g.Evidence != 0 || g.Secrets != sdk.SecretSealed || g.Argv != sdk.ArgvOneList {
		t.Errorf("guarantees %+v", g)
	}
	if l := g.Workload; l.Restart != sdk.RestartReplaces || l.Stop != sdk.StopStops || l.Compares || l.Ops.By != sdk.OpOnObject || l.Exec.ExitCode {
		t.Errorf("guarantees for workloads %+v", l)
	}
	p, err := Driver().Open(t.Context(), sdk.OpenRequest{Name: "x", Credentials: pocketCredentials(),
		Config: []byte(`{"subscription":"00000000-1111-2222-3333-444444444444","resource_group":"rg","location":"West Europe"}`)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	want := []string{"JobRunner", "JobFinder", "JobCanceler", "JobCleaner", "JobLogger", "OwnedLister", "ExpiryRenewer",
		"WorkloadLister", "WorkloadStatuser", "Starter", "Stopper", "Restarter", "Configurer", "Execer", "LogTailer", "MetricStreamer"}
	if got := sdk.CapabilityNames(p); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("capabilities %v, want %v", got, want)
	}
	if id := p.Info().Identity; id.Region != "westeurope" || id.Account != "00000000-1111-2222-3333-444444444444/rg" || id.Endpoint != "management.azure.com" {
		t.Errorf("identity %s", id)
	}
}
