package logtail

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	ltype "google.golang.org/genproto/googleapis/logging/type"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/sdk"
)

// store is Cloud Logging for one project.
type store struct {
	mu      sync.Mutex
	entries []*loggingpb.LogEntry
	// calls are the requests; page is the most entries of a page.
	calls []*loggingpb.ListLogEntriesRequest
	page  int
	// fails are the errors of the next calls.
	fails []error
}

func entry(execution string, at time.Duration, id, text string) *loggingpb.LogEntry {
	return &loggingpb.LogEntry{LogName: "projects/p/logs/" + logStdout, InsertId: id, Timestamp: timestamppb.New(epoch.Add(at)),
		Labels: map[string]string{labelExecution: execution}, Payload: &loggingpb.LogEntry_TextPayload{TextPayload: text}}
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when synctest begins

func (s *store) put(entries ...*loggingpb.LogEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, entries...)
	slices.SortStableFunc(s.entries, func(a, b *loggingpb.LogEntry) int { return positionOf(a).compare(positionOf(b)) })
}

func (s *store) list(_ context.Context, r *loggingpb.ListLogEntriesRequest) (*loggingpb.ListLogEntriesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, r)
	if len(s.fails) > 0 {
		err := s.fails[0]
		if s.fails = s.fails[1:]; err != nil {
			return nil, err
		}
	}
	var from time.Time
	if _, text, ok := strings.Cut(r.Filter, `timestamp>="`); ok {
		from, _ = time.Parse(time.RFC3339Nano, strings.TrimSuffix(text, `"`))
	}
	var fit []*loggingpb.LogEntry
	for _, e := range s.entries {
		if strings.Contains(r.Filter, `"`+e.Labels[labelExecution]+`"`) && !e.GetTimestamp().AsTime().Before(from) {
			fit = append(fit, e)
		}
	}
	skip := 0
	_, _ = fmt.Sscan(r.PageToken, &skip)
	out := &loggingpb.ListLogEntriesResponse{Entries: fit[min(skip, len(fit)):]}
	if s.page > 0 && len(out.Entries) > s.page {
		out.Entries, out.NextPageToken = out.Entries[:s.page], fmt.Sprint(skip+s.page)
	}
	return out, nil
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

func (s *store) log(r *Reader, execution string) *Log {
	return &Log{Kind: "k", Provider: "prod", Reader: r, List: s.list, Execution: execution, Late: time.Second,
		Ended: func() (bool, bool) { return false, false }}
}

func newReader() *Reader { return (&Readers{}).For("p", "") }

// lines takes n lines of a log.
func lines(t *testing.T, seq iter.Seq2[sdk.LogItem, error], n int) (out []string, last *sdk.LogCursor) {
	t.Helper()
	for it, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		if it.Entry == nil {
			continue
		}
		out, last = append(out, string(it.Entry.Data)), it.Cursor
		if len(out) == n {
			break
		}
	}
	return out, last
}

// TestOnce: what is there is given in order over all pages, from a cursor on, with
// an end that never claims to be complete.
func TestOnce(t *testing.T) {
	s := &store{page: 2}
	for i := range 5 {
		s.put(entry("a", time.Duration(i)*time.Millisecond, fmt.Sprint("id", i), fmt.Sprint("line ", i)), entry("b", 0, fmt.Sprint("b", i), "other"))
	}
	s.put(entry("a", 4*time.Millisecond, "id4", "line 4")) // stored twice
	l := s.log(newReader(), "a")
	read := func(cursor *sdk.LogCursor) (out []string, at []*sdk.LogCursor, end *sdk.LogEnd) {
		for it, err := range l.Read(t.Context(), cursor, false) {
			if err != nil {
				t.Fatal(err)
			}
			if it.Entry != nil {
				out = append(out, string(it.Entry.Data))
			}
			at = append(at, it.Cursor)
			end = it.End
		}
		return out, at, end
	}
	out, at, end := read(nil)
	if strings.Join(out, "|") != "line 0|line 1|line 2|line 3|line 4" || end == nil || end.Verdict != sdk.VerdictQuiet {
		t.Errorf("%q, %+v", out, end)
	}
	if n := s.count(); n != 3 {
		t.Errorf("%d pages", n)
	}
	if out, _, _ := read(at[1]); strings.Join(out, "|") != "line 2|line 3|line 4" {
		t.Errorf("from the second: %q", out)
	}
	if out, again, _ := read(at[len(at)-1]); len(out) != 0 || again[0].Position[posID] != "id4" {
		t.Errorf("from the end: %q, %v", out, again)
	}
	s.fails = []error{sdk.Errorf(sdk.PermissionDenied, "list", "not allowed")}
	for _, err := range l.Read(t.Context(), nil, false) {
		if !errors.Is(err, sdk.PermissionDenied) {
			t.Errorf("got %v", err)
		}
	}
	for _, err := range l.Read(t.Context(), nil, false) {
		if err != nil {
			t.Error(err)
		}
		break
	}
}

// TestF61FollowInOrder: entries that come late and out of order are given in order
// and once; those later than the declared lateness behind newer ones are not given
// out of turn.
func TestF61FollowInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		go func() {
			s.put(entry("a", 20*time.Millisecond, "2", "second"), entry("a", 20*time.Millisecond, "3", "third"))
			time.Sleep(700 * time.Millisecond)
			s.put(entry("a", 10*time.Millisecond, "1", "first"), entry("a", 20*time.Millisecond, "2", "second"))
			time.Sleep(5 * time.Second)
			s.put(entry("a", 0, "0", "far too late"), entry("a", 30*time.Millisecond, "4", "fourth"))
		}()
		out, at := lines(t, s.log(newReader(), "a").Read(t.Context(), nil, true), 4)
		if strings.Join(out, "|") != "first|second|third|fourth" {
			t.Errorf("%q", out)
		}
		s.put(entry("a", 40*time.Millisecond, "5", "fifth"))
		if out, _ := lines(t, s.log(newReader(), "a").Read(t.Context(), at, true), 1); out[0] != "fifth" {
			t.Errorf("on from the cursor: %q", out)
		}
	})
}

// TestF61OneReader: those who follow share the rounds, at most 250 in one, and an
// idle log slows down.
func TestF61OneReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const logs = 300
		s, r := &store{}, newReader()
		var wg sync.WaitGroup
		for i := range logs {
			name := fmt.Sprintf("execution-%03d", i)
			wg.Go(func() {
				if out, _ := lines(t, s.log(r, name).Read(t.Context(), nil, true), 1); len(out) != 1 || out[0] != "of "+name {
					t.Errorf("%s: %q", name, out)
				}
			})
		}
		time.Sleep(time.Second) // who joins hastens the next round
		synctest.Wait()
		joined := s.count()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		idle := s.count()
		if n := idle - joined; n > 125 {
			t.Errorf("%d reads in half a minute, four a second are due", n)
		}
		for _, c := range s.calls {
			if n := strings.Count(c.Filter, "execution-"); n > together || len(c.Filter) > 20000 {
				t.Errorf("a filter for %d logs has %d characters", n, len(c.Filter))
			}
		}
		for i := range logs {
			name := fmt.Sprintf("execution-%03d", i)
			s.put(entry(name, 0, name, "of "+name))
		}
		wg.Wait()
		if n := s.count() - idle; n > 100 {
			t.Errorf("%d reads for %d lines", n, logs)
		}
		if len(r.followers) != 0 {
			t.Errorf("%d still follow", len(r.followers))
		}
	})
}

// TestQuotaIsWaitedFor: a spent quota puts the next round off as long as Google
// says; another error is that of whoever made the call.
func TestQuotaIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{fails: []error{&sdk.Error{Code: sdk.ResourceExhausted, RetryAfter: 20 * time.Second, Err: errors.New("spent")}}}
		s.put(entry("a", 0, "1", "line"))
		begun := time.Now()
		if out, _ := lines(t, s.log(newReader(), "a").Read(t.Context(), nil, true), 1); out[0] != "line" {
			t.Errorf("%q", out)
		}
		if took := time.Since(begun); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("after %s", took)
		}
		r := newReader()
		other := s.log(r, "a")
		other.List = func(context.Context, *loggingpb.ListLogEntriesRequest) (*loggingpb.ListLogEntriesResponse, error) {
			return nil, sdk.Errorf(sdk.Unauthenticated, "list", "expired")
		}
		var got error
		for _, err := range other.Read(t.Context(), nil, true) {
			got = err
		}
		if !errors.Is(got, sdk.Unauthenticated) {
			t.Errorf("got %v", got)
		}
		if out, _ := lines(t, s.log(r, "a").Read(t.Context(), nil, true), 1); out[0] != "line" {
			t.Errorf("whose credentials are good: %q", out)
		}
	})
}

// TestFollowEnds: what never ran has an end; what a caller gives up has none.
func TestFollowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&store{}).log(newReader(), "a")
		l.Ended = func() (bool, bool) { return true, false }
		var end *sdk.LogEnd
		for it, err := range l.Read(t.Context(), nil, true) {
			if err != nil {
				t.Fatal(err)
			}
			end = it.End
		}
		if end == nil || end.Verdict != sdk.VerdictComplete {
			t.Errorf("%+v", end)
		}
		l.Ended = func() (bool, bool) { return true, true }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		looks, last := 0, error(nil)
		for it, err := range l.Read(ctx, nil, true) {
			if it.End != nil {
				t.Errorf("an end of what may still come: %+v", it.End)
			}
			looks, last = looks+1, err
		}
		if !errors.Is(last, context.DeadlineExceeded) || looks < 10 {
			t.Errorf("%d looks, %v", looks, last)
		}
		for _, err := range l.Read(ctx, nil, true) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an ended context: %v", err)
			}
		}
	})
}

// TestItems: each form of an entry is told as what it is.
func TestItems(t *testing.T) {
	l := &Log{Kind: "k"}
	object, err := structpb.NewStruct(map[string]any{"message": "hi"})
	if err != nil {
		t.Fatal(err)
	}
	stderr := entry("a", 0, "1", "oops")
	stderr.LogName = "projects/p/logs/" + logStderr
	part, last := entry("a", 0, "1", "long "), entry("a", 0, "2", "line")
	part.Split, last.Split = &loggingpb.LogSplit{Index: 0, TotalSplits: 2}, &loggingpb.LogSplit{Index: 1, TotalSplits: 2}
	empty := entry("a", 0, "1", "")
	empty.Payload = nil
	structured := entry("a", 0, "1", "")
	structured.Payload, structured.Severity = &loggingpb.LogEntry_JsonPayload{JsonPayload: object}, ltype.LogSeverity_WARNING
	audit := entry("a", 0, "1", "")
	audit.Payload = &loggingpb.LogEntry_ProtoPayload{ProtoPayload: &anypb.Any{}}
	for name, c := range map[string]struct {
		e      *loggingpb.LogEntry
		data   string
		stream sdk.Stream
		end    sdk.LineEnd
		gap    string
	}{
		"a line":          {entry("a", 0, "1", "hi"), "hi", sdk.StreamStdout, sdk.LineEndStripped, ""},
		"an empty line":   {empty, "", sdk.StreamStdout, sdk.LineEndStripped, ""},
		"on stderr":       {stderr, "oops", sdk.StreamStderr, sdk.LineEndStripped, ""},
		"a part":          {part, "long ", sdk.StreamStdout, sdk.LineEndKept, ""},
		"the last part":   {last, "line", sdk.StreamStdout, sdk.LineEndStripped, ""},
		"an object":       {structured, `{"message":"hi","severity":"WARNING"}`, sdk.StreamStdout, sdk.LineEndStripped, ""},
		"something other": {audit, "", "", "", "is of the form"},
	} {
		it := l.item(c.e)
		if it.Cursor.Position[posID] != c.e.InsertId || (it.Gap != nil) != (c.gap != "") {
			t.Errorf("%s: %+v", name, it)
			continue
		}
		if c.gap != "" {
			if !strings.Contains(it.Gap.Why, c.gap) || it.Entry != nil {
				t.Errorf("%s: %+v", name, it)
			}
			continue
		}
		if string(it.Entry.Data) != c.data || it.Entry.Stream != c.stream || it.Entry.LineEnd != c.end {
			t.Errorf("%s: %+v", name, it.Entry)
		}
	}
}

// TestForeignCursor: a cursor of another backend is refused before a call.
func TestForeignCursor(t *testing.T) {
	s := &store{}
	for _, follow := range []bool{true, false} {
		for _, err := range s.log(newReader(), "a").Read(t.Context(), &sdk.LogCursor{V: 1, Kind: "other"}, follow) {
			if !errors.Is(err, sdk.InvalidArgument) {
				t.Errorf("got %v", err)
			}
		}
	}
	if s.count() != 0 {
		t.Errorf("%d calls", s.count())
	}
}

// TestReaders: a project has one reader, however many providers lead to it.
func TestReaders(t *testing.T) {
	var all Readers
	p := all.For("p", "")
	if all.For("p", "") != p || all.For("q", "") == p || all.For("p", "http://127.0.0.1:1") == p {
		t.Error("readers are shared by project and endpoint")
	}
}
