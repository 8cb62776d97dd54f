//go:build linux

package iac_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/internal/pluginhost/iac"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/client"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// mirror is a provider of ours that keeps what it was asked, and answers with all
// members set.
type mirror struct {
	asked any
	ops   []sdk.ID
	// told is where a mirror in a process of its own leaves both after each call.
	told string
}

func (m *mirror) keep(r any) error {
	m.asked = r
	if m.told == "" {
		return nil
	}
	var b bytes.Buffer
	if err := errors.Join(gob.NewEncoder(&b).Encode(m.ops), gob.NewEncoder(&b).Encode(r)); err != nil {
		return err
	}
	return os.WriteFile(m.told, b.Bytes(), 0o600)
}

func (m *mirror) Info() sdk.Info { return sdk.Info{Name: "mirror", Kind: "mirror"} }
func (m *mirror) Check(context.Context, sdk.CheckRequest) (sdk.CheckResult, error) {
	return sdk.CheckResult{}, nil
}
func (m *mirror) Close() error { return nil }

func fullOutput() sdk.ResourceOutput {
	return sdk.ResourceOutput{Name: "n é", Type: "box", ProviderID: "id", Outputs: json.RawMessage(`{ "a" : 1.50, "b":"<&>" }`), Sensitive: map[string]bool{"a": true, "b": false}, Status: "up"}
}

func (m *mirror) CreateResource(_ context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	m.ops, r.OpID = append(m.ops, r.OpID), sdk.ID{}
	return sdk.CreateResourceResult{Output: fullOutput()}, m.keep(r)
}

func (m *mirror) ReadResource(_ context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	return sdk.ReadResourceResult{Output: fullOutput()}, m.keep(r)
}

func (m *mirror) UpdateResource(_ context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	m.ops, r.OpID = append(m.ops, r.OpID), sdk.ID{}
	return sdk.UpdateResourceResult{Output: fullOutput()}, m.keep(r)
}

func (m *mirror) DeleteResource(_ context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	m.ops, r.OpID = append(m.ops, r.OpID), sdk.ID{}
	return sdk.DeleteResourceResult{}, m.keep(r)
}

func fullDiff() sdk.DiffResourceResult {
	return sdk.DiffResourceResult{NeedsUpdate: true, NeedsReplace: true, Changes: []sdk.FieldChange{{Path: "a.b", Old: json.RawMessage(`1`), New: json.RawMessage(`{"x": 2}`), ForceNew: true}, {Path: "c"}}}
}

func (m *mirror) DiffResource(_ context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	return fullDiff(), m.keep(r)
}

func (m *mirror) ScaleResource(_ context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	m.ops, r.OpID = append(m.ops, r.OpID), sdk.ID{}
	return sdk.ScaleResourceResult{Output: fullOutput()}, m.keep(r)
}

func (m *mirror) HealthCheckResource(_ context.Context, r sdk.HealthCheckResourceRequest) (sdk.HealthCheckResourceResult, error) {
	return sdk.HealthCheckResourceResult{Healthy: true, Message: "fine"}, m.keep(r)
}

func (m *mirror) SensitiveKeys(_ context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	return sdk.SensitiveKeysResult{Keys: []string{"a", "b"}}, m.keep(r)
}

func fullDiagnostics() []sdk.Diagnostic {
	return []sdk.Diagnostic{{ID: "1", Phase: "start", Cause: "why", At: time.Unix(1_700_000_000, 5).UTC(), Detail: "more"}, {Cause: "x"}}
}

func (m *mirror) TroubleshootResource(_ context.Context, r sdk.TroubleshootResourceRequest) (sdk.TroubleshootResourceResult, error) {
	return sdk.TroubleshootResourceResult{Diagnostics: fullDiagnostics()}, m.keep(r)
}

// published opens a driver of ours through the published wire, both ends ours.
func published(t *testing.T, register func(grpc.ServiceRegistrar), services ...string) sdk.Provider {
	t.Helper()
	services = append(services, pb.IaCProviderRequired_ServiceDesc.ServiceName)
	d, err := iac.Driver(iac.Plugin{Kind: "mirror", Conn: plugintest.Serve(t, register), Services: services})
	if err != nil {
		t.Fatal(err)
	}
	return open(t, d)
}

func open(t *testing.T, d sdk.Driver) sdk.Provider {
	t.Helper()
	p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "theirs", Owner: "me", LedgerID: "l", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func mirrorDriver(m *mirror) sdk.Driver {
	return sdk.Driver{Kind: "mirror", Capabilities: sdk.CapabilitiesOf[*mirror](), Open: func(context.Context, sdk.OpenRequest) (sdk.Provider, error) { return m, nil }}
}

func served(t *testing.T, m *mirror) func(grpc.ServiceRegistrar) {
	return func(r grpc.ServiceRegistrar) {
		s, err := plugin.Register(r, mirrorDriver(m))
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = s.Close() })
	}
}

// TestResourcesRoundTrip sends every verb with every field set over the published wire
// there and back: what that wire lacks (the ID of a change) is all that is lost.
func TestResourcesRoundTrip(t *testing.T) {
	m := &mirror{}
	p := published(t, served(t, m), pb.ResourceDriver_ServiceDesc.ServiceName)
	roundTrip(t, p, func(any) (any, []sdk.ID) { return m.asked, m.ops }, false)
}

// TestResourcesRoundTripOverAChild does the same to a plugin in a process of its own, over
// the published wire and over ours, which carries the ID of a change too.
func TestResourcesRoundTripOverAChild(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	conn := child(t, told)
	asked := func(like any) (any, []sdk.ID) {
		b, err := os.ReadFile(told)
		if err != nil {
			t.Fatal(err)
		}
		in := bytes.NewBuffer(b)
		var ops []sdk.ID
		got := reflect.New(reflect.TypeOf(like))
		if err := errors.Join(gob.NewDecoder(in).Decode(&ops), gob.NewDecoder(in).DecodeValue(got)); err != nil {
			t.Fatal(err)
		}
		return got.Elem().Interface(), ops
	}
	t.Run("published", func(t *testing.T) {
		d, err := iac.Driver(iac.Plugin{Kind: "mirror", Conn: conn, Services: []string{pb.ResourceDriver_ServiceDesc.ServiceName, pb.IaCProviderRequired_ServiceDesc.ServiceName}})
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, open(t, d), asked, false)
	})
	t.Run("ours", func(t *testing.T) {
		d, err := client.Driver(t.Context(), conn, sdk.NewIDSource(sdk.SystemClock()))
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, open(t, d), asked, true)
	})
}

// childVariable names the file of a mirror in a process of its own.
const childVariable = "WL_MIRROR_TOLD"

func TestMain(m *testing.M) {
	if told := os.Getenv(childVariable); told != "" {
		plugin.Serve(mirrorDriver(&mirror{told: told}))
		return
	}
	goleak.VerifyTestMain(m)
}

// child starts this program as a plugin, through go-plugin's own client.
func child(t *testing.T, told string) *grpc.ClientConn {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+told)
	c := goplugin.NewClient(&goplugin.ClientConfig{HandshakeConfig: plugin.Handshake(), Plugins: goplugin.PluginSet{plugin.SetKey: anyHost{}}, Cmd: cmd,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(), GRPCDialOptions: wire.DialOptions()})
	t.Cleanup(c.Kill)
	session, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := session.Dispense(plugin.SetKey)
	if err != nil {
		t.Fatal(err)
	}
	return conn.(*grpc.ClientConn)
}

// anyHost wants nothing of a plugin but the connection.
type anyHost struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (anyHost) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return nil }

func (anyHost) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// allSet finds members that nobody sets, as those of a later release.
func allSet(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		if f := v.Type().Field(i); v.Field(i).IsZero() {
			t.Errorf("%s.%s isn't set", v.Type(), f.Name)
		} else if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]() {
			allSet(t, v.Field(i))
		}
	}
}

// roundTrip calls every verb with every field set; asked tells what came of it at the other
// end, and which IDs its changes had: those of the calls where ids says so.
func roundTrip(t *testing.T, p sdk.Provider, asked func(like any) (any, []sdk.ID), ids bool) {
	t.Helper()
	d, ok := sdk.Of(p, sdk.Resources())
	if !ok {
		t.Fatal("there is no ResourceDriver")
	}
	tr, ok := sdk.Of(p, sdk.Troubleshooting())
	if !ok {
		t.Fatal("there is no Troubleshooter")
	}
	const changes = 4 // create, update, delete, scale
	ctx, op := t.Context(), sdk.NewIDSource(sdk.SystemClock()).NewID()
	spec := sdk.ResourceSpec{Name: "n é", Type: "box", Config: json.RawMessage(`{ "z" : 1e400, "a":[1, 2] }`), Size: "large",
		Hints: sdk.ResourceHints{CPU: "1", Memory: "2", Storage: "3"}, DependsOn: []string{"x", "y"}}
	ref := sdk.ResourceRef{Name: "n", Type: "box", ProviderID: "id"}
	for _, v := range []any{spec, ref, fullOutput(), fullDiff(), fullDiff().Changes[0], fullDiagnostics()[0]} {
		allSet(t, reflect.ValueOf(v))
	}
	check := func(what string, got, want any, err error, sent any) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s gave\n%+v, %v\nwant\n%+v", what, got, err, want)
		}
		if there, _ := asked(sent); !reflect.DeepEqual(there, sent) {
			t.Errorf("%s asked\n%+v\nwant\n%+v", what, there, sent)
		}
	}
	created, err := d.CreateResource(ctx, sdk.CreateResourceRequest{OpID: op, Spec: spec})
	check("create", created.Output, fullOutput(), err, sdk.CreateResourceRequest{Spec: spec})
	read, err := d.ReadResource(ctx, sdk.ReadResourceRequest{Ref: ref})
	check("read", read, sdk.ReadResourceResult{Output: fullOutput()}, err, sdk.ReadResourceRequest{Ref: ref})
	updated, err := d.UpdateResource(ctx, sdk.UpdateResourceRequest{OpID: op, Ref: ref, Spec: spec})
	check("update", updated.Output, fullOutput(), err, sdk.UpdateResourceRequest{Ref: ref, Spec: spec})
	_, err = d.DeleteResource(ctx, sdk.DeleteResourceRequest{OpID: op, Ref: ref})
	check("delete", nil, nil, err, sdk.DeleteResourceRequest{Ref: ref})
	diff, err := d.DiffResource(ctx, sdk.DiffResourceRequest{Desired: spec, Current: fullOutput()})
	check("diff", diff, fullDiff(), err, sdk.DiffResourceRequest{Desired: spec, Current: fullOutput()})
	scaled, err := d.ScaleResource(ctx, sdk.ScaleResourceRequest{OpID: op, Ref: ref, Replicas: math.MaxInt32})
	check("scale", scaled.Output, fullOutput(), err, sdk.ScaleResourceRequest{Ref: ref, Replicas: math.MaxInt32})
	health, err := d.HealthCheckResource(ctx, sdk.HealthCheckResourceRequest{Ref: ref})
	check("health", health, sdk.HealthCheckResourceResult{Healthy: true, Message: "fine"}, err, sdk.HealthCheckResourceRequest{Ref: ref})
	keys, err := d.SensitiveKeys(ctx, sdk.SensitiveKeysRequest{Type: "box"})
	check("sensitive keys", keys.Keys, []string{"a", "b"}, err, sdk.SensitiveKeysRequest{Type: "box"})
	why, err := tr.TroubleshootResource(ctx, sdk.TroubleshootResourceRequest{Ref: ref, FailureMessage: "it failed"})
	check("troubleshoot", why.Diagnostics, fullDiagnostics(), err, sdk.TroubleshootResourceRequest{Ref: ref, FailureMessage: "it failed"})
	like := sdk.TroubleshootResourceRequest{}
	_, ops := asked(like)
	// Where the wire has none, our server brings an ID of its own to each change.
	seen := map[sdk.ID]bool{}
	for _, id := range ops[len(ops)-changes:] {
		if id.IsZero() || ids != (id == op) || !ids && seen[id] {
			t.Errorf("the changes had the IDs %v, the calls %v", ops, op)
		}
		seen[id] = true
	}
	for _, n := range []int{-1, math.MaxInt32 + 1} {
		if _, err := d.ScaleResource(ctx, sdk.ScaleResourceRequest{OpID: op, Ref: ref, Replicas: n}); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("scale to %d: %v", n, err)
		}
	}
	if _, after := asked(like); len(after) != len(ops) {
		t.Error("a number out of range was sent")
	}
}

// theirs is a published plugin that has no more of ResourceDriver than what it must.
type theirs struct {
	pb.UnimplementedIaCProviderRequiredServer
	pb.UnimplementedResourceDriverServer
	troubled atomic.Int64
}

func (*theirs) Initialize(context.Context, *pb.InitializeRequest) (*pb.InitializeResponse, error) {
	return &pb.InitializeResponse{}, nil
}

func (*theirs) Name(context.Context, *pb.NameRequest) (*pb.NameResponse, error) {
	return &pb.NameResponse{Name: "theirs"}, nil
}

func (*theirs) Version(context.Context, *pb.VersionRequest) (*pb.VersionResponse, error) {
	return &pb.VersionResponse{Version: "1"}, nil
}

func (*theirs) Capabilities(context.Context, *pb.CapabilitiesRequest) (*pb.CapabilitiesResponse, error) {
	return &pb.CapabilitiesResponse{ComputePlanVersion: "v2"}, nil
}

func (*theirs) Read(_ context.Context, m *pb.ResourceReadRequest) (*pb.ResourceReadResponse, error) {
	if m.GetRef().GetName() == "empty" {
		return &pb.ResourceReadResponse{}, nil
	}
	return nil, status.Error(codes.NotFound, "no such box")
}

func (x *theirs) Troubleshoot(context.Context, *pb.TroubleshootRequest) (*pb.TroubleshootResponse, error) {
	x.troubled.Add(1)
	return nil, status.Error(codes.Unimplemented, "unknown method Troubleshoot")
}

// TestTroubleshootAbsent: an Unimplemented reply means that it isn't there, which is
// remembered: it is asked once.
func TestTroubleshootAbsent(t *testing.T) {
	x := &theirs{}
	p := published(t, func(r grpc.ServiceRegistrar) {
		pb.RegisterIaCProviderRequiredServer(r, x)
		pb.RegisterResourceDriverServer(r, x)
	}, pb.ResourceDriver_ServiceDesc.ServiceName)
	tr, ok := sdk.Of(p, sdk.Troubleshooting())
	if !ok {
		t.Fatal("it isn't there before it was asked for")
	}
	ref := sdk.ResourceRef{Name: "a", Type: "box"}
	for range 3 {
		_, err := tr.TroubleshootResource(t.Context(), sdk.TroubleshootResourceRequest{Ref: ref})
		if !errors.Is(err, sdk.Unimplemented) || !strings.Contains(err.Error(), "Troubleshooter") || !strings.Contains(err.Error(), "theirs") {
			t.Errorf("got %v", err)
		}
	}
	if n := x.troubled.Load(); n != 1 || sdk.Has(p, sdk.Troubleshooting().String()) {
		t.Errorf("it was asked %d times, and is there: %t", n, sdk.Has(p, sdk.Troubleshooting().String()))
	}
	d, _ := sdk.Of(p, sdk.Resources())
	if _, err := d.ReadResource(t.Context(), sdk.ReadResourceRequest{Ref: ref}); !errors.Is(err, sdk.NotFound) {
		t.Errorf("read: %v", err)
	}
	// A reply without what it is about proves nothing.
	if _, err := d.ReadResource(t.Context(), sdk.ReadResourceRequest{Ref: sdk.ResourceRef{Name: "empty", Type: "box"}}); err == nil || sdk.IsClear(err) {
		t.Errorf("an empty reply: %v", err)
	}
	if _, err := d.SensitiveKeys(t.Context(), sdk.SensitiveKeysRequest{Type: "box"}); !errors.Is(err, sdk.Unimplemented) {
		t.Errorf("sensitive keys: %v", err)
	}
}

// TestResourcesAbsent: a service that isn't listed isn't there, and using it anyway
// names plugin and capability.
func TestResourcesAbsent(t *testing.T) {
	p := published(t, served(t, &mirror{}))
	if sdk.Has(p, sdk.Resources().String()) || sdk.Has(p, sdk.Troubleshooting().String()) {
		t.Error("a service that isn't listed is there")
	}
	d, ok := p.(sdk.ResourceDriver)
	if !ok {
		t.Fatal("the proxy has no methods")
	}
	if _, err := d.ReadResource(t.Context(), sdk.ReadResourceRequest{}); !errors.Is(err, sdk.Unimplemented) || !strings.Contains(err.Error(), "kind mirror has no ResourceDriver") {
		t.Errorf("got %v", err)
	}
}
