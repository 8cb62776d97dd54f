package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// maxCaptureTime is the longest follow that can be asked for; a longer one is as good as
// one without end.
const maxCaptureTime = 365 * 24 * time.Hour

// iacCapture serves IaCProviderLogCapture by sdk.LogTailer.
type iacCapture struct {
	iacpb.UnimplementedIaCProviderLogCaptureServer
	p *iacProvider
}

var _ iacpb.IaCProviderLogCaptureServer = (*iacCapture)(nil)

// CaptureLogs streams the output of a workload: what there is, or what comes for
// duration_seconds. The last message says eof. That wire has no place for a gap: one is
// told by DataLoss at the end of a stream that ends, and at once in one that goes on for
// as long as it is read.
func (x *iacCapture) CaptureLogs(m *iacpb.CaptureLogsRequest, stream grpc.ServerStreamingServer[iacpb.LogChunk]) error {
	if err := x.capture(m, stream); err != nil {
		return wire.Status(stream.Context(), err)
	}
	return stream.Send(&iacpb.LogChunk{Eof: true})
}

func (x *iacCapture) capture(m *iacpb.CaptureLogsRequest, stream grpc.ServerStreamingServer[iacpb.LogChunk]) error {
	tailer, _, err := opened(x.p, sdk.WorkloadLogs())
	if err != nil {
		return err
	}
	r, limit, err := tailRequest(m)
	if err != nil {
		return err
	}
	ctx, cancel := x.p.alive(stream.Context())
	defer cancel()
	reading, stop := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		reading, stop = context.WithTimeout(ctx, limit)
	}
	defer stop()
	var missing []error
	for item, err := range tailer.TailLogs(reading, r) {
		if err != nil {
			if limit > 0 && ctx.Err() == nil && errors.Is(reading.Err(), context.DeadlineExceeded) {
				break // its time is over, which is what was asked for
			}
			return err
		}
		switch {
		case item.Entry != nil:
			if err := sendEntry(stream.Send, captureSource(item), item.Entry); err != nil {
				return err
			}
		case item.Gap != nil:
			missing = append(missing, fmt.Errorf("a part of the output of %q is missing: %s", item.Instance, item.Gap.Why))
			if r.Follow && limit == 0 {
				return lossOf(missing)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return &sdk.Error{Code: sdk.CodeOf(err), Op: opCapture, Err: context.Cause(ctx)}
	}
	return lossOf(missing)
}

const opCapture = "capture logs"

func lossOf(missing []error) error {
	if len(missing) == 0 {
		return nil
	}
	return &sdk.Error{Code: sdk.DataLoss, Op: opCapture, Err: errors.Join(missing...)}
}

// captureSource names the instance and the stream that output comes from.
func captureSource(i sdk.WorkloadLogItem) string {
	if i.Instance == "" {
		return string(i.Entry.Stream)
	}
	return i.Instance + "/" + string(i.Entry.Stream)
}

// tailRequest reads what such a host asks for, and for how long it is to be followed;
// zero is without end. What a LogTailer can't be asked for is InvalidArgument, naming
// the field. A workload is named by its path: provider_id, else resource_name, with
// component_name as a further segment. resource_type is the host's own word for it.
func tailRequest(m *iacpb.CaptureLogsRequest) (sdk.TailLogsRequest, time.Duration, error) {
	bad := func(field, remedy, format string, args ...any) (sdk.TailLogsRequest, time.Duration, error) {
		return sdk.TailLogsRequest{}, 0, &sdk.Error{Code: sdk.InvalidArgument, Op: opCapture, Field: field, Remedy: remedy, Err: fmt.Errorf(format, args...)}
	}
	field, path := "resource_name", m.GetResourceName()
	if id := m.GetProviderId(); id != "" {
		field, path = "provider_id", id
	}
	if c := m.GetComponentName(); c != "" {
		field, path = "component_name", path+"/"+c
	}
	r := sdk.TailLogsRequest{Path: sdk.WorkloadPath(path), Follow: m.GetFollow()}
	if err := r.Path.Check(); err != nil {
		return bad(field, "name a workload as the provider lists it", "%q is no workload's path: %w", path, err)
	}
	switch t := m.GetLogType(); t {
	case iacpb.LogCaptureType_LOG_CAPTURE_TYPE_UNSPECIFIED, iacpb.LogCaptureType_LOG_CAPTURE_TYPE_RUN:
	default:
		return bad("log_type", "ask for RUN", "there is the output of what runs, and no %s", t)
	}
	if id := m.GetDeploymentId(); id != "" {
		return bad("deployment_id", "leave it out", "the output of one deployment alone can't be read")
	}
	if n := int(m.GetTailLines()); n < 0 {
		return bad("tail_lines", "give the number of lines, or 0 for all", "%d is negative", n)
	} else if n > 0 {
		r.Tail = &n
	}
	seconds := m.GetDurationSeconds()
	switch {
	case seconds < 0:
		return bad("duration_seconds", "give the number of seconds, or 0 for no end", "%d is negative", seconds)
	case seconds > 0 && !r.Follow:
		return bad("duration_seconds", "set follow, or leave it out", "only what is followed goes on for a time")
	case seconds > int64(maxCaptureTime/time.Second):
		return r, 0, nil
	}
	return r, time.Duration(seconds) * time.Second, nil
}
