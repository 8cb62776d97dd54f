package telemetry

import (
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Item is one item of the stream: exactly one of Sample, Counts and Event is set.
type Item struct {
	// Time is when it was read here. A sample has the provider's own time besides.
	Time time.Time
	// Target is the workload; it is zero for what is about everything, and has an
	// empty path for what is about a whole provider.
	Target sdk.Target
	// Instance is empty for what is about the whole workload.
	Instance string
	Sample   *sdk.MetricSample
	Counts   *Counts
	Event    *Event
}

// Counts are how a workload stands. What the provider doesn't tell is nil.
type Counts struct {
	Desired, Ready, Updated *int
	// Restarts is the sum over the instances that tell it; nil when none does.
	Restarts *int
	Rollout  sdk.RolloutState
	Stopped  bool
	// Unmade: it is described, and was never made.
	Unmade bool
	// Instances are those that haven't ended.
	Instances []sdk.InstanceStatus
}

// Kind is what happened.
type Kind string

// The kinds of events. Each is told once when it begins to be true, not again
// while it stays so.
const (
	// Appeared and Gone are instances, or with no instance whole workloads.
	Appeared Kind = "appeared"
	Gone     Kind = "gone"
	// Restarted: the provider started the instance again, Count times since the
	// last look.
	Restarted Kind = "restarted"
	// Scaled: another number of instances is wanted. Count is that number.
	Scaled Kind = "scaled"
	// Rollout: the newest change stands elsewhere, as Message says.
	Rollout Kind = "rollout"
	// Failed: the provider tells of a failure.
	Failed Kind = "failure"
	// Warming: there is no sample yet. Measured: now there is.
	Warming  Kind = "warming"
	Measured Kind = "measured"
	// Unknown: the workload, or all of the provider's, can't be read at the
	// moment. Known: it can again.
	Unknown Kind = "unknown"
	Known   Kind = "known"
	// Lost: the reader was too slow, and Count items were left out.
	Lost Kind = "lost"
)

// Kinds returns all kinds of events.
func Kinds() []Kind {
	return []Kind{Appeared, Gone, Restarted, Scaled, Rollout, Failed, Warming, Measured, Unknown, Known, Lost}
}

// Event is something that happened.
type Event struct {
	Kind Kind
	// What can't be read, of kind Unknown, or can again, of kind Known: "list",
	// "status" or "measure".
	What string
	// Message is one line for people; it may be empty.
	Message string
	// Count is how many, where the kind counts.
	Count int
}
