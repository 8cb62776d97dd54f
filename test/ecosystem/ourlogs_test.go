//go:build linux

package ecosystem

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	theirs "github.com/GoCodeAlone/workflow/plugin/external/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestTheirHostLogs: their host captures the output of a workload through a plugin of
// ours, by the service that its registry advertises.
func TestTheirHostLogs(t *testing.T) {
	if _, err := programs(); err != nil {
		t.Fatal(err)
	}
	// The program makes the workload, in the cloud that the plugin then leads to.
	w := &world{t: t, dir: t.TempDir()}
	cloud := filepath.Join(w.dir, "cloud")
	w.env = append(os.Environ(), "WINDLASS_STATE="+filepath.Join(w.dir, "state"), "WINDLASS_KEEPER=off", "HOME="+w.dir)
	w.write("windlass.yaml", "providers:\n  fake: {kind: fake, config: {dir: "+cloud+"}}\n")
	w.write("api.yaml", "target: fake/main/api\nimage: img:1\nreplicas: 2\n")
	if out, err := w.command("windlass", "svc", "start", "-f", "api.yaml", "--wait").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, conn, advertised := loaded(t, "fake", map[string]any{"dir": cloud})
	if !advertised[theirs.IaCProviderLogCapture_ServiceDesc.ServiceName] {
		t.Fatalf("the registry has %v", advertised)
	}
	logs := theirs.NewIaCProviderLogCaptureClient(conn)
	capture := func(ctx context.Context, m *theirs.CaptureLogsRequest) (out string, eof bool, err error) {
		stream, err := logs.CaptureLogs(ctx, m)
		for err == nil {
			var c *theirs.LogChunk
			if c, err = stream.Recv(); err == nil {
				out, eof = out+string(c.GetData()), c.GetEof()
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return out, eof, err
	}
	// As their command line asks: with a type, a bounded tail, and perhaps for a time.
	ask := &theirs.CaptureLogsRequest{ResourceType: "infra.container_service", ResourceName: "main", ComponentName: "api", LogType: theirs.LogCaptureType_LOG_CAPTURE_TYPE_RUN, TailLines: 300}
	for _, seconds := range []int64{0, 1} {
		ask.Follow, ask.DurationSeconds = seconds > 0, seconds
		if out, eof, err := capture(t.Context(), ask); err != nil || !eof || strings.Count(out, " is up\n") != 2 {
			t.Errorf("for %d s: %q, eof %v, %v", seconds, out, eof, err)
		}
	}
	if _, _, err := capture(t.Context(), &theirs.CaptureLogsRequest{ResourceName: "main", ComponentName: "nobody"}); status.Code(err) != codes.NotFound {
		t.Errorf("what isn't there: %v", err)
	}
	if _, _, err := capture(t.Context(), &theirs.CaptureLogsRequest{ResourceName: "main", ComponentName: "api", LogType: theirs.LogCaptureType_LOG_CAPTURE_TYPE_BUILD}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("the log of a build: %v", err)
	}
	// A plugin that operates nothing advertises nothing of it.
	_, conn, advertised = loaded(t, "folder", map[string]any{"dir": filepath.Join(w.dir, "jobs")})
	logs = theirs.NewIaCProviderLogCaptureClient(conn)
	if _, _, err := capture(t.Context(), ask); advertised[theirs.IaCProviderLogCapture_ServiceDesc.ServiceName] || status.Code(err) != codes.Unimplemented {
		t.Errorf("a plugin of jobs alone advertises %v, and answers %v", advertised, err)
	}
}
