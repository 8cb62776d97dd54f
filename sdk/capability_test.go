package sdk_test

import (
	"context"
	"errors"
	"iter"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// base is a provider that can do nothing.
type base struct{}

func (base) Info() sdk.Info { return sdk.Info{Name: "base"} }
func (base) Check(context.Context, sdk.CheckRequest) (sdk.CheckResult, error) {
	return sdk.CheckResult{}, nil
}
func (base) Close() error { return nil }

// Each of these has one capability, by its methods.
type (
	runner   struct{ base }
	finder   struct{ base }
	canceler struct{ base }
	cleaner  struct{ base }
	logger   struct{ base }
	batcher  struct{ base }
	watcher  struct{ base }
	lister   struct{ base }
	renewer  struct{ base }
	resource struct{ base }
	trouble  struct{ base }

	workloadLister struct{ base }
	workloadStates struct{ base }
	starter        struct{ base }
	stopper        struct{ base }
	scaler         struct{ base }
	restarter      struct{ base }
	configurer     struct{ base }
	execer         struct{ base }
	tailer         struct{ base }
	streamer       struct{ base }
)

func (runner) PrepareJob(context.Context, sdk.PrepareJobRequest) (sdk.Launch, error) {
	return sdk.Launch{}, nil
}
func (runner) RunJob(context.Context, sdk.RunJobRequest) (sdk.RunJobResult, error) {
	return sdk.RunJobResult{}, nil
}
func (runner) JobStatus(context.Context, sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	return sdk.JobStatusResult{}, nil
}
func (finder) FindJobs(context.Context, sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	return sdk.FindJobsResult{}, nil
}
func (canceler) CancelJob(context.Context, sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	return sdk.CancelJobResult{}, nil
}
func (cleaner) CleanupJob(context.Context, sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	return sdk.CleanupJobResult{}, nil
}
func (logger) JobLogs(context.Context, sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(func(sdk.LogItem, error) bool) {}
}
func (batcher) JobStatuses(context.Context, sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	return sdk.JobStatusesResult{}, nil
}
func (watcher) WatchJobs(context.Context, sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error] {
	return func(func(sdk.WatchEvent, error) bool) {}
}
func (lister) ListOwned(context.Context, sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return func(func(sdk.OwnedObject, error) bool) {}
}
func (lister) RemoveOwned(context.Context, sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	return sdk.RemoveOwnedResult{}, nil
}
func (renewer) RenewExpiry(context.Context, sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
	return sdk.RenewExpiryResult{}, nil
}

func (resource) CreateResource(context.Context, sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	return sdk.CreateResourceResult{}, nil
}
func (resource) ReadResource(context.Context, sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	return sdk.ReadResourceResult{}, nil
}
func (resource) UpdateResource(context.Context, sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	return sdk.UpdateResourceResult{}, nil
}
func (resource) DeleteResource(context.Context, sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	return sdk.DeleteResourceResult{}, nil
}
func (resource) DiffResource(context.Context, sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	return sdk.DiffResourceResult{}, nil
}
func (resource) ScaleResource(context.Context, sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	return sdk.ScaleResourceResult{}, nil
}
func (resource) HealthCheckResource(context.Context, sdk.HealthCheckResourceRequest) (sdk.HealthCheckResourceResult, error) {
	return sdk.HealthCheckResourceResult{}, nil
}
func (resource) SensitiveKeys(context.Context, sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	return sdk.SensitiveKeysResult{}, nil
}
func (trouble) TroubleshootResource(context.Context, sdk.TroubleshootResourceRequest) (sdk.TroubleshootResourceResult, error) {
	return sdk.TroubleshootResourceResult{}, nil
}

func (workloadLister) ListWorkloads(context.Context, sdk.ListWorkloadsRequest) iter.Seq2[sdk.WorkloadItem, error] {
	return func(func(sdk.WorkloadItem, error) bool) {}
}
func (workloadStates) WorkloadStatus(context.Context, sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	return sdk.WorkloadStatusResult{}, nil
}
func (starter) StartWorkload(context.Context, sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	return sdk.StartWorkloadResult{}, nil
}
func (stopper) StopWorkload(context.Context, sdk.StopWorkloadRequest) (sdk.StopWorkloadResult, error) {
	return sdk.StopWorkloadResult{}, nil
}
func (scaler) ScaleWorkload(context.Context, sdk.ScaleWorkloadRequest) (sdk.ScaleWorkloadResult, error) {
	return sdk.ScaleWorkloadResult{}, nil
}
func (restarter) RestartWorkload(context.Context, sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error) {
	return sdk.RestartWorkloadResult{}, nil
}
func (configurer) ApplyConfig(context.Context, sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	return sdk.ApplyConfigResult{}, nil
}
func (execer) ExecWorkload(context.Context, sdk.ExecWorkloadRequest) (sdk.ExecWorkloadResult, error) {
	return sdk.ExecWorkloadResult{}, nil
}
func (tailer) TailLogs(context.Context, sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(func(sdk.WorkloadLogItem, error) bool) {}
}
func (streamer) StreamMetrics(context.Context, sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
	return func(func(sdk.MetricItem, error) bool) {}
}

// only maps each capability to a provider that has only that one.
func only() map[string]sdk.Provider {
	return map[string]sdk.Provider{
		"JobRunner": runner{}, "JobFinder": finder{}, "JobCanceler": canceler{}, "JobCleaner": cleaner{}, "JobLogger": logger{},
		"JobBatcher": batcher{}, "JobWatcher": watcher{}, "OwnedLister": lister{}, "ExpiryRenewer": renewer{},
		"ResourceDriver": resource{}, "Troubleshooter": trouble{},
		"WorkloadLister": workloadLister{}, "WorkloadStatuser": workloadStates{}, "Starter": starter{}, "Stopper": stopper{}, "Scaler": scaler{},
		"Restarter": restarter{}, "Configurer": configurer{}, "Execer": execer{}, "LogTailer": tailer{}, "MetricStreamer": streamer{},
	}
}

// of maps each capability to Of of it.
func of() map[string]func(sdk.Provider) bool {
	return map[string]func(sdk.Provider) bool{
		"JobRunner": asks(sdk.Runner()), "JobFinder": asks(sdk.Finder()), "JobCanceler": asks(sdk.Canceler()), "JobCleaner": asks(sdk.Cleaner()),
		"JobLogger": asks(sdk.Logger()), "JobBatcher": asks(sdk.Batcher()), "JobWatcher": asks(sdk.Watcher()), "OwnedLister": asks(sdk.Lister()),
		"ExpiryRenewer": asks(sdk.Renewer()), "ResourceDriver": asks(sdk.Resources()), "Troubleshooter": asks(sdk.Troubleshooting()),
		"WorkloadLister": asks(sdk.Workloads()), "WorkloadStatuser": asks(sdk.WorkloadStates()),
		"Starter": asks(sdk.WorkloadStarts()), "Stopper": asks(sdk.WorkloadStops()), "Scaler": asks(sdk.WorkloadScales()),
		"Restarter": asks(sdk.WorkloadRestarts()), "Configurer": asks(sdk.WorkloadConfigs()), "Execer": asks(sdk.WorkloadExecs()),
		"LogTailer": asks(sdk.WorkloadLogs()), "MetricStreamer": asks(sdk.WorkloadMetrics()),
	}
}

func asks[T any](c sdk.Capability[T]) func(sdk.Provider) bool {
	return func(p sdk.Provider) bool {
		v, ok := sdk.Of(p, c)
		return ok && !reflect.ValueOf(&v).Elem().IsNil()
	}
}

func names() []string {
	var out []string
	for _, r := range sdk.Capabilities() {
		out = append(out, r.Name)
	}
	return out
}

// TestCapabilityTable holds the table, the interfaces of this package and the
// providers of this test together: a capability that is added must be in all.
func TestCapabilityTable(t *testing.T) {
	providers, ofs := only(), of()
	if len(providers) != len(names()) || len(ofs) != len(names()) {
		t.Fatalf("the table has %d rows, this test knows %d", len(names()), len(providers))
	}
	seen := map[reflect.Type]bool{}
	for _, row := range sdk.Capabilities() {
		if row.Type().Kind() != reflect.Interface || row.Type().Name() != row.Name || row.Doc == "" || seen[row.Type()] {
			t.Errorf("row %q is not one interface with a sentence", row.Name)
		}
		seen[row.Type()] = true
		if row.Type().NumMethod() == 0 {
			t.Errorf("%s: everything implements it", row.Name)
		}
		// An interface whose methods another has too would be had by accident.
		for _, other := range sdk.Capabilities() {
			if other.Name != row.Name && row.Type().Implements(other.Type()) {
				t.Errorf("who has %s has %s too", row.Name, other.Name)
			}
		}
	}
}

func TestEachCapabilityAlone(t *testing.T) {
	for has, p := range only() {
		for name, ok := range of() {
			if got := ok(p); got != (name == has) {
				t.Errorf("a provider with only %s: Of(%s) is %t", has, name, got)
			}
			if sdk.Has(p, name) != (name == has) {
				t.Errorf("a provider with only %s: Has(%s) is wrong", has, name)
			}
		}
		if got := sdk.CapabilityNames(p); !slices.Equal(got, []string{has}) {
			t.Errorf("a provider with only %s has %q", has, got)
		}
	}
	if got := sdk.CapabilityNames(base{}); len(got) != 0 {
		t.Errorf("a provider that can do nothing has %q", got)
	}
	if sdk.Has(runner{}, "NoSuch") {
		t.Error("a capability that doesn't exist is had")
	}
}

func TestCapabilitiesOfAType(t *testing.T) {
	if got := sdk.CapabilitiesOf[lister](); !slices.Equal(got, []string{"OwnedLister"}) {
		t.Errorf("a lister has %q", got)
	}
	if got := sdk.CapabilitiesOf[pointer](); !slices.Equal(got, []string{"JobRunner"}) {
		t.Errorf("a runner that is embedded has %q", got)
	}
	if got := sdk.CapabilitiesOf[base](); len(got) != 0 {
		t.Errorf("a provider that can do nothing has %q", got)
	}
}

// TestDecorateNeitherGainsNorLoses wraps each provider, with and without an
// override of what it has.
func TestDecorateNeitherGainsNorLoses(t *testing.T) {
	for has, p := range only() {
		for _, overrides := range []map[string]any{nil, {has: p}} {
			d, err := sdk.Decorate(p, overrides)
			if err != nil {
				t.Fatalf("%s: %v", has, err)
			}
			twice, err := sdk.Decorate(d, overrides)
			if err != nil {
				t.Fatalf("%s: %v", has, err)
			}
			for _, wrapped := range []sdk.Provider{d, twice} {
				for name, ok := range of() {
					if got := ok(wrapped); got != (name == has) {
						t.Errorf("a decorated provider with only %s: Of(%s) is %t", has, name, got)
					}
				}
			}
			if d.Info().Name != "base" {
				t.Errorf("%s: Info is lost", has)
			}
		}
		for name, other := range only() {
			if name == has {
				continue
			}
			if _, err := sdk.Decorate(p, map[string]any{name: other}); !errors.Is(err, sdk.InvalidArgument) {
				t.Errorf("%s gains %s: got %v, want InvalidArgument", has, name, err)
			}
			if _, err := sdk.Decorate(p, map[string]any{has: other}); !errors.Is(err, sdk.InvalidArgument) {
				t.Errorf("%s overridden by %s: got %v, want InvalidArgument", has, name, err)
			}
		}
	}
	for name, v := range map[string]any{"NoSuch": runner{}, "JobRunner": nil} {
		if _, err := sdk.Decorate(runner{}, map[string]any{name: v}); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%s overridden by %v: got %v, want InvalidArgument", name, v, err)
		}
	}
	if _, err := sdk.Decorate(runner{}, map[string]any{"JobRunner": (*pointer)(nil)}); !errors.Is(err, sdk.InvalidArgument) {
		t.Error("a nil pointer overrides")
	}
}

func TestDecorateOverrides(t *testing.T) {
	type other struct{ runner }
	overrides := map[string]any{"JobRunner": other{}}
	d, err := sdk.Decorate(runner{}, overrides)
	if err != nil {
		t.Fatal(err)
	}
	delete(overrides, "JobRunner") // the decorator keeps its own
	if r, _ := sdk.Of(d, sdk.Runner()); reflect.TypeOf(r) != reflect.TypeFor[other]() {
		t.Errorf("got %T", r)
	}
}

// pointer has its capabilities on a pointer.
type pointer struct{ runner }

// fooled is a proxy: by its methods it can do everything, and what it answers
// decides.
type fooled struct {
	runner
	canceler
	answer any
}

func (fooled) Info() sdk.Info { return sdk.Info{} }
func (fooled) Check(context.Context, sdk.CheckRequest) (sdk.CheckResult, error) {
	return sdk.CheckResult{}, nil
}
func (fooled) Close() error               { return nil }
func (f fooled) AskCapability(string) any { return f.answer }

// askedNil would panic when asked.
type askedNil struct {
	base
	answers map[string]any
}

func (a *askedNil) AskCapability(name string) any { return a.answers[name] }

func TestOfIsNotFooled(t *testing.T) {
	var typedNil *pointer
	for what, p := range map[string]sdk.Provider{
		"nil":                        nil,
		"typed nil":                  typedNil,
		"typed nil that is asked":    (*askedNil)(nil),
		"asked, answers nil":         fooled{answer: nil},
		"asked, answers a typed nil": fooled{answer: typedNil},
		"asked, answers another":     fooled{answer: lister{}},
	} {
		for _, name := range names() {
			if what == "asked, answers another" && name == "OwnedLister" {
				continue
			}
			if sdk.Has(p, name) || p != nil && of()[name](p) {
				t.Errorf("%s has %s", what, name)
			}
		}
	}
	if _, ok := sdk.Of(fooled{answer: lister{}}, sdk.Lister()); !ok {
		t.Error("the answer is not believed")
	}
	if _, ok := sdk.Of(&pointer{}, sdk.Runner()); !ok {
		t.Error("a pointer lost its capability")
	}
	var zero sdk.Capability[sdk.JobRunner]
	if _, ok := sdk.Of(runner{}, zero); ok {
		t.Error("the zero capability is had")
	}
	if err := sdk.Absent("prod", "mycloud", "JobLogger"); !errors.Is(err, sdk.Unimplemented) || err.Error() != "use JobLogger: provider prod: kind mycloud has no JobLogger" {
		t.Errorf("got %v", err)
	}
}

// TestStandardLibraryAlone keeps the dependencies of plugin authors to none.
func TestStandardLibraryAlone(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if got := strings.Fields(string(out)); !slices.Equal(got, []string{"github.com/windlass-run/windlass/sdk"}) {
		t.Errorf("sdk imports %q; standard library only", got)
	}
}
