package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// quick is a clock that sleeps a hundredth of what it is asked for.
type quick struct{ sdk.Clock }

func (q quick) Sleep(ctx context.Context, d time.Duration) error { return q.Clock.Sleep(ctx, d/100) }

func quickly(r *sdk.OpenRequest) { r.Clock = quick{sdk.SystemClock()} }

const isLogs = "/logs"

// cutAt lets the k-th answer of the log break off after k*step bytes.
func cutAt(step int) (func(w http.ResponseWriter, r *http.Request, next http.Handler), *atomic.Int64) {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		q := r.URL.Query()
		q.Del("follow")
		r.URL.RawQuery = q.Encode()
		next.ServeHTTP(rec, r)
		body := rec.Body.Bytes()
		most := int(n.Add(1)) * step
		if most >= len(body) {
			_, _ = w.Write(body)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body[:most])
		w.(http.Flusher).Flush()
		cutOff(w, r, next)
	}, &n
}

func TestF54CutStreamsAreResumed(t *testing.T) {
	for step, lines := range map[int]int{37: 10, 400: 60, 20000: 60} {
		f := newFake(t)
		var wantOut, wantErr strings.Builder
		f.script = func(c *fakeContainer) {
			for i := range lines {
				line := fmt.Sprintf("line %d é家\xff\n", i)
				c.print(sdk.StreamStdout, line)
				wantOut.WriteString(line)
				if i%7 == 0 {
					// All of one stamp.
					for k := range 3 {
						c.Log = append(c.Log, logRecord{stream: sdk.StreamStderr, stamp: int64(1e18), data: fmt.Sprintf("%d.%d\n", i, k)})
						fmt.Fprintf(&wantErr, "%d.%d\n", i, k)
					}
				}
			}
			piece := strings.Repeat("p", pieceSize)
			pieces := []string{piece, piece, "end\n"}
			if step < 1000 {
				pieces = pieces[2:] // or it would take a thousand connections
			}
			for _, d := range pieces {
				c.Log = append(c.Log, logRecord{stream: sdk.StreamStdout, stamp: int64(1e18) + 1000, data: d})
				wantOut.WriteString(d)
			}
			c.exit(0)
		}
		b := openTest(t, f.host, quickly)
		h := b.run(t, sh("x"))
		do, n := cutAt(step)
		f.on(http.MethodGet, isLogs, -1, do)
		o := b.logs(t, h, true, nil)
		if o.out != wantOut.String() || o.err != wantErr.String() || o.gaps != 0 || o.verdict != sdk.VerdictComplete {
			t.Errorf("step %d, %d connections: %d and %d bytes instead of %d and %d, %d gaps, %s", step, n.Load(), len(o.out), len(o.err), wantOut.Len(), wantErr.Len(), o.gaps, o.verdict)
		}
	}
}

func TestF55EndOfStreamWhileRunning(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host, quickly)
	h := b.run(t, sh("x"))
	rounds := 0
	f.on(http.MethodGet, isLogs, 6, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		q := r.URL.Query()
		q.Del("follow") // the stream ends, properly, though the container runs
		r.URL.RawQuery = q.Encode()
		next.ServeHTTP(w, r)
		f.lock(func() {
			c := f.containers[h.ID]
			c.print(sdk.StreamStdout, fmt.Sprintf("round %d\n", rounds))
			if rounds++; rounds == 6 {
				c.exit(0)
			}
		})
	})
	o := b.logs(t, h, true, nil)
	if o.out != "round 0\nround 1\nround 2\nround 3\nround 4\nround 5\n" || o.verdict != sdk.VerdictComplete {
		t.Errorf("got %+v", o)
	}
}

// A stream that hangs is doubted: for ever silent, and the container goes on or
// has ended.
func TestF57FollowHangs(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }
	t.Run("running", func(t *testing.T) {
		f := newFake(t)
		b := openTest(t, f.host, quickly)
		h := b.run(t, sh("x"))
		f.on(http.MethodGet, isLogs, 2, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			w.(http.Flusher).Flush()
			hang(w, r, next)
		})
		f.lock(func() { f.containers[h.ID].print(sdk.StreamStdout, "unseen by the stream\n") })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := make(chan string, 10)
		go func() {
			defer close(got)
			for it, err := range b.JobLogs(ctx, sdk.JobLogsRequest{Handle: h, Follow: true}) {
				if err == nil && it.Entry != nil {
					got <- string(it.Entry.Data)
				}
			}
		}()
		if s := testwait.Receive(t, patience, "output", got); s != "unseen by the stream\n" {
			t.Errorf("got %q", s)
		}
		cancel()
		for range got {
		}
	})
	t.Run("ended", func(t *testing.T) {
		f := newFake(t)
		b := openTest(t, f.host, quickly)
		h := b.run(t, sh("x"))
		f.on(http.MethodGet, isLogs, 1, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			w.(http.Flusher).Flush()
			f.lock(func() {
				f.containers[h.ID].print(sdk.StreamStdout, "last words\n")
				f.containers[h.ID].exit(0)
			})
			hang(w, r, next)
		})
		if o := b.logs(t, h, true, nil); o.out != "last words\n" || o.verdict != sdk.VerdictComplete {
			t.Errorf("got %+v", o)
		}
	})
}

func TestFollowOverRestartOfEngine(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host, quickly)
	h := b.run(t, sh("x"))
	f.lock(func() { f.containers[h.ID].print(sdk.StreamStdout, "before\n") })
	f.on(http.MethodGet, isLogs, 1, cutOff)
	for range 20 {
		f.on(http.MethodGet, "/json", 1, cutOff)
	}
	done := make(chan output, 1)
	go func() {
		o, err := b.readLogs(t.Context(), h, true, nil)
		if err != nil {
			t.Error(err)
		}
		done <- o
	}()
	testwait.Until(t, patience, "reading again", func() bool { return f.called("GET containers/logs") > 1 })
	f.lock(func() {
		f.containers[h.ID].print(sdk.StreamStdout, "after\n")
		f.containers[h.ID].exit(0)
	})
	if o := testwait.Receive(t, patience, "log", done); o.out != "before\nafter\n" || o.verdict != sdk.VerdictComplete {
		t.Errorf("got %+v", o)
	}
}

func TestLogOfAnUnreachableEngine(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host, quickly)
	h := b.run(t, sh("x"))
	f.on(http.MethodGet, isLogs, -1, cutOff)
	if _, err := b.readLogs(t.Context(), h, false, nil); !errors.Is(err, sdk.Unavailable) {
		t.Errorf("got %v", err)
	}
}

func TestLogThatTheEngineCannotRead(t *testing.T) {
	f := newFake(t)
	f.script = exitAtOnce(0)
	b := openTest(t, f.host, quickly)
	h := b.run(t, sh("x"))
	f.on(http.MethodGet, isLogs, -1, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		_, _ = w.Write(append([]byte{3, 0, 0, 0, 0, 0, 0, 15}, "Error grabbing\n"...))
	})
	if _, err := b.readLogs(t.Context(), h, true, nil); !errors.Is(err, sdk.DataLoss) || !strings.Contains(err.Error(), "Error grabbing") {
		t.Errorf("got %v", err)
	}
}

func TestLogOfAMissingContainer(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host, quickly)
	h := b.run(t, sh("x"))
	f.lock(func() { delete(f.containers, h.ID) })
	if _, err := b.readLogs(t.Context(), h, true, nil); !errors.Is(err, sdk.NotFound) {
		t.Errorf("got %v", err)
	}
}

func TestFollowFromBeforeTheStart(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host, quickly)
	h := b.run(t, sh("x"))
	f.lock(func() {
		c := f.containers[h.ID]
		c.State.Status, c.State.Running, c.State.StartedAt = "created", false, "0001-01-01T00:00:00Z"
	})
	if o := b.logs(t, h, false, nil); o.verdict != sdk.VerdictQuiet || o.out != "" {
		t.Errorf("not following: %+v", o)
	}
	done := make(chan output, 1)
	go func() {
		o, err := b.readLogs(t.Context(), h, true, nil)
		if err != nil {
			t.Error(err)
		}
		done <- o
	}()
	asked := f.called("GET containers/json")
	testwait.Until(t, patience, "waiting follower", func() bool { return f.called("GET containers/json") > asked+1 })
	f.lock(func() {
		c := f.containers[h.ID]
		c.State.Status, c.State.Running, c.State.StartedAt = "running", true, "2026-01-01T00:00:01Z"
		c.print(sdk.StreamStdout, "hello\n")
		c.exit(0)
	})
	if o := testwait.Receive(t, patience, "log", done); o.out != "hello\n" || o.verdict != sdk.VerdictComplete {
		t.Errorf("got %+v", o)
	}
}

// Engines up to 20.10 lose the newline of a line that their log driver local
// stored in pieces.
func TestF65LostNewlines(t *testing.T) {
	piece := strings.Repeat("p", pieceSize)
	for name, c := range map[string]struct {
		api, options string
		log          []string
		want         string
	}{
		"within":            {"1.41", `{}`, []string{piece, "end", "short\n"}, piece + "end\nshort\n"},
		"whole pieces":      {"1.41", `{}`, []string{piece, piece, "", "short\n"}, piece + piece + "\nshort\n"},
		"at the end":        {"1.41", `{}`, []string{piece, "end"}, piece + "end\n"},
		"unended and short": {"1.41", `{}`, []string{"a\n", "end"}, "a\nend"},
		"newer engine":      {"1.43", `{}`, []string{piece, "end"}, piece + "end"},
		"newer engine, whole": {"1.43", `{}`, []string{piece, "end\n", piece, "\n"},
			piece + "end\n" + piece + "\n"},
		"json-file": {"1.41", `{"log_driver":"json-file"}`, []string{piece, "end"}, piece + "end"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.api = c.api
			f.script = func(x *fakeContainer) {
				for _, l := range c.log {
					x.print(sdk.StreamStdout, l)
				}
				x.exit(0)
			}
			b := openTest(t, f.host)
			spec := sh("x")
			spec.Options = json.RawMessage(c.options)
			h := b.run(t, spec)
			o := b.logs(t, h, true, nil)
			if o.out != c.want {
				t.Errorf("%d bytes instead of %d: ...%q", len(o.out), len(c.want), o.out[max(0, len(o.out)-20):])
			}
			if again := b.logs(t, h, false, o.cursor); again.out != "" || again.verdict != sdk.VerdictComplete {
				t.Errorf("from the end: %+v", again)
			}
		})
	}
}

func TestBoundedLog(t *testing.T) {
	f := newFake(t)
	b := openTest(t, f.host, quickly)
	spec := sh("x")
	spec.Options = json.RawMessage(`{"log_max_size":2097152}`)
	h := b.run(t, spec)
	cfg := f.containers[h.ID].Create.HostConfig.LogConfig
	if cfg.Type != logLocal || cfg.Config["max-size"] != "1048576" || cfg.Config["max-file"] != "2" {
		t.Errorf("log config %+v", cfg)
	}
	put := func(from, n int) {
		f.lock(func() {
			for i := range n {
				f.containers[h.ID].Log = append(f.containers[h.ID].Log, logRecord{stream: sdk.StreamStdout, stamp: int64(1e18) + int64(from+i)*1e9, data: fmt.Sprintf("%d\n", from+i)})
			}
		})
	}
	put(0, 5)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type seen struct {
		text string
		gap  bool
	}
	got, end := make(chan seen, 100), make(chan sdk.Verdict, 1)
	go func() {
		defer close(got)
		for it, err := range b.JobLogs(ctx, sdk.JobLogsRequest{Handle: h, Follow: true}) {
			switch {
			case err != nil:
				t.Error(err)
			case it.Gap != nil:
				got <- seen{gap: true}
			case it.Entry != nil:
				got <- seen{text: string(bytes.Clone(it.Entry.Data))}
			case it.End != nil:
				end <- it.End.Verdict
			}
		}
	}()
	for i := range 5 {
		if s := testwait.Receive(t, patience, "line", got); s.text != fmt.Sprintf("%d\n", i) {
			t.Fatalf("got %+v", s)
		}
	}
	if n := f.called("GET containers/logs"); n == 0 {
		t.Error("no log was read")
	}
	// The engine drops what was read and more, before anybody looked.
	f.lock(func() { f.containers[h.ID].Log = nil })
	put(8, 1)
	if s := testwait.Receive(t, patience, "gap", got); !s.gap {
		t.Errorf("got %+v instead of a gap", s)
	}
	// A log that was found empty in between tells of the gap before the line.
	if s := testwait.Receive(t, patience, "line", got); s.text != "8\n" {
		t.Errorf("got %+v", s)
	}
	f.lock(func() { f.containers[h.ID].exit(0) })
	if v := testwait.Receive(t, patience, "end", end); v != sdk.VerdictTruncatedByProvider {
		t.Errorf("verdict %s", v)
	}
}

func TestBoundedLogReadLate(t *testing.T) {
	for size, gaps := range map[int]int{1000: 0, 1 << 20: 1} {
		f := newFake(t)
		f.script = func(c *fakeContainer) {
			for range size / 1000 {
				c.print(sdk.StreamStdout, strings.Repeat("x", 999)+"\n")
			}
			c.print(sdk.StreamStdout, strings.Repeat("x", size%1000)+"\n")
			c.exit(0)
		}
		b := openTest(t, f.host, quickly)
		spec := sh("x")
		spec.Options = json.RawMessage(`{"log_max_size":2097152}`)
		o := b.logs(t, b.run(t, spec), true, nil)
		if o.gaps != gaps || (o.verdict == sdk.VerdictComplete) != (gaps == 0) {
			t.Errorf("%d bytes of a log that keeps 1 MiB for sure: %d gaps, %s", size, o.gaps, o.verdict)
		}
	}
}

func TestF67StreamsKeepTheirOrder(t *testing.T) {
	f := newFake(t)
	f.script = func(c *fakeContainer) {
		// Stamps that go back, and streams that interleave.
		for i := range 50 {
			s := sdk.StreamStdout
			if i%3 == 0 {
				s = sdk.StreamStderr
			}
			c.Log = append(c.Log, logRecord{stream: s, stamp: int64(1e18) - int64(i%5)*1e6, data: fmt.Sprintf("%d ", i)})
		}
		c.exit(0)
	}
	b := openTest(t, f.host)
	o := b.logs(t, b.run(t, sh("x")), true, nil)
	var out, errs strings.Builder
	for i := range 50 {
		if i%3 == 0 {
			fmt.Fprintf(&errs, "%d ", i)
		} else {
			fmt.Fprintf(&out, "%d ", i)
		}
	}
	if o.out != out.String() || o.err != errs.String() {
		t.Errorf("got %q and %q", o.out, o.err)
	}
}
