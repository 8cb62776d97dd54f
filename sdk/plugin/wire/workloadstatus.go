package wire

import (
	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

// EncodeListWorkloadsRequest returns r as a message.
func EncodeListWorkloadsRequest(r sdk.ListWorkloadsRequest) (*pb.ListWorkloadsRequest, error) {
	return encoded(request("encode ListWorkloads"), &pb.ListWorkloadsRequest{Name: r.Name})
}

// DecodeListWorkloadsRequest reads what EncodeListWorkloadsRequest wrote.
func DecodeListWorkloadsRequest(m *pb.ListWorkloadsRequest) (sdk.ListWorkloadsRequest, error) {
	c := request("decode ListWorkloads")
	c.known("", m)
	return decoded(c, sdk.ListWorkloadsRequest{Name: m.GetName()})
}

// EncodeListWorkloadsResponse returns an item as a message.
func EncodeListWorkloadsResponse(it sdk.WorkloadItem) (*pb.ListWorkloadsResponse, error) {
	c := reply("encode ListWorkloads's item")
	return encoded(c, &pb.ListWorkloadsResponse{Path: string(it.Path), Image: it.Image, Desired: c.intPtr("desired", it.Desired), Ready: c.intPtr("ready", it.Ready),
		Stopped: it.Stopped, Unmade: it.Unmade})
}

// DecodeListWorkloadsResponse reads what EncodeListWorkloadsResponse wrote.
func DecodeListWorkloadsResponse(m *pb.ListWorkloadsResponse) (sdk.WorkloadItem, error) {
	c := reply("decode ListWorkloads's item")
	return decoded(c, sdk.WorkloadItem{Path: sdk.WorkloadPath(m.GetPath()), Image: m.GetImage(), Desired: c.countPtr("desired", there(m).Desired),
		Ready: c.countPtr("ready", there(m).Ready), Stopped: m.GetStopped(), Unmade: m.GetUnmade()})
}

// EncodeWorkloadStatusRequest returns r as a message.
func EncodeWorkloadStatusRequest(r sdk.WorkloadStatusRequest) (*pb.WorkloadStatusRequest, error) {
	return encoded(request("encode WorkloadStatus"), &pb.WorkloadStatusRequest{Path: string(r.Path), Rollout: r.Rollout, OpId: idBytes(r.OpID), Before: r.Before, Brief: r.Brief})
}

// DecodeWorkloadStatusRequest reads what EncodeWorkloadStatusRequest wrote.
func DecodeWorkloadStatusRequest(m *pb.WorkloadStatusRequest) (sdk.WorkloadStatusRequest, error) {
	c := request("decode WorkloadStatus")
	c.known("", m)
	return decoded(c, sdk.WorkloadStatusRequest{Path: sdk.WorkloadPath(m.GetPath()), Rollout: m.GetRollout(), OpID: c.id("op_id", m.GetOpId()), Before: m.GetBefore(),
		Brief: m.GetBrief()})
}

// EncodeWorkloadStatusResponse returns r as a message.
func EncodeWorkloadStatusResponse(r sdk.WorkloadStatusResult) (*pb.WorkloadStatusResponse, error) {
	c := reply("encode WorkloadStatus's result")
	m := &pb.WorkloadStatusResponse{Status: c.workload(r.Status)}
	if o := r.Op; o != nil {
		m.Op = &pb.OpTrace{State: string(o.State), Generation: o.Generation, Rollout: o.Rollout, Evidence: plain(o.Evidence)}
	}
	return encoded(c, m)
}

// DecodeWorkloadStatusResponse reads what EncodeWorkloadStatusResponse wrote. A word
// that the contract doesn't have is unknown, so it never counts as a success.
func DecodeWorkloadStatusResponse(m *pb.WorkloadStatusResponse) (sdk.WorkloadStatusResult, error) {
	c := reply("decode WorkloadStatus's result")
	r := sdk.WorkloadStatusResult{Status: c.unworkload(m.GetStatus())}
	if o := m.GetOp(); o != nil {
		r.Op = &sdk.OpTrace{State: word(o.GetState(), sdk.OpUnknown, sdk.OpAccepted, sdk.OpAbsent), Generation: o.GetGeneration(), Rollout: o.GetRollout(),
			Evidence: o.GetEvidence()}
	}
	return decoded(c, r)
}

func (c *coder) workload(s sdk.DeploymentStatus) *pb.DeploymentStatus {
	m := &pb.DeploymentStatus{Path: string(s.Path), Image: s.Image, Desired: c.intPtr("desired", s.Desired), Ready: c.intPtr("ready", s.Ready),
		Updated: c.intPtr("updated", s.Updated), Generation: s.Generation, GenerationSeen: s.GenerationSeen, Rollout: string(s.Rollout), RolloutId: s.RolloutID,
		Stopped: s.Stopped, Unmade: s.Unmade, Restores: c.intPtr("restores", s.Restores), Warnings: plains(s.Warnings), Raw: mapOf(s.Raw, plain),
		Instances: each(s.Instances, func(i sdk.InstanceStatus) *pb.InstanceStatus {
			return &pb.InstanceStatus{Name: i.Name, State: string(i.State), Ready: i.Ready, Generation: i.Generation, Restarts: c.intPtr("restarts", i.Restarts),
				Started: c.stamp("started", i.Started), Reason: string(i.Reason), Message: plain(i.Message)}
		})}
	if a := s.Autoscaler; a != nil {
		m.Autoscaler = &pb.Autoscaler{Name: a.Name, Min: c.int32("autoscaler.min", a.Min), Max: c.int32("autoscaler.max", a.Max)}
	}
	if f := s.Failure; f != nil {
		m.Failure = &pb.WorkloadFailure{Reason: string(f.Reason), Message: plain(f.Message), Instance: f.Instance, At: c.stamp("failure.at", f.At)}
	}
	return m
}

func (c *coder) unworkload(m *pb.DeploymentStatus) sdk.DeploymentStatus {
	if !c.given("status", m) {
		return sdk.DeploymentStatus{}
	}
	s := sdk.DeploymentStatus{Path: sdk.WorkloadPath(m.GetPath()), Image: m.GetImage(), Desired: c.countPtr("desired", m.Desired), Ready: c.countPtr("ready", m.Ready),
		Updated: c.countPtr("updated", m.Updated), Generation: m.GetGeneration(), GenerationSeen: m.GetGenerationSeen(), RolloutID: m.GetRolloutId(),
		Rollout: word(m.GetRollout(), sdk.RolloutUnknown, sdk.RolloutProgressing, sdk.RolloutComplete, sdk.RolloutFailed),
		Stopped: m.GetStopped(), Unmade: m.GetUnmade(), Restores: c.countPtr("restores", m.Restores), Warnings: each(m.GetWarnings(), same), Raw: mapOf(m.GetRaw(), same),
		Instances: each(m.GetInstances(), func(i *pb.InstanceStatus) sdk.InstanceStatus {
			return sdk.InstanceStatus{Name: i.GetName(), Ready: i.GetReady(), Generation: i.GetGeneration(), Restarts: c.countPtr("restarts", there(i).Restarts),
				State:   word(i.GetState(), sdk.InstanceUnknown, sdk.InstancePending, sdk.InstanceRunning, sdk.InstanceStopping, sdk.InstanceEnded),
				Started: c.time("started", i.GetStarted()), Reason: reason(i.GetReason()), Message: i.GetMessage()}
		})}
	if a := m.GetAutoscaler(); a != nil {
		s.Autoscaler = &sdk.Autoscaler{Name: a.GetName(), Min: c.count("autoscaler.min", a.GetMin()), Max: c.count("autoscaler.max", a.GetMax())}
	}
	if f := m.GetFailure(); f != nil {
		s.Failure = &sdk.WorkloadFailure{Reason: reason(f.GetReason()), Message: f.GetMessage(), Instance: f.GetInstance(), At: c.time("failure.at", f.GetAt())}
	}
	return s
}

// EncodeTailLogsRequest returns r as a message.
func EncodeTailLogsRequest(r sdk.TailLogsRequest) (*pb.TailLogsRequest, error) {
	c := request("encode TailLogs")
	return encoded(c, &pb.TailLogsRequest{Path: string(r.Path), Instance: r.Instance, Follow: r.Follow, Since: c.stamp("since", r.Since), Tail: c.intPtr("tail", r.Tail)})
}

// DecodeTailLogsRequest reads what EncodeTailLogsRequest wrote.
func DecodeTailLogsRequest(m *pb.TailLogsRequest) (sdk.TailLogsRequest, error) {
	c := request("decode TailLogs")
	c.known("", m)
	return decoded(c, sdk.TailLogsRequest{Path: sdk.WorkloadPath(m.GetPath()), Instance: m.GetInstance(), Follow: m.GetFollow(), Since: c.time("since", m.GetSince()),
		Tail: c.countPtr("tail", there(m).Tail)})
}

// EncodeStreamMetricsRequest returns r as a message.
func EncodeStreamMetricsRequest(r sdk.StreamMetricsRequest) (*pb.StreamMetricsRequest, error) {
	return encoded(request("encode StreamMetrics"), &pb.StreamMetricsRequest{Interval: span(r.Interval),
		Paths: each(r.Paths, func(p sdk.WorkloadPath) string { return string(p) })})
}

// DecodeStreamMetricsRequest reads what EncodeStreamMetricsRequest wrote.
func DecodeStreamMetricsRequest(m *pb.StreamMetricsRequest) (sdk.StreamMetricsRequest, error) {
	c := request("decode StreamMetrics")
	c.known("", m)
	return decoded(c, sdk.StreamMetricsRequest{Interval: c.duration("interval", m.GetInterval()),
		Paths: each(m.GetPaths(), func(p string) sdk.WorkloadPath { return sdk.WorkloadPath(p) })})
}

// EncodeStreamMetricsResponse returns an item as a message.
func EncodeStreamMetricsResponse(it sdk.MetricItem) (*pb.StreamMetricsResponse, error) {
	c := reply("encode StreamMetrics's item")
	m := &pb.StreamMetricsResponse{Path: string(it.Path), Instance: it.Instance}
	set := 0
	if s := it.Sample; s != nil {
		set++
		m.Item = &pb.StreamMetricsResponse_Sample{Sample: &pb.MetricSample{At: c.stamp("at", s.At), Cpu: s.CPU, Memory: s.Memory, Received: s.Received, Sent: s.Sent,
			Restarts: c.intPtr("restarts", s.Restarts)}}
	}
	if it.Warming != "" {
		set++
		m.Item = &pb.StreamMetricsResponse_Warming{Warming: plain(it.Warming)}
	}
	if it.Failed != nil {
		set++
		m.Item = &pb.StreamMetricsResponse_Failed{Failed: EncodeError(it.Failed)}
	}
	if set != 1 {
		c.fail("item", "isn't exactly one of sample, warming and failed")
	}
	return encoded(c, m)
}

// DecodeStreamMetricsResponse reads what EncodeStreamMetricsResponse wrote.
func DecodeStreamMetricsResponse(m *pb.StreamMetricsResponse) (sdk.MetricItem, error) {
	c := reply("decode StreamMetrics's item")
	it := sdk.MetricItem{Path: sdk.WorkloadPath(m.GetPath()), Instance: m.GetInstance()}
	switch x := m.GetItem().(type) {
	case *pb.StreamMetricsResponse_Sample:
		s := there(x.Sample)
		it.Sample = &sdk.MetricSample{At: c.time("at", s.GetAt()), CPU: s.Cpu, Memory: s.Memory, Received: s.Received, Sent: s.Sent,
			Restarts: c.countPtr("restarts", s.Restarts)}
	case *pb.StreamMetricsResponse_Warming:
		it.Warming = x.Warming
	case *pb.StreamMetricsResponse_Failed:
		it.Failed = DecodeError(x.Failed)
	default:
		c.fail("item", "is none that this program knows")
	}
	return decoded(c, it)
}
