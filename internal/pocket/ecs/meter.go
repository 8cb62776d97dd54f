package ecs

import (
	"context"
	"strconv"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/cloudwatch"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// insights is the namespace of Container Insights, and the metrics of a task under
// enhanced observability. See
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Container-Insights-enhanced-observability-metrics-ECS.html
const (
	insights   = "ECS/ContainerInsights"
	taskCPU    = "TaskCpuUtilization"
	taskMemory = "TaskMemoryUtilization"
)

// maxPoints is how many points of a task are kept.
const maxPoints = 120

// usage is what was measured of a task.
type usage struct {
	at          time.Time
	used        run.Usage
	cpu, memory []cloudwatch.Point
}

// Points measures a task of a service, as Container Insights does, at most once in
// MetricPeriod. A share of the processor is over the time since the measurement
// before, so that the first one has none.
func (s *Service) Points(m cloudwatch.Metric) []cloudwatch.Point {
	if m.Namespace != insights || len(m.Dimensions) != 3 {
		return nil
	}
	s.mu.Lock()
	t := s.tasks[m.Dimensions["TaskId"]]
	if t == nil || t.service == nil || t.cluster != m.Dimensions["ClusterName"] || t.service.Name != m.Dimensions["ServiceName"] || !s.clusters[t.cluster].enhanced() {
		s.mu.Unlock()
		return nil
	}
	period := s.knobs.MetricPeriod
	if period <= 0 {
		period = time.Second
	}
	boxes := make([]run.Container, 0, len(t.boxes))
	for _, b := range t.boxes {
		boxes = append(boxes, b)
	}
	due := *t.view.LastStatus == running && s.o.Now().Sub(t.usage.at) >= period
	s.mu.Unlock()
	if due {
		if used, ok := measure(boxes); ok {
			s.mu.Lock()
			t.measured(s.o.Now(), used)
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Name == taskCPU {
		return append([]cloudwatch.Point{}, t.usage.cpu...)
	}
	if m.Name == taskMemory {
		return append([]cloudwatch.Point{}, t.usage.memory...)
	}
	return nil
}

// measureWait bounds a measurement.
const measureWait = 10 * time.Second

// measure adds up what containers use.
func measure(boxes []run.Container) (sum run.Usage, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), measureWait)
	defer cancel()
	for _, b := range boxes {
		m, can := b.(run.Meter)
		if !can {
			continue
		}
		if u, measured := m.Usage(ctx); measured {
			sum.CPU += u.CPU
			sum.Memory += u.Memory
			ok = true
		}
	}
	return sum, ok
}

// measured notes a measurement. The lock is held.
func (t *task) measured(now time.Time, used run.Usage) {
	u := &t.usage
	share := func(list *[]cloudwatch.Point, v float64) {
		*list = append(*list, cloudwatch.Point{At: now, Value: v})
		*list = (*list)[max(len(*list)-maxPoints, 0):]
	}
	cpu, _ := strconv.ParseFloat(text(t.view.Cpu), 64) // what is no number has no share
	memory, _ := strconv.ParseFloat(text(t.view.Memory), 64)
	if since := now.Sub(u.at); !u.at.IsZero() && since > 0 && cpu > 0 {
		share(&u.cpu, 100*(used.CPU-u.used.CPU).Seconds()/since.Seconds()/(cpu/1024))
	}
	if memory > 0 {
		share(&u.memory, 100*float64(used.Memory)/(memory*(1<<20)))
	}
	u.at, u.used = now, used
}
