package iac

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

const (
	opTail  = "workload logs"
	rpcTail = "IaCProviderLogCapture.CaptureLogs"
)

var serviceCapture = pb.IaCProviderLogCapture_ServiceDesc.ServiceName

var _ sdk.LogTailer = (*provider)(nil)

// TailLogs implements sdk.LogTailer by IaCProviderLogCapture. The path is TYPE/NAME or
// TYPE/NAME/COMPONENT of a resource; where the provider's config has a target, COMPONENT
// alone is one of that. The wire doesn't tell instances apart: all output bears the last
// segment's name. It has no times either, so that nothing can be asked for since one.
func (p *provider) TailLogs(ctx context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		if err := p.tail(ctx, r, yield); err != nil && !errors.Is(err, errLeft) {
			yield(sdk.WorkloadLogItem{}, named(err, p.info.Name))
		}
	}
}

func (p *provider) tail(ctx context.Context, r sdk.TailLogsRequest, yield func(sdk.WorkloadLogItem, error) bool) error {
	if err := p.absent(sdk.WorkloadLogs().String()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &sdk.Error{Code: sdk.CodeOf(err), Op: opTail, Err: err}
	}
	m, instance, err := p.capture(r)
	if err != nil {
		return err
	}
	if r.Tail != nil && *r.Tail == 0 && !r.Follow {
		return nil
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewIaCProviderLogCaptureClient(p.conn.grpc).CaptureLogs(inner, m, grpc.MaxCallRecvMsgSize(maxChunk))
	if err != nil {
		return fail(ctx, opTail, rpcTail, err, trace{})
	}
	for {
		c, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return stopped(r.Follow)
		case err != nil:
			return fail(ctx, opTail, rpcTail, err, trace{})
		}
		for data := c.GetData(); len(data) > 0; {
			part := data[:min(len(data), maxData)]
			data = data[len(part):]
			if !yield(sdk.WorkloadLogItem{Instance: instance, Entry: &sdk.LogChunk{Stream: streamOf(c.GetSource()), Data: part, LineEnd: sdk.LineEndKept}}, nil) {
				return errLeft
			}
		}
		if c.GetEof() {
			return stopped(r.Follow)
		}
	}
}

// stopped is what a stream's end means: one that was to go on has broken off, and reading
// again would give all of it again.
func stopped(follow bool) error {
	if !follow {
		return nil
	}
	return &sdk.Error{Code: sdk.Unavailable, Op: opTail, Retryable: true, Err: errors.New("the plugin has ended a stream that was to go on: what is written from now on is missing")}
}

// capture returns the wire's request, and the name of the one instance that there is.
func (p *provider) capture(r sdk.TailLogsRequest) (*pb.CaptureLogsRequest, string, error) {
	bad := func(field, remedy, format string, args ...any) (*pb.CaptureLogsRequest, string, error) {
		return nil, "", &sdk.Error{Code: sdk.InvalidArgument, Op: opTail, Field: field, Remedy: remedy, Err: fmt.Errorf(format, args...)}
	}
	m := &pb.CaptureLogsRequest{LogType: pb.LogCaptureType_LOG_CAPTURE_TYPE_RUN, Follow: r.Follow}
	segments := strings.Split(string(r.Path), "/")
	target := p.cfg.Target
	switch {
	case len(segments) == 1 && target != nil:
		m.ResourceType, m.ResourceName, m.ProviderId, m.ComponentName = target.Type, target.Name, target.ProviderID, segments[0]
	case len(segments) == 2, len(segments) == 3:
		m.ResourceType, m.ResourceName = segments[0], segments[1]
		if len(segments) == 3 {
			m.ComponentName = segments[2]
		}
		if target != nil && target.Type == m.GetResourceType() && target.Name == m.GetResourceName() {
			m.ProviderId = target.ProviderID
		}
	default:
		return bad("path", "name it as PROVIDER/TYPE/NAME, with /COMPONENT for a part of it", "%q isn't a resource's TYPE/NAME", r.Path)
	}
	instance := segments[len(segments)-1]
	if r.Instance != "" && r.Instance != instance {
		return bad("instance", "leave it out", "a published plugin doesn't tell instances apart; there is only %q", instance)
	}
	if !r.Since.IsZero() {
		return bad("since", "ask for a number of lines", "the published plugin wire has no times")
	}
	if r.Tail != nil {
		if *r.Tail == 0 && r.Follow {
			return bad("tail", "ask for one line at least", "none and what follows can't be said on the published plugin wire, where 0 lines are all")
		}
		m.TailLines = int32(min(*r.Tail, math.MaxInt32)) //nolint:gosec // bounded
	}
	return m, instance, nil
}
