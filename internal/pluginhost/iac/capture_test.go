package iac

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

// capturer is a plugin that reads the output of what runs for long.
type capturer struct {
	pb.UnimplementedIaCProviderRequiredServer
	pb.UnimplementedIaCProviderLogCaptureServer
	asked chan *pb.CaptureLogsRequest
	give  func(*pb.CaptureLogsRequest, grpc.ServerStreamingServer[pb.LogChunk]) error
}

func (*capturer) Initialize(context.Context, *pb.InitializeRequest) (*pb.InitializeResponse, error) {
	return &pb.InitializeResponse{}, nil
}

func (*capturer) Name(context.Context, *pb.NameRequest) (*pb.NameResponse, error) {
	return &pb.NameResponse{Name: "theirs"}, nil
}

func (c *capturer) CaptureLogs(r *pb.CaptureLogsRequest, s grpc.ServerStreamingServer[pb.LogChunk]) error {
	c.asked <- r
	return c.give(r, s)
}

// opens opens a provider of a plugin with these services.
func (c *capturer) opens(t *testing.T, config string, services ...string) sdk.Provider {
	t.Helper()
	c.asked = make(chan *pb.CaptureLogsRequest, 10)
	g := grpc.NewServer()
	pb.RegisterIaCProviderRequiredServer(g, c)
	pb.RegisterIaCProviderLogCaptureServer(g, c)
	l := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:pipe", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	d, err := Driver(Plugin{Kind: "theirs", Conn: conn, Services: append(services, serviceRequired)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "prod", Config: json.RawMessage(config)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func says(s grpc.ServerStreamingServer[pb.LogChunk], chunks ...*pb.LogChunk) error {
	for _, c := range chunks {
		if err := s.Send(c); err != nil {
			return err
		}
	}
	return nil
}

// tailed reads a workload's output by stream, up to its end.
func tailed(ctx context.Context, p sdk.Provider, r sdk.TailLogsRequest) (out map[sdk.Stream]string, instances map[string]bool, err error) {
	tailer, ok := sdk.Of(p, sdk.WorkloadLogs())
	if !ok {
		return nil, nil, sdk.Unimplemented
	}
	out, instances = map[sdk.Stream]string{}, map[string]bool{}
	for it, err := range tailer.TailLogs(ctx, r) {
		if err != nil {
			return out, instances, err
		}
		out[it.Entry.Stream] += string(it.Entry.Data)
		instances[it.Instance] = true
	}
	return out, instances, nil
}

// TestCaptureLogs reads the output of a resource, and asks for what is wanted.
func TestCaptureLogs(t *testing.T) {
	long := strings.Repeat("x", 3*maxData)
	c := &capturer{give: func(_ *pb.CaptureLogsRequest, s grpc.ServerStreamingServer[pb.LogChunk]) error {
		return says(s, &pb.LogChunk{Data: []byte("one\n"), Source: "STDOUT"}, &pb.LogChunk{}, &pb.LogChunk{Data: []byte("err\n"), Source: "stderr"},
			&pb.LogChunk{Data: []byte(long), Source: "app"}, &pb.LogChunk{Data: []byte("two\n"), Source: "stdout", Eof: true})
	}}
	p := c.opens(t, `{"target": {"name": "web", "type": "infra.app", "provider_id": "id-1"}}`, serviceCapture)
	ten, most := 10, math.MaxInt
	for _, x := range []struct {
		name     string
		r        sdk.TailLogsRequest
		instance string
		want     *pb.CaptureLogsRequest
	}{
		{"resource", sdk.TailLogsRequest{Path: "infra.db/main"}, "main", &pb.CaptureLogsRequest{ResourceType: "infra.db", ResourceName: "main"}},
		{"component", sdk.TailLogsRequest{Path: "infra.db/main/proxy", Instance: "proxy", Tail: &ten}, "proxy", &pb.CaptureLogsRequest{ResourceType: "infra.db", ResourceName: "main", ComponentName: "proxy", TailLines: 10}},
		{"target", sdk.TailLogsRequest{Path: "worker", Tail: &most}, "worker", &pb.CaptureLogsRequest{ResourceType: "infra.app", ResourceName: "web", ProviderId: "id-1", ComponentName: "worker", TailLines: math.MaxInt32}},
		{"target by name", sdk.TailLogsRequest{Path: "infra.app/web"}, "web", &pb.CaptureLogsRequest{ResourceType: "infra.app", ResourceName: "web", ProviderId: "id-1"}},
	} {
		out, instances, err := tailed(t.Context(), p, x.r)
		if err != nil || out[sdk.StreamStdout] != "one\ntwo\n" || out[sdk.StreamStderr] != "err\n" || out[sdk.StreamCombined] != long || len(instances) != 1 || !instances[x.instance] {
			t.Errorf("%s: %v, of %v", x.name, err, instances)
		}
		x.want.LogType = pb.LogCaptureType_LOG_CAPTURE_TYPE_RUN
		if got := <-c.asked; !proto.Equal(got, x.want) {
			t.Errorf("%s: asked for %v, want %v", x.name, got, x.want)
		}
	}
	// None of the lines that are there is nothing to ask for.
	none := 0
	if out, _, err := tailed(t.Context(), p, sdk.TailLogsRequest{Path: "worker", Tail: &none}); err != nil || len(out) > 0 || len(c.asked) > 0 {
		t.Errorf("no lines: %v, %v", out, err)
	}
}

// TestCaptureRefuses: what that wire can't ask for is told, and not dropped.
func TestCaptureRefuses(t *testing.T) {
	c := &capturer{}
	p := c.opens(t, `{}`, serviceCapture)
	none := 0
	for field, r := range map[string]sdk.TailLogsRequest{
		"path": {Path: "web"}, "instance": {Path: "infra.app/web", Instance: "web-1"}, "since": {Path: "infra.app/web", Since: time.Unix(1, 0)},
		"tail": {Path: "infra.app/web", Tail: &none, Follow: true},
	} {
		_, _, err := tailed(t.Context(), p, r)
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.InvalidArgument || e.Field != field || e.Remedy == "" || e.Provider != "prod" {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, _, err := tailed(t.Context(), p, sdk.TailLogsRequest{Path: "a/b/c/d"}); sdk.CodeOf(err) != sdk.InvalidArgument {
		t.Errorf("four segments: %v", err)
	}
	if sdk.Has(c.opens(t, `{}`), sdk.WorkloadLogs().String()) {
		t.Error("a plugin without the service tails logs")
	}
}

// TestCaptureFollows: what is written is seen before the stream goes on; the stream ends
// with its reader, and an end of the plugin's is an error.
func TestCaptureFollows(t *testing.T) {
	next, over := make(chan string), make(chan error, 1)
	c := &capturer{give: func(r *pb.CaptureLogsRequest, s grpc.ServerStreamingServer[pb.LogChunk]) error {
		if !r.GetFollow() {
			return status.Error(codes.NotFound, "no such resource")
		}
		for {
			select {
			case line, ok := <-next:
				if !ok {
					return nil
				}
				if err := says(s, &pb.LogChunk{Data: []byte(line)}); err != nil {
					return err
				}
			case <-s.Context().Done():
				over <- s.Context().Err()
				return s.Context().Err()
			}
		}
	}}
	p := c.opens(t, `{}`, serviceCapture)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tailer, _ := sdk.Of(p, sdk.WorkloadLogs())
	go func() { next <- "first" }()
	for it, err := range tailer.TailLogs(ctx, sdk.TailLogsRequest{Path: "infra.app/web", Follow: true}) {
		if err != nil {
			if !errors.Is(err, context.Canceled) || sdk.IsRetryable(err) {
				t.Errorf("ended with %v", err)
			}
			break
		}
		if bytes.Equal(it.Entry.Data, []byte("first")) {
			next <- "second"
		} else {
			cancel()
		}
	}
	if err := <-over; err == nil {
		t.Error("the plugin's stream goes on")
	}
	close(next)
	if _, _, err := tailed(t.Context(), p, sdk.TailLogsRequest{Path: "infra.app/web", Follow: true}); sdk.CodeOf(err) != sdk.Unavailable || !sdk.IsRetryable(err) {
		t.Errorf("a stream that the plugin ended: %v", err)
	}
	if _, _, err := tailed(t.Context(), p, sdk.TailLogsRequest{Path: "infra.app/web"}); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("what isn't there: %v", err)
	}
}
