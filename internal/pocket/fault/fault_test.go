package fault

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hits tells which of n calls a rule hits.
func hits(p *Plan, n int, action string) string {
	var b strings.Builder
	for range n {
		if p.Next(action, []byte("body")).Drop {
			b.WriteByte('x')
		} else {
			b.WriteByte('.')
		}
	}
	return b.String()
}

// TestPlan counts calls for each rule.
func TestPlan(t *testing.T) {
	drop := Effect{Drop: true}
	body := func(want string) func([]byte) bool { return func(b []byte) bool { return string(b) == want } }
	for name, k := range map[string]struct {
		rule Rule
		want string
	}{
		"all":          {Rule{Effect: drop}, "xxxxxx"},
		"third":        {Rule{Action: "a:X", Skip: 2, Count: 1, Effect: drop}, "..x..."},
		"from third":   {Rule{Action: "a:*", Skip: 2, Effect: drop}, "..xxxx"},
		"first two":    {Rule{Count: 2, Effect: drop}, "xx...."},
		"other action": {Rule{Action: "b:*", Effect: drop}, "......"},
		"body":         {Rule{Match: body("body"), Count: 1, Effect: drop}, "x....."},
		"other body":   {Rule{Match: body("x"), Effect: drop}, "......"},
	} {
		p := NewPlan(1)
		remove := p.Add(k.rule)
		if got := hits(p, 6, "a:X"); got != k.want {
			t.Errorf("%s: %s, want %s", name, got, k.want)
		}
		remove()
		if got := hits(p, 2, "a:X"); got != ".." {
			t.Errorf("%s: after its removal %s", name, got)
		}
	}
}

// TestShare hits the same part of the same calls for the same seed.
func TestShare(t *testing.T) {
	var runs []string
	for _, seed := range []uint64{7, 7, 8} {
		p := NewPlan(seed)
		p.Add(Rule{Share: 0.3, Effect: Effect{Drop: true}})
		runs = append(runs, hits(p, 1000, "a"))
	}
	if n := strings.Count(runs[0], "x"); n < 250 || n > 350 {
		t.Errorf("%d of 1,000 are hit, want about 300", n)
	}
	if runs[0] != runs[1] || runs[0] == runs[2] {
		t.Error("the seed doesn't decide")
	}
}

// TestPlanAdds adds up what several rules do.
func TestPlanAdds(t *testing.T) {
	p := NewPlan(1)
	first := &Refusal{Code: "first"}
	p.Add(Rule{Effect: Effect{Latency: time.Second}})
	p.Add(Rule{Effect: Effect{Latency: time.Second, Refuse: first}})
	p.Add(Rule{Effect: Effect{Refuse: &Refusal{Code: "second"}, Reset: true}})
	if got := p.Next("a", nil); got.Latency != 2*time.Second || got.Refuse != first || !got.Reset || got.Drop {
		t.Errorf("all together: %+v", got)
	}
	p.Clear()
	if got := p.Next("a", nil); !reflect.DeepEqual(got, Effect{}) {
		t.Errorf("after Clear: %+v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a bad pattern is taken")
		}
	}()
	p.Add(Rule{Action: "["})
}

// web serves calls of action "a:X" under a plan.
func web(t *testing.T, keep bool) (s Server, url string, done *atomic.Int32) {
	t.Helper()
	s = Server{Plan: NewPlan(1), Recorder: NewRecorder(keep), Now: time.Now}
	done = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.Serve(w, r, "a:X", body, func() Reply {
			done.Add(1)
			return Reply{Status: 200, Header: http.Header{"X-A": {"b"}}, Body: []byte("reply")}
		}, func(f Refusal) Reply { return Reply{Status: f.Status, Body: []byte(f.Code)} })
	}))
	t.Cleanup(server.Close)
	return s, server.URL, done
}

func post(t *testing.T, url string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("request"))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// TestServe carries out, refuses, resets and drops.
func TestServe(t *testing.T) {
	s, url, done := web(t, true)
	if resp, body, err := post(t, url); err != nil || resp.StatusCode != 200 || body != "reply" || resp.Header.Get("X-A") != "b" || done.Load() != 1 {
		t.Errorf("a calm call: %v, %q, %v", resp, body, err)
	}
	s.Plan.Add(Rule{Count: 1, Effect: Effect{Refuse: &Refusal{Status: 429, Code: "slow", RetryAfter: 1100 * time.Millisecond}}})
	if resp, body, err := post(t, url); err != nil || resp.StatusCode != 429 || body != "slow" || resp.Header.Get("Retry-After") != "2" || done.Load() != 1 {
		t.Errorf("a refused call: %v, %q, %v", resp, body, err)
	}
	s.Plan.Add(Rule{Count: 1, Effect: Effect{Reset: true}})
	if _, _, err := post(t, url); err == nil || done.Load() != 1 {
		t.Errorf("a reset call: %v, %d carried out", err, done.Load())
	}
	s.Plan.Add(Rule{Count: 1, Effect: Effect{Drop: true}})
	if _, _, err := post(t, url); err == nil || done.Load() != 2 {
		t.Errorf("a dropped reply: %v, %d carried out", err, done.Load())
	}
	calls := s.Recorder.Calls("a:X")
	if len(calls) != 4 || s.Recorder.Count("a:X") != 4 || s.Recorder.Counts()["a:X"] != 4 {
		t.Fatalf("recorded %+v", calls)
	}
	for i, want := range []Call{{Status: 200, Reply: []byte("reply")}, {Status: 429, Reply: []byte("slow")}, {Lost: true}, {Status: 200, Reply: []byte("reply"), Lost: true}} {
		got := calls[i]
		if got.Status != want.Status || string(got.Reply) != string(want.Reply) || got.Lost != want.Lost || string(got.Request) != "request" || got.At.IsZero() {
			t.Errorf("call %d: %+v", i, got)
		}
	}
	s.Recorder.Reset()
	if len(s.Recorder.Calls("")) != 0 || s.Recorder.Count("a:X") != 0 {
		t.Error("Reset keeps calls")
	}
}

// TestCountsOnly keeps no bodies unless asked to.
func TestCountsOnly(t *testing.T) {
	s, url, _ := web(t, false)
	if _, _, err := post(t, url); err != nil {
		t.Fatal(err)
	}
	if s.Recorder.Count("a:X") != 1 || len(s.Recorder.Calls("")) != 0 {
		t.Error("want a count and no call")
	}
}

// TestLatency waits before the call, and no longer than its caller.
func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Server{Plan: NewPlan(1), Recorder: NewRecorder(true), Now: time.Now}
		s.Plan.Add(Rule{Effect: Effect{Latency: time.Minute}})
		serve := func(r *http.Request) (carriedOut bool) {
			s.Serve(httptest.NewRecorder(), r, "a", nil, func() Reply { carriedOut = true; return Reply{Status: 200} }, nil)
			return carriedOut
		}
		began := time.Now()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		if !serve(req) || time.Since(began) != time.Minute {
			t.Errorf("took %s", time.Since(began))
		}
		gone := httptest.NewRequestWithContext(canceled(t, time.Second), http.MethodPost, "/", nil)
		if began = time.Now(); serve(gone) || time.Since(began) != time.Second {
			t.Errorf("for a caller that left it took %s", time.Since(began))
		}
	})
}

// TestHold keeps calls waiting, each until all that hold it have let go, and none
// longer than its caller.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Server{Plan: NewPlan(1), Recorder: NewRecorder(true), Now: time.Now}
		var done atomic.Int32
		serve := func(ctx context.Context, action string) {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
			s.Serve(httptest.NewRecorder(), r, action, nil, func() Reply { done.Add(1); return Reply{Status: 200} }, nil)
		}
		entered, release := s.Plan.Hold("a:X")
		_, other := s.Plan.Hold("a:*")
		for range 3 {
			go serve(t.Context(), "a:X")
		}
		serve(canceled(t, time.Second), "a:X")
		serve(t.Context(), "b:X")
		for range 4 {
			<-entered
		}
		release()
		release()
		synctest.Wait()
		if n := done.Load(); n != 1 {
			t.Errorf("%d calls were carried out, want only that which nothing holds", n)
		}
		s.Plan.Clear()
		other()
		synctest.Wait()
		serve(t.Context(), "a:X")
		if n := done.Load(); n != 5 {
			t.Errorf("%d calls were carried out, want 5: all but that whose caller left", n)
		}
		if calls := s.Recorder.Calls("a:X"); len(calls) != 5 || !calls[0].Lost {
			t.Errorf("recorded %+v", calls)
		}
	})
}

// TestCutWithoutConnection aborts where there is no connection to cut.
func TestCutWithoutConnection(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("recovered %v", err)
		}
	}()
	cut(httptest.NewRecorder())
}

func canceled(t *testing.T, after time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), after)
	t.Cleanup(cancel)
	return ctx
}
