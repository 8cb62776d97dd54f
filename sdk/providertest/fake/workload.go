package fake

import (
	"fmt"
	"slices"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// deployment is one version of a workload. A version never changes: a change of
// the workload is the version of the next number, which only one can store.
type deployment struct {
	Version int64            `json:"version"`
	Path    sdk.WorkloadPath `json:"path"`
	At      time.Time        `json:"at"`
	Image   string           `json:"image"`
	Command sdk.Argv         `json:"command,omitzero"`
	Env     sdk.Env          `json:"env,omitzero"`
	// Config are plain settings; Secrets are the SHA-256 of secret ones.
	Config  map[string]string `json:"config,omitzero"`
	Secrets map[string]string `json:"secrets,omitzero"`
	// Replicas is how many there are to be. Stopped: there are none until a start,
	// which brings back Restores.
	Replicas int  `json:"replicas"`
	Stopped  bool `json:"stopped,omitzero"`
	Restores int  `json:"restores,omitzero"`
	// Revision counts what the instances are made from; a new one replaces all.
	Revision int64 `json:"revision"`
	// Delay is how long this version takes to roll out, Lag how long the cloud
	// doesn't look at it. Broken: its image can't be pulled.
	Delay  Duration `json:"delay,omitzero"`
	Lag    Duration `json:"lag,omitzero"`
	Broken bool     `json:"broken,omitzero"`
	// Before is what served when this version was accepted.
	Before    serving         `json:"before,omitzero"`
	Autoscale *sdk.Autoscaler `json:"autoscale,omitzero"`
	// Epochs are the sets of instances that there were, the newest last.
	Epochs []epoch `json:"epochs,omitzero"`
	// Ops are the operations that were accepted, the newest last.
	Ops []operation `json:"ops,omitzero"`
}

// The bounds of what a version remembers.
const (
	opsKept    = 64
	epochsKept = 32
)

// serving is a set of instances that serve.
type serving struct {
	Generation int64 `json:"generation,omitzero"`
	Revision   int64 `json:"revision,omitzero"`
	Ready      int   `json:"ready,omitzero"`
	Wanted     int   `json:"wanted,omitzero"`
}

// epoch is a set of instances as it was made.
type epoch struct {
	Revision int64     `json:"revision"`
	Replicas int       `json:"replicas"`
	At       time.Time `json:"at"`
}

// operation is an accepted OpID with the version that it made.
type operation struct {
	ID      sdk.ID `json:"id"`
	Version int64  `json:"version"`
	Changed bool   `json:"changed"`
}

// generation is the version in the contract's words.
func generation(version int64) string { return fmt.Sprint(version) }

// done is when the version is rolled out, if it can be.
func (d *deployment) done() time.Time { return d.At.Add(time.Duration(d.Lag) + time.Duration(d.Delay)) }

// serves is what serves at a time.
func (d *deployment) serves(now time.Time) serving {
	s := serving{Generation: d.Version, Revision: d.Revision, Ready: d.Replicas, Wanted: d.Replicas}
	switch {
	case now.Before(d.At.Add(time.Duration(d.Lag))):
		return d.Before
	case d.Broken:
		// What can't come up doesn't end what serves.
		s.Revision, s.Ready = d.Before.Revision, min(d.Before.Ready, d.Replicas)
	case now.Before(d.done()) && d.Revision == d.Before.Revision:
		s.Ready = min(d.Before.Ready, d.Replicas)
	case now.Before(d.done()):
		s.Revision, s.Ready = d.Before.Revision, min(d.Before.Ready, d.Replicas)
	}
	return s
}

// next returns the version after d, to be changed by the caller, as accepted at a
// time under the knobs.
func (d *deployment) next(now time.Time, k Knobs) *deployment {
	n := *d
	n.Version++
	n.At, n.Delay, n.Lag = now, k.RolloutDelay, k.ObserveLag
	n.Before = d.serves(now)
	n.Config, n.Secrets = clone(d.Config), clone(d.Secrets)
	n.Epochs, n.Ops = slices.Clone(d.Epochs), slices.Clone(d.Ops)
	return &n
}

// replace gives a version instances of its own.
func (d *deployment) replace(k Knobs) {
	d.Revision++
	d.Broken = slices.Contains(k.MissingImages, d.Image)
}

// settle notes the instances and the operation that made the version.
func (d *deployment) settle(op sdk.ID) {
	if !d.Broken && d.Replicas > 0 {
		d.Epochs = last(append(d.Epochs, epoch{Revision: d.Revision, Replicas: d.Replicas, At: d.done()}), epochsKept)
	}
	d.Ops = last(append(d.Ops, operation{ID: op, Version: d.Version, Changed: true}), opsKept)
}

func last[T any](list []T, n int) []T { return list[max(len(list)-n, 0):] }

func clone(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// instance names one of a revision's instances.
func (d *deployment) instance(revision int64, i int) string {
	return fmt.Sprintf("%s-%d-%d", d.Path.Name(), revision, i)
}

// status tells how the workload is at a time.
func (d *deployment) status(now time.Time) sdk.DeploymentStatus {
	s := d.serves(now)
	seen := !now.Before(d.At.Add(time.Duration(d.Lag)))
	desired, ready, updated := d.Replicas, s.Ready, 0
	if s.Revision == d.Revision {
		updated = s.Ready
	}
	st := sdk.DeploymentStatus{Path: d.Path, Image: d.Image, Desired: &desired, Ready: &ready, Updated: &updated,
		Generation: generation(d.Version), GenerationSeen: generation(d.Version), Rollout: sdk.RolloutComplete,
		RolloutID: "rollout-" + generation(d.Version), Stopped: d.Stopped, Raw: map[string]string{"revision": fmt.Sprint(d.Revision)}}
	if d.Stopped {
		restores := d.Restores
		st.Restores = &restores
	}
	if d.Autoscale != nil {
		a := *d.Autoscale
		st.Autoscaler = &a
	}
	if !seen {
		st.GenerationSeen = generation(d.Before.Generation)
	}
	switch {
	case !seen || now.Before(d.done()) && d.changing():
		st.Rollout = sdk.RolloutProgressing
	case d.Broken && d.Replicas > 0:
		st.Rollout = sdk.RolloutFailed
		st.Failure = &sdk.WorkloadFailure{Reason: sdk.ReasonImagePull, Message: "manifest for " + d.Image + " not found",
			Instance: d.instance(d.Revision, 0), At: d.done()}
	}
	st.Instances = d.instances(s, st.Rollout)
	return st
}

// changing reports whether the version changes what serves.
func (d *deployment) changing() bool {
	return d.Revision != d.Before.Revision || d.Replicas != d.Before.Ready
}

// instances are those that serve, and those of the newest revision that don't yet.
func (d *deployment) instances(s serving, rollout sdk.RolloutState) []sdk.InstanceStatus {
	var out []sdk.InstanceStatus
	none := 0
	for i := range s.Ready {
		out = append(out, sdk.InstanceStatus{Name: d.instance(s.Revision, i), State: sdk.InstanceRunning, Ready: true,
			Generation: fmt.Sprint(s.Revision), Restarts: &none, Started: d.began(s.Revision)})
	}
	if rollout == sdk.RolloutComplete {
		return out
	}
	from := 0
	if s.Revision == d.Revision {
		from = s.Ready
	}
	for i := from; i < d.Replicas; i++ {
		in := sdk.InstanceStatus{Name: d.instance(d.Revision, i), State: sdk.InstancePending, Generation: fmt.Sprint(d.Revision), Restarts: &none}
		if d.Broken {
			in.Reason, in.Message = sdk.ReasonImagePull, "manifest for "+d.Image+" not found"
		}
		out = append(out, in)
	}
	return out
}

// began is when a revision's first instances were up; zero is not remembered.
func (d *deployment) began(revision int64) time.Time {
	for _, e := range d.Epochs {
		if e.Revision == revision {
			return e.At
		}
	}
	return time.Time{}
}

// item is the workload in a listing.
func (d *deployment) item(now time.Time) sdk.WorkloadItem {
	st := d.status(now)
	return sdk.WorkloadItem{Path: d.Path, Image: d.Image, Desired: st.Desired, Ready: st.Ready, Stopped: d.Stopped}
}

// trace tells what became of an operation, as far as the guarantee goes.
func (d *deployment) trace(g sdk.OpGuarantee, id sdk.ID, before string) sdk.OpTrace {
	if g.By == sdk.OpNowhere {
		return sdk.OpTrace{State: sdk.OpUnknown, Evidence: "the cloud keeps no operations"}
	}
	if d == nil {
		return sdk.OpTrace{State: sdk.OpAbsent, Evidence: "there is no such workload"}
	}
	for i, op := range d.Ops {
		if op.ID == id && (g.By == sdk.OpInHistory || i == len(d.Ops)-1) {
			return sdk.OpTrace{State: sdk.OpAccepted, Generation: generation(op.Version), Rollout: "rollout-" + generation(op.Version),
				Evidence: "operation " + id.String() + " of the workload"}
		}
	}
	if g.By == sdk.OpInHistory || before != "" && before == generation(d.Version) {
		return sdk.OpTrace{State: sdk.OpAbsent, Evidence: "the workload has no such operation"}
	}
	return sdk.OpTrace{State: sdk.OpUnknown, Evidence: "another operation came after it"}
}

// Workload returns how a workload is, as the cloud sees it; ok is false where
// there is none. It is no call of a provider.
func (c *Cloud) Workload(path sdk.WorkloadPath) (st sdk.DeploymentStatus, ok bool) {
	d, _ := c.store.workload(path)
	if d == nil {
		return sdk.DeploymentStatus{}, false
	}
	return d.status(c.clock.Now()), true
}

// Versions counts the changes of a workload, that which made it included: the
// side-effect counter of mutating calls.
func (c *Cloud) Versions(path sdk.WorkloadPath) int {
	d, _ := c.store.workload(path)
	if d == nil {
		return 0
	}
	return int(d.Version)
}

// Deploy makes a workload, or changes one, as somebody else would.
func (c *Cloud) Deploy(path sdk.WorkloadPath, image string, replicas int, scaler *sdk.Autoscaler) error {
	for {
		old, err := c.store.workload(path)
		if err != nil {
			return err
		}
		k, now := c.Knobs(), c.clock.Now()
		d := &deployment{Path: path, Version: 1, At: now, Delay: k.RolloutDelay, Lag: k.ObserveLag, Before: serving{}}
		if old != nil {
			d = old.next(now, k)
		}
		d.Image, d.Replicas, d.Autoscale, d.Stopped = image, replicas, scaler, false
		d.replace(k)
		d.settle(sdk.ID{})
		stored, err := c.store.putWorkload(d)
		if err != nil || stored {
			c.liveHub.publish(string(path))
			return err
		}
	}
}
