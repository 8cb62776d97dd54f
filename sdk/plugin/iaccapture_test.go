package plugin_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// scriptedTail is the output of a workload: items, and then perhaps an error. One that
// is followed goes on until its reader has left.
type scriptedTail struct {
	asked chan sdk.TailLogsRequest
	items []sdk.WorkloadLogItem
	err   error
	over  chan struct{}
}

func (s *scriptedTail) TailLogs(ctx context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		if s.over != nil {
			defer close(s.over)
		}
		s.asked <- r
		for _, i := range s.items {
			if !yield(i, nil) {
				return
			}
		}
		err := s.err
		if err == nil && r.Follow {
			<-ctx.Done()
			err = &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: "read workload logs", Err: ctx.Err()}
		}
		if err != nil {
			yield(sdk.WorkloadLogItem{}, err)
		}
	}
}

// capturing serves a scripted tail, and returns what captures it.
func capturing(t *testing.T, tail *scriptedTail, serve func(testing.TB, func(grpc.ServiceRegistrar)) *grpc.ClientConn) (h *published, logs iacpb.IaCProviderLogCaptureClient) {
	t.Helper()
	tail.asked = make(chan sdk.TailLogsRequest, 1)
	h = publish(t, fake.Settings{}, map[string]any{"LogTailer": tail}, func(t testing.TB, register func(grpc.ServiceRegistrar)) *grpc.ClientConn {
		conn := serve(t, register)
		logs = iacpb.NewIaCProviderLogCaptureClient(conn)
		return conn
	})
	return h, logs
}

// captured reads a capture to its end, by source.
func captured(ctx context.Context, t *testing.T, logs iacpb.IaCProviderLogCaptureClient, m *iacpb.CaptureLogsRequest) (out map[string]string, eof bool, err error) {
	t.Helper()
	stream, err := logs.CaptureLogs(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	out = map[string]string{}
	for {
		c, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return out, eof, nil
		case err != nil:
			return out, eof, err
		case c.GetEof():
			eof = true
		default:
			out[c.GetSource()] += string(c.GetData())
		}
	}
}

func written(instance string, stream sdk.Stream, data string, end sdk.LineEnd) sdk.WorkloadLogItem {
	return sdk.WorkloadLogItem{Instance: instance, Entry: &sdk.LogChunk{Stream: stream, Data: []byte(data), LineEnd: end}}
}

// TestPublishedCapture gives the output of a workload, as it is, to whoever asks for a
// resource's by that wire: what is asked for is what the driver is asked for.
func TestPublishedCapture(t *testing.T) {
	long := strings.Repeat("x", 5<<20) + "\n"
	tail := &scriptedTail{items: []sdk.WorkloadLogItem{written("web-1", "stdout", "one", sdk.LineEndStripped), {}, written("web-2", "stderr", "bad\n", sdk.LineEndKept),
		written("web-1", "stdout", "\xff part", sdk.LineEndKept), written("", "combined", long, sdk.LineEndKept)}}
	h, logs := capturing(t, tail, plugintest.Serve)
	if _, _, err := captured(t.Context(), t, logs, &iacpb.CaptureLogsRequest{ResourceName: "web"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("before Initialize: %v", err)
	}
	h.initialize()
	ten := 10
	for _, c := range []struct {
		m    *iacpb.CaptureLogsRequest
		want sdk.TailLogsRequest
	}{
		{&iacpb.CaptureLogsRequest{ResourceType: "infra.app", ResourceName: "web"}, sdk.TailLogsRequest{Path: "web"}},
		{&iacpb.CaptureLogsRequest{ResourceName: "main", ComponentName: "web", LogType: iacpb.LogCaptureType_LOG_CAPTURE_TYPE_RUN, TailLines: 10}, sdk.TailLogsRequest{Path: "main/web", Tail: &ten}},
		{&iacpb.CaptureLogsRequest{ResourceName: "web", ProviderId: "prod/deployment/web"}, sdk.TailLogsRequest{Path: "prod/deployment/web"}},
	} {
		out, eof, err := captured(t.Context(), t, logs, c.m)
		if err != nil || !eof || out["web-1/stdout"] != "one\n\xff part" || out["web-2/stderr"] != "bad\n" || out["combined"] != long || len(out) != 3 {
			t.Errorf("%v: eof %v, %v", c.m, eof, err)
		}
		got := <-tail.asked
		if got.Path != c.want.Path || got.Follow || got.Instance != "" || !got.Since.IsZero() || (got.Tail == nil) != (c.want.Tail == nil) || got.Tail != nil && *got.Tail != *c.want.Tail {
			t.Errorf("%v asks for %+v, want %+v", c.m, got, c.want)
		}
	}
}

// TestPublishedCaptureRefuses: what a LogTailer can't be asked for is told by field, and
// never asked for otherwise.
func TestPublishedCaptureRefuses(t *testing.T) {
	tail := &scriptedTail{}
	h, logs := capturing(t, tail, plugintest.Serve)
	h.initialize()
	for _, c := range []struct {
		field string
		m     *iacpb.CaptureLogsRequest
	}{
		{"resource_name", &iacpb.CaptureLogsRequest{}},
		{"resource_name", &iacpb.CaptureLogsRequest{ResourceName: "a//b"}},
		{"provider_id", &iacpb.CaptureLogsRequest{ResourceName: "web", ProviderId: "/"}},
		{"component_name", &iacpb.CaptureLogsRequest{ResourceName: "web", ComponentName: "../x\x00"}},
		{"log_type", &iacpb.CaptureLogsRequest{ResourceName: "web", LogType: iacpb.LogCaptureType_LOG_CAPTURE_TYPE_BUILD}},
		{"log_type", &iacpb.CaptureLogsRequest{ResourceName: "web", LogType: iacpb.LogCaptureType_LOG_CAPTURE_TYPE_DEPLOY}},
		{"log_type", &iacpb.CaptureLogsRequest{ResourceName: "web", LogType: iacpb.LogCaptureType_LOG_CAPTURE_TYPE_RUN_RESTARTED}},
		{"log_type", &iacpb.CaptureLogsRequest{ResourceName: "web", LogType: 99}},
		{"deployment_id", &iacpb.CaptureLogsRequest{ResourceName: "web", DeploymentId: "7"}},
		{"tail_lines", &iacpb.CaptureLogsRequest{ResourceName: "web", TailLines: -1}},
		{"duration_seconds", &iacpb.CaptureLogsRequest{ResourceName: "web", Follow: true, DurationSeconds: -1}},
		{"duration_seconds", &iacpb.CaptureLogsRequest{ResourceName: "web", DurationSeconds: 1}},
	} {
		_, _, err := captured(t.Context(), t, logs, c.m)
		var e *sdk.Error
		if status.Code(err) != codes.InvalidArgument || !errors.As(wire.FromStatus(t.Context(), "x", err), &e) || e.Field != c.field || e.Remedy == "" {
			t.Errorf("%s of %v: %v", c.field, c.m, err)
		}
	}
	if len(tail.asked) > 0 {
		t.Error("the driver was asked")
	}
}

// TestPublishedCaptureEnds: a stream ends well only when all there was to read was read.
func TestPublishedCaptureEnds(t *testing.T) {
	gap := sdk.WorkloadLogItem{Instance: "web-1", Gap: &sdk.LogGap{Bytes: -1, Why: "rotated"}}
	first, last := written("web-1", "stdout", "first\n", sdk.LineEndKept), written("web-1", "stdout", "last\n", sdk.LineEndKept)
	refused := sdk.Errorf(sdk.PermissionDenied, "read workload logs", "no")
	for _, c := range []struct {
		name    string
		m       *iacpb.CaptureLogsRequest
		items   []sdk.WorkloadLogItem
		err     error
		code    codes.Code
		out     string
		lasting time.Duration
	}{
		{"for a time", &iacpb.CaptureLogsRequest{ResourceName: "web", Follow: true, DurationSeconds: 90}, []sdk.WorkloadLogItem{first, last}, nil, codes.OK, "first\nlast\n", 90 * time.Second},
		{"gap", &iacpb.CaptureLogsRequest{ResourceName: "web"}, []sdk.WorkloadLogItem{first, gap, last}, nil, codes.DataLoss, "first\nlast\n", 0},
		{"gap in a time", &iacpb.CaptureLogsRequest{ResourceName: "web", Follow: true, DurationSeconds: 5}, []sdk.WorkloadLogItem{first, gap, last}, nil, codes.DataLoss, "first\nlast\n", 5 * time.Second},
		{"gap without end", &iacpb.CaptureLogsRequest{ResourceName: "web", Follow: true, DurationSeconds: math.MaxInt64}, []sdk.WorkloadLogItem{first, gap, last}, nil, codes.DataLoss, "first\n", 0},
		{"refused", &iacpb.CaptureLogsRequest{ResourceName: "web", Follow: true, DurationSeconds: 5}, []sdk.WorkloadLogItem{first}, refused, codes.PermissionDenied, "first\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, logs := capturing(t, &scriptedTail{items: c.items, err: c.err}, plugintest.ServePipe)
				h.initialize()
				start := time.Now()
				out, eof, err := captured(t.Context(), t, logs, c.m)
				if status.Code(err) != c.code || eof != (c.code == codes.OK) || out["web-1/stdout"] != c.out || time.Since(start) != c.lasting {
					t.Errorf("%q, eof %v, %v, after %s", out, eof, err, time.Since(start))
				}
			})
		})
	}
}

// TestPublishedCaptureStops: what reads the output stops when its reader leaves, and when
// the plugin ends.
func TestPublishedCaptureStops(t *testing.T) {
	for _, who := range []string{"the reader", "the plugin"} {
		synctest.Test(t, func(t *testing.T) {
			tail := &scriptedTail{over: make(chan struct{})}
			h, logs := capturing(t, tail, plugintest.ServePipe)
			h.initialize()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			ended := make(chan error)
			go func() {
				_, _, err := captured(ctx, t, logs, &iacpb.CaptureLogsRequest{ResourceName: "web", Follow: true})
				ended <- err
			}()
			<-tail.asked
			if who == "the reader" {
				leave()
			} else if err := h.server.Close(); err != nil {
				t.Error(err)
			}
			<-tail.over
			if err := <-ended; status.Code(err) != codes.Canceled {
				t.Errorf("%s left: %v", who, err)
			}
		})
	}
}
