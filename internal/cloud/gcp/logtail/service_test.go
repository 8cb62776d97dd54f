package logtail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"google.golang.org/genproto/googleapis/api/monitoredres"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/sdk"
)

// line is an entry of an instance of the service web.
func line(instance string, at time.Duration, id, text string) *loggingpb.LogEntry {
	return &loggingpb.LogEntry{LogName: "projects/p/logs/" + logStdout, InsertId: id, Timestamp: timestamppb.New(epoch.Add(at)), Labels: map[string]string{labelInstance: instance},
		Resource: &monitoredres.MonitoredResource{Type: typeRevision, Labels: map[string]string{"location": "r1", "service_name": "web", "revision_name": "web-1"}},
		Payload:  &loggingpb.LogEntry_TextPayload{TextPayload: text}}
}

// listServices is the store's list for entries of services, in either order.
func (s *store) listServices(_ context.Context, r *loggingpb.ListLogEntriesRequest) (*loggingpb.ListLogEntriesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, r)
	var from time.Time
	if _, text, ok := strings.Cut(r.Filter, `timestamp>="`); ok {
		text, _, _ = strings.Cut(text, `"`)
		from, _ = time.Parse(time.RFC3339Nano, text)
	}
	_, instance, one := strings.Cut(r.Filter, `labels.instanceId="`)
	instance = strings.TrimSuffix(instance, `"`)
	var fit []*loggingpb.LogEntry
	for _, e := range s.entries {
		if strings.Contains(r.Filter, `"`+e.Resource.GetLabels()["service_name"]+`"`) && !e.GetTimestamp().AsTime().Before(from) && (!one || e.Labels[labelInstance] == instance) {
			fit = append(fit, e)
		}
	}
	if r.OrderBy == newestFirst {
		slices.Reverse(fit)
	}
	skip := 0
	_, _ = fmt.Sscan(r.PageToken, &skip)
	out := &loggingpb.ListLogEntriesResponse{Entries: fit[min(skip, len(fit)):]}
	if s.page > 0 && len(out.Entries) > s.page {
		out.Entries, out.NextPageToken = out.Entries[:s.page], fmt.Sprint(skip+s.page)
	}
	return out, nil
}

func (s *store) service() *ServiceLog {
	return &ServiceLog{Provider: "prod", Reader: newReader(), List: s.listServices, Region: "r1", Service: "web", Late: time.Second}
}

// read takes n items, or all where n is 0, as "instance text".
func read(t *testing.T, l *ServiceLog, r sdk.TailLogsRequest, n int) (out []string) {
	t.Helper()
	for it, err := range l.Read(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, it.Instance+" "+string(it.Entry.Data))
		if len(out) == n {
			break
		}
	}
	return out
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// TestServiceLast: the last lines of each instance are given in order, whole where
// they came in parts; what was stored twice once; pages are left once they say
// nothing new.
func TestServiceLast(t *testing.T) {
	s := &store{page: 3}
	s.put(line("a", 1*time.Second, "1", "a1"), line("a", 2*time.Second, "2", "a2"), line("b", 3*time.Second, "3", "b1"), line("a", 4*time.Second, "4", "a3"),
		line("a", 4*time.Second, "4", "a3"), line("b", 5*time.Second, "5", "b2"))
	for i := range 2 {
		e := line("b", time.Duration(6+i)*time.Second, fmt.Sprint(6+i), fmt.Sprintf("part%d", i))
		e.Split = &loggingpb.LogSplit{Uid: "u", Index: int32(i), TotalSplits: 2} //nolint:gosec // two
		s.put(e)
	}
	n := func(n int) *int { return &n }
	want(t, "all", read(t, s.service(), sdk.TailLogsRequest{}, 0), "a a1", "a a2", "b b1", "a a3", "b b2", "b part0", "b part1")
	want(t, "one line", read(t, s.service(), sdk.TailLogsRequest{Tail: n(1)}, 0), "a a3", "b part0", "b part1")
	want(t, "two lines", read(t, s.service(), sdk.TailLogsRequest{Tail: n(2)}, 0), "a a2", "a a3", "b b2", "b part0", "b part1")
	want(t, "of one", read(t, s.service(), sdk.TailLogsRequest{Tail: n(1), Instance: "a"}, 0), "a a3")
	want(t, "none", read(t, s.service(), sdk.TailLogsRequest{Tail: n(0)}, 0))
	want(t, "since", read(t, s.service(), sdk.TailLogsRequest{Since: epoch.Add(5 * time.Second)}, 0), "b b2", "b part0", "b part1")
	for i := range 100 {
		s.put(line("old", -time.Duration(i+1)*time.Minute, fmt.Sprint("o", i), "x"))
	}
	before := s.count()
	read(t, s.service(), sdk.TailLogsRequest{Tail: n(1)}, 0)
	if calls := s.count() - before; calls > 6 {
		t.Errorf("%d pages were read for the last line of three instances", calls)
	}
}

// TestServiceFollow: after what is there comes what is written later, also what
// arrives late with an older time, each line once; it ends with its context.
func TestServiceFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		time.Sleep(time.Minute)
		s.put(line("a", 58*time.Second, "1", "a1"), line("a", 59*time.Second, "2", "a2"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []string
		one := 1
		for it, err := range s.service().Read(ctx, sdk.TailLogsRequest{Tail: &one, Follow: true}) {
			if err != nil {
				if !errors.Is(err, sdk.Canceled) {
					t.Errorf("it ends with %v", err)
				}
				break
			}
			got = append(got, it.Instance+" "+string(it.Entry.Data))
			switch len(got) {
			case 1:
				s.put(line("b", 61*time.Second, "4", "b1"), line("a", 58500*time.Millisecond, "3", "late"))
			case 3:
				cancel()
			}
		}
		want(t, "followed", got, "a a2", "a late", "b b1")
	})
}

// TestFilterMixed: executions and services are selected by one query.
func TestFilterMixed(t *testing.T) {
	got := filter("p", []*follower{{source: source{execution: "e"}}, {source: source{region: "r1", service: "web"}}, {source: source{region: "r1", service: "api"}}})
	if w := `((resource.type="cloud_run_job" AND labels."run.googleapis.com/execution_name"=("e")) OR (resource.type="cloud_run_revision" AND resource.labels.location="r1" AND ` +
		`resource.labels.service_name=("api" OR "web"))) AND logName=("projects/p/logs/run.googleapis.com%2Fstdout" OR "projects/p/logs/run.googleapis.com%2Fstderr")`; got != w {
		t.Errorf("got  %s\nwant %s", got, w)
	}
}
