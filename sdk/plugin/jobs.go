package plugin

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// The services of the capabilities, each asked through sdk.Of.
type (
	runner struct {
		pb.UnimplementedJobRunnerServiceServer
		s *Server
	}
	finder struct {
		pb.UnimplementedJobFinderServiceServer
		s *Server
	}
	canceler struct {
		pb.UnimplementedJobCancelerServiceServer
		s *Server
	}
	cleaner struct {
		pb.UnimplementedJobCleanerServiceServer
		s *Server
	}
	logger struct {
		pb.UnimplementedJobLoggerServiceServer
		s *Server
	}
	batcher struct {
		pb.UnimplementedJobBatcherServiceServer
		s *Server
	}
	watcher struct {
		pb.UnimplementedJobWatcherServiceServer
		s *Server
	}
	lister struct {
		pb.UnimplementedOwnedListerServiceServer
		s *Server
	}
	renewer struct {
		pb.UnimplementedExpiryRenewerServiceServer
		s *Server
	}
)

// unary serves a method of one request and one reply.
func unary[C, A, B, M, N any](ctx context.Context, s *Server, capability sdk.Capability[C], m M, decode func(M) (A, error),
	call func(C, context.Context, A) (B, error), encode func(B) (N, error),
) (N, error) {
	var none N
	c, _, err := of(ctx, s, capability)
	if err != nil {
		return none, wire.Status(ctx, err)
	}
	r, err := decode(m)
	if err != nil {
		return none, wire.Status(ctx, err)
	}
	res, err := call(c, ctx, r)
	if err != nil {
		return none, wire.Status(ctx, err)
	}
	out, err := encode(res)
	if err != nil {
		return none, wire.Status(ctx, err)
	}
	return out, nil
}

// replies serves a method whose reply is a stream, of a message for each item.
func replies[C, A, B, M, N any](stream grpc.ServerStreamingServer[N], s *Server, capability sdk.Capability[C], m M, decode func(M) (A, error),
	call func(C, context.Context, A) iter.Seq2[B, error], encode func(B) (*N, error),
) error {
	return pull(stream, s, capability, m, decode, call, func(item B) error {
		out, err := encode(item)
		if err != nil {
			return wire.Status(stream.Context(), err)
		}
		return stream.Send(out)
	})
}

// pull asks for a stream of items and has each sent. A host that leaves ends it, and so
// does the closing of its session. An error of send ends it as it is.
func pull[C, A, B, M any](stream grpc.ServerStream, s *Server, capability sdk.Capability[C], m M, decode func(M) (A, error),
	call func(C, context.Context, A) iter.Seq2[B, error], send func(B) error,
) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	c, ses, err := of(ctx, s, capability)
	if err != nil {
		return wire.Status(ctx, err)
	}
	r, err := decode(m)
	if err != nil {
		return wire.Status(ctx, err)
	}
	go func() {
		select {
		case <-ses.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	for item, err := range call(c, ctx, r) {
		if ctx.Err() != nil {
			break // a driver that doesn't look, and that nobody listens to
		}
		if err != nil {
			return wire.Status(stream.Context(), err)
		}
		if err := send(item); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		// A driver may just stop; that must not pass for an end of its own.
		return wire.Status(ctx, sdk.Errorf(sdk.Canceled, "stream", "the session was closed"))
	}
	return nil
}

func (x *runner) PrepareJob(ctx context.Context, m *pb.PrepareJobRequest) (*pb.PrepareJobResponse, error) {
	return unary(ctx, x.s, sdk.Runner(), m, wire.DecodePrepareJobRequest, sdk.JobRunner.PrepareJob, wire.EncodePrepareJobResponse)
}

func (x *runner) JobStatus(ctx context.Context, m *pb.JobStatusRequest) (*pb.JobStatusResponse, error) {
	return unary(ctx, x.s, sdk.Runner(), m, wire.DecodeJobStatusRequest, sdk.JobRunner.JobStatus, wire.EncodeJobStatusResponse)
}

func (x *finder) FindJobs(ctx context.Context, m *pb.FindJobsRequest) (*pb.FindJobsResponse, error) {
	return unary(ctx, x.s, sdk.Finder(), m, wire.DecodeFindJobsRequest, sdk.JobFinder.FindJobs, wire.EncodeFindJobsResponse)
}

func (x *canceler) CancelJob(ctx context.Context, m *pb.CancelJobRequest) (*pb.CancelJobResponse, error) {
	return unary(ctx, x.s, sdk.Canceler(), m, wire.DecodeCancelJobRequest, sdk.JobCanceler.CancelJob, wire.EncodeCancelJobResponse)
}

func (x *cleaner) CleanupJob(ctx context.Context, m *pb.CleanupJobRequest) (*pb.CleanupJobResponse, error) {
	return unary(ctx, x.s, sdk.Cleaner(), m, wire.DecodeCleanupJobRequest, sdk.JobCleaner.CleanupJob, wire.EncodeCleanupJobResponse)
}

func (x *batcher) JobStatuses(ctx context.Context, m *pb.JobStatusesRequest) (*pb.JobStatusesResponse, error) {
	return unary(ctx, x.s, sdk.Batcher(), m, wire.DecodeJobStatusesRequest, sdk.JobBatcher.JobStatuses,
		func(r sdk.JobStatusesResult) (*pb.JobStatusesResponse, error) {
			return wire.EncodeJobStatusesResponse(r), nil
		})
}

func (x *logger) JobLogs(m *pb.JobLogsRequest, stream grpc.ServerStreamingServer[pb.JobLogsResponse]) error {
	return output(stream, x.s, sdk.Logger(), m, wire.DecodeJobLogsRequest, sdk.JobLogger.JobLogs, wire.SplitLogItem,
		func() gathered[sdk.LogItem, pb.JobLogsResponse] { return &wire.JobLogs{} })
}

func (x *watcher) WatchJobs(m *pb.WatchJobsRequest, stream grpc.ServerStreamingServer[pb.WatchJobsResponse]) error {
	return replies(stream, x.s, sdk.Watcher(), m, wire.DecodeWatchJobsRequest, sdk.JobWatcher.WatchJobs, wire.EncodeWatchJobsResponse)
}

func (x *lister) ListOwned(m *pb.ListOwnedRequest, stream grpc.ServerStreamingServer[pb.ListOwnedResponse]) error {
	return replies(stream, x.s, sdk.Lister(), m, wire.DecodeListOwnedRequest, sdk.OwnedLister.ListOwned, wire.EncodeListOwnedResponse)
}

func (x *lister) RemoveOwned(ctx context.Context, m *pb.RemoveOwnedRequest) (*pb.RemoveOwnedResponse, error) {
	return unary(ctx, x.s, sdk.Lister(), m, wire.DecodeRemoveOwnedRequest, sdk.OwnedLister.RemoveOwned,
		func(sdk.RemoveOwnedResult) (*pb.RemoveOwnedResponse, error) { return &pb.RemoveOwnedResponse{}, nil })
}

func (x *renewer) RenewExpiry(ctx context.Context, m *pb.RenewExpiryRequest) (*pb.RenewExpiryResponse, error) {
	return unary(ctx, x.s, sdk.Renewer(), m, wire.DecodeRenewExpiryRequest, sdk.ExpiryRenewer.RenewExpiry,
		func(sdk.RenewExpiryResult) (*pb.RenewExpiryResponse, error) { return &pb.RenewExpiryResponse{}, nil })
}

// RunJob sends the launch, and passes standard input on until it ends, the session is
// closed or the host leaves; leaving is the end of input.
func (x *runner) RunJob(stream grpc.BidiStreamingServer[pb.RunJobRequest, pb.RunJobResponse]) error {
	ctx := stream.Context()
	c, ses, err := of(ctx, x.s, sdk.Runner())
	if err != nil {
		return wire.Status(ctx, err)
	}
	first, err := stream.Recv()
	if err != nil {
		return wire.Status(ctx, &sdk.Error{Code: sdk.InvalidArgument, Op: "run job", Err: errors.New("the stream has no launch")})
	}
	r, stdin, progress, err := wire.DecodeRunJobRequest(first)
	if err != nil {
		return wire.Status(ctx, err)
	}
	lines := &progressLines{stream: stream}
	defer lines.stop()
	if progress {
		r.Progress = lines.send
	}
	fed := make(chan struct{})
	if stdin {
		in, out := io.Pipe()
		// The end of input for the driver, and of feed where nobody reads any more.
		defer func() { _ = out.Close() }()
		r.Stdin = in
		go func() {
			defer close(fed)
			feed(stream, out)
		}()
	}
	res, err := c.RunJob(ctx, r)
	if err != nil {
		return wire.Status(ctx, err)
	}
	m, err := wire.EncodeRunJobResult(res)
	if err != nil {
		return wire.Status(ctx, err)
	}
	lines.stop()
	if err := stream.Send(m); err != nil {
		return err
	}
	if stdin {
		select {
		case <-fed:
		case <-ses.closed:
		case <-ctx.Done():
		}
	}
	return nil
}

// feed writes what the host sends to out, as fast as the driver reads it.
func feed(stream grpc.BidiStreamingServer[pb.RunJobRequest, pb.RunJobResponse], out *io.PipeWriter) {
	defer func() { _ = out.Close() }()
	for {
		m, err := stream.Recv()
		if err != nil {
			return
		}
		if len(m.GetStdin()) == 0 {
			continue // a pipe would wait for a reader of nothing
		}
		if _, err := out.Write(m.GetStdin()); err != nil {
			return
		}
	}
}

// progressLines sends progress until the result is due.
type progressLines struct {
	mu     sync.Mutex
	over   bool
	stream grpc.BidiStreamingServer[pb.RunJobRequest, pb.RunJobResponse]
}

func (p *progressLines) send(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		// A host that can't be told has left, which ends the call by itself.
		_ = p.stream.Send(wire.EncodeProgress(line))
	}
}

func (p *progressLines) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}
