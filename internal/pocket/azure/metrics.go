package azure

import (
	"context"
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/monitor/armmonitor"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

// reading is what a container used, as it was measured once.
type reading struct {
	at     time.Time
	cpu    *float64 // thousandths of a core since the reading before
	memory float64  // bytes
}

const (
	// keepReadings bounds what is kept of a container.
	keepReadings = 5000
	// grain is that of the finest series.
	grain = time.Minute
)

// meter measures a running container until it is done.
func (s *Server) meter(c *container, process run.Container, every time.Duration) {
	m, ok := process.(run.Meter)
	if !ok {
		return
	}
	var last run.Usage
	var lastAt time.Time
	look := func() {
		ctx, cancel := context.WithTimeout(context.Background(), every+time.Second)
		defer cancel()
		u, ok := m.Usage(ctx)
		if !ok {
			return
		}
		at := s.o.Now().UTC()
		r := reading{at: at, memory: float64(u.Memory)}
		if since := at.Sub(lastAt); !lastAt.IsZero() && since > 0 && u.CPU >= last.CPU {
			r.cpu = to.Ptr(float64(u.CPU-last.CPU) / float64(since) * 1000)
		}
		last, lastAt = u, at
		s.mu.Lock()
		defer s.mu.Unlock()
		c.readings = append(c.readings, r)
		c.readings = c.readings[max(0, len(c.readings)-keepReadings):]
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	look()
	for {
		select {
		case <-ticker.C:
			look()
		case <-process.Done():
			return
		}
	}
}

// measure is a metric of container groups.
type measure struct {
	name, title string
	unit        armmonitor.MetricUnit
	// of reads it from a reading; nil is what isn't measured here.
	of func(reading) *float64
}

// measures are those of
// https://learn.microsoft.com/en-us/azure/azure-monitor/reference/supported-metrics/microsoft-containerinstance-containergroups-metrics
func measures() []measure {
	return []measure{
		{"CpuUsage", "CPU Usage", armmonitor.MetricUnitCount, func(r reading) *float64 { return r.cpu }},
		{"MemoryUsage", "Memory Usage", armmonitor.MetricUnitBytes, func(r reading) *float64 { return &r.memory }},
		{"NetworkBytesReceivedPerSecond", "Network Bytes Received Per Second", armmonitor.MetricUnitBytes, nil},
		{"NetworkBytesTransmittedPerSecond", "Network Bytes Transmitted Per Second", armmonitor.MetricUnitBytes, nil},
	}
}

// grains are the intervals of series.
func grains() map[string]time.Duration {
	return map[string]time.Duration{"PT1M": grain, "PT5M": 5 * grain, "PT15M": 15 * grain, "PT30M": 30 * grain, "PT1H": time.Hour, "PT6H": 6 * time.Hour, "PT12H": 12 * time.Hour}
}

const dimension = "containerName"

var filterForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^\s*` + dimension + `\s+eq\s+'([^']*)'\s*$`)
})

// query is a request for metrics.
type query struct {
	measures     []measure
	from, to     time.Time
	every        time.Duration
	interval     string
	aggregations []string
	// split gives a series for each container; only, when not empty, one alone.
	split bool
	only  string
}

// listMetrics gives the series of a group. See
// https://learn.microsoft.com/en-us/rest/api/monitor/metrics/list
func (s *Server) listMetrics(c *call) (result, *Error) {
	g, e := s.find(c)
	if e != nil {
		return result{}, e
	}
	q, e := readQuery(c)
	if e != nil {
		return result{}, e
	}
	out := armmonitor.Response{Cost: to.Ptr(int32(q.to.Sub(q.from)/grain) * int32(len(q.measures))), Timespan: to.Ptr(stamp(q.from) + "/" + stamp(q.to)), Interval: &q.interval,
		Namespace: to.Ptr(groupType), Resourceregion: &s.o.Location}
	for _, m := range q.measures {
		v := &armmonitor.Metric{ID: to.Ptr(*g.Body.ID + "/providers/Microsoft.Insights/metrics/" + m.name), Type: to.Ptr("Microsoft.Insights/metrics"),
			Name: &armmonitor.LocalizableString{Value: &m.name, LocalizedValue: &m.title}, Unit: &m.unit, ErrorCode: to.Ptr("Success"), Timeseries: []*armmonitor.TimeSeriesElement{}}
		out.Value = append(out.Value, v)
		series := map[string][]reading{}
		for _, own := range g.Containers {
			name := ""
			if q.split {
				name = own.Name
			}
			if q.only == "" || strings.EqualFold(q.only, own.Name) {
				series[name] = append(series[name], own.readings...)
			}
		}
		for _, name := range sortedKeys(series) {
			element := &armmonitor.TimeSeriesElement{Data: s.points(m, q, series[name])}
			if q.split {
				element.Metadatavalues = []*armmonitor.MetadataValue{{Name: &armmonitor.LocalizableString{Value: to.Ptr(strings.ToLower(dimension)), LocalizedValue: to.Ptr(strings.ToLower(dimension))}, Value: to.Ptr(name)}}
			}
			v.Timeseries = append(v.Timeseries, element)
		}
	}
	return result{http.StatusOK, out}, nil
}

// points are a series' values. A time of which nothing is known has none.
func (s *Server) points(m measure, q query, readings []reading) []*armmonitor.MetricValue {
	out := []*armmonitor.MetricValue{}
	shown := s.o.Now().Add(-s.knobs.MetricDelay)
	for at := q.from.Truncate(q.every); at.Before(q.to); at = at.Add(q.every) {
		var values []float64
		for _, r := range readings {
			if m.of == nil || r.at.Before(at) || !r.at.Before(at.Add(q.every)) || r.at.After(shown) {
				continue
			}
			if v := m.of(r); v != nil {
				values = append(values, *v)
			}
		}
		p := &armmonitor.MetricValue{TimeStamp: to.Ptr(at.UTC())}
		if len(values) == 0 && s.knobs.MetricZeros {
			values = []float64{0}
		}
		if len(values) > 0 {
			sum := 0.0
			for _, v := range values {
				sum += v
			}
			for _, a := range q.aggregations {
				switch a {
				case "average":
					p.Average = to.Ptr(math.Round(sum/float64(len(values))*100) / 100)
				case "minimum":
					p.Minimum = to.Ptr(slices.Min(values))
				case "maximum":
					p.Maximum = to.Ptr(slices.Max(values))
				}
			}
		}
		out = append(out, p)
	}
	return out
}

// spanTime reads one end of a timespan. Microsoft's own command line leaves the zone
// out.
func spanTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	return time.Parse("2006-01-02T15:04:05", text)
}

// readQuery reads and checks the parameters of a request.
func readQuery(c *call) (query, *Error) {
	v := c.request.URL.Query()
	q := query{interval: "PT1M", to: c.now, from: c.now.Add(-time.Hour)}
	all := measures()
	names := v.Get("metricnames")
	if names == "" {
		names = all[0].name
	}
	for _, name := range strings.Split(names, ",") {
		i := slices.IndexFunc(all, func(m measure) bool { return strings.EqualFold(m.name, strings.TrimSpace(name)) })
		if i < 0 {
			var valid []string
			for _, m := range all {
				valid = append(valid, m.name)
			}
			return q, refuse(ruleMetricName, "Failed to find metric configuration for provider: Microsoft.ContainerInstance, resource Type: containerGroups, metric: %s, Valid metrics: %s", name, strings.Join(valid, ","))
		}
		q.measures = append(q.measures, all[i])
	}
	if text := v.Get("interval"); text != "" {
		q.interval = strings.ToUpper(text)
	}
	var ok bool
	if q.every, ok = grains()[q.interval]; !ok {
		return q, refuse(ruleMetricTime, "Detected invalid time grain input '%s', supported ones are: %s", q.interval, strings.Join(sortedKeys(grains()), ","))
	}
	if text := v.Get("timespan"); text != "" {
		// The same escapes it twice.
		if plain, err := url.QueryUnescape(text); err == nil && !strings.Contains(text, "/") {
			text = plain
		}
		from, until, _ := strings.Cut(text, "/")
		var err1, err2 error
		q.from, err1 = spanTime(from)
		q.to, err2 = spanTime(until)
		if err1 != nil || err2 != nil || !q.from.Before(q.to) {
			return q, refuse(ruleMetricTime, "Invalid time interval input '%s'.", text)
		}
	}
	for _, a := range strings.Split(v.Get("aggregation"), ",") {
		switch a = strings.ToLower(strings.TrimSpace(a)); a {
		case "":
			q.aggregations = append(q.aggregations, "average")
		case "average", "minimum", "maximum", "count", "total":
			q.aggregations = append(q.aggregations, a)
		default:
			return q, refuse(ruleMetricTime, "Invalid aggregation type '%s'.", a)
		}
	}
	if text := v.Get("$filter"); text != "" {
		m := filterForm().FindStringSubmatch(text)
		if m == nil {
			return q, refuse(ruleMetricFilter, "The filter '%s' is invalid; the only dimension is %s.", text, dimension)
		}
		if q.split = true; m[1] != "*" {
			q.only = m[1]
		}
	}
	return q, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
