package cloudlogging

import (
	"testing"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"google.golang.org/genproto/googleapis/api/monitoredres"
	ltype "google.golang.org/genproto/googleapis/logging/type"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func sample(t testing.TB) *loggingpb.LogEntry {
	t.Helper()
	payload, err := structpb.NewStruct(map[string]any{"message": "Disk full", "n": 2.5, "ok": true, "none": nil, "list": []any{"a", map[string]any{"b": "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	return &loggingpb.LogEntry{LogName: "projects/p/logs/run.googleapis.com%2Fstdout", InsertId: "5f0", Severity: ltype.LogSeverity_WARNING,
		Timestamp: timestamppb.New(epoch), Payload: &loggingpb.LogEntry_JsonPayload{JsonPayload: payload}, TraceSampled: true,
		Resource: &monitoredres.MonitoredResource{Type: "cloud_run_job", Labels: map[string]string{"job_name": "j", "location": "l"}},
		Labels:   map[string]string{"run.googleapis.com/execution_name": "j-abcde", "run.googleapis.com/task_index": "0"}}
}

// TestFilter matches one entry with many queries.
func TestFilter(t *testing.T) {
	e := sample(t)
	for query, want := range map[string]bool{
		"":                                true,
		"  -- a comment":                  true,
		`resource.type="cloud_run_job"`:   true,
		`resource.type = "CLOUD_RUN_JOB"`: true,
		`resource.type!="cloud_run_job"`:  false,
		`resource.type=cloud_run_job`:     true,
		`resource.labels.job_name="j"`:    true,
		`resource.labels."job_name"="k"`:  false,
		`labels."run.googleapis.com/execution_name"="j-abcde"`: true,
		`labels.run.googleapis.com/task_index="0"`:             true,
		`labels."none"="x"`:                                     false,
		`labels."none"!="x"`:                                    true,
		`labels."run.googleapis.com/task_index":*`:              true,
		`labels."none":*`:                                       false,
		`logName="projects/p/logs/run.googleapis.com%2Fstdout"`: true,
		`log_name:stdout`:                                       true,
		`log_id("run.googleapis.com/stdout")`:                   true,
		`log_id("run.googleapis.com/stderr")`:                   false,
		`timestamp>="2026-01-02T03:04:05Z"`:                     true,
		`timestamp>"2026-01-02T03:04:05Z"`:                      false,
		`timestamp="2026-01-02T04:04:05+01:00"`:                 true,
		`timestamp<"2026-01-03"`:                                true,
		`timestamp<="2026-01-02T03:04:04.999999999Z"`:           false,
		`insertId>"5e"`:                                         true,
		`insertId="5F0"`:                                        true,
		`severity>=WARNING`:                                     true,
		`severity>WARNING`:                                      false,
		`severity="warning"`:                                    true,
		`severity=400`:                                          true,
		`severity=(ERROR OR WARNING)`:                           true,
		`severity=(ERROR OR INFO)`:                              false,
		`jsonPayload.message="disk full"`:                       true,
		`jsonPayload.message:full`:                              true,
		`jsonPayload.message=~"^Disk"`:                          true,
		`jsonPayload.message=~"^disk"`:                          false,
		`jsonPayload.message!~"^disk"`:                          true,
		`jsonPayload.message=~"\w+ full$"`:                      true,
		`jsonPayload.n>2`:                                       true,
		`jsonPayload.n=2.5`:                                     true,
		`jsonPayload.n<-1`:                                      false,
		`jsonPayload.ok=true`:                                   true,
		`jsonPayload.none=NULL_VALUE`:                           true,
		`jsonPayload.list="a"`:                                  true,
		`jsonPayload.list.b="c"`:                                true,
		`jsonPayload.none.deeper="c"`:                           false,
		`jsonPayload:*`:                                         true,
		`textPayload:*`:                                         false,
		`textPayload=""`:                                        false,
		`traceSampled=true`:                                     true,
		`"disk full"`:                                           true,
		`Disk`:                                                  true,
		`nothing`:                                               false,
		`NOT nothing`:                                           true,
		`-nothing`:                                              true,
		`NOT NOT Disk`:                                          true,
		`severity=ERROR OR Disk`:                                true,
		`severity=WARNING nothing`:                              false,
		"severity=WARNING\nDisk":                                true,
		`severity=WARNING AND NOT resource.type="x"`:            true,
		// OR binds closer than AND.
		`Disk OR nothing AND nothing`:                         false,
		`(Disk OR nothing) AND (severity=WARNING OR nothing)`: true,
		`(Disk AND severity=WARNING) OR nothing`:              true,
		`resource.type=("x" OR NOT "y")`:                      true,
		`jsonPayload.message:("disk" AND "full")`:             true,
		`jsonPayload.message:("disk" "empty")`:                false,
		`insertId="\x35\u0066\60"`:                            true,
	} {
		f, err := ParseFilter(query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if got := f.Match(e); got != want {
			t.Errorf("%s: %t", query, got)
		}
	}
}

// TestFilterRefuses reads what isn't a query.
func TestFilterRefuses(t *testing.T) {
	for _, query := range []string{`severity=`, `=x`, `(a`, `a)`, `a OR`, `OR a`, `NOT`, `a AND`, `"a`, `insertId = abc:def`, `timestamp>="noon"`, `severity=LOUD`, `cat=1`,
		`jsonPayload.message=~"("`, `a..b=1`, `.a=1`, `a,b`, `log_id(x)`, `severity=(`, `severity=()`, `severity=(ERROR`, "\"\\", `a=b=c`} {
		if f, err := ParseFilter(query); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: read as %v, %v", query, f, err)
		}
	}
	deep := ""
	for range 2000 {
		deep += "("
	}
	if _, err := ParseFilter(deep); status.Code(err) != codes.InvalidArgument {
		t.Errorf("deep nesting: %v", err)
	}
	if _, err := ParseFilter("severity=" + deep); status.Code(err) != codes.InvalidArgument {
		t.Errorf("deep nesting of values: %v", err)
	}
	if _, err := ParseFilter(`SEARCH("x")`); status.Code(err) != codes.Unimplemented {
		t.Errorf("a function: %v", err)
	}
}

// TestSince finds the bound by which a listing starts.
func TestSince(t *testing.T) {
	for query, want := range map[string]time.Time{
		"": {}, "a": {}, `timestamp>="2026-01-02"`: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
		`a AND timestamp>"2026-01-02" AND timestamp>="2026-01-03"`: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC),
		`a OR timestamp>"2026-01-02"`:                              {}, `NOT timestamp>"2026-01-02"`: {}, `timestamp<"2026-01-02"`: {},
	} {
		f, err := ParseFilter(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Since(); !got.Equal(want) {
			t.Errorf("%s: %v", query, got)
		}
	}
}

// FuzzParseFilter reads anything: a query, or a refusal with a known code. What
// was read can be asked.
func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{`a AND (b OR -c) timestamp>="2026-01-02T03:04:05Z"`, `severity=(ERROR OR NOT "x")`, `labels."a/b"=~"x\.y"`, `"\x4"`, `a.b.c:1.5 -- c`, "\xff=\"\xfe\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := ParseFilter(query)
		if err != nil {
			if c := status.Code(err); c != codes.InvalidArgument && c != codes.Unimplemented {
				t.Fatalf("%q: %v", query, err)
			}
			return
		}
		q.Match(sample(t))
		q.Since()
	})
}
