package cloudlogging

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	ltype "google.golang.org/genproto/googleapis/logging/type"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func request(filter string) *loggingpb.ListLogEntriesRequest {
	return &loggingpb.ListLogEntriesRequest{ResourceNames: []string{"projects/p-project"}, Filter: filter}
}

// readAll reads all pages, and counts the calls.
func readAll(t *testing.T, s *Service, r *loggingpb.ListLogEntriesRequest) (list []*loggingpb.LogEntry, calls int) {
	t.Helper()
	for {
		page, err := s.ListLogEntries(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		calls++
		list = append(list, page.Entries...)
		if page.NextPageToken == "" {
			return list, calls
		}
		r.PageToken = page.NextPageToken
	}
}

func plain(list []*loggingpb.LogEntry) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.GetTextPayload())
	}
	return out
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

// TestWriter cuts output into entries.
func TestWriter(t *testing.T) {
	s, _ := newService()
	c := s.Open(source())
	out, errs := c.Stdout(), c.Stderr()
	write(t, out, "one\ntw")
	write(t, errs, "err\n")
	write(t, out, "o\n\nbad \xff\xfe byte\n")
	write(t, out, `{"severity":"error","message":"m","n":1,"time":"2026-01-01T00:00:00Z","logging.googleapis.com/labels":{"a":"b"},"logging.googleapis.com/insertId":"mine","logging.googleapis.com/trace":"t","logging.googleapis.com/spanId":"s"}`+"\n")
	write(t, out, `{"severity":"odd","x":`+"\n"+`[1]`+"\nrest")
	c.Close()
	c.Close()
	list, _ := readAll(t, s, request(`log_id("run.googleapis.com/stdout")`))
	if got, want := plain(list), []string{"", "one", "two", "", "bad \ufffd byte", `{"severity":"odd","x":`, "[1]", "rest"}; !slices.Equal(got, want) {
		t.Errorf("entries are %q, want %q", got, want)
	}
	j := list[0]
	if j.Severity != ltype.LogSeverity_ERROR || j.InsertId != "mine" || j.Trace != "t" || j.SpanId != "s" || j.Labels["a"] != "b" || !j.Timestamp.AsTime().Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) ||
		fmt.Sprint(j.GetJsonPayload().AsMap()) != "map[message:m n:1]" {
		t.Errorf("a structured line became %v", j)
	}
	e := list[1]
	if e.LogName != "projects/p-project/logs/run.googleapis.com%2Fstdout" || e.Resource.Type != "cloud_run_job" || e.Labels["run.googleapis.com/execution_name"] != "job-abcde" || e.Labels["run.googleapis.com/task_index"] != "0" || e.Severity != 0 {
		t.Errorf("a line became %v", e)
	}
	errList, _ := readAll(t, s, request(`log_id("run.googleapis.com/stderr")`))
	if got := plain(errList); !slices.Equal(got, []string{"err"}) {
		t.Errorf("standard error is %q", got)
	}
}

// TestLongLines splits a line that is too long for one entry, and no rune of it.
func TestLongLines(t *testing.T) {
	s, _ := newService()
	c := s.Open(source())
	line := strings.Repeat("é", 200<<10)
	out := c.Stdout()
	write(t, out, line+"\n")
	endless := strings.Repeat("x", maxLine)
	write(t, out, endless+"tail")
	c.Close()
	list, _ := readAll(t, s, request(""))
	whole := strings.Join(plain(list), "")
	if whole != line+endless+"tail" {
		t.Errorf("%d bytes came back, want %d", len(whole), len(line)+len(endless)+4)
	}
	if p := list[0].Split; p.GetTotalSplits() != 2 || p.GetIndex() != 0 || list[1].Split.GetIndex() != 1 || list[1].Split.GetUid() != p.GetUid() {
		t.Errorf("the parts are %v and %v", p, list[1].Split)
	}
}

// FuzzWriter cuts output at any places: what was written comes back, line by
// line, whatever the cuts.
func FuzzWriter(f *testing.F) {
	f.Add("one\ntwo", uint8(2))
	f.Add("{\"severity\":\"ERROR\",\"a\":1}\n", uint8(5))
	f.Add("\xff\n\n{", uint8(1))
	f.Fuzz(func(t *testing.T, text string, cut uint8) {
		s, _ := newService()
		s.SetKnobs(Knobs{})
		c := s.Open(source())
		out := c.Stdout()
		for rest := text; rest != ""; {
			n := min(int(cut)+1, len(rest))
			write(t, out, rest[:n])
			rest = rest[n:]
		}
		c.Close()
		lines := strings.Split(strings.ToValidUTF8(text, "\ufffd"), "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		entries := s.entries
		if len(entries) != len(lines) {
			t.Fatalf("%d lines became %d entries", len(lines), len(entries))
		}
		slices.SortFunc(entries, func(a, b *entry) int { return int(a.seq - b.seq) })
		for i, e := range entries {
			if e.view.GetJsonPayload() == nil && e.view.GetTextPayload() != lines[i] {
				t.Fatalf("line %d is %q, was %q", i, e.view.GetTextPayload(), lines[i])
			}
		}
	})
}

// TestF61Quota reads more often than a project may.
func TestF61Quota(t *testing.T) {
	s, c := newService()
	for range ReadsPerMinute {
		if _, err := s.ListLogEntries(context.Background(), request("")); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.ListLogEntries(context.Background(), request(""))
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "Read requests per minute") || len(status.Convert(err).Details()) != 1 {
		t.Errorf("the read beyond: %v", err)
	}
	c.now = c.now.Add(time.Minute)
	if _, err := s.ListLogEntries(context.Background(), request("")); err != nil {
		t.Errorf("a read in the next minute: %v", err)
	}
	s.SetKnobs(Knobs{})
	for range 2 * ReadsPerMinute {
		if _, err := s.ListLogEntries(context.Background(), request("")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestF61Late has entries arrive late, out of order and twice.
func TestF61Late(t *testing.T) {
	s, c := newService()
	s.SetKnobs(Knobs{Delay: time.Second, LateEvery: 3, LateBy: 10 * time.Second, DoubleEvery: 4})
	out := s.Open(source()).Stdout()
	for i := range 4 {
		write(t, out, fmt.Sprintf("%d\n", i))
		c.now = c.now.Add(time.Millisecond)
	}
	if list, _ := readAll(t, s, request("")); len(list) != 0 {
		t.Errorf("at once there are %q", plain(list))
	}
	c.now = epoch.Add(2 * time.Second)
	if list, _ := readAll(t, s, request("")); !slices.Equal(plain(list), []string{"0", "1", "3", "3"}) || list[2].InsertId != list[3].InsertId {
		t.Errorf("after a while there are %q", plain(list))
	}
	c.now = epoch.Add(20 * time.Second)
	if list, _ := readAll(t, s, request("")); !slices.Equal(plain(list), []string{"0", "1", "2", "3", "3"}) {
		t.Errorf("in the end there are %q", plain(list))
	}
}

// TestPages reads in both orders, by small pages with empty ones between.
func TestPages(t *testing.T) {
	s, c := newService()
	s.SetKnobs(Knobs{EmptyPages: 2, PageSize: 2, Tick: time.Second})
	out := s.Open(source()).Stdout()
	var want []string
	for i := range 5 {
		write(t, out, fmt.Sprintf("%d\n", i))
		want = append(want, fmt.Sprint(i))
		c.now = c.now.Add(300 * time.Millisecond)
	}
	list, calls := readAll(t, s, request(""))
	if !slices.Equal(plain(list), want) || calls != 9 {
		t.Errorf("forwards: %q in %d calls", plain(list), calls)
	}
	if list[0].Timestamp.AsTime() != list[1].Timestamp.AsTime() {
		t.Error("the entries don't share a tick")
	}
	back := request(`textPayload!="2"`)
	back.OrderBy, back.PageSize = newestFirst, 1
	list, _ = readAll(t, s, back)
	if !slices.Equal(plain(list), []string{"4", "3", "1", "0"}) {
		t.Errorf("backwards: %q", plain(list))
	}
	first, err := s.ListLogEntries(context.Background(), request(""))
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"of another query": first.NextPageToken, "broken": "?", "empty inside": "e30"} {
		r := request("x")
		r.PageToken = token
		if _, err := s.ListLogEntries(context.Background(), r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a token %s: %v", name, err)
		}
	}
}

// BenchmarkRead reads 100,000 lines of one execution, page by page.
func BenchmarkRead(b *testing.B) {
	s, _ := newService()
	s.SetKnobs(Knobs{})
	c := s.Open(source())
	out := c.Stdout()
	for range 100_000 {
		if _, err := io.WriteString(out, "a line of a job's output\n"); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		r := request(`labels."run.googleapis.com/execution_name"="job-abcde" AND timestamp>="2026-01-02"`)
		r.PageSize = 1000
		for n := 0; ; {
			page, err := s.ListLogEntries(context.Background(), r)
			if err != nil {
				b.Fatal(err)
			}
			if n += len(page.Entries); page.NextPageToken == "" {
				if n != 100_000 {
					b.Fatal(n)
				}
				break
			}
			r.PageToken = page.NextPageToken
		}
	}
}
