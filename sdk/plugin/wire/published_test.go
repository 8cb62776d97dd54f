package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/internal/pluginhost/iac"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/workflowpb"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
)

// publishedCalls is the file of a release with the calls of the published packages.
const publishedCalls = "published.json"

// TestReleasedPublished replays the calls of the published packages, as a release made
// them, against both ends of today: the host of published plugins asks the plugin of
// then as it did, and today's plugin answers the host of then as it did.
func TestReleasedPublished(t *testing.T) {
	if *record != "" {
		r := &recorder{ClientConnInterface: serveElder(t)}
		drivePublished(t, r)
		writeCalls(t, filepath.Join(releases, *record, publishedCalls), r.calls)
	}
	files, err := filepath.Glob(filepath.Join(releases, "*", publishedCalls))
	if err != nil || len(files) == 0 {
		t.Fatalf("no releases: %v", err)
	}
	for _, at := range files {
		t.Run(filepath.Base(filepath.Dir(at)), func(t *testing.T) {
			calls, old := readReleased(t, filepath.Dir(at), publishedCalls)
			t.Run("every method", func(t *testing.T) { old.covered(t, calls, "workflow.plugin.v1", "workflow.plugin.external.iac") })
			t.Run("old plugin", func(t *testing.T) { drivePublished(t, &player{t: t, old: old, calls: calls}) })
			t.Run("old host", func(t *testing.T) { replay(t, old, calls, serveElder(t)) })
		})
	}
}

func serveElder(t *testing.T) *grpc.ClientConn {
	t.Helper()
	e := &elder{t: t}
	d := sdk.Driver{Kind: "elder", Capabilities: sdk.CapabilitiesOf[*elder](), Guarantees: e.Info().Guarantees, Open: func(_ context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		e.wants("config", string(r.Config), `{"region":"é"}`)
		return e, nil
	}}
	var s *plugin.Server
	conn := plugintest.Serve(t, func(r grpc.ServiceRegistrar) {
		var err error
		if s, err = plugin.Register(r, d, plugin.WithStateDir(t.TempDir()), plugin.WithManifest(plugin.Manifest{Name: "elder", Version: "1.2.3", Author: "me", Description: "Does it."})); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// elder is a provider that has all that the published wire has a place for. It wants to
// be asked for what drivePublished asks, and answers the same each time.
type elder struct {
	t     testing.TB
	state int
}

func (e *elder) wants(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		e.t.Errorf("%s: asked with\n%+v, want\n%+v", what, got, want)
	}
}

func (e *elder) Info() sdk.Info {
	return sdk.Info{Name: "elder", Kind: "elder", Identity: sdk.Identity{Kind: "elder", Account: "a"}, Guarantees: sdk.Guarantees{
		Logs: sdk.LogGuarantee{EndProven: true}, Deadline: sdk.DeadlineGuarantee{Native: true, Max: time.Hour}}}
}
func (e *elder) Close() error { return nil }
func (e *elder) Check(context.Context, sdk.CheckRequest) (sdk.CheckResult, error) {
	return sdk.CheckResult{}, nil
}

func elderSpec() sdk.JobSpec {
	return sdk.JobSpec{V: sdk.SpecVersion, Name: "wl-" + sdk.ID{15: 2}.String(), Image: "app:1", Entrypoint: sdk.Argv{"/bin/sh", "-c"}, Args: sdk.Argv{`exec 'printf' '%s|' 'a b' '$HOME' 'é'`},
		Env: map[string]string{"A": "value of a", "B": ""}, Secrets: map[string]sdk.SecretRef{"S": "secret://vault/x#y"}, Timeout: 1062 * time.Second}
}

func (e *elder) PrepareJob(_ context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if r.Spec.Image == "app:full" {
		return sdk.Launch{}, &sdk.Error{Code: sdk.ResourceExhausted, Op: "prepare job", Provider: "elder", Field: "cpu", Retryable: true, RetryAfter: 90 * time.Second, Remedy: "wait", Err: errors.New("no room")}
	}
	e.wants("PrepareJob", r.Spec, elderSpec())
	return sdk.Launch{V: sdk.LaunchVersion, Kind: "elder", AttemptID: r.AttemptID}, nil
}

func (e *elder) RunJob(context.Context, sdk.RunJobRequest) (sdk.RunJobResult, error) {
	return sdk.RunJobResult{Handle: elderHandle()}, nil
}

// elderHandle is the handle as the plugin has it.
func elderHandle() sdk.JobHandle {
	return sdk.JobHandle{V: sdk.HandleVersion, Kind: "elder", Identity: sdk.Identity{Kind: "elder", Account: "a"}, ID: "job-1", Name: "one", Metadata: map[string]string{"zone": "é"}}
}

// elderStates are what the plugin says of its job, one after the other.
func elderStates() []sdk.JobStatusResult {
	code := func(n int) *int { return &n }
	return []sdk.JobStatusResult{
		{State: sdk.StatePending, Reason: sdk.ReasonQueued, Message: "waits"}, {State: sdk.StateRunning}, {State: sdk.StateUnknown, Reason: sdk.ReasonUnknown},
		{State: sdk.StateSucceeded, Reason: sdk.ReasonCompleted, ExitCode: code(0)}, {State: sdk.StateFailed, Reason: sdk.ReasonNonzeroExit, ExitCode: code(7)},
		{State: sdk.StateFailed, Reason: sdk.ReasonOOMKilled, Message: "out of memory"}, {State: sdk.StateLost, Reason: sdk.ReasonLost},
		{State: sdk.StateCancelled, Reason: sdk.ReasonCancelled, ExitCode: code(143)}, {State: sdk.StateRunning},
	}
}

func (e *elder) JobStatus(_ context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	e.wants("JobStatus", r.Handle, elderHandle())
	all := elderStates()
	e.state++
	return all[(e.state-1)%len(all)], nil
}

func (e *elder) CancelJob(_ context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	e.wants("CancelJob", r.Handle, elderHandle())
	return sdk.CancelJobResult{Accepted: true}, nil
}

func (e *elder) JobLogs(_ context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	e.wants("JobLogs", r.Handle, elderHandle())
	return func(yield func(sdk.LogItem, error) bool) {
		for _, i := range []sdk.LogItem{{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, Data: []byte("out é"), LineEnd: sdk.LineEndStripped}},
			{Entry: &sdk.LogChunk{Stream: sdk.StreamStderr, Data: []byte("bad \xff\n"), LineEnd: sdk.LineEndKept}}, {End: &sdk.LogEnd{Verdict: sdk.VerdictComplete}}} {
			if !yield(i, nil) {
				return
			}
		}
	}
}

func (e *elder) TailLogs(_ context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	ten := 10
	e.wants("TailLogs", r, sdk.TailLogsRequest{Path: "main/web", Tail: &ten})
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		_ = yield(sdk.WorkloadLogItem{Instance: "web-1", Entry: &sdk.LogChunk{Stream: sdk.StreamStderr, Data: []byte("up"), LineEnd: sdk.LineEndStripped}}, nil)
	}
}

func elderRef() sdk.ResourceRef {
	return sdk.ResourceRef{Name: "n é", Type: "elder.box", ProviderID: "id"}
}

func elderResource() sdk.ResourceSpec {
	return sdk.ResourceSpec{Name: "n é", Type: "elder.box", Config: json.RawMessage(`{ "a" : 1.50, "b":"<&>" }`), Size: "large", Hints: sdk.ResourceHints{CPU: "2", Memory: "1Gi", Storage: "10Gi"}, DependsOn: []string{"x", "y"}}
}

func elderOutput() sdk.ResourceOutput {
	return sdk.ResourceOutput{Name: "n é", Type: "elder.box", ProviderID: "id", Outputs: json.RawMessage(`{"a":1.50}`), Sensitive: map[string]bool{"a": true}, Status: "up"}
}

func elderDiff() sdk.DiffResourceResult {
	return sdk.DiffResourceResult{NeedsUpdate: true, NeedsReplace: true, Changes: []sdk.FieldChange{{Path: "a.b", Old: json.RawMessage(`1`), New: json.RawMessage(`{"x": 2}`), ForceNew: true}, {Path: "c"}}}
}

func elderDiagnostics() []sdk.Diagnostic {
	return []sdk.Diagnostic{{ID: "1", Phase: "start", Cause: "why", At: time.Unix(1_700_000_000, 5).UTC(), Detail: "more"}, {Cause: "x"}}
}

func (e *elder) CreateResource(_ context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	e.wants("Create", r.Spec, elderResource())
	return sdk.CreateResourceResult{Output: elderOutput()}, nil
}

func (e *elder) ReadResource(_ context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	e.wants("Read", r.Ref, elderRef())
	return sdk.ReadResourceResult{Output: elderOutput()}, nil
}

func (e *elder) UpdateResource(_ context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	e.wants("Update", []any{r.Ref, r.Spec}, []any{elderRef(), elderResource()})
	return sdk.UpdateResourceResult{Output: elderOutput()}, nil
}

func (e *elder) DeleteResource(_ context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	e.wants("Delete", r.Ref, elderRef())
	return sdk.DeleteResourceResult{}, nil
}

func (e *elder) DiffResource(_ context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	e.wants("Diff", r, sdk.DiffResourceRequest{Desired: elderResource(), Current: elderOutput()})
	return elderDiff(), nil
}

func (e *elder) ScaleResource(_ context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	e.wants("Scale", []any{r.Ref, r.Replicas}, []any{elderRef(), 3})
	return sdk.ScaleResourceResult{Output: elderOutput()}, nil
}

func (e *elder) HealthCheckResource(_ context.Context, r sdk.HealthCheckResourceRequest) (sdk.HealthCheckResourceResult, error) {
	e.wants("HealthCheck", r.Ref, elderRef())
	return sdk.HealthCheckResourceResult{Healthy: true, Message: "fine"}, nil
}

func (e *elder) SensitiveKeys(_ context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	e.wants("SensitiveKeys", r.Type, "elder.box")
	return sdk.SensitiveKeysResult{Keys: []string{"a", "b"}}, nil
}

func (e *elder) TroubleshootResource(_ context.Context, r sdk.TroubleshootResourceRequest) (sdk.TroubleshootResourceResult, error) {
	e.wants("Troubleshoot", r, sdk.TroubleshootResourceRequest{Ref: elderRef(), FailureMessage: "it jams"})
	return sdk.TroubleshootResourceResult{Diagnostics: elderDiagnostics()}, nil
}

// drivePublished is the host of published plugins: it makes every call of the two
// packages, and wants what an elder gives.
func drivePublished(t *testing.T, conn grpc.ClientConnInterface) {
	t.Helper()
	ctx := t.Context()
	about := workflowpb.NewPluginServiceClient(conn)
	if m, err := about.GetManifest(ctx, &emptypb.Empty{}); err != nil || m.GetName() != "elder" || m.GetVersion() != "1.2.3" || m.GetAuthor() != "me" || m.GetDescription() != "Does it." {
		t.Errorf("the manifest is %v, %v", m, err)
	}
	registry, err := about.GetContractRegistry(ctx, &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	var services []string
	for _, c := range registry.GetContracts() {
		if c.GetKind() == workflowpb.ContractKind_CONTRACT_KIND_SERVICE && strings.HasPrefix(c.GetServiceName(), "workflow.") {
			services = append(services, c.GetServiceName())
		}
	}
	if want := []string{"IaCProviderJobCanceler", "IaCProviderLogCapture", "IaCProviderRequired", "IaCProviderRunner", "ResourceDriver"}; len(services) != len(want) ||
		!slices.EqualFunc(services, want, func(s, name string) bool { return s == "workflow.plugin.external.iac."+name }) {
		t.Errorf("the registry has %q", services)
	}
	unimplemented(ctx, t, iacpb.NewIaCProviderRequiredClient(conn))
	d, err := iac.Driver(iac.Plugin{Kind: "elder", Conn: conn, Services: services, Config: json.RawMessage(`{"region":"é"}`)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Open(ctx, sdk.OpenRequest{Name: "prod", Owner: "me", LedgerID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := p.Check(ctx, sdk.CheckRequest{}); err != nil || !strings.Contains(res.Items[0].Detail, "elder 1.2.3") || !strings.Contains(res.Items[1].Detail, `"v2"`) {
		t.Errorf("check: %+v, %v", res, err)
	}
	driveJobs(ctx, t, p)
	driveResources(ctx, t, p)
	tailer, _ := sdk.Of(p, sdk.WorkloadLogs())
	ten, text := 10, ""
	for i, err := range tailer.TailLogs(ctx, sdk.TailLogsRequest{Path: "elder.app/main/web", Tail: &ten}) {
		if err != nil {
			t.Errorf("tail: %v", err)
			break
		}
		text += string(i.Entry.Stream) + " " + string(i.Entry.Data)
	}
	if text != "stderr up\n" {
		t.Errorf("the workload wrote %q", text)
	}
}

// unimplemented calls what a provider of jobs doesn't have.
func unimplemented(ctx context.Context, t *testing.T, c iacpb.IaCProviderRequiredClient) {
	t.Helper()
	var errs []error
	note := func(_ any, err error) { errs = append(errs, err) }
	note(c.Plan(ctx, &iacpb.PlanRequest{}))
	note(c.Destroy(ctx, &iacpb.DestroyRequest{}))
	note(c.Status(ctx, &iacpb.StatusRequest{}))
	note(c.Import(ctx, &iacpb.ImportRequest{}))
	note(c.ResolveSizing(ctx, &iacpb.ResolveSizingRequest{}))
	note(c.BootstrapStateBackend(ctx, &iacpb.BootstrapStateBackendRequest{}))
	for i, err := range errs {
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("call %d of what isn't there: %v", i, err)
		}
	}
}

func driveJobs(ctx context.Context, t *testing.T, p sdk.Provider) {
	t.Helper()
	jobs, _ := sdk.Of(p, sdk.Runner())
	run := func(image string) (sdk.JobHandle, error) {
		l, err := jobs.PrepareJob(ctx, sdk.PrepareJobRequest{RunID: sdk.ID{15: 1}, AttemptID: sdk.ID{15: 2}, Attempt: 1, Spec: sdk.JobSpec{V: sdk.SpecVersion, Name: "mine", Image: image, Entrypoint: sdk.Argv{"printf"},
			Args: sdk.Argv{"%s|", "a b", "$HOME", "é"}, Env: map[string]string{"A": "value of a", "B": ""}, Secrets: map[string]sdk.SecretRef{"S": "secret://vault/x#y"}, Timeout: 7 * time.Minute}})
		if err != nil || len(l.Problems) > 0 {
			t.Fatalf("prepare: %v, %v", l.Problems, err)
		}
		res, err := jobs.RunJob(ctx, sdk.RunJobRequest{Launch: l})
		return res.Handle, err
	}
	h, err := run("app:1")
	if err != nil || h.ID != "job-1" || h.Name != "one" || h.Metadata["provider"] != "elder" {
		t.Errorf("run: %+v, %v", h, err)
	}
	var e *sdk.Error
	if _, err := run("app:full"); !errors.As(err, &e) || e.Code != sdk.ResourceExhausted || e.Field != "cpu" || !e.Retryable || e.RetryAfter != 90*time.Second || e.Remedy != "wait" || e.Err.Error() != "no room" ||
		status.Code(err) != codes.ResourceExhausted {
		t.Errorf("run where there is no room: %+v", err)
	}
	states := []sdk.JobState{sdk.StatePending, sdk.StateRunning, sdk.StateUnknown, sdk.StateSucceeded, sdk.StateFailed, sdk.StateFailed, sdk.StateFailed, sdk.StateCancelled}
	exits := map[int]int{3: 0, 4: 7, 7: 143}
	for i, want := range states {
		st, err := jobs.JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
		exit, ended := exits[i]
		if err != nil || st.State != want || (st.ExitCode != nil) != ended || ended && *st.ExitCode != exit {
			t.Errorf("state %d: %+v, %v", i, st, err)
		}
	}
	cancel, _ := sdk.Of(p, sdk.Canceler())
	if res, err := cancel.CancelJob(ctx, sdk.CancelJobRequest{Handle: h}); err != nil || !res.Accepted || res.Gone {
		t.Errorf("cancel: %+v, %v", res, err)
	}
	logs, _ := sdk.Of(p, sdk.Logger())
	text, verdict := "", sdk.Verdict("")
	for i, err := range logs.JobLogs(ctx, sdk.JobLogsRequest{Handle: h}) {
		switch {
		case err != nil:
			t.Errorf("logs: %v", err)
		case i.Entry != nil:
			text += string(i.Entry.Stream) + " " + string(i.Entry.Data)
		case i.End != nil:
			verdict = i.End.Verdict
		}
	}
	if text != "stdout out é\nstderr bad \xff\n" || verdict != sdk.VerdictQuiet {
		t.Errorf("the job wrote %q, %s", text, verdict)
	}
}

func driveResources(ctx context.Context, t *testing.T, p sdk.Provider) {
	t.Helper()
	d, _ := sdk.Of(p, sdk.Resources())
	wants := func(what string, got any, err error, want any) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s gave\n%+v, %v, want\n%+v", what, got, err, want)
		}
	}
	created, err := d.CreateResource(ctx, sdk.CreateResourceRequest{OpID: sdk.ID{15: 3}, Spec: elderResource()})
	wants("create", created.Output, err, elderOutput())
	read, err := d.ReadResource(ctx, sdk.ReadResourceRequest{Ref: elderRef()})
	wants("read", read.Output, err, elderOutput())
	updated, err := d.UpdateResource(ctx, sdk.UpdateResourceRequest{OpID: sdk.ID{15: 4}, Ref: elderRef(), Spec: elderResource()})
	wants("update", updated.Output, err, elderOutput())
	diff, err := d.DiffResource(ctx, sdk.DiffResourceRequest{Desired: elderResource(), Current: elderOutput()})
	wants("diff", diff, err, elderDiff())
	scaled, err := d.ScaleResource(ctx, sdk.ScaleResourceRequest{OpID: sdk.ID{15: 5}, Ref: elderRef(), Replicas: 3})
	wants("scale", scaled.Output, err, elderOutput())
	health, err := d.HealthCheckResource(ctx, sdk.HealthCheckResourceRequest{Ref: elderRef()})
	wants("health", health, err, sdk.HealthCheckResourceResult{Healthy: true, Message: "fine"})
	keys, err := d.SensitiveKeys(ctx, sdk.SensitiveKeysRequest{Type: "elder.box"})
	wants("sensitive keys", keys.Keys, err, []string{"a", "b"})
	doctor, _ := sdk.Of(p, sdk.Troubleshooting())
	found, err := doctor.TroubleshootResource(ctx, sdk.TroubleshootResourceRequest{Ref: elderRef(), FailureMessage: "it jams"})
	wants("troubleshoot", found.Diagnostics, err, elderDiagnostics())
	_, err = d.DeleteResource(ctx, sdk.DeleteResourceRequest{OpID: sdk.ID{15: 6}, Ref: elderRef()})
	wants("delete", nil, err, nil)
}
