package workload

import (
	"context"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/sdk"
)

// FuzzMark reads nothing that it doesn't write again.
func FuzzMark(f *testing.F) {
	id := sdk.NewIDSource(sdk.SystemClock()).NewID()
	f.Add(mark{id: id, verb: verbStop, at: time.UnixMilli(1_700_000_000_000), started: time.Unix(0, 1_700_000_000_123_456_789), kills: 2}.String())
	f.Add(mark{id: id, verb: verbCreate, at: time.UnixMilli(0)}.String())
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		m, ok := parseMark(s)
		if !ok {
			return
		}
		if again, ok := parseMark(m.String()); !ok || again.String() != m.String() {
			t.Errorf("%q became %q, then %q", s, m, again)
		}
	})
}

// groupWith is a group of one container.
func groupWith(state, provisioning string, started time.Time, kills int) view {
	c := &arm.ContainerPropertiesInstanceView{}
	if !started.IsZero() {
		c.CurrentState = &arm.ContainerState{State: to.Ptr(stateRunning), StartTime: &started}
	}
	if kills > 0 {
		c.Events = []*arm.Event{{Name: to.Ptr(eventKilling), Count: to.Ptr(int32(kills))}}
	}
	return viewOf(&arm.ContainerGroup{Properties: &arm.ContainerGroupPropertiesProperties{ProvisioningState: &provisioning,
		InstanceView: &arm.ContainerGroupPropertiesInstanceView{State: &state},
		Containers:   []*arm.Container{{Name: to.Ptr("main"), Properties: &arm.ContainerProperties{Image: to.Ptr("i"), InstanceView: c}}}}})
}

// TestSeen tells by what a group shows whether a marked call was carried out.
func TestSeen(t *testing.T) {
	before := time.Unix(1000, 0)
	later := before.Add(time.Second)
	running := groupWith(stateRunning, stateSucceeded, before, 0)
	for name, k := range map[string]struct {
		verb string
		was  view
		now  view
		want bool
	}{
		"stop, not yet":          {verbStop, running, running, false},
		"stop, killing":          {verbStop, running, groupWith(stateRunning, stateSucceeded, before, 1), true},
		"stop, killed before":    {verbStop, groupWith(stateRunning, stateSucceeded, before, 1), groupWith(stateRunning, stateSucceeded, before, 1), false},
		"stop, stopped":          {verbStop, running, groupWith(stateStopped, stateSucceeded, before, 0), true},
		"restart, not yet":       {verbRestart, running, running, false},
		"restart, pending":       {verbRestart, running, groupWith("Pending", "Pending", time.Time{}, 0), true},
		"restart, killing":       {verbRestart, running, groupWith(stateRunning, stateSucceeded, before, 1), true},
		"restart, started later": {verbRestart, running, groupWith(stateRunning, stateSucceeded, later, 0), true},
		"start, not yet":         {verbStart, groupWith(stateStopped, stateSucceeded, before, 0), groupWith(stateStopped, stateSucceeded, before, 0), false},
		"start, without a view":  {verbStart, groupWith(stateStopped, stateSucceeded, time.Time{}, 0), groupWith(stateStopped, stateSucceeded, time.Time{}, 0), false},
		"start, pending":         {verbStart, groupWith(stateStopped, stateSucceeded, before, 0), groupWith("Pending", "Pending", time.Time{}, 0), true},
		"start, ended again":     {verbStart, groupWith(stateSucceeded, stateSucceeded, before, 0), groupWith(stateSucceeded, stateSucceeded, later, 0), true},
		"start, ended as it was": {verbStart, groupWith(stateSucceeded, stateSucceeded, before, 0), groupWith(stateSucceeded, stateSucceeded, before, 0), false},
		"config":                 {verbConfig, running, running, true},
	} {
		if how := newMark(sdk.ID{1}, k.verb, before, &k.was).seen(k.now); (how != "") != k.want {
			t.Errorf("%s: %q, want evidence %t", name, how, k.want)
		}
	}
}

// TestDone waits for what was before to be gone: a container that is being ended
// still runs.
func TestDone(t *testing.T) {
	before := time.Unix(1000, 0)
	was := groupWith(stateRunning, stateSucceeded, before, 0)
	killing := groupWith(stateRunning, stateSucceeded, before, 1)
	fresh := groupWith(stateRunning, stateSucceeded, before.Add(time.Second), 1)
	for name, k := range map[string]struct {
		verb string
		now  view
		want bool
	}{
		"stop, killing":    {verbStop, killing, false},
		"stop, stopped":    {verbStop, groupWith(stateStopped, stateSucceeded, before, 1), true},
		"restart, killing": {verbRestart, killing, false},
		"restart, anew":    {verbRestart, fresh, true},
		"config, killing":  {verbConfig, killing, false},
		"config, anew":     {verbConfig, fresh, true},
	} {
		if got := newMark(sdk.ID{1}, k.verb, before, &was).done(k.now); got != k.want {
			t.Errorf("%s: done is %t, want %t", name, got, k.want)
		}
	}
}

// TestTrace answers for an operation as its tag, its age and what was before allow.
func TestTrace(t *testing.T) {
	ids := sdk.NewIDSource(sdk.SystemClock())
	mine, other := ids.NewID(), ids.NewID()
	now := time.Unix(2000, 0)
	o := &Operator{Settings: Settings{Clock: fixed(now), VisibleWithin: time.Minute}}
	v := groupWith(stateRunning, stateSucceeded, time.Unix(1000, 0), 0)
	marked := func(m mark) view {
		v.g.Tags = map[string]*string{tagOp: to.Ptr(m.String())}
		return v
	}
	for name, k := range map[string]struct {
		m      mark
		before string
		want   sdk.OpState
	}{
		"young, nothing seen": {newMark(mine, verbRestart, now.Add(-time.Second), &v), "", sdk.OpUnknown},
		"old, nothing seen":   {newMark(mine, verbRestart, now.Add(-time.Hour), &v), "", sdk.OpAbsent},
		"by its own call":     {newMark(mine, verbConfig, now, &v), "", sdk.OpAccepted},
		"another's":           {newMark(other, verbRestart, now, &v), "x", sdk.OpUnknown},
	} {
		if got := o.trace(mine, k.before, marked(k.m)); got.State != k.want || got.Evidence == "" {
			t.Errorf("%s: %+v, want %s", name, got, k.want)
		}
	}
	same := marked(newMark(other, verbRestart, now, &v))
	if got := o.trace(mine, generationOf(same.g), same); got.State != sdk.OpAbsent {
		t.Errorf("with the generation of before: %+v", got)
	}
}

// fixed is a clock that stands.
type fixed time.Time

// Now implements sdk.Clock.
func (f fixed) Now() time.Time { return time.Time(f) }

// Sleep implements sdk.Clock.
func (fixed) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }
