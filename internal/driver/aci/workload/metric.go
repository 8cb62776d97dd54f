package workload

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/monitor/armmonitor"

	"github.com/windlass-run/windlass/internal/driver/turn"
	"github.com/windlass-run/windlass/sdk"
)

const opMetrics = "measure workload"

const (
	// Azure Monitor has a value for each minute, and says that most are there within
	// three.
	// https://learn.microsoft.com/en-us/azure/azure-monitor/reference/supported-metrics/microsoft-containerinstance-containergroups-metrics
	// https://learn.microsoft.com/en-us/azure/azure-monitor/platform/data-platform-metrics
	warms         = 5 * time.Minute
	metricLook    = 10 * time.Minute
	metricDefault = 30 * time.Second

	metricCPU    = "CpuUsage"    // thousandths of a core
	metricMemory = "MemoryUsage" // bytes
)

// StreamMetrics implements sdk.MetricStreamer. A sample is the newest minute of a
// container that Azure Monitor has; each comes once. What a group sends and receives
// is measured for the group alone and by the second, so that no sample has it.
func (o *Operator) StreamMetrics(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
	return func(yield func(sdk.MetricItem, error) bool) {
		every := r.Interval
		if every <= 0 {
			every = metricDefault
		}
		given := map[string]time.Time{}
		for {
			for _, path := range r.Paths {
				for _, it := range o.measure(ctx, path, given) {
					if ctx.Err() == nil && !yield(it, nil) {
						return
					}
				}
			}
			if err := sdk.SystemClock().Sleep(ctx, every); err != nil {
				yield(sdk.MetricItem{}, o.fail(sdk.CodeOf(ctx.Err()), opMetrics, ctx.Err()))
				return
			}
		}
	}
}

// measure is one look at a workload. Given are the times of the last samples.
func (o *Operator) measure(ctx context.Context, path sdk.WorkloadPath, given map[string]time.Time) []sdk.MetricItem {
	w, g, err := o.open(ctx, opMetrics, path)
	if err != nil {
		return []sdk.MetricItem{{Path: path, Failed: err}}
	}
	v := viewOf(g)
	samples, err := o.samples(ctx, w)
	if err != nil {
		return []sdk.MetricItem{{Path: path, Failed: err}}
	}
	var out []sdk.MetricItem
	for _, c := range v.containers {
		it := sdk.MetricItem{Path: path, Instance: *c.Name}
		s := samples[*c.Name]
		switch {
		case !in(c, stateRunning) || v.stopped():
			it.Warming = "the container doesn't run"
		case s == nil || s.At.Add(grain).Before(deref(current(c).StartTime)):
			it.Warming = fmt.Sprintf("Azure Monitor has nothing of it yet; it may take %s", warms)
		case !s.At.After(given[string(path)+"/"+*c.Name]):
			continue // it was given
		default:
			given[string(path)+"/"+*c.Name] = s.At
			if i := c.Properties.InstanceView; i.RestartCount != nil {
				s.Restarts = to.Ptr(int(*i.RestartCount))
			}
			it.Sample = s
		}
		out = append(out, it)
	}
	return out
}

// grain is the time that a value is of.
const grain = time.Minute

// samples are the newest values of a group's containers.
func (o *Operator) samples(ctx context.Context, w at) (map[string]*sdk.MetricSample, error) {
	now := o.Clock.Now().UTC()
	opt := &armmonitor.MetricsClientListOptions{Metricnames: to.Ptr(metricCPU + "," + metricMemory), Aggregation: to.Ptr("Average"), Interval: to.Ptr("PT1M"),
		Timespan: to.Ptr(now.Add(-metricLook).Format(time.RFC3339) + "/" + now.Add(grain).Format(time.RFC3339)), Filter: to.Ptr("containerName eq '*'"), Top: to.Ptr[int32](100)}
	id := "subscriptions/" + o.Session.Subscription + "/resourceGroups/" + w.group + "/providers/Microsoft.ContainerInstance/containerGroups/" + w.name
	res, err := turn.Call(ctx, o.Provider, o.Session, o.Reads, opMetrics, func(ctx context.Context) (armmonitor.MetricsClientListResponse, error) {
		return o.metrics.List(ctx, id, opt)
	})
	if err != nil {
		return nil, err
	}
	all := map[string]map[time.Time]*sdk.MetricSample{}
	for _, m := range res.Value {
		if m == nil || m.Name == nil {
			continue
		}
		for _, series := range m.Timeseries {
			name := containerOf(series)
			if all[name] == nil {
				all[name] = map[time.Time]*sdk.MetricSample{}
			}
			gather(all[name], deref(m.Name.Value), series)
		}
	}
	out := map[string]*sdk.MetricSample{}
	for name, minutes := range all {
		for at, s := range minutes {
			if s.Memory != nil && (out[name] == nil || at.After(out[name].At)) {
				out[name] = s
			}
		}
	}
	return out, nil
}

// gather adds a series to the samples of its container. Azure Monitor may write zero
// for a minute that it has nothing of yet; no container that runs uses no memory, so
// that a minute counts by that.
// https://github.com/Azure/azure-libraries-for-net/issues/499
func gather(minutes map[time.Time]*sdk.MetricSample, name string, series *armmonitor.TimeSeriesElement) {
	if series == nil {
		return
	}
	for _, p := range series.Data {
		if p == nil || p.Average == nil || p.TimeStamp == nil {
			continue
		}
		at := p.TimeStamp.UTC()
		s := minutes[at]
		if s == nil {
			s = &sdk.MetricSample{At: at}
			minutes[at] = s
		}
		switch n := int64(math.Round(*p.Average)); {
		case is(name, metricCPU) && n >= 0:
			s.CPU = &n
		case is(name, metricMemory) && n > 0:
			s.Memory = &n
		}
	}
}

// containerOf is the container that a series is of.
func containerOf(s *armmonitor.TimeSeriesElement) string {
	if s == nil {
		return ""
	}
	for _, m := range s.Metadatavalues {
		if m != nil && m.Name != nil && is(deref(m.Name.Value), "containerName") {
			return deref(m.Value)
		}
	}
	return ""
}
