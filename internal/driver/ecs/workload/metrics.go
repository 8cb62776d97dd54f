package workload

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	metrics "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/sdk"
)

const opMetrics = "measure service"

// A task's metrics under Container Insights with enhanced observability: shares, in
// percent, of what its definition reserves.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Container-Insights-enhanced-observability-metrics-ECS.html
const (
	insights     = "ECS/ContainerInsights"
	metricCPU    = "TaskCpuUtilization"
	metricMemory = "TaskMemoryUtilization"
	// period is that of a point, in seconds.
	period = 60
	// backwards is how far back points are looked for: they come some minutes late.
	backwards = 10 * time.Minute
	// queriesMost is the most series of one call.
	// https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
	queriesMost = 500
)

// StreamMetrics implements sdk.MetricStreamer.
func (s *Services) StreamMetrics(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
	return func(yield func(sdk.MetricItem, error) bool) {
		seen := map[sdk.WorkloadPath]map[string]time.Time{}
		for {
			for _, path := range r.Paths {
				items := s.measure(ctx, path, seen)
				if ctx.Err() != nil {
					break
				}
				for _, it := range items {
					if !yield(it, nil) {
						return
					}
				}
			}
			every := r.Interval
			if every <= 0 {
				every = period * time.Second
			}
			if err := s.o.Clock.Sleep(ctx, max(every, s.o.MetricInterval)); err != nil {
				yield(sdk.MetricItem{}, s.fail(sdk.CodeOf(err), opMetrics, err))
				return
			}
		}
	}
}

// measure looks at the tasks of one service. Seen are the times of the points that
// were given before.
func (s *Services) measure(ctx context.Context, path sdk.WorkloadPath, seen map[sdk.WorkloadPath]map[string]time.Time) []sdk.MetricItem {
	fail := func(err error) []sdk.MetricItem { return []sdk.MetricItem{{Path: path, Failed: err}} }
	a, err := s.address(opMetrics, path)
	if err != nil {
		return fail(err)
	}
	v, err := s.describe(ctx, opMetrics, a)
	switch {
	case err != nil:
		return fail(err)
	case v == nil:
		return fail(s.absent(opMetrics, a))
	}
	all, err := s.tasks(ctx, opMetrics, a)
	if err != nil {
		return fail(err)
	}
	running := slices.DeleteFunc(all, func(t types.Task) bool { return str(t.LastStatus) != taskRunning })
	before := seen[path]
	now := map[string]time.Time{} // tasks that are gone are forgotten
	seen[path] = now
	var items []sdk.MetricItem
	for part := range slices.Chunk(running, queriesMost/2) {
		points, err := s.points(ctx, a, part)
		if err != nil {
			return fail(err)
		}
		for i, t := range part {
			id := lastPart(str(t.TaskArn))
			now[id] = before[id]
			sample := points[i].sample(t)
			switch {
			case sample == nil && now[id].IsZero():
				items = append(items, sdk.MetricItem{Path: path, Instance: id, Warming: "Container Insights has no point of it yet"})
			case sample != nil && sample.At.After(now[id]):
				now[id] = sample.At
				items = append(items, sdk.MetricItem{Path: path, Instance: id, Sample: sample})
			}
		}
	}
	if len(running) > 0 && !slices.ContainsFunc(items, func(it sdk.MetricItem) bool { return it.Sample != nil }) && allZero(now) {
		if err := s.insights(ctx, a); err != nil {
			return fail(err)
		}
	}
	return items
}

func allZero(m map[string]time.Time) bool {
	for _, t := range m {
		if !t.IsZero() {
			return false
		}
	}
	return true
}

// insights returns an error where the cluster measures no tasks at all.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/cloudwatch-container-insights.html
func (s *Services) insights(ctx context.Context, a address) error {
	var out *ecs.DescribeClustersOutput
	err := s.o.Session.Paced(ctx, s.o.ServiceReads, opMetrics, func(ctx context.Context) (err error) {
		out, err = s.o.ECS.DescribeClusters(ctx, &ecs.DescribeClustersInput{Clusters: []string{a.cluster}, Include: []types.ClusterField{types.ClusterFieldSettings}})
		return err
	})
	if err != nil || len(out.Clusters) != 1 {
		return err
	}
	for _, set := range out.Clusters[0].Settings {
		if set.Name == types.ClusterSettingNameContainerInsights && str(set.Value) == "enhanced" {
			return nil
		}
	}
	e := s.fail(sdk.FailedPrecondition, opMetrics, fmt.Errorf("the cluster %s doesn't measure its tasks", a.cluster))
	e.Remedy = "turn on Container Insights with enhanced observability: `aws ecs update-cluster-settings --cluster " + a.cluster + " --settings name=containerInsights,value=enhanced`"
	return e
}

// point is the newest of a series.
type point struct {
	at    time.Time
	value float64
}

// pair is what was measured of a task.
type pair struct{ cpu, memory *point }

// points reads the newest points of tasks, at most queriesMost/2, in their order.
func (s *Services) points(ctx context.Context, a address, tasks []types.Task) ([]pair, error) {
	end := s.o.Clock.Now().Add(period * time.Second)
	in := &cloudwatch.GetMetricDataInput{StartTime: new(end.Add(-backwards)), EndTime: &end, ScanBy: metrics.ScanByTimestampDescending}
	for i, t := range tasks {
		dims := []metrics.Dimension{{Name: new("ClusterName"), Value: &a.cluster}, {Name: new("ServiceName"), Value: &a.service}, {Name: new("TaskId"), Value: new(lastPart(str(t.TaskArn)))}}
		for id, name := range map[string]string{"c": metricCPU, "m": metricMemory} {
			in.MetricDataQueries = append(in.MetricDataQueries, metrics.MetricDataQuery{Id: new(id + itoa(i)), MetricStat: &metrics.MetricStat{
				Metric: &metrics.Metric{Namespace: new(insights), MetricName: &name, Dimensions: dims}, Period: new(int32(period)), Stat: new("Average")}})
		}
	}
	out := make([]pair, len(tasks))
	for {
		var page *cloudwatch.GetMetricDataOutput
		err := s.call(ctx, opMetrics, func(ctx context.Context) (err error) {
			page, err = s.metrics.GetMetricData(ctx, in)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, r := range page.MetricDataResults {
			id := str(r.Id)
			if id == "" || len(r.Values) == 0 || len(r.Timestamps) != len(r.Values) {
				continue
			}
			i, err := strconv.Atoi(id[1:])
			if err != nil || i < 0 || i >= len(out) {
				continue
			}
			where := &out[i].cpu
			if id[0] == 'm' {
				where = &out[i].memory
			}
			if p := (point{r.Timestamps[0].UTC(), r.Values[0]}); *where == nil || p.at.After((*where).at) {
				*where = &p
			}
		}
		if in.NextToken = page.NextToken; str(in.NextToken) == "" {
			return out, nil
		}
	}
}

// sample turns shares into thousandths of a core and bytes, by the task's size.
func (p pair) sample(t types.Task) *sdk.MetricSample {
	cpu, _ := strconv.ParseFloat(str(t.Cpu), 64) // without a size a share says nothing
	memory, _ := strconv.ParseFloat(str(t.Memory), 64)
	var m sdk.MetricSample
	if p.cpu != nil && cpu > 0 {
		m.At, m.CPU = p.cpu.at, new(int64(p.cpu.value/100*cpu/1024*1000))
	}
	if p.memory != nil && memory > 0 && p.memory.value > 0 {
		m.Memory = new(int64(p.memory.value / 100 * memory * mib))
		if p.memory.at.After(m.At) {
			m.At = p.memory.at
		}
	}
	if m.At.IsZero() {
		return nil
	}
	return &m
}
