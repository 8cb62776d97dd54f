package do

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/godo"
	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "dop_v1_canary-0123456789abcdef"

// serve answers all calls but for the account.
func serve(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/account" && f != nil {
			fmt.Fprint(w, `{"account":{"uuid":"me","team":{"uuid":"team-1"}}}`)
			return
		}
		f(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

func open(t *testing.T, s Settings) *Session {
	t.Helper()
	s.Provider, s.Credentials = "test", map[string]string{"DIGITALOCEAN_TOKEN": token}
	x, err := Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func list(x *Session) error {
	return x.Call(context.Background(), "list", func(ctx context.Context) error {
		_, _, err := x.Client.Apps.List(ctx, &godo.ListOptions{})
		return err
	})
}

// TestErrors: each answer has its class, DigitalOcean's words, and no token.
func TestErrors(t *testing.T) {
	var mu sync.Mutex // calls come on several connections
	var calls int
	var answer func(http.ResponseWriter)
	x := open(t, Settings{PerMinute: 1000000, Endpoint: serve(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		answer(w)
	})})
	// ask makes the call, and counts the requests that came of it.
	ask := func(f func(http.ResponseWriter)) (int, error) {
		mu.Lock()
		calls, answer = 0, f
		mu.Unlock()
		err := list(x)
		mu.Lock()
		defer mu.Unlock()
		return calls, err
	}
	for _, c := range []struct {
		status    int
		body      string
		code      sdk.Code
		retryable bool
	}{
		{400, `{"id":"bad_request","message":"no"}`, sdk.InvalidArgument, false},
		{401, `{"message":"no"}`, sdk.Unauthenticated, false},
		{403, `{"message":"no"}`, sdk.PermissionDenied, false},
		{404, `{"message":"no"}`, sdk.NotFound, false},
		{409, `{"message":"no: it already exists"}`, sdk.AlreadyExists, false},
		{409, `{"message":"no"}`, sdk.Aborted, false},
		{412, `{"message":"no"}`, sdk.Aborted, false},
		{422, `{"message":"no"}`, sdk.InvalidArgument, false},
		{429, `{"message":"no"}`, sdk.ResourceExhausted, true},
		{500, `<html>no</html>`, sdk.Unavailable, true},
		{503, ``, sdk.Unavailable, true},
		{302, ``, sdk.Unavailable, true},
		{200, `{"apps":`, sdk.Unavailable, true},
		{200, `{"apps":7}`, sdk.Unavailable, true},
	} {
		calls, err := ask(func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://example.com/")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != c.code || e.Retryable != c.retryable || c.status == 429 && e.RetryAfter != 7*time.Second || calls != 1 {
			t.Errorf("%d %s: %v (%d calls)", c.status, c.body, err, calls)
		}
		if strings.Contains(fmt.Sprint(err), "canary") || strings.Contains(fmt.Sprint(err), "/v2/") {
			t.Errorf("%d: %v", c.status, err)
		}
	}
	if _, err := ask(func(http.ResponseWriter) { panic(http.ErrAbortHandler) }); !errors.Is(err, sdk.Unavailable) || sdk.IsClear(err) {
		t.Errorf("cut: %v", err)
	}
}

// TestNoAnswer: a call has a time-out of its own, which is no answer.
func TestNoAnswer(t *testing.T) {
	held := make(chan struct{})
	x := open(t, Settings{CallTimeout: 100 * time.Millisecond, Endpoint: serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	})})
	defer close(held)
	if err := list(x); !errors.Is(err, sdk.DeadlineExceeded) || sdk.IsClear(err) || !sdk.IsRetryable(err) {
		t.Errorf("got %v", err)
	}
}

// TestSlowReader: the time-out of an archive's download is the server's: a reader
// may take longer over a line.
func TestSlowReader(t *testing.T) {
	const lines = 40000 // more than the buffers on the way hold
	patience := 2 * time.Second
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range lines {
			fmt.Fprintf(w, "line %d%s\n", i, strings.Repeat(".", 100))
		}
	})
	x := open(t, Settings{CallTimeout: patience, Endpoint: url})
	n := 0
	for line, err := range x.ArchivedLog(t.Context(), "log", url+"/archive") {
		if err != nil || !strings.HasPrefix(line, fmt.Sprintf("line %d.", n)) {
			t.Fatalf("line %d: %.20q, %v", n, line, err)
		}
		if n++; n == 1 {
			time.Sleep(patience + patience/2) //sleep: the reader is slow
		}
	}
	if n != lines {
		t.Errorf("%d lines", n)
	}
}

// TestTokenStaysAtHome: the token goes to the API alone.
func TestTokenStaysAtHome(t *testing.T) {
	x := open(t, Settings{Endpoint: serve(t, func(http.ResponseWriter, *http.Request) {})})
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token went elsewhere")
		}
	}))
	defer other.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, other.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := x.Client.HTTPClient.Do(req); err == nil {
		_ = answer.Body.Close()
		t.Error("a call elsewhere was made")
	}
	for _, err := range x.ArchivedLog(t.Context(), "read", other.URL+"/log") {
		t.Error(err)
	}
}

// TestLogAddresses: an address that a reply gives is asked only where that is safe.
func TestLogAddresses(t *testing.T) {
	away := &Session{}
	here := &Session{local: true}
	for address, want := range map[string][2]bool{
		"https://logs.example.com/x": {true, false}, "wss://logs.example.com/x": {true, false}, "http://logs.example.com/x": {false, false}, "ws://logs.example.com": {false, false},
		"http://127.0.0.1:1/x": {false, true}, "ws://localhost:1/x": {false, true}, "https://[::1]:1/": {true, true}, "file:///etc/passwd": {false, false}, "https:///x": {false, false}, "": {false, false}, "%": {false, false},
	} {
		_, err1 := away.logURL(address)
		_, err2 := here.logURL(address)
		if (err1 == nil) != want[0] || (err2 == nil) != want[1] {
			t.Errorf("%s: %v, %v", address, err1, err2)
		}
	}
}

// TestTeam: whose a token is gets asked once, and is not taken from another token's
// note.
func TestTeam(t *testing.T) {
	file := filepath.Join(t.TempDir(), "team-x.json")
	if _, ok := readTeam(file); ok {
		t.Error("a note that isn't there is read")
	}
	writeTeam(file, "team-1")
	if team, ok := readTeam(file); !ok || team != "team-1" {
		t.Errorf("read %q, %t", team, ok)
	}
	if err := os.WriteFile(file, []byte(`{"v":2,"team":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := readTeam(file); ok {
		t.Error("a newer note is read")
	}
	writeTeam(filepath.Join(t.TempDir(), "missing", "x"), "team-1") // it is only a note
	if x := open(t, Settings{Endpoint: serve(t, func(http.ResponseWriter, *http.Request) {})}); x.Team != "team-1" {
		t.Errorf("the team is %q", x.Team)
	}
}

// TestTokens: where a token may come from.
func TestTokens(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, ".config", "doctl", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("access-token: first\ncontext: default\nauth-contexts:\n  work: second\noutput: text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		values  map[string]string
		ambient bool
		want    string
	}{
		"own":           {map[string]string{"DIGITALOCEAN_TOKEN": " a\n", "DIGITALOCEAN_ACCESS_TOKEN": "b"}, false, "a"},
		"doctl's":       {map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": "b", "HOME": home}, true, "b"},
		"file":          {map[string]string{"HOME": home}, true, "first"},
		"context":       {map[string]string{"HOME": home, "DIGITALOCEAN_CONTEXT": "work"}, true, "second"},
		"no context":    {map[string]string{"HOME": home, "DIGITALOCEAN_CONTEXT": "play"}, true, ""},
		"not allowed":   {map[string]string{"HOME": home}, false, ""},
		"no file":       {map[string]string{"HOME": t.TempDir()}, true, ""},
		"no home":       {nil, true, ""},
		"not a token":   {map[string]string{"DIGITALOCEAN_TOKEN": "two words"}, false, ""},
		"header within": {map[string]string{"DIGITALOCEAN_TOKEN": "a\r\nX: y"}, false, ""},
	} {
		got, err := Settings{Credentials: c.values, Ambient: c.ambient}.token()
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, sdk.Unauthenticated) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestEndpoints: a token goes to DigitalOcean or to this machine.
func TestEndpoints(t *testing.T) {
	for _, endpoint := range []string{"http://example.com:80", "http://10.0.0.1:80", "127.0.0.1:80", "http://127.0.0.1:80/v2", "http://u@127.0.0.1:80", "ftp://127.0.0.1:80", "http://127.0.0.1.example.com:80"} {
		_, err := Open(t.Context(), Settings{Endpoint: endpoint, Credentials: map[string]string{"DIGITALOCEAN_TOKEN": token}})
		if !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// TestBudget: in no minute and no hour are there more calls than the token may
// make, and a spent hour slows calls down without a stop.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perMinute, perHour = 250, 5000
		b := (&Budgets{}).of(token, "", perMinute, perHour)
		var times []time.Time
		begun, longest := time.Now(), time.Duration(0)
		for time.Since(begun) < 3*time.Hour {
			before := time.Now()
			if err := b.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			longest = max(longest, time.Since(before))
			times = append(times, time.Now())
		}
		for i, at := range times {
			if i >= perMinute && at.Sub(times[i-perMinute]) < time.Minute-time.Millisecond {
				t.Fatalf("call %d is one too many of a minute", i)
			}
			if i >= perHour && at.Sub(times[i-perHour]) < time.Hour-time.Millisecond {
				t.Fatalf("call %d is one too many of an hour", i)
			}
		}
		if len(times) < 2*perHour || longest > 2*time.Second {
			t.Errorf("%d calls in three hours, the longest wait %s", len(times), longest)
		}
	})
}

// TestBudgetIsTheTokens: sessions of one token share it, those of another don't,
// and what a reply tells of others' calls counts.
func TestBudgetIsTheTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &Budgets{}
		a, b, other := all.of("a", "", 50, 5000), all.of("a", "", 50, 5000), all.of("b", "", 50, 5000)
		for range Burst(50) {
			if err := a.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		took := func(b *allowance) time.Duration {
			begun := time.Now()
			if err := b.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			return time.Since(begun)
		}
		if took(b) == 0 || took(other) != 0 {
			t.Error("the budget isn't the token's")
		}
		other.heard(&http.Response{StatusCode: 200, Header: http.Header{"Ratelimit-Remaining": {"0"}}})
		if took(other) == 0 {
			t.Error("what is left of the hour isn't heard")
		}
		other = all.of("c", "", 50, 5000)
		other.heard(&http.Response{StatusCode: 429, Header: http.Header{}})
		if took(other) == 0 {
			t.Error("a refusal isn't heard")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// FuzzMessage: a message of a live log is its data, or an error.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{`{"data":"job T x\n"}`, `{"data":""}`, `{}`, `{"data":7}`, `[]`, ``, "\xff", `{"data":"\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text, err := ParseMessage(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(map[string]string{"data": text})
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseMessage(again); err != nil || back != text {
			t.Errorf("%q came back as %q, %v", text, back, err)
		}
	})
}

// FuzzCarry: text that comes in pieces is cut into the same lines.
func FuzzCarry(f *testing.F) {
	f.Add("a\nb\n\nc", uint8(1))
	f.Add("\n", uint8(3))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		var c carry
		var got []string
		line := func(s string) bool { got = append(got, s); return true }
		for rest := text; rest != ""; {
			n := min(int(size)+1, len(rest))
			if !c.add(rest[:n], line) {
				t.Fatal("stopped")
			}
			rest = rest[n:]
		}
		c.flush(line)
		want := strings.Split(text, "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || len(got) != len(want) {
			t.Errorf("%q by %d: %q", text, size, got)
		}
	})
}

// FuzzDoctl: no text of doctl's settings is quoted in an error.
func FuzzDoctl(f *testing.F) {
	f.Add([]byte("access-token: x\n"), "")
	f.Add([]byte("a: [canary"), "x")
	f.Fuzz(func(t *testing.T, data []byte, use string) {
		if _, err := parseDoctl(data, use, "file"); err != nil && strings.Contains(err.Error(), "canary") && !strings.Contains(use, "canary") && strings.Contains(err.Error(), "YAML") {
			t.Error(err)
		}
	})
}
