package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/telemetry"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func TestSvcTopOnce(t *testing.T) {
	w := newLiveWorld(t, "alpha", "beta")
	w.deploy("alpha", "main/api", 2)
	w.deploy("beta", "main/web", 1)
	w.deploy("beta", "main/idle", 0)
	out := w.must(0, "svc", "top")
	for _, line := range []string{
		`WORKLOAD +READY +CPU +MEMORY +IN/s +OUT/s +RESTARTS`,
		`alpha/main/api +2 of 2 +300m +64Mi +warming +warming +0`,
		`  api-1-0 +ready +100m +32Mi +warming +warming +0`,
		`  api-1-1 +ready +200m +32Mi +warming +warming +0`,
		`beta/main/idle +0 of 0 +- +- +- +- +-`,
		`beta/main/web +1 of 1 +100m `,
	} {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(out) {
			t.Errorf("no line like %q in\n%s", line, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("a pipe gets no escape sequences: %q", out)
	}
	if out := w.must(0, "svc", "top", "--sort", "cpu"); strings.Index(out, "api-1-1") > strings.Index(out, "api-1-0") {
		t.Errorf("the greatest isn't first:\n%s", out)
	}
	if out := w.must(0, "svc", "top", "--once", "web"); strings.Contains(out, "api") || !strings.Contains(out, "web-1-0") {
		t.Errorf("%s", out)
	}
	if out := w.must(0, "svc", "top", "--on", "alpha"); strings.Contains(out, "beta") {
		t.Errorf("%s", out)
	}
}

// One provider that doesn't answer hides no other.
func TestSvcTopTellsWhatIsUnknown(t *testing.T) {
	w := newLiveWorld(t, "alpha", "beta")
	w.deploy("alpha", "main/api", 1)
	w.clouds["beta"].Inject(fake.Fault{Op: fake.OpListWorkloads, Kind: fake.FaultReset, Times: -1})
	if out := w.must(ExitFaults, "svc", "top"); !strings.Contains(out, "api-1-0") {
		t.Errorf("%s", out)
	}
	if !strings.Contains(w.err.String(), "beta: list: ") {
		t.Errorf("%s", w.err.String())
	}
}

func TestSvcTopRefuses(t *testing.T) {
	w := newLiveWorld(t, "alpha")
	for _, args := range [][]string{
		{"--interval", "1ms"}, {"--sort", "size"}, {"--once", "--json"}, {"--json", "--listen", ":0"}, {"--listen", "nowhere"}, {"--on", "alpha", "api"},
	} {
		w.must(ExitUsage, append([]string{"svc", "top"}, args...)...)
	}
	w.must(ExitWindlass, "svc", "top", "--on", "gamma")
	w.must(ExitWindlass, "svc", "top", "none")
	none := newLiveWorld(t)
	if none.must(ExitWindlass, "svc", "top"); !strings.Contains(none.err.String(), "operates live workloads") {
		t.Errorf("%s", none.err.String())
	}
}

// during runs a command until see has been true of what it prints, and returns its
// exit code.
func (w *liveWorld) during(with func(*Factory), see func(out string) bool, args ...string) int {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	var wg sync.WaitGroup
	code := 0
	out := &buffer{}
	wg.Go(func() { code = w.doIn(ctx, func(f *Factory) { f.Streams.Out = out; with(f) }, args...) })
	testwait.Until(w.t, time.Minute, "wanted output of "+strings.Join(args, " "), func() bool { return see(out.String()) })
	cancel()
	wg.Wait()
	return code
}

func TestSvcTopJSON(t *testing.T) {
	w := newLiveWorld(t, "alpha")
	w.deploy("alpha", "main/api", 1)
	// It warms until that has been told, however busy the machine is.
	warm := func(d time.Duration) {
		w.clouds["alpha"].Change(func(k *fake.Knobs) { k.MetricsWarm = fake.Duration(d) })
	}
	warm(time.Hour)
	var seen map[TopName]TopEvent
	code := w.during(func(*Factory) {}, func(out string) bool {
		seen = map[TopName]TopEvent{}
		for line := range strings.Lines(out) {
			if !strings.HasSuffix(line, "\n") {
				continue // not whole yet
			}
			validate(t, strings.TrimSpace(line))
			var e TopEvent
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			seen[e.Event] = e
		}
		if seen["warming"].Message != "" {
			warm(0)
		}
		return seen["sample"].Sample != nil && seen["counts"].Counts != nil
	}, "svc", "top", "--json", "--interval", "200ms", "api")
	if code != 0 {
		t.Errorf("exit %d: %s", code, w.err.String())
	}
	if s := seen["sample"]; s.Target != "alpha/main/api" || s.Instance != "api-1-0" || *s.Sample.CPU != 100 {
		t.Errorf("%+v", s)
	}
	if e, ok := seen["warming"]; !ok || e.Message == "" {
		t.Errorf("what isn't measured yet says so: %+v", seen)
	}
}

func TestSvcTopListen(t *testing.T) {
	w := newLiveWorld(t, "alpha")
	w.deploy("alpha", "main/api", 1)
	address := regexp.MustCompile(`http://[^\s]+/metrics`)
	body := ""
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	// The address is told before "ready".
	code := w.during(func(*Factory) {}, func(out string) bool {
		if out != "ready\n" {
			return false
		}
		r, err := client.Get(address.FindString(w.err.String()))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		body = string(b)
		return strings.Contains(body, `windlass_instance_cpu_cores{instance="api-1-0",provider="alpha",workload="main/api"} 0.1`) &&
			strings.Contains(body, `windlass_workload_replicas{provider="alpha",state="ready",workload="main/api"} 1`)
	}, "svc", "top", "--listen", "127.0.0.1:0")
	if code != 0 {
		t.Errorf("exit %d: %s", code, w.err.String())
	}
}

// On a terminal the picture is renewed in its place, and the terminal is given back.
func TestSvcTopLive(t *testing.T) {
	w := newLiveWorld(t, "alpha")
	w.deploy("alpha", "main/api", 2)
	last := ""
	code := w.during(func(f *Factory) {
		f.Streams.OutTerminal = true
		f.Streams.Size = func() (int, int, error) { return 60, 12, nil }
	}, func(out string) bool { last = out; return strings.Contains(out, "200m") }, "svc", "top")
	if code != 0 {
		t.Errorf("exit %d", code)
	}
	if !strings.HasPrefix(last, screenOpen) {
		t.Errorf("%q", last)
	}
}

func TestSvcTopFrame(t *testing.T) {
	tab := telemetry.NewTable()
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	target := sdk.Target{Provider: "production", Path: "shop/deployment/a-service-of-a-long-name"}
	for i := range 30 {
		tab.Add(telemetry.Item{Time: at, Target: target, Instance: "instance-" + strings.Repeat("x", i), Sample: &sdk.MetricSample{At: at}})
	}
	tab.Add(telemetry.Item{Time: at, Target: target, Event: &telemetry.Event{Kind: telemetry.Failed, Message: "bad \x1b[31mwords\nof a provider, which go on and on and on and on and on"}})
	for _, size := range [][2]int{{80, 24}, {60, 10}, {50, 24}, {40, 24}, {20, 3}, {200, 100}} {
		p := &picture{s: &Streams{Width: 80, NoColor: true, Size: func() (int, int, error) { return size[0], size[1], nil }}, sort: sortName}
		f := p.frame(tab, at)
		lines := strings.Split(f, "\r\n")
		if len(lines) > size[1] && size[1] > 5 {
			t.Errorf("%d lines on a screen of %d", len(lines), size[1])
		}
		for _, l := range lines {
			l = regexp.MustCompile(`\x1b\[[HKJ]`).ReplaceAllString(l, "")
			if n := len([]rune(l)); n > size[0] && size[0] >= 40 {
				t.Errorf("a line of %d on a screen of %d: %q", n, size[0], l)
			}
			if bytes.ContainsAny([]byte(l), "\x1b\n") {
				t.Errorf("a provider's control characters came through: %q", l)
			}
		}
	}
}

func TestSizeWords(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1023: "1023", 1024: "1.0Ki", 10189: "10Ki", 999 << 10: "999Ki", 1023 << 10: "1.0Mi", 32 << 20: "32Mi", 5 << 30: "5.0Gi", 1 << 62: "4.0Ei"} {
		if got := sizeWords(n); got != want {
			t.Errorf("sizeWords(%d) = %q, want %q", n, got, want)
		}
	}
}
