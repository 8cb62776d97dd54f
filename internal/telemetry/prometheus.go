package telemetry

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Endpoint serves a table in Prometheus's text format. It is safe for concurrent
// use.
type Endpoint struct {
	mu    sync.Mutex
	table *Table
}

// NewEndpoint returns an endpoint without workloads.
func NewEndpoint() *Endpoint { return &Endpoint{table: NewTable()} }

// Add takes the next item of the stream.
func (e *Endpoint) Add(it Item) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.table.Add(it)
}

// Handler serves the metrics to every GET.
func (e *Endpoint) Handler() (http.Handler, error) {
	r := prometheus.NewRegistry()
	if err := r.Register(e); err != nil {
		return nil, err
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{}), nil
}

// family is one metric with its labels.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newFamily(kind prometheus.ValueType, name, help string, labels ...string) family {
	return family{prometheus.NewDesc("windlass_"+name, help, labels, nil), kind}
}

// families are the metrics. Units are Prometheus's base units.
type families struct {
	replicas, rollout, stopped, readable, events, provider, lost family
	cpu, memory, received, sent, restarts, sampled, warming      family
}

func newFamilies() families {
	w, i := []string{"provider", "workload"}, []string{"provider", "workload", "instance"}
	g, c := prometheus.GaugeValue, prometheus.CounterValue
	with := func(l []string, more string) []string { return append(slices.Clone(l), more) }
	return families{
		replicas: newFamily(g, "workload_replicas", "Instances of a workload: those that are to be, that serve, and of the newest generation.", with(w, "state")...),
		rollout:  newFamily(g, "workload_rollout", "1 for where the newest change of a workload stands.", with(w, "state")...),
		stopped:  newFamily(g, "workload_stopped", "1 while a workload is stopped.", w...),
		readable: newFamily(g, "workload_readable", "0 while a workload can't be read.", w...),
		events:   newFamily(c, "workload_events_total", "What happened to a workload since this process began to look.", with(w, "event")...),
		provider: newFamily(g, "provider_readable", "0 while something of a whole provider can't be read.", "provider"),
		lost:     newFamily(c, "telemetry_lost_items_total", "Items that were left out as the reader was slow or they were too many."),
		cpu:      newFamily(g, "instance_cpu_cores", "CPU in use, in cores, over the time since the sample before.", i...),
		memory:   newFamily(g, "instance_memory_bytes", "Memory in use.", i...),
		received: newFamily(c, "instance_network_receive_bytes_total", "Bytes received since the instance started.", i...),
		sent:     newFamily(c, "instance_network_transmit_bytes_total", "Bytes sent since the instance started.", i...),
		restarts: newFamily(c, "instance_restarts_total", "How often the provider started the instance again.", i...),
		sampled:  newFamily(g, "instance_sample_timestamp_seconds", "When the provider measured the newest sample.", i...),
		warming:  newFamily(g, "instance_warming", "1 while an instance isn't measured yet.", i...),
	}
}

// Describe implements prometheus.Collector; which metrics there are depends on
// what the providers tell.
func (e *Endpoint) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (e *Endpoint) Collect(ch chan<- prometheus.Metric) {
	e.mu.Lock()
	rows, unknown, events, lost := e.table.Workloads(), e.table.Unknown(), e.table.Events(), e.table.Lost()
	e.mu.Unlock()
	f := newFamilies()
	send := func(f family, v float64, labels ...string) {
		for i, l := range labels {
			labels[i] = strings.ToValidUTF8(l, "\uFFFD")
		}
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
	}
	providers := map[string]bool{}
	for _, w := range rows {
		p, path := w.Target.Provider, string(w.Target.Path)
		providers[p] = true
		send(f.readable, truth(w.Unknown == ""), p, path)
		if c := w.Counts; c != nil {
			for state, n := range map[string]*int{"desired": c.Desired, "ready": c.Ready, "updated": c.Updated} {
				if n != nil {
					send(f.replicas, float64(*n), p, path, state)
				}
			}
			if c.Rollout != "" {
				send(f.rollout, 1, p, path, string(c.Rollout))
			}
			send(f.stopped, truth(c.Stopped), p, path)
		}
		for _, in := range w.Instances {
			f.instance(send, in, p, path)
		}
	}
	for k, n := range events {
		if k.Target.Path != "" {
			send(f.events, float64(n), k.Target.Provider, string(k.Target.Path), string(k.Kind))
		}
	}
	for p := range unknown {
		providers[p] = true
	}
	for p := range maps.Keys(providers) {
		send(f.provider, truth(unknown[p] == ""), p)
	}
	send(f.lost, float64(lost))
}

func (f families) instance(send func(family, float64, ...string), in Instance, provider, path string) {
	number := func(f family, n *int64, unit float64) {
		if n != nil {
			send(f, float64(*n)/unit, provider, path, in.Name)
		}
	}
	send(f.warming, truth(in.Warming != ""), provider, path, in.Name)
	if in.Restarts != nil {
		send(f.restarts, float64(*in.Restarts), provider, path, in.Name)
	}
	s := in.Sample
	if s == nil {
		return
	}
	number(f.cpu, s.CPU, 1000)
	number(f.memory, s.Memory, 1)
	number(f.received, s.Received, 1)
	number(f.sent, s.Sent, 1)
	if !s.At.IsZero() {
		send(f.sampled, float64(s.At.UnixMilli())/1000, provider, path, in.Name)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
