package iac_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/internal/pluginhost/iac"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/workflowpb"
)

// TestReleasedPlugin asks the plugin of each release as that release's own host did: every
// request is the one of then, and what the plugin answered means the same.
// TestReleasedPublished of sdk/plugin/wire is the other direction.
func TestReleasedPlugin(t *testing.T) {
	if *dial != "" {
		conn, err := grpc.NewClient("unix:"+*dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		drivePublished(t, conn)
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	files, err := filepath.Glob("../../../proto/released/*/published.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no releases: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := &oldPlugin{t: t}
		if err := json.Unmarshal(text, &p.calls); err != nil {
			t.Fatal(err)
		}
		drivePublished(t, p)
		if len(p.calls) > 0 {
			t.Errorf("%s: %d calls weren't made, the first is %s", file, len(p.calls), p.calls[0].Method)
		}
	}
}

// dial has the host ask a plugin that records it, for scripts/record.
var dial = flag.String("dial", "", "ask the plugin on that `socket`")

// oldCall is a call as it was recorded: see proto/released/README.md.
type oldCall struct {
	Method   string
	Requests [][]byte
	Replies  [][]byte
	Status   []byte
}

// oldPlugin wants the requests of then, and answers what was answered.
type oldPlugin struct {
	t     testing.TB
	mu    sync.Mutex
	calls []*oldCall // those that weren't made yet
}

func (p *oldPlugin) next(method string) *oldCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.calls, func(c *oldCall) bool { return c.Method == method })
	if i < 0 {
		p.t.Errorf("%s was called, and wasn't then", method)
		return &oldCall{Method: method}
	}
	c := p.calls[i]
	p.calls = slices.Delete(p.calls, i, i+1)
	return c
}

func (p *oldPlugin) wants(c *oldCall, m any) {
	then := m.(proto.Message).ProtoReflect().New().Interface()
	if len(c.Requests) != 1 || proto.Unmarshal(c.Requests[0], then) != nil || !proto.Equal(m.(proto.Message), then) {
		p.t.Errorf("%s was asked with\n%v, then with\n%v", c.Method, m, then)
	}
}

func (p *oldPlugin) Invoke(_ context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	c := p.next(method)
	p.wants(c, args)
	var st rpcstatus.Status
	switch {
	case c.Status != nil && proto.Unmarshal(c.Status, &st) == nil:
		return status.ErrorProto(&st)
	case len(c.Replies) != 1:
		return sdk.Internal
	}
	return proto.Unmarshal(c.Replies[0], reply.(proto.Message))
}

func (p *oldPlugin) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return &oldStream{ctx: ctx, p: p, c: p.next(method)}, nil
}

type oldStream struct {
	ctx  context.Context
	p    *oldPlugin
	c    *oldCall
	read int
}

func (s *oldStream) Header() (metadata.MD, error) { return metadata.MD{}, nil }
func (s *oldStream) Trailer() metadata.MD         { return metadata.MD{} }
func (s *oldStream) CloseSend() error             { return nil }
func (s *oldStream) Context() context.Context     { return s.ctx }

func (s *oldStream) SendMsg(m any) error {
	s.p.wants(s.c, m)
	return nil
}

func (s *oldStream) RecvMsg(m any) error {
	if s.read == len(s.c.Replies) {
		return io.EOF
	}
	s.read++
	return proto.Unmarshal(s.c.Replies[s.read-1], m.(proto.Message))
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
