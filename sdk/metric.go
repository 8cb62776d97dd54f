package sdk

import (
	"context"
	"iter"
	"time"
)

// MetricStreamer measures workloads.
type MetricStreamer interface {
	// StreamMetrics gives samples of every instance until ctx ends, at most one an
	// interval for each. Where there is nothing to measure yet it says Warming, and
	// never zero.
	StreamMetrics(ctx context.Context, r StreamMetricsRequest) iter.Seq2[MetricItem, error]
}

// StreamMetricsRequest asks for samples.
type StreamMetricsRequest struct {
	// Paths are the workloads.
	Paths []WorkloadPath
	// Interval is the time between two samples of an instance; the backend may
	// have fewer. Zero is the backend's own.
	Interval time.Duration
}

// MetricItem is one item: exactly one of Sample, Warming and Failed is set.
type MetricItem struct {
	Path WorkloadPath
	// Instance is empty where the item is about the whole workload.
	Instance string
	Sample   *MetricSample
	// Warming says why there is no sample yet.
	Warming string
	// Failed says why this workload can't be measured at the moment; the stream
	// goes on with the others.
	Failed error
}

// MetricSample is what was measured at a time. What wasn't is nil.
type MetricSample struct {
	// At is the backend's time of the measurement.
	At time.Time
	// CPU is in thousandths of a core, over the time since the sample before.
	CPU *int64
	// Memory is in bytes, that in use at the time.
	Memory *int64
	// Received and Sent are bytes since the instance started.
	Received, Sent *int64
	// Restarts is how often the backend started the instance again.
	Restarts *int
}
