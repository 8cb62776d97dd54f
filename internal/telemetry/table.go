package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// mostRecent bounds the events that a Table remembers, mostRows the instances of
// one workload.
const (
	mostRecent = 100
	mostRows   = 1 << 16
)

// Table is what the stream came to: the newest of each workload and instance. It
// isn't safe for concurrent use.
type Table struct {
	workloads map[sdk.Target]*workload
	// providers are what can't be read of whole providers.
	providers map[string]map[string]string
	events    map[EventKey]int
	recent    []Item
	lost      int
}

// EventKey is what events are counted by.
type EventKey struct {
	Target sdk.Target
	Kind   Kind
}

// Workload is a row of a Table.
type Workload struct {
	Target sdk.Target
	// Counts are nil before the first look.
	Counts *Counts
	// Unknown says what can't be read at the moment, and why; empty is nothing.
	Unknown string
	// Warming says why the workload as a whole isn't measured yet.
	Warming string
	// Instances are in the order of their names.
	Instances []Instance
}

// Instance is one instance of a workload, or with no name the whole of one that is
// only measured as a whole.
type Instance struct {
	Name string
	// Sample is the newest; nil when there is none, for which Warming may say why.
	Sample  *sdk.MetricSample
	Warming string
	// Receives and Sends are bytes a second between the last two samples; nil with
	// fewer than two, or when a counter began again.
	Receives, Sends *float64
	// Restarts is that of the newest sample or look.
	Restarts *int
}

type workload struct {
	counts    *Counts
	warming   string
	unknown   map[string]string
	instances map[string]*instance
	// looked is when the last look came, before that one.
	looked time.Time
}

type instance struct {
	Instance
	// told is when something of it came.
	told time.Time
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{workloads: map[sdk.Target]*workload{}, providers: map[string]map[string]string{}, events: map[EventKey]int{}}
}

// Add takes the next item of the stream.
func (t *Table) Add(it Item) {
	switch {
	case it.Event != nil:
		t.event(it)
	case it.Counts != nil:
		t.workload(it.Target).look(it)
	case it.Sample != nil:
		if !t.workload(it.Target).sample(it) {
			t.lost++
		}
	}
}

func (t *Table) workload(target sdk.Target) *workload {
	w := t.workloads[target]
	if w == nil {
		w = &workload{unknown: map[string]string{}, instances: map[string]*instance{}}
		t.workloads[target] = w
	}
	return w
}

// look takes counts. An instance that isn't in them, and of which nothing came since
// the look before, is gone: its last sample was late.
func (w *workload) look(it Item) {
	w.counts = it.Counts
	there := make(map[string]bool, len(it.Counts.Instances))
	for _, in := range it.Counts.Instances {
		there[in.Name] = true
		if row := w.instance(in.Name); row != nil {
			row.told = it.Time
			if in.Restarts != nil {
				row.Restarts = in.Restarts
			}
		}
	}
	maps.DeleteFunc(w.instances, func(name string, in *instance) bool { return name != "" && !there[name] && in.told.Before(w.looked) })
	w.looked = it.Time
}

// sample takes a sample, and reports false when there are too many instances.
func (w *workload) sample(it Item) bool {
	in := w.instance(it.Instance)
	if in == nil {
		return false
	}
	in.told = it.Time
	s := it.Sample
	if old := in.Sample; old != nil && s.At.After(old.At) {
		d := s.At.Sub(old.At)
		in.Receives, in.Sends = rate(old.Received, s.Received, d), rate(old.Sent, s.Sent, d)
	}
	in.Sample, in.Warming = s, ""
	if s.Restarts != nil {
		in.Restarts = s.Restarts
	}
	if it.Instance == "" {
		w.warming = ""
	}
	return true
}

// rate is a counter's growth a second.
func rate(was, now *int64, d time.Duration) *float64 {
	if was == nil || now == nil || *now < *was {
		return nil
	}
	v := float64(*now-*was) / d.Seconds()
	return &v
}

// instance returns a row; nil when there are too many.
func (w *workload) instance(name string) *instance {
	in := w.instances[name]
	if in == nil && len(w.instances) < mostRows {
		in = &instance{Instance: Instance{Name: name}}
		w.instances[name] = in
	}
	return in
}

func (t *Table) event(it Item) {
	e := it.Event
	if e.Kind == Lost {
		t.lost += e.Count
	}
	if len(t.recent) == mostRecent {
		t.recent = slices.Delete(t.recent, 0, 1)
	}
	t.recent = append(t.recent, it)
	if e.Kind == Gone && it.Instance == "" {
		delete(t.workloads, it.Target)
		maps.DeleteFunc(t.events, func(k EventKey, _ int) bool { return k.Target == it.Target })
		return
	}
	if it.Target.Provider == "" {
		return
	}
	t.events[EventKey{it.Target, e.Kind}]++
	if it.Target.Path == "" {
		if t.providers[it.Target.Provider] == nil {
			t.providers[it.Target.Provider] = map[string]string{}
		}
		trouble(t.providers[it.Target.Provider], e)
		return
	}
	w := t.workload(it.Target)
	trouble(w.unknown, e)
	switch {
	case e.Kind == Gone:
		delete(w.instances, it.Instance)
	case e.Kind == Warming && it.Instance == "":
		w.warming = e.Message
	case e.Kind == Warming:
		if in := w.instance(it.Instance); in != nil {
			in.told, in.Sample, in.Receives, in.Sends, in.Warming = it.Time, nil, nil, nil, e.Message
		}
	}
}

// trouble notes what can't be read.
func trouble(m map[string]string, e *Event) {
	switch e.Kind {
	case Unknown:
		m[e.What] = e.Message
	case Known:
		delete(m, e.What)
	}
}

// words are what can't be read, in one line.
func words(m map[string]string) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, what+": "+m[what])
	}
	return strings.Join(parts, "; ")
}

// Workloads returns a copy of the rows, in the order of their targets.
func (t *Table) Workloads() []Workload {
	out := make([]Workload, 0, len(t.workloads))
	for target, w := range t.workloads {
		row := Workload{Target: target, Counts: w.counts, Unknown: words(w.unknown), Warming: w.warming}
		for _, in := range w.instances {
			row.Instances = append(row.Instances, in.Instance)
		}
		slices.SortFunc(row.Instances, func(a, b Instance) int { return cmp.Compare(a.Name, b.Name) })
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b Workload) int { return cmp.Compare(a.Target.String(), b.Target.String()) })
	return out
}

// Unknown returns what can't be read of whole providers at the moment.
func (t *Table) Unknown() map[string]string {
	out := map[string]string{}
	for p, m := range t.providers {
		if len(m) > 0 {
			out[p] = words(m)
		}
	}
	return out
}

// Events returns how many events there were of each kind, of workloads that are
// still there.
func (t *Table) Events() map[EventKey]int { return maps.Clone(t.events) }

// Recent returns the newest events, the oldest first.
func (t *Table) Recent() []Item { return slices.Clone(t.recent) }

// Lost returns how many items were left out.
func (t *Table) Lost() int { return t.lost }
