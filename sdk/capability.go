package sdk

import (
	"context"
	"fmt"
	"maps"
	"reflect"
)

// Capability joins the name of an optional interface with the interface. The
// zero value is not a capability.
type Capability[T any] struct{ row CapabilityRow }

// CapabilityRow is a row of the table of capabilities.
type CapabilityRow struct {
	// Name is the interface's name, stable from 1.0.
	Name string
	// Doc says in one sentence what it is for.
	Doc string
	typ reflect.Type
}

// Type returns the interface.
func (r CapabilityRow) Type() reflect.Type { return r.typ }

// String returns the name.
func (c Capability[T]) String() string { return c.row.Name }

// Row returns the capability's row.
func (c Capability[T]) Row() CapabilityRow { return c.row }

func capability[T any](doc string) Capability[T] {
	t := reflect.TypeFor[T]()
	return Capability[T]{CapabilityRow{Name: t.Name(), Doc: doc, typ: t}}
}

// Runner is the capability of running jobs.
func Runner() Capability[JobRunner] { return capability[JobRunner]("runs jobs and tells their state") }

// Finder is the capability of finding jobs whose handle was lost.
func Finder() Capability[JobFinder] {
	return capability[JobFinder]("finds the job of a launch after a lost reply or a crash")
}

// Canceler is the capability of ending jobs.
func Canceler() Capability[JobCanceler] { return capability[JobCanceler]("ends a job on the backend") }

// Cleaner is the capability of removing what a job left behind.
func Cleaner() Capability[JobCleaner] { return capability[JobCleaner]("removes what a job made") }

// Logger is the capability of reading jobs' output.
func Logger() Capability[JobLogger] { return capability[JobLogger]("reads a job's output") }

// Batcher is the capability of asking for many states in one call.
func Batcher() Capability[JobBatcher] {
	return capability[JobBatcher]("tells the state of many jobs in one call")
}

// Watcher is the capability of being told of changes.
func Watcher() Capability[JobWatcher] {
	return capability[JobWatcher]("tells of changes as they happen; a hint")
}

// Lister is the capability of listing and removing all that we made.
func Lister() Capability[OwnedLister] {
	return capability[OwnedLister]("lists and removes everything that this owner made")
}

// Renewer is the capability of moving an object's expiry.
func Renewer() Capability[ExpiryRenewer] {
	return capability[ExpiryRenewer]("moves the expiry of what a run made while it lives")
}

// Resources is the capability of keeping resources.
func Resources() Capability[ResourceDriver] {
	return capability[ResourceDriver]("keeps resources as a file describes them")
}

// Troubleshooting is the capability of explaining resources.
func Troubleshooting() Capability[Troubleshooter] {
	return capability[Troubleshooter]("says why a resource isn't as it should be")
}

// Workloads is the capability of listing live workloads.
func Workloads() Capability[WorkloadLister] {
	return capability[WorkloadLister]("lists live workloads")
}

// WorkloadStates is the capability of telling how a workload is.
func WorkloadStates() Capability[WorkloadStatuser] {
	return capability[WorkloadStatuser]("tells how a live workload is, and what became of a change")
}

// WorkloadStarts is the capability of starting workloads.
func WorkloadStarts() Capability[Starter] {
	return capability[Starter]("makes a workload, or resumes one that was stopped")
}

// WorkloadStops is the capability of stopping workloads.
func WorkloadStops() Capability[Stopper] {
	return capability[Stopper]("stops a workload so that it can be resumed")
}

// WorkloadScales is the capability of changing the number of replicas.
func WorkloadScales() Capability[Scaler] {
	return capability[Scaler]("changes a workload's number of replicas")
}

// WorkloadRestarts is the capability of restarting workloads.
func WorkloadRestarts() Capability[Restarter] {
	return capability[Restarter]("restarts a workload's instances")
}

// WorkloadConfigs is the capability of changing a workload's settings.
func WorkloadConfigs() Capability[Configurer] {
	return capability[Configurer]("changes a workload's settings and brings them to its instances")
}

// WorkloadExecs is the capability of running commands inside instances.
func WorkloadExecs() Capability[Execer] {
	return capability[Execer]("runs a command inside an instance of a workload")
}

// WorkloadLogs is the capability of reading workloads' output.
func WorkloadLogs() Capability[LogTailer] {
	return capability[LogTailer]("reads the output of a workload's instances")
}

// WorkloadMetrics is the capability of measuring workloads.
func WorkloadMetrics() Capability[MetricStreamer] {
	return capability[MetricStreamer]("measures a workload's instances")
}

// Capabilities returns the table: the only list, which advertisement, host
// gating, descriptions, documents and the choice of tests go by.
func Capabilities() []CapabilityRow {
	return []CapabilityRow{
		Runner().row, Finder().row, Canceler().row, Cleaner().row, Logger().row,
		Batcher().row, Watcher().row, Lister().row, Renewer().row, Resources().row, Troubleshooting().row,
		Workloads().row, WorkloadStates().row, WorkloadStarts().row, WorkloadStops().row, WorkloadScales().row,
		WorkloadRestarts().row, WorkloadConfigs().row, WorkloadExecs().row, WorkloadLogs().row, WorkloadMetrics().row,
	}
}

// Asker is implemented by a provider whose methods don't tell what it can do:
// a decorator, or the proxy of a plugin. Of believes it and looks no further.
type Asker interface {
	// AskCapability returns the implementation of the capability of that
	// name, or nil.
	AskCapability(name string) any
}

// Of returns a provider's implementation of a capability. It is the only way
// to ask: a plain type assertion is hidden by decorators and faked by proxies.
func Of[T any](p Provider, c Capability[T]) (T, bool) {
	var zero T
	v := ask(p, c.row)
	if v == nil {
		return zero, false
	}
	t, ok := v.(T)
	return t, ok
}

func ask(p Provider, row CapabilityRow) any {
	if p == nil || isNilPointer(p) || row.typ == nil {
		return nil
	}
	v := any(p)
	if a, ok := p.(Asker); ok {
		v = a.AskCapability(row.Name)
	}
	if v == nil || isNilPointer(v) || !reflect.TypeOf(v).Implements(row.typ) {
		return nil
	}
	return v
}

func isNilPointer(v any) bool {
	rv := reflect.ValueOf(v)
	return rv.Kind() == reflect.Pointer && rv.IsNil()
}

// Has reports whether a provider has the capability of that name.
func Has(p Provider, name string) bool {
	for _, row := range Capabilities() {
		if row.Name == name {
			return ask(p, row) != nil
		}
	}
	return false
}

// CapabilityNames returns the names of what p can do, in the table's order.
func CapabilityNames(p Provider) []string {
	var out []string
	for _, row := range Capabilities() {
		if ask(p, row) != nil {
			out = append(out, row.Name)
		}
	}
	return out
}

// CapabilitiesOf returns the names of the capabilities whose methods the type T has, in
// the table's order, for Driver.Capabilities. A type that is an Asker isn't asked: its
// driver names what the provider will answer.
func CapabilitiesOf[T Provider]() []string {
	var out []string
	t := reflect.TypeFor[T]()
	for _, row := range Capabilities() {
		if t.Implements(row.typ) {
			out = append(out, row.Name)
		}
	}
	return out
}

// Decorate returns a provider that is p but for the given implementations of
// capabilities, by name. It never gains one: an override for something that p
// can't do, or that doesn't implement its interface, is InvalidArgument.
func Decorate(p Provider, overrides map[string]any) (Provider, error) {
	for name, v := range overrides {
		var row CapabilityRow
		for _, r := range Capabilities() {
			if r.Name == name {
				row = r
			}
		}
		switch {
		case row.typ == nil:
			return nil, Errorf(InvalidArgument, "decorate provider", "no capability is called %q", name)
		case ask(p, row) == nil:
			return nil, Errorf(InvalidArgument, "decorate provider", "%s: the provider lacks it", name)
		case v == nil || isNilPointer(v) || !reflect.TypeOf(v).Implements(row.typ):
			return nil, Errorf(InvalidArgument, "decorate provider", "%s: %T doesn't implement it", name, v)
		}
	}
	return &decorated{inner: p, overrides: maps.Clone(overrides)}, nil
}

type decorated struct {
	inner     Provider
	overrides map[string]any
}

var (
	_ Provider = (*decorated)(nil)
	_ Asker    = (*decorated)(nil)
)

func (d *decorated) Info() Info { return d.inner.Info() }

func (d *decorated) Check(ctx context.Context, r CheckRequest) (CheckResult, error) {
	return d.inner.Check(ctx, r)
}

func (d *decorated) Close() error { return d.inner.Close() }

func (d *decorated) AskCapability(name string) any {
	if v, ok := d.overrides[name]; ok {
		return v
	}
	for _, row := range Capabilities() {
		if row.Name == name {
			return ask(d.inner, row)
		}
	}
	return nil
}

// Absent returns the error of using a capability that a provider lacks. kind is the
// provider's, which is a plugin's name where one serves it.
func Absent(provider, kind, capability string) error {
	return &Error{Code: Unimplemented, Op: "use " + capability, Provider: provider, Err: fmt.Errorf("kind %s has no %s", kind, capability)}
}
