package workload

import (
	"context"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opMetrics = "measure workload"

const (
	// defaultInterval is how often metrics-server measures.
	// https://github.com/kubernetes-sigs/metrics-server#configuration
	defaultInterval = 15 * time.Second
	leastInterval   = 20 * time.Millisecond
)

// podMetrics is what was measured of a pod: averages over a window that ends at a time.
// https://github.com/kubernetes/metrics/blob/v0.34.4/pkg/apis/metrics/v1beta1/types.go
type podMetrics struct {
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Timestamp  metav1.Time       `json:"timestamp"`
	Containers []struct {
		Usage struct {
			CPU    resource.Quantity `json:"cpu"`
			Memory resource.Quantity `json:"memory"`
		} `json:"usage"`
	} `json:"containers"`
}

// StreamMetrics implements sdk.MetricStreamer, from the cluster's metrics API. It has
// no measure of the network.
func (w *Workloads) StreamMetrics(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
	return func(yield func(sdk.MetricItem, error) bool) {
		every := max(r.Interval, leastInterval)
		if r.Interval <= 0 {
			every = defaultInterval
		}
		last := map[string]time.Time{}
		for {
			for _, path := range r.Paths {
				for _, it := range w.measure(ctx, path, last) {
					if ctx.Err() != nil {
						break
					}
					if !yield(it, nil) {
						return
					}
				}
			}
			if err := w.c.Clock.Sleep(ctx, every); err != nil {
				yield(sdk.MetricItem{}, &sdk.Error{Code: sdk.CodeOf(err), Op: opMetrics, Provider: w.c.Provider, Err: err})
				return
			}
		}
	}
}

// measure is one look at a workload. last has the time of each pod's last sample.
func (w *Workloads) measure(ctx context.Context, path sdk.WorkloadPath, last map[string]time.Time) []sdk.MetricItem {
	pods, measured, err := w.measured(ctx, path)
	if err != nil {
		return []sdk.MetricItem{{Path: path, Failed: err}}
	}
	var out []sdk.MetricItem
	for i := range pods {
		p := &pods[i]
		if gone(p) || p.DeletionTimestamp != nil {
			continue
		}
		it := sdk.MetricItem{Path: path, Instance: p.Name}
		s, why := sample(p, measured[p.Name])
		switch {
		case s == nil:
			it.Warming = why
		case !s.At.After(last[string(p.UID)]):
			continue // nothing new was measured
		default:
			it.Sample, last[string(p.UID)] = s, s.At
		}
		out = append(out, it)
	}
	if len(out) == 0 && len(pods) == 0 {
		out = append(out, sdk.MetricItem{Path: path, Warming: "it has no pods"})
	}
	return out
}

func (w *Workloads) measured(ctx context.Context, path sdk.WorkloadPath) ([]corev1.Pod, map[string]podMetrics, error) {
	r, err := w.parse(opMetrics, path)
	if err != nil {
		return nil, nil, err
	}
	o, err := w.read(ctx, opMetrics, r)
	if err != nil {
		return nil, nil, err
	}
	pods, _, err := w.pods(ctx, opMetrics, o)
	if err != nil {
		return nil, nil, err
	}
	all, err := listed[podMetrics](ctx, w, opMetrics, kube.PodMetrics(r.namespace), metav1.FormatLabelSelector(o.selector))
	if sdk.CodeOf(err) == sdk.NotFound || kube.Unserved(err) {
		e := w.fail(sdk.FailedPrecondition, opMetrics, "the cluster has no metrics API: %w", err)
		e.Remedy = "install metrics-server, or whatever else serves metrics.k8s.io"
		return nil, nil, e
	}
	by := map[string]podMetrics{}
	for _, m := range all {
		by[m.Metadata.Name] = m
	}
	return pods, by, err
}

// sample is what was measured of a pod, nil and why where there is nothing yet: a new
// pod isn't listed, and one whose memory is zero was listed before it was measured
// (F102).
// https://github.com/kubernetes-sigs/metrics-server/issues/1061
func sample(p *corev1.Pod, m podMetrics) (*sdk.MetricSample, string) {
	var cpu, memory int64
	for _, c := range m.Containers {
		cpu += c.Usage.CPU.MilliValue()
		memory += c.Usage.Memory.Value()
	}
	if memory <= 0 || m.Timestamp.IsZero() {
		return nil, "the pod wasn't measured yet"
	}
	if c := mainStatus(p); c != nil && c.State.Running != nil && m.Timestamp.Before(&c.State.Running.StartedAt) {
		return nil, "the container was started after the last measurement"
	}
	return &sdk.MetricSample{At: m.Timestamp.UTC(), CPU: &cpu, Memory: &memory, Restarts: instance(p).Restarts}, ""
}
