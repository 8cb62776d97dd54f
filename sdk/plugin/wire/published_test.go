package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"iter"
	"net"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// publishedCalls is the file of a release with the calls of the published packages.
const publishedCalls = "published.json"

// TestReleasedPublished replays the calls of the published packages, as a release made
// them: today's plugin answers the host of then as its own did. TestReleasedPlugin of
// internal/pluginhost/iac is the other direction.
func TestReleasedPublished(t *testing.T) {
	if *record != "" {
		if *listen != "" {
			recordPublished(t, filepath.Join(releases, *record, publishedCalls))
		}
		return
	}
	files, err := filepath.Glob(filepath.Join(releases, "*", publishedCalls))
	if err != nil || len(files) == 0 {
		t.Fatalf("no releases: %v", err)
	}
	for _, at := range files {
		t.Run(filepath.Base(filepath.Dir(at)), func(t *testing.T) {
			calls, old := readReleased(t, filepath.Dir(at), publishedCalls)
			t.Run("every method", func(t *testing.T) { old.covered(t, calls, "workflow.plugin.v1", "workflow.plugin.external.iac") })
			t.Run("old host", func(t *testing.T) { replay(t, old, calls, serveElder(t)) })
		})
	}
}

// listen is where the plugin waits for the host whose calls are recorded.
var listen = flag.String("listen", "", "with -record: serve the plugin on that `socket` to one host, and write what it calls")

// recordPublished serves the plugin to the host that drivePublished of
// internal/pluginhost/iac is, and writes its calls when it has left.
func recordPublished(t *testing.T, file string) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", *listen)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	left := make(left)
	g := grpc.NewServer(append(wire.ServerOptions(), grpc.UnaryInterceptor(r.unary), grpc.StreamInterceptor(r.stream), grpc.StatsHandler(left))...)
	s := registerElder(t, g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("no host came and left")
	}
	g.Stop()
	if err := errors.Join(<-served, s.Close()); err != nil {
		t.Fatal(err)
	}
	if !t.Failed() {
		writeCalls(t, file, r.calls)
	}
}

// left is closed when a connection ends.
type left chan struct{}

func (left) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (left) HandleRPC(context.Context, stats.RPCStats)                         {}
func (left) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (l left) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok {
		close(l)
	}
}

// unary and stream note calls at the plugin's end.
func (r *recorder) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	c := r.begin(info.FullMethod)
	r.note(&c.Requests, req)
	res, err := next(ctx, req)
	if err != nil {
		r.failed(c, err)
		return nil, err
	}
	r.note(&c.Replies, res)
	return res, nil
}

func (r *recorder) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	c := r.begin(info.FullMethod)
	err := next(srv, &recordedEnd{ServerStream: s, r: r, c: c})
	r.failed(c, err)
	return err
}

type recordedEnd struct {
	grpc.ServerStream
	r *recorder
	c *recorded
}

func (s *recordedEnd) SendMsg(m any) error {
	s.r.note(&s.c.Replies, m)
	return s.ServerStream.SendMsg(m)
}

func (s *recordedEnd) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.r.note(&s.c.Requests, m)
	}
	return err
}

func serveElder(t *testing.T) *grpc.ClientConn {
	t.Helper()
	var s *plugin.Server
	conn := plugintest.Serve(t, func(r grpc.ServiceRegistrar) { s = registerElder(t, r) })
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func registerElder(t *testing.T, r grpc.ServiceRegistrar) *plugin.Server {
	t.Helper()
	e := &elder{t: t}
	d := sdk.Driver{Kind: "elder", Capabilities: sdk.CapabilitiesOf[*elder](), Guarantees: e.Info().Guarantees, Open: func(_ context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		e.wants("config", string(r.Config), `{"region":"é"}`)
		return e, nil
	}}
	s, err := plugin.Register(r, d, plugin.WithStateDir(t.TempDir()), plugin.WithManifest(plugin.Manifest{Name: "elder", Version: "1.2.3", Author: "me", Description: "Does it."}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// elder is a provider that has all that the published wire has a place for. It wants to
// be asked for what the release's host asked, and answers the same each time.
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
