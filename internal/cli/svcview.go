package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// WorkloadView is how a workload is.
type WorkloadView struct {
	Target     string            `json:"target" doc:"PROVIDER/PATH, which every command takes."`
	Image      string            `json:"image,omitzero" doc:"The container image."`
	State      string            `json:"state" doc:"running, stopped, not created, progressing, failed or unknown."`
	Desired    *int              `json:"desired" doc:"How many instances there are to be; null when the provider doesn't tell."`
	Ready      *int              `json:"ready" doc:"How many serve; null when the provider doesn't tell."`
	Updated    *int              `json:"updated" doc:"How many are of the newest generation; null when the provider doesn't tell."`
	Gen        string            `json:"generation,omitzero" doc:"The newest generation, for --expect-generation."`
	Seen       string            `json:"generation_seen,omitzero" doc:"The generation that the provider works on."`
	Rollout    sdk.RolloutState  `json:"rollout" doc:"progressing, complete, failed or unknown."`
	RolloutID  string            `json:"rollout_id,omitzero" doc:"The provider's name of the rollout."`
	Restores   *int              `json:"restores,omitzero" doc:"How many replicas svc start brings back."`
	Autoscaler *sdk.Autoscaler   `json:"autoscaler,omitzero" doc:"What changes the count by itself."`
	Instances  []InstanceView    `json:"instances,omitzero" doc:"The instances."`
	Failure    *WorkloadFailView `json:"failure,omitzero" doc:"The last failure that the provider tells of."`
	Warnings   []string          `json:"warnings,omitzero" doc:"What to know besides."`
	Raw        map[string]string `json:"provider_says,omitzero" doc:"The provider's own words by field, unchanged."`
}

// InstanceView is one instance of a workload.
type InstanceView struct {
	Name     string            `json:"name" doc:"What --instance takes."`
	State    sdk.InstanceState `json:"state" doc:"pending, running, stopping, ended or unknown."`
	Ready    bool              `json:"ready" doc:"It serves."`
	Gen      string            `json:"generation,omitzero" doc:"The generation that it was made from."`
	Restarts *int              `json:"restarts" doc:"How often the provider started it again; null when that isn't told."`
	Started  *time.Time        `json:"started_at" doc:"When it started; null when not known."`
	Reason   sdk.Reason        `json:"reason,omitzero" doc:"Why it isn't ready."`
	Message  string            `json:"message,omitzero" doc:"One line for people."`
}

// WorkloadFailView is a failure of a workload.
type WorkloadFailView struct {
	Reason   sdk.Reason `json:"reason" doc:"Why, as docs/states.md lists reasons."`
	Message  string     `json:"message" doc:"One line for people."`
	Instance string     `json:"instance,omitzero" doc:"The instance concerned."`
	At       *time.Time `json:"at" doc:"When; null when not known."`
}

func viewStatus(t sdk.Target, st sdk.DeploymentStatus) WorkloadView {
	v := WorkloadView{Target: t.String(), Image: st.Image, State: workloadState(st), Desired: st.Desired, Ready: st.Ready, Updated: st.Updated,
		Gen: st.Generation, Seen: st.GenerationSeen, Rollout: st.Rollout, RolloutID: st.RolloutID, Restores: st.Restores, Autoscaler: st.Autoscaler,
		Warnings: st.Warnings, Raw: st.Raw}
	for _, in := range st.Instances {
		v.Instances = append(v.Instances, InstanceView{Name: in.Name, State: in.State, Ready: in.Ready, Gen: in.Generation, Restarts: in.Restarts,
			Started: timeOrNil(in.Started), Reason: in.Reason, Message: in.Message})
	}
	if f := st.Failure; f != nil {
		v.Failure = &WorkloadFailView{Reason: f.Reason, Message: f.Message, Instance: f.Instance, At: timeOrNil(f.At)}
	}
	return v
}

// workloadState is a workload's state in one word.
func workloadState(st sdk.DeploymentStatus) string {
	switch {
	case st.Unmade:
		return notCreated
	case st.Stopped:
		return "stopped"
	case st.Rollout == sdk.RolloutComplete:
		return "running"
	case st.Rollout == "":
		return string(sdk.RolloutUnknown)
	}
	return string(st.Rollout)
}

// notCreated is the state of what is described and was never made.
const notCreated = "not created"

// readyWords is "2 of 3", of what the provider tells.
func readyWords(ready, desired *int) string {
	switch {
	case ready == nil && desired == nil:
		return notTold
	case ready == nil:
		return strconv.Itoa(*desired) + " wanted"
	case desired == nil:
		return strconv.Itoa(*ready)
	}
	return strconv.Itoa(*ready) + " of " + strconv.Itoa(*desired)
}

// notTold is what a provider doesn't tell, where that is no fault.
const notTold = "not told"

// readySentence is readyWords where no heading says what is counted.
func readySentence(ready, desired *int) string {
	switch {
	case ready == nil && desired == nil:
		return "the provider doesn't tell how many are ready"
	case ready == nil:
		return readyWords(nil, desired) + ", the provider doesn't tell how many are ready"
	}
	return readyWords(ready, desired) + " ready"
}

func known(n *int) string {
	if n == nil {
		return dash
	}
	return strconv.Itoa(*n)
}

// argWords are the arguments of a planned call.
func argWords(args map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(args)) {
		fmt.Fprintf(&b, "  %s=%s", clean(k), clean(args[k]))
	}
	return b.String()
}
