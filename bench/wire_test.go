package bench

import (
	"bytes"
	"context"
	"iter"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/client"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// prompt is a provider that answers at once, so that what is measured is the way to it.
type prompt struct {
	sdk.Provider
	log   []byte // of which each stream gives pieces
	piece int
}

func (p *prompt) Info() sdk.Info { return sdk.Info{Name: "prompt", Kind: "prompt"} }
func (p *prompt) Close() error   { return nil }

func (p *prompt) PrepareJob(_ context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	return sdk.Launch{V: sdk.LaunchVersion, Kind: "prompt", RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt}, nil
}

func (p *prompt) RunJob(_ context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	return sdk.RunJobResult{Handle: handle(r.Launch.AttemptID)}, nil
}

func (p *prompt) JobStatus(_ context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	at := time.Unix(1_800_000_000, 0)
	return sdk.JobStatusResult{State: sdk.StateRunning, Launches: 1, CreatedAt: at, StartedAt: at, Message: "the container runs",
		Raw: map[string]string{"status": "RUNNING", "desired": "RUNNING", "id": r.Handle.ID}}, nil
}

func (p *prompt) JobLogs(_ context.Context, _ sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		at := time.Unix(1_800_000_000, 0)
		for part := range slices.Chunk(p.log, p.piece) {
			at = at.Add(time.Millisecond)
			if !yield(sdk.LogItem{Entry: &sdk.LogChunk{Time: at, Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: part}}, nil) {
				return
			}
		}
		yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictComplete}}, nil)
	}
}

func handle(id sdk.ID) sdk.JobHandle {
	return sdk.JobHandle{V: sdk.HandleVersion, Kind: "prompt", ID: id.String(), Name: "wl-" + id.String(), Metadata: map[string]string{"zone": "a"}}
}

// overWire opens p at the other end of a plugin's wire, on a socket.
func overWire(tb testing.TB, p sdk.Provider) sdk.Provider {
	tb.Helper()
	d := plugintest.Through(tb, sdk.Driver{Kind: "prompt", Capabilities: sdk.CapabilityNames(p),
		Open: func(context.Context, sdk.OpenRequest) (sdk.Provider, error) { return p, nil }})
	out, err := d.Open(tb.Context(), sdk.OpenRequest{Name: "prompt", Owner: "bench", LedgerID: "bench", StateDir: tb.TempDir()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := out.Close(); err != nil {
			tb.Error(err)
		}
	})
	return out
}

func capability[C any](tb testing.TB, p sdk.Provider, c sdk.Capability[C]) C {
	tb.Helper()
	v, ok := sdk.Of(p, c)
	if !ok {
		tb.Fatalf("no %s", c)
	}
	return v
}

// middle runs f so often and returns the median of its times.
func middle(b *testing.B, n int, f func() error) time.Duration {
	b.Helper()
	times := make([]time.Duration, n)
	for i := range times {
		begun := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		times[i] = time.Since(begun)
	}
	return median(times)
}

// BenchmarkWireCall is a look at a job through a plugin's wire, beside the same in
// process: the median of what the wire adds.
func BenchmarkWireCall(b *testing.B) {
	p := &prompt{}
	far, near := capability(b, overWire(b, p), sdk.Runner()), sdk.JobRunner(p)
	r := sdk.JobStatusRequest{Handle: handle(sdk.NewIDSource(sdk.SystemClock()).NewID())}
	look := func(j sdk.JobRunner) func() error {
		return func() error {
			_, err := j.JobStatus(b.Context(), r)
			return err
		}
	}
	middle(b, 200, look(far)) // connected, and warm
	b.ReportAllocs()
	b.ResetTimer()
	through := middle(b, b.N, look(far))
	b.StopTimer()
	inside := middle(b, b.N, look(near))
	b.ReportMetric(float64((through-inside).Nanoseconds())/1e3, "µs-added(p50)")
}

// BenchmarkWirePayload is a call with 1 MB, the options of a job that is prepared, beside
// gRPC alone with the same message and nothing that makes or reads it. Allocations are
// those of both ends.
func BenchmarkWirePayload(b *testing.B) {
	r := largeRequest()
	m, err := wire.EncodePrepareJobRequest(r)
	if err != nil {
		b.Fatal(err)
	}
	far := capability(b, overWire(b, &prompt{}), sdk.Runner())
	raw := pb.NewJobRunnerServiceClient(plugintest.Serve(b, func(s grpc.ServiceRegistrar) { pb.RegisterJobRunnerServiceServer(s, &bare{}) }))
	for _, c := range []struct {
		name string
		send func() error
	}{
		{"wire", func() error {
			_, err := far.PrepareJob(b.Context(), r)
			return err
		}},
		{"grpc", func() error {
			_, err := raw.PrepareJob(b.Context(), m)
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			middle(b, 20, c.send)
			b.SetBytes(int64(len(r.Spec.Options)))
			b.ReportAllocs()
			b.ResetTimer()
			through := middle(b, b.N, c.send)
			b.StopTimer()
			b.ReportMetric(float64(through.Nanoseconds())/1e6, "ms(p50)")
		})
	}
}

// bare answers with an empty message.
type bare struct {
	pb.UnimplementedJobRunnerServiceServer
}

func (*bare) PrepareJob(context.Context, *pb.PrepareJobRequest) (*pb.PrepareJobResponse, error) {
	return &pb.PrepareJobResponse{}, nil
}

func largeRequest() sdk.PrepareJobRequest {
	ids := sdk.NewIDSource(sdk.SystemClock())
	options := append(append([]byte(`{"text":"`), bytes.Repeat([]byte("x"), 1<<20-12)...), `"}`...)
	return sdk.PrepareJobRequest{RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1, Spec: sdk.JobSpec{Image: "app:1", Args: sdk.Argv{"true"}, Options: options}}
}

// BenchmarkWireLogs reads 64 MiB of output through a plugin's wire, in pieces of 64 KiB as
// local gives them, in lines as clouds do, and in one.
func BenchmarkWireLogs(b *testing.B) {
	for _, c := range []struct {
		name         string
		total, piece int
	}{{"64KiB", 64 << 20, 64 << 10}, {"lines", 32 << 20, 100}, {"1MiB", 64 << 20, 1 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			p := &prompt{log: bytes.Repeat([]byte("0123456789abcde\n"), c.total/16), piece: c.piece}
			logs := capability(b, overWire(b, p), sdk.Logger())
			b.SetBytes(int64(c.total))
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for it, err := range logs.JobLogs(b.Context(), sdk.JobLogsRequest{Follow: true}) {
					if err != nil {
						b.Fatal(err)
					}
					if it.Entry != nil {
						n += len(it.Entry.Data)
					}
				}
				if n != c.total {
					b.Fatalf("%d bytes of %d", n, c.total)
				}
			}
		})
	}
}

// BenchmarkWireSpawn starts a plugin, opens a provider and checks it: from nothing to the
// first answer. Beside it stands the start of the same program by hand, which only says
// what it is.
func BenchmarkWireSpawn(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "fakeplugin")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-ldflags", "-s -w", "-o", bin, "./fakeplugin").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	config := []byte(`{"dir":"` + b.TempDir() + `"}`)
	pair(b,
		func() time.Duration {
			begun := time.Now()
			p := goplugin.NewClient(&goplugin.ClientConfig{HandshakeConfig: plugin.Handshake(), Plugins: goplugin.PluginSet{plugin.SetKey: &dialer{}},
				Cmd: exec.CommandContext(b.Context(), bin), AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
				GRPCDialOptions: wire.DialOptions(), Logger: hclog.NewNullLogger()})
			defer p.Kill()
			if err := firstCall(b.Context(), p, sdk.OpenRequest{Name: "fake", Config: config, Owner: "bench", LedgerID: "bench", StateDir: b.TempDir()}); err != nil {
				b.Fatal(err)
			}
			return time.Since(begun)
		},
		func() time.Duration {
			begun := time.Now()
			if err := exec.CommandContext(b.Context(), bin).Run(); err == nil {
				b.Fatal("a plugin that is started by hand succeeds")
			}
			return time.Since(begun)
		})
}

func firstCall(ctx context.Context, p *goplugin.Client, r sdk.OpenRequest) error {
	c, err := p.Client()
	if err != nil {
		return err
	}
	conn, err := c.Dispense(plugin.SetKey)
	if err != nil {
		return err
	}
	d, err := client.Driver(ctx, conn.(*grpc.ClientConn), sdk.NewIDSource(sdk.SystemClock()))
	if err != nil {
		return err
	}
	opened, err := d.Open(ctx, r)
	if err != nil {
		return err
	}
	if _, err := opened.Check(ctx, sdk.CheckRequest{}); err != nil {
		return err
	}
	return opened.Close()
}

// dialer hands out the connection itself.
type dialer struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (*dialer) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return nil }

func (*dialer) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}
