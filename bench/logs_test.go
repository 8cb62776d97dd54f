package bench

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/windlass-run/windlass/internal/driver/aci"
	"github.com/windlass-run/windlass/internal/driver/appplatform"
	"github.com/windlass-run/windlass/internal/driver/cloudrun"
	"github.com/windlass-run/windlass/internal/driver/ecs"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketazure "github.com/windlass-run/windlass/internal/pocket/azure"
	pocketdo "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	pocketgcp "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/sdk"
)

// logLines is how many lines the job of a benchmark of logs writes.
const logLines = 1_000_000

// searched is how many lines are written where the pocket cloud's own search,
// which goes through all for each page, would take most of the time.
const searched = 100_000

// talker plays a job that writes lines.
func talker(lines int) run.Executor {
	var text bytes.Buffer
	for n := range lines {
		fmt.Fprintf(&text, "line %d of a job that has much to say\n", n)
	}
	return run.NewScripted(func(run.Spec) run.Play { return run.Play{Stdout: text.Bytes()} })
}

// BenchmarkLogsCloudWatch reads a million lines by GetLogEvents, beside the
// vendor's client alone.
func BenchmarkLogsCloudWatch(b *testing.B) {
	skipLogs(b)
	cloud, err := pocket.New(pocket.Options{Executor: talker(logLines)})
	if err != nil {
		b.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	b.Cleanup(func() {
		web.Close()
		_ = cloud.Close()
	})
	p := awsProvider(b, ecs.Driver(), web.URL, "", map[string]any{"subnets": []string{"subnet-0123456789abcdef0"}, "log_rate": 10000})
	client := newRaw(web.URL)
	readLog(b, p, logLines, func() int {
		out, err := client.logs.DescribeLogStreams(b.Context(), &cloudwatchlogs.DescribeLogStreamsInput{LogGroupName: new("/windlass")})
		if err != nil || len(out.LogStreams) != 1 {
			b.Fatalf("streams: %v", err)
		}
		n, _ := client.read(b, "/windlass", *out.LogStreams[0].LogStreamName)
		return n
	})
}

// BenchmarkLogsCloudLogging reads them by entries.list.
func BenchmarkLogsCloudLogging(b *testing.B) {
	skipLogs(b)
	cloud, err := pocketgcp.New(pocketgcp.Options{Executor: talker(searched)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cloud.Close() })
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	cloud.Logging().TuneKnobs(func(k *cloudlogging.Knobs) { k.ReadsPerMinute = 0 })
	p := providerOf(b, cloudrun.Driver(), map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "pocket"}, fmt.Sprintf(`{"project": %q, "region": %q, "endpoint": %q, "log_rate": 1000000}`,
		pocketgcp.Project, pocketgcp.Location, "http://"+address))
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	client := loggingpb.NewLoggingServiceV2Client(conn)
	readLog(b, p, searched, func() (lines int) {
		req := &loggingpb.ListLogEntriesRequest{ResourceNames: []string{"projects/" + pocketgcp.Project}, PageSize: 1000, OrderBy: "timestamp asc", Filter: `resource.type="cloud_run_job"`}
		for {
			out, err := client.ListLogEntries(b.Context(), req)
			if err != nil {
				b.Fatal(err)
			}
			lines += len(out.GetEntries())
			if req.PageToken = out.GetNextPageToken(); req.PageToken == "" {
				return lines
			}
		}
	})
}

// BenchmarkLogsAppPlatform reads a million lines from the archive of a job's log,
// beside the vendor's client and a scanner alone.
func BenchmarkLogsAppPlatform(b *testing.B) {
	skipLogs(b)
	cloud, err := pocketdo.New(pocketdo.Options{Executor: talker(logLines)})
	if err != nil {
		b.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	b.Cleanup(func() {
		web.Close()
		_ = cloud.Close()
	})
	p := providerOf(b, appplatform.Driver(), map[string]string{"DIGITALOCEAN_TOKEN": "pocket"}, fmt.Sprintf(`{"endpoint": %q, "minute_rate": 1000000, "hour_rate": 60000000}`, web.URL))
	readLog(b, p, logLines, func() int { return rawArchive(b, web.URL) })
}

// BenchmarkLogsContainerInstances reads what Azure keeps of a million lines once
// they are written, the last 4 MB, beside the vendor's client alone.
func BenchmarkLogsContainerInstances(b *testing.B) {
	skipLogs(b)
	address, ca := pocketAzure(b, talker(logLines))
	p := onAzure(b, address, ca, "")
	readLog(b, p, 0, func() int { return rawTail(b, address, ca) })
}

// BenchmarkLogsContainerInstancesFollowed reads all of a million lines while they are
// written, which is the only way to have them: none may have left the last 4 MB
// before it was read.
func BenchmarkLogsContainerInstancesFollowed(b *testing.B) {
	skipLogs(b)
	for range b.N {
		address, ca := pocketAzure(b, &pacer{lines: logLines, each: followedRate / 10, every: 100 * time.Millisecond})
		p := onAzure(b, address, ca, `"log_poll": "500ms", "log_quiet": "2s",`)
		lines, gaps, last := follow(b, p)
		if lines != logLines || gaps != 0 {
			b.Errorf("%d lines, %d gaps", lines, gaps)
		}
		b.ReportMetric(float64(lines)/last.Seconds(), "lines/s")
		b.ReportMetric(last.Seconds()-float64(logLines)/followedRate, "late-s")
	}
}

// followedRate is how many lines a second are written where they are followed: 1.5 MB
// with the times that Azure puts before them.
const followedRate = 20_000

// pocketAzure starts a pocket cloud, and returns its address and the file of its
// certificate.
func pocketAzure(b *testing.B, e run.Executor) (address, ca string) {
	b.Helper()
	cloud, err := pocketazure.New(pocketazure.Options{Executor: e})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cloud.Close() })
	if address, err = cloud.Listen("127.0.0.1:0"); err != nil {
		b.Fatal(err)
	}
	ca = filepath.Join(b.TempDir(), pocketazure.CAFile)
	if err := os.WriteFile(ca, cloud.CA(), 0o600); err != nil {
		b.Fatal(err)
	}
	return address, ca
}

func azureKeys() map[string]string {
	return map[string]string{"AZURE_TENANT_ID": pocketazure.TenantID, "AZURE_CLIENT_ID": "22222222-3333-4444-5555-666666666666", "AZURE_CLIENT_SECRET": "pocket"}
}

func onAzure(b *testing.B, address, ca, more string) sdk.Provider {
	b.Helper()
	return providerOf(b, aci.Driver(), azureKeys(), fmt.Sprintf(`{%s "subscription": %q, "resource_group": %q, "location": %q, "endpoint": %q, "ca_file": %q, "read_rate": 1000000, "write_rate": 1000000}`,
		more, pocketazure.SubscriptionID, pocketazure.ResourceGroup, pocketazure.Location, "https://"+address, ca))
}

func skipLogs(b *testing.B) {
	b.Helper()
	if testing.Short() {
		b.Skip("needs seconds: left out by -short")
	}
}

// providerOf opens a provider that is no ledger's.
func providerOf(b *testing.B, d sdk.Driver, keys map[string]string, config string) sdk.Provider {
	b.Helper()
	return providerFor(b, "", d, keys, config)
}

// providerFor opens a provider for the ledger of an ID.
func providerFor(b *testing.B, ledger string, d sdk.Driver, keys map[string]string, config string) sdk.Provider {
	b.Helper()
	p, err := d.Open(b.Context(), sdk.OpenRequest{Name: d.Kind, Config: []byte(config), Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()),
		Credentials: keys, Log: slog.New(slog.DiscardHandler), Owner: "bench", LedgerID: ledger, StateDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.Error(err)
		}
	})
	return p
}

// readLog runs the job, and reads its log by the driver, beside plain, which
// returns how many lines it read. Most is how many lines there are, 0 for no more
// than the cloud keeps.
func readLog(b *testing.B, p sdk.Provider, most int, plain func() int) {
	h := ended(b, p)
	logger, ok := sdk.Of(p, sdk.Logger())
	if !ok {
		b.Fatal("it has no logs")
	}
	lines, gaps := 0, 0
	read := func() time.Duration {
		lines, gaps = 0, 0
		begun := time.Now()
		for it, err := range logger.JobLogs(b.Context(), sdk.JobLogsRequest{Handle: h}) {
			if err != nil {
				b.Fatal(err)
			}
			if it.Entry != nil {
				lines++
			}
			if it.Gap != nil {
				gaps++
			}
		}
		if most > 0 && lines != most {
			b.Errorf("%d lines, %d gaps", lines, gaps)
		}
		return time.Since(begun)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	took := read()
	runtime.ReadMemStats(&after)
	allocs := float64(after.Mallocs-before.Mallocs) / float64(max(lines, 1))
	if plain == nil {
		b.ResetTimer()
		for range b.N {
			took = min(took, read())
		}
	} else {
		took, _ = pair(b, read, func() time.Duration {
			begun := time.Now()
			if n := plain(); n < max(most, lines) { // there may be entries of the service itself
				b.Errorf("the plain reader has %d lines", n)
			}
			return time.Since(begun)
		})
	}
	b.ReportMetric(float64(lines)/took.Seconds(), "lines/s")
	b.ReportMetric(allocs, "allocs/line") // of both sides of the wire
	b.ReportMetric(float64(gaps), "gaps")
}

// started runs a job.
func started(b *testing.B, p sdk.Provider) (sdk.JobRunner, sdk.JobHandle) {
	b.Helper()
	runner, ok := sdk.Of(p, sdk.Runner())
	if !ok {
		b.Fatal("it runs nothing")
	}
	ids := sdk.NewIDSource(sdk.SystemClock())
	l, err := runner.PrepareJob(b.Context(), sdk.PrepareJobRequest{Spec: sdk.JobSpec{Image: "img:1", ImageEntrypoint: sdk.Argv{}, Args: sdk.Argv{"talk"}}, RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1, Expires: time.Now().Add(time.Hour)})
	if err != nil || len(l.Problems) > 0 {
		b.Fatal(err, l.Problems)
	}
	res, err := runner.RunJob(b.Context(), sdk.RunJobRequest{Launch: l})
	if err != nil {
		b.Fatal(err)
	}
	return runner, res.Handle
}

// ended runs a job to its end.
func ended(b *testing.B, p sdk.Provider) sdk.JobHandle {
	b.Helper()
	runner, h := started(b, p)
	for ctx, cancel := context.WithTimeout(b.Context(), time.Minute); ; {
		st, err := runner.JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
		if err != nil {
			cancel()
			b.Fatal(err)
		}
		if st.Handle != nil {
			h = *st.Handle
		}
		if st.State.Terminal() {
			cancel()
			return h
		}
		if err := sdk.SystemClock().Sleep(ctx, 50*time.Millisecond); err != nil {
			cancel()
			b.Fatal(err)
		}
	}
}
