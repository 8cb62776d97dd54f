package telemetry_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/telemetry"
	"github.com/windlass-run/windlass/sdk"
)

var (
	noon   = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	target = sdk.Target{Provider: "p", Path: "shop/api"}
)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func sampled(seconds int, instance string, received int64) telemetry.Item {
	return telemetry.Item{Time: at(seconds), Target: target, Instance: instance,
		Sample: &sdk.MetricSample{At: at(seconds), CPU: ptr(int64(250)), Memory: ptr(int64(1 << 20)), Received: &received}}
}

func counted(seconds int, names ...string) telemetry.Item {
	st := status(len(names), names...)
	return telemetry.Item{Time: at(seconds), Target: target, Counts: &telemetry.Counts{Desired: st.Desired, Ready: st.Ready, Rollout: st.Rollout, Instances: st.Instances}}
}

func happened(seconds int, instance string, e telemetry.Event) telemetry.Item {
	return telemetry.Item{Time: at(seconds), Target: target, Instance: instance, Event: &e}
}

func table(items ...telemetry.Item) *telemetry.Table {
	t := telemetry.NewTable()
	for _, it := range items {
		t.Add(it)
	}
	return t
}

func TestTableRates(t *testing.T) {
	for _, c := range []struct {
		name     string
		received []int64
		want     string
	}{
		{"one sample has no rate", []int64{5_000}, "none"},
		{"growth over the time between", []int64{5_000, 9_000}, "400"},
		{"a counter that began again has no rate", []int64{5_000, 100}, "none"},
		{"and has one with the next", []int64{5_000, 100, 1_100}, "100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tab := telemetry.NewTable()
			for i, n := range c.received {
				tab.Add(sampled(10*i, "a", n))
			}
			got := "none"
			if r := tab.Workloads()[0].Instances[0].Receives; r != nil {
				got = fmt.Sprint(*r)
			}
			if got != c.want {
				t.Errorf("rate is %s, want %s", got, c.want)
			}
		})
	}
}

func TestTableKeepsWhatIsThere(t *testing.T) {
	names := func(tab *telemetry.Table) string {
		var s []string
		for _, w := range tab.Workloads() {
			for _, in := range w.Instances {
				s = append(s, in.Name)
			}
		}
		return strings.Join(s, " ")
	}
	for _, c := range []struct {
		name  string
		items []telemetry.Item
		want  string
	}{
		{"samples and looks", []telemetry.Item{sampled(0, "b", 1), counted(1, "a")}, "a b"},
		{"an instance that ended", []telemetry.Item{sampled(0, "a", 1), happened(1, "a", telemetry.Event{Kind: telemetry.Gone})}, ""},
		{"a late sample of one that ended", []telemetry.Item{counted(0, "a"), counted(5), sampled(6, "a", 1), counted(10), counted(15)}, ""},
		{"a sample before its first look", []telemetry.Item{counted(0), sampled(6, "a", 1), counted(10), counted(15, "a"), counted(20, "a")}, "a"},
		{"a workload measured as a whole", []telemetry.Item{sampled(0, "", 1), counted(5), counted(10), counted(15)}, ""},
		{"a workload that is gone", []telemetry.Item{counted(0, "a"), happened(1, "", telemetry.Event{Kind: telemetry.Gone})}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := names(table(c.items...)); got != c.want {
				t.Errorf("instances are %q, want %q", got, c.want)
			}
		})
	}
	if got := table(sampled(0, "", 1), counted(5), counted(10), counted(15)).Workloads()[0].Instances; len(got) != 1 {
		t.Errorf("a workload that is measured as a whole has %d rows, want its one", len(got))
	}
}

func TestTableTellsWhatIsUnknown(t *testing.T) {
	tab := table(counted(0, "a"),
		happened(1, "", telemetry.Event{Kind: telemetry.Unknown, What: "status", Message: "no answer"}),
		happened(1, "", telemetry.Event{Kind: telemetry.Unknown, What: "measure", Message: "throttled"}))
	if got, want := tab.Workloads()[0].Unknown, "measure: throttled; status: no answer"; got != want {
		t.Errorf("unknown is %q, want %q", got, want)
	}
	tab.Add(happened(2, "", telemetry.Event{Kind: telemetry.Known, What: "status"}))
	tab.Add(happened(2, "", telemetry.Event{Kind: telemetry.Known, What: "measure"}))
	if got := tab.Workloads()[0].Unknown; got != "" {
		t.Errorf("unknown is %q, want nothing", got)
	}
}

func TestEndpoint(t *testing.T) {
	e := telemetry.NewEndpoint()
	odd := sdk.Target{Provider: "p", Path: "shop/a\"b\n"}
	for _, it := range []telemetry.Item{
		sampled(0, "a", 7), counted(1, "a"), happened(1, "b", telemetry.Event{Kind: telemetry.Warming, Message: "no sample yet"}),
		{Time: noon, Target: odd, Counts: &telemetry.Counts{Rollout: sdk.RolloutFailed, Stopped: true}},
		{Time: noon, Target: sdk.Target{Provider: "q"}, Event: &telemetry.Event{Kind: telemetry.Unknown, What: "list", Message: "down"}},
		{Time: noon, Event: &telemetry.Event{Kind: telemetry.Lost, Count: 3}},
	} {
		e.Add(it)
	}
	h, err := e.Handler()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body := w.Body.String()
	for _, line := range []string{
		`windlass_instance_cpu_cores{instance="a",provider="p",workload="shop/api"} 0.25`,
		`windlass_instance_memory_bytes{instance="a",provider="p",workload="shop/api"} 1.048576e+06`,
		`windlass_instance_network_receive_bytes_total{instance="a",provider="p",workload="shop/api"} 7`,
		`windlass_instance_restarts_total{instance="a",provider="p",workload="shop/api"} 0`,
		`windlass_instance_sample_timestamp_seconds{instance="a",provider="p",workload="shop/api"} 1.7698608e+09`,
		`windlass_instance_warming{instance="b",provider="p",workload="shop/api"} 1`,
		`windlass_workload_replicas{provider="p",state="desired",workload="shop/api"} 1`,
		`windlass_workload_rollout{provider="p",state="failed",workload="shop/a\"b\n"} 1`,
		`windlass_workload_stopped{provider="p",workload="shop/a\"b\n"} 1`,
		`windlass_workload_events_total{event="warming",provider="p",workload="shop/api"} 1`,
		`windlass_provider_readable{provider="q"} 0`,
		`windlass_provider_readable{provider="p"} 1`,
		`windlass_telemetry_lost_items_total 3`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, none := range []string{`transmit_bytes_total{`, `cpu_cores{instance="b"`, `replicas{provider="p",state="desired",workload="shop/a\"b`, `state="updated"`} {
		if strings.Contains(body, none) {
			t.Errorf("what wasn't told is there: %s", none)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
}
