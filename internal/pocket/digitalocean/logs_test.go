package digitalocean

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/gorilla/websocket"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// listen reads a live log as doctl does, until it is closed.
func listen(t testing.TB, address string, each func(string)) (closed bool, lines []string) {
	t.Helper()
	conn, resp, err := websocket.DefaultDialer.DialContext(within(t), "ws"+strings.TrimPrefix(address, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // it is empty
	defer conn.Close()
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			return websocket.IsCloseError(err, websocket.CloseNormalClosure), lines
		}
		var message struct{ Data string }
		if err := json.Unmarshal(data, &message); err != nil || !strings.HasSuffix(message.Data, "\n") {
			t.Fatalf("message %q: %v", data, err)
		}
		lines = append(lines, strings.TrimSuffix(message.Data, "\n"))
		if each != nil {
			each(lines[len(lines)-1])
		}
	}
}

// texts takes component and time off lines.
func texts(lines []string) []string {
	var out []string
	for _, l := range lines {
		_, text, _ := strings.Cut(l, " ")
		_, text, _ = strings.Cut(text, " ")
		out = append(out, text)
	}
	return out
}

// TestLogs follows a job's output while it runs, and reads it after.
func TestLogs(t *testing.T) {
	c := newCloud(t, Options{})
	file := filepath.Join(t.TempDir(), "go")
	app, id := c.create(t, "logs", job("main", "echo one; echo; echo two >&2; while ! [ -e "+file+" ]; do sleep 0.01; done; printf 'a\\377b\\nlast'"))
	logs, _, err := c.client.Apps.GetLogs(t.Context(), app.ID, id, "main", godo.AppLogTypeRun, true, -1)
	if err != nil || logs.LiveURL == "" || len(logs.HistoricURLs) != 0 {
		t.Fatal(logs, err)
	}
	closed, live := listen(t, logs.LiveURL, func(line string) {
		if strings.HasSuffix(line, " two") { // it came while the job ran
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	want := []string{"one", "", "two", "a\uFFFDb", "last"}
	sorted := func(lines []string) []string { return slices.Sorted(slices.Values(texts(lines))) }
	if !closed || !slices.Equal(sorted(live), slices.Sorted(slices.Values(want))) {
		t.Errorf("live: %q, closed %v", live, closed)
	}
	form := regexp.MustCompile(`^main \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z `)
	for _, l := range live {
		if !form.MatchString(l) {
			t.Errorf("line %q", l)
		}
	}
	c.until(t, app.ID, id, godo.DeploymentPhase_Active)
	if got := c.archive(t, app.ID, id, "main"); !slices.Equal(got, live) {
		t.Errorf("historic: %q", got)
	}
	if got := c.archive(t, app.ID, "", ""); !slices.Equal(got, live) {
		t.Errorf("of the active deployment: %q", got)
	}
	tail, _, err := c.client.Apps.GetLogs(t.Context(), app.ID, id, "main", godo.AppLogTypeDeploy, false, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, text := c.get(t, tail.HistoricURLs[0]); strings.Count(text, "\n") != 2 || !strings.HasSuffix(text, " last\n") {
		t.Errorf("the tail is %q", text)
	}
}

// TestLogKnobs sends late lines, lines twice, a broken stream and a slow
// archive.
func TestLogKnobs(t *testing.T) {
	c := newCloud(t, Options{})
	live := func(name string, knobs func(*Knobs)) (closed bool, lines []string, app, id string) {
		c.TuneKnobs(knobs)
		a, id := c.create(t, name, job("main", "echo 1; echo 2; echo 3"))
		logs, _, err := c.client.Apps.GetLogs(t.Context(), a.ID, id, "", godo.AppLogTypeRun, true, 0)
		if err != nil {
			t.Fatal(err)
		}
		closed, lines = listen(t, logs.LiveURL, nil)
		return closed, texts(lines), a.ID, id
	}
	began := time.Now()
	const late = 100 * time.Millisecond
	if closed, lines, _, _ := live("late", func(k *Knobs) { k.LogDelay = late }); !closed || !slices.Equal(lines, []string{"1", "2", "3"}) || time.Since(began) < late {
		t.Errorf("late lines: %q after %s", lines, time.Since(began))
	}
	if closed, lines, _, _ := live("twice", func(k *Knobs) { k.LogDelay, k.LogTwice = 0, true }); !closed || !slices.Equal(lines, []string{"1", "1", "2", "2", "3", "3"}) {
		t.Errorf("doubled lines: %q", lines)
	}
	closed, lines, app, id := live("cut", func(k *Knobs) { k.LogTwice, k.LiveCut, k.ArchiveDelay = false, 2, time.Hour })
	if closed || !slices.Equal(lines, []string{"1", "2"}) {
		t.Errorf("a stream that is cut: %q, closed %v", lines, closed)
	}
	c.until(t, app, id, godo.DeploymentPhase_Active)
	logs, _, err := c.client.Apps.GetLogs(t.Context(), app, id, "", godo.AppLogTypeRun, false, 0)
	if err != nil || logs.LiveURL == "" || len(logs.HistoricURLs) != 0 {
		t.Errorf("before the archive the logs are %v, %v", logs, err)
	}
	if _, text := c.get(t, logs.LiveURL); strings.Count(text, "\n") != 3 {
		t.Errorf("the live log of an ended job is %q", text)
	}
	c.TuneKnobs(func(k *Knobs) { k.ArchiveDelay = 0 })
	c.archive(t, app, id, "main")
}

// TestLivePatience gives up on a job that doesn't begin, and leaves with a
// caller.
func TestLivePatience(t *testing.T) {
	c := newCloud(t, Options{})
	c.Strike(Mishap{Stage: StagePlace})
	app, id := c.create(t, "nowhere", job("main", "true"))
	status, reply, _ := c.call(t, http.MethodGet, "/v2/apps/"+app.ID+"/deployments/"+id+"/logs?type=RUN&follow=true&pod_connection_timeout=50ms", nil)
	if status != 200 {
		t.Fatal(reply)
	}
	if closed, lines := listen(t, reply["live_url"].(string), nil); !closed || lines != nil {
		t.Errorf("the stream gave %q, closed %v", lines, closed)
	}
	logs, _, err := c.client.Apps.GetLogs(t.Context(), app.ID, id, "main", godo.AppLogTypeRun, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn, resp, err := websocket.DefaultDialer.DialContext(within(t), "ws"+strings.TrimPrefix(logs.LiveURL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if err := conn.Close(); err != nil { // goleak sees whether the server notices
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, logs.LiveURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := plain.Body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
	_ = plain.Body.Close()
}

// TestLogFaults refuses and cuts the reading of logs.
func TestLogFaults(t *testing.T) {
	c := newCloud(t, Options{})
	c.TuneKnobs(func(k *Knobs) { k.ArchiveDelay = time.Hour })
	app, id := c.create(t, "faulty", job("main", "echo x"))
	c.until(t, app.ID, id, godo.DeploymentPhase_Active)
	address := func() string {
		t.Helper()
		logs, _, err := c.client.Apps.GetLogs(t.Context(), app.ID, id, "main", godo.AppLogTypeRun, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		return append(logs.HistoricURLs, logs.LiveURL)[0]
	}
	for _, action := range []string{"log_live", "log_archive"} {
		c.Faults().Add(fault.Rule{Action: action, Count: 1, Effect: fault.Effect{Refuse: &fault.Refusal{Status: 503}, Latency: time.Millisecond}})
		if status, _ := c.get(t, address()); status != 503 {
			t.Errorf("%s: a refused reader got %d", action, status)
		}
		c.Faults().Add(fault.Rule{Action: action, Count: 1, Effect: fault.Effect{Reset: true}})
		req, err := http.NewRequestWithContext(within(t), http.MethodGet, address(), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s: a reader that is cut off got %d", action, resp.StatusCode)
		}
		if status, text := c.get(t, address()); status != 200 || !strings.HasSuffix(text, " x\n") {
			t.Errorf("%s: then it got %d, %q", action, status, text)
		}
		if n := c.Calls().Count(action); n != 3 {
			t.Errorf("%s: %d calls are counted", action, n)
		}
		c.TuneKnobs(func(k *Knobs) { k.ArchiveDelay = 0 })
	}
}

// TestOutput cuts what is written into lines, however it comes.
func TestOutput(t *testing.T) {
	for _, size := range []int{1, 2, 3, 7, 1 << 20} {
		o := newOutput("c")
		stdout, _ := o.open(0, time.Now)
		text := "é, 家, 🚀\n\nlong " + strings.Repeat("x", 50) + "\nend"
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			if _, err := stdout.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		o.close()
		o.close()
		shown, all, _, _ := o.look(0)
		var got []string
		for _, l := range shown {
			got = append(got, l.Text)
		}
		if !all || strings.Join(got, "\n") != text {
			t.Errorf("by %d bytes: %q", size, got)
		}
	}
	o := newOutput("c")
	stdout, _ := o.open(0, time.Now)
	fmt.Fprint(stdout, strings.Repeat("x", maxLine+5))
	o.close()
	if shown, _, _, _ := o.look(0); len(shown) != 2 || len(shown[0].Text) != maxLine || len(shown[1].Text) != 5 {
		t.Errorf("a line that is too long became %d", len(shown))
	}
	o = newOutput("c")
	stdout, _ = o.open(0, time.Now)
	fmt.Fprint(stdout, strings.Repeat("x", maxLine))
	fmt.Fprint(stdout, "\n")
	o.close()
	if shown, _, _, _ := o.look(0); len(shown) != 1 || len(shown[0].Text) != maxLine {
		t.Errorf("the longest line became %d", len(shown))
	}
}
