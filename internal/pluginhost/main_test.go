//go:build unix

package pluginhost_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/workflowpb"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// The test binary is the plugin, too. What it does wrong is in its environment, which a
// host gives it by name alone.
const (
	modeVar = "PLUGIN_MODE"
	dirVar  = "PLUGIN_DIR"
)

func TestMain(m *testing.M) {
	if os.Getenv(plugin.CookieKey) == plugin.CookieValue {
		be(os.Getenv(modeVar), os.Getenv(dirVar))
		return
	}
	goleak.VerifyTestMain(m)
}

// be is a plugin's main.
func be(mode, dir string) {
	switch mode {
	case "silent":
		touch(dir, "begun")
		select {}
	case "exits":
		_, _ = fmt.Fprintln(os.Stderr, "no luck with canary today")
		os.Exit(3)
	case "core 9":
		fmt.Println("9|1|unix|/nowhere|grpc")
		select {}
	case "version 99":
		fmt.Println("1|99|unix|/nowhere|grpc")
		select {}
	case "version 0":
		fmt.Println("1|0|unix|/nowhere|grpc")
		select {}
	case "garbage":
		fmt.Println("hello there")
		select {}
	case "endless":
		for line := bytes.Repeat([]byte("x"), 1<<16); ; {
			_, _ = os.Stdout.Write(line)
		}
	case "flood":
		go func() {
			for i := range 200_000 {
				_, _ = fmt.Fprintf(os.Stderr, "line %d %s\n", i, strings.Repeat("y", 100))
			}
			_, _ = os.Stderr.Write(bytes.Repeat([]byte("z"), 1<<20))
			touch(dir, "flooded")
		}()
	case "forks":
		// In its group, and holding its standard error.
		cmd := exec.Command("/bin/sleep", "1000") // it is to outlive everything
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		_ = os.WriteFile(filepath.Join(dir, "forked"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
	case "tells":
		_ = os.WriteFile(filepath.Join(dir, "environment"), []byte(strings.Join(append(os.Environ(), os.Args[1:]...), "\n")), 0o600)
		wd, _ := os.Getwd()
		_ = os.WriteFile(filepath.Join(dir, "folder"), []byte(wd), 0o600)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			touch(dir, "host gone")
		}()
	}
	r := &rogue{mode: mode, dir: dir}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: plugin.Handshake(),
		Plugins:         goplugin.PluginSet{plugin.SetKey: r},
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			o = append(o, grpc.MaxSendMsgSize(1<<30), grpc.UnaryInterceptor(r.unary), grpc.StreamInterceptor(r.stream))
			return grpc.NewServer(o...)
		},
	})
}

func touch(dir, name string) { _ = os.WriteFile(filepath.Join(dir, name), nil, 0o600) }

func there(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// rogue serves the fake, and misbehaves as its mode says.
type rogue struct {
	goplugin.NetRPCUnsupportedPlugin
	workflowpb.UnimplementedPluginServiceServer
	mode, dir string
	services  []string
}

func (r *rogue) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	if r.mode == "published" {
		iacpb.RegisterIaCProviderRequiredServer(s, &memory{dir: r.dir})
	} else {
		d := fake.Driver()
		if r.mode == "picky" {
			d.Open = func(_ context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
				return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Field: "config.name", Err: errors.New("no such planet")}
			}
		}
		if _, err := plugin.Register(but{s}, d); err != nil {
			return err
		}
	}
	for name := range s.GetServiceInfo() {
		r.services = append(r.services, name)
	}
	workflowpb.RegisterPluginServiceServer(s, r)
	return nil
}

// memory is a plugin of the published wire that forgets its jobs when it is initialized
// again. It notes what it was told, in a file for each process.
type memory struct {
	iacpb.UnimplementedIaCProviderRequiredServer
	dir string
}

func (m *memory) Initialize(_ context.Context, r *iacpb.InitializeRequest) (*iacpb.InitializeResponse, error) {
	f, err := os.OpenFile(filepath.Join(m.dir, "told "+strconv.Itoa(os.Getpid())), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(f, "%s\n", r.GetConfigJson()); err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(os.NewFile(2, "stderr"), "told %s\n", r.GetConfigJson())
	if strings.Contains(string(r.GetConfigJson()), "refused") {
		err = status.Error(codes.InvalidArgument, "no such region")
	}
	return &iacpb.InitializeResponse{}, errors.Join(err, f.Close())
}

func (m *memory) Name(context.Context, *iacpb.NameRequest) (*iacpb.NameResponse, error) {
	return &iacpb.NameResponse{Name: "memory"}, nil
}

// but registers all but what the rogue answers itself.
type but struct{ *grpc.Server }

func (b but) RegisterService(d *grpc.ServiceDesc, impl any) {
	if d.ServiceName != workflowpb.PluginService_ServiceDesc.ServiceName {
		b.Server.RegisterService(d, impl)
	}
}

func (r *rogue) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (r *rogue) GetManifest(ctx context.Context, m *emptypb.Empty) (*workflowpb.Manifest, error) {
	switch r.mode {
	case "no manifest":
		return r.UnimplementedPluginServiceServer.GetManifest(ctx, m)
	case "mute":
		select {}
	}
	return &workflowpb.Manifest{Name: "fake", Author: "tester"}, nil
}

func (r *rogue) GetContractRegistry(ctx context.Context, m *emptypb.Empty) (*workflowpb.ContractRegistry, error) {
	if r.mode == "no registry" {
		return r.UnimplementedPluginServiceServer.GetContractRegistry(ctx, m)
	}
	out := &workflowpb.ContractRegistry{}
	for _, s := range append(r.services, "some.other.Service") {
		if r.mode == "lies" && s == "windlass.provider.v1.JobLoggerService" {
			continue // it answers what it didn't advertise
		}
		out.Contracts = append(out.Contracts, &workflowpb.ContractDescriptor{Kind: workflowpb.ContractKind_CONTRACT_KIND_SERVICE, ServiceName: s,
			Mode: workflowpb.ContractMode_CONTRACT_MODE_STRICT_PROTO})
	}
	return out, nil
}

func (r *rogue) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	switch name := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]; {
	case r.mode == "tattles" && name == "Open":
		for name, v := range req.(*pb.OpenRequest).GetCredentials() {
			_, _ = fmt.Fprintf(os.NewFile(2, "stderr"), "got %s=%s\n", name, v)
		}
	case r.mode == "crashes" && name == "JobStatus" && there(r.dir, "crash"):
		_ = os.Remove(filepath.Join(r.dir, "crash"))
		_, _ = fmt.Fprintln(os.NewFile(2, "stderr"), "goodbye cruel canary") // as a panic does
		os.Exit(4)
	case r.mode == "hangs" && name == "JobStatus":
		select {}
	case r.mode == "big" && name == "Check":
		return &pb.CheckResponse{Items: []*pb.CheckItem{{Name: "big", Detail: strings.Repeat("b", 100<<20)}}}, nil
	case r.mode == "lies" && name == "CancelJob":
		return pb.UnimplementedJobCancelerServiceServer{}.CancelJob(ctx, nil)
	case r.mode == "enum" && name == "JobStatus":
		return &pb.JobStatusResponse{State: "exploded", Reason: "bored"}, nil
	case r.mode == "deaf" && name == "Check":
		// Its socket goes away, and the process stays.
		_ = os.Remove(filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "nothing"))
		files, _ := os.ReadDir(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
		for _, f := range files {
			_ = os.Remove(filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), f.Name()))
		}
		touch(r.dir, "deaf")
		closeSockets()
		select {}
	case r.mode == "stops" && name == "JobStatus" && !there(r.dir, "stopped"):
		touch(r.dir, "stopped")
		stopSelf()
		select {} // a thread may go on for a moment
	}
	return next(ctx, req)
}

func (r *rogue) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if r.mode == "big" && strings.HasSuffix(info.FullMethod, "/JobLogs") {
		return s.SendMsg(&pb.JobLogsResponse{Items: []*pb.JobLogsItem{{Item: &pb.JobLogsItem_Entries{Entries: &pb.LogChunks{Data: make([]byte, 100<<20)}}}}})
	}
	if r.mode == "tattles" {
		s = tattling{s}
	}
	return next(srv, s)
}

// tattling says the secrets that it is told.
type tattling struct{ grpc.ServerStream }

func (t tattling) RecvMsg(m any) error {
	err := t.ServerStream.RecvMsg(m)
	if a, ok := m.(*pb.CallbacksRequest); ok && len(a.GetSecret()) > 0 {
		_, _ = fmt.Fprintf(os.NewFile(2, "stderr"), "resolved %s\n", a.GetSecret())
	}
	return err
}

// yard is a host with one plugin, called fake.
type yard struct {
	t       testing.TB
	dir     string
	host    *pluginhost.Host
	plugins *pluginhost.Plugins
	log     *logged
}

// logged is a log that may be read while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newYard makes a host whose plugin misbehaves as mode says. more are lines of the
// plugin's entry.
func newYard(t testing.TB, mode string, set func(*pluginhost.Options), more ...string) *yard {
	t.Helper()
	y := &yard{t: t, dir: t.TempDir(), log: &logged{}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(y.dir, "plugins", "fake")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(self, filepath.Join(at, "fake")); err != nil {
		data, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "fake"), data, 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	text := "plugins:\n  fake:\n    env: [" + modeVar + ", " + dirVar + ", NOT_SET]\n"
	for _, line := range more {
		text += "    " + line + "\n"
	}
	if err := os.WriteFile(filepath.Join(y.dir, config.FileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := config.EnvMap(map[string]string{"WINDLASS_PLUGINS": filepath.Join(y.dir, "plugins"), modeVar: mode, dirVar: y.dir, "SECRET": "not to be seen", "HOME": y.dir})
	c, err := config.Load(t.Context(), config.LoadRequest{Env: env, Dir: y.dir})
	if err != nil {
		t.Fatal(err)
	}
	o := pluginhost.Options{Log: slog.New(slog.NewTextHandler(y.log, nil)), Redact: func(s string) string { return strings.ReplaceAll(s, "canary", "[redacted]") }}
	if set != nil {
		set(&o)
	}
	y.host = pluginhost.New(o)
	y.plugins = &pluginhost.Plugins{Source: y.host, Config: c, IDs: sdk.NewIDSource(sdk.SystemClock())}
	t.Cleanup(func() {
		if err := y.host.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return y
}

// open opens the plugin's provider.
func (y *yard) open() sdk.Provider {
	y.t.Helper()
	p, err := y.tryOpen(sdk.OpenRequest{Config: json.RawMessage(`{"name": "c"}`)})
	if err != nil {
		y.t.Fatal(err)
	}
	return p
}

// tryOpen opens a provider with what r has and the rest filled in.
func (y *yard) tryOpen(r sdk.OpenRequest) (sdk.Provider, error) {
	y.t.Helper()
	d, err := y.plugins.Driver(y.t.Context(), "fake")
	if err != nil {
		y.t.Fatal(err)
	}
	r.Name, r.Owner, r.LedgerID, r.StateDir, r.CallTimeout = "prod", "me", "ledger", filepath.Join(y.dir, "state"), 30*time.Second
	if err := os.MkdirAll(r.StateDir, 0o700); err != nil {
		y.t.Fatal(err)
	}
	p, err := d.Open(y.t.Context(), r)
	if err != nil {
		return nil, err
	}
	y.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			y.t.Errorf("close: %v", err)
		}
	})
	return p, nil
}

func can[T any](t testing.TB, p sdk.Provider, c sdk.Capability[T]) T {
	t.Helper()
	v, ok := sdk.Of(p, c)
	if !ok {
		t.Fatalf("the provider has no %s", c)
	}
	return v
}

// run starts a job of the fake's words.
func (y *yard) run(p sdk.Provider, args ...string) sdk.JobHandle {
	y.t.Helper()
	ids := sdk.NewIDSource(sdk.SystemClock())
	runner := can(y.t, p, sdk.Runner())
	var argv sdk.Argv
	argv = append(argv, args...)
	l, err := runner.PrepareJob(y.t.Context(), sdk.PrepareJobRequest{Spec: sdk.JobSpec{V: sdk.SpecVersion, Args: argv}, RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1})
	if err != nil || len(l.Problems) > 0 {
		y.t.Fatalf("prepare: %v, %v", err, l.Problems)
	}
	res, err := runner.RunJob(y.t.Context(), sdk.RunJobRequest{Launch: l})
	if err != nil {
		y.t.Fatal(err)
	}
	return res.Handle
}
