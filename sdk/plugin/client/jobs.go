package client

import (
	"context"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

var (
	_ sdk.JobRunner     = (*provider)(nil)
	_ sdk.JobFinder     = (*provider)(nil)
	_ sdk.JobCanceler   = (*provider)(nil)
	_ sdk.JobCleaner    = (*provider)(nil)
	_ sdk.JobLogger     = (*provider)(nil)
	_ sdk.JobBatcher    = (*provider)(nil)
	_ sdk.JobWatcher    = (*provider)(nil)
	_ sdk.OwnedLister   = (*provider)(nil)
	_ sdk.ExpiryRenewer = (*provider)(nil)
)

// unary sends a request that has one reply.
func unary[A, B, M, N any](ctx context.Context, p *provider, op string, a A, encode func(A) (M, error),
	call func(context.Context, M, ...grpc.CallOption) (N, error), decode func(N) (B, error),
) (B, error) {
	var none B
	m, err := encode(a)
	if err != nil {
		return none, err
	}
	n, err := call(p.in(ctx), m)
	if err != nil {
		return none, wire.FromStatus(ctx, op, err)
	}
	return decode(n)
}

// replies gives what a request's stream of replies has. Whoever stops early ends it.
func replies[A, B, M, N any](ctx context.Context, p *provider, op string, a A, encode func(A) (M, error),
	call func(context.Context, M, ...grpc.CallOption) (grpc.ServerStreamingClient[N], error), decode func(*N) (B, error),
) iter.Seq2[B, error] {
	return batches(ctx, p, op, a, encode, call, func(n *N) iter.Seq2[B, error] {
		return func(yield func(B, error) bool) { yield(decode(n)) }
	})
}

// batches is replies where a reply has any number of items.
func batches[A, B, M, N any](ctx context.Context, p *provider, op string, a A, encode func(A) (M, error),
	call func(context.Context, M, ...grpc.CallOption) (grpc.ServerStreamingClient[N], error), decode func(*N) iter.Seq2[B, error],
) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		var none B
		m, err := encode(a)
		if err != nil {
			yield(none, err)
			return
		}
		inner, cancel := context.WithCancel(p.in(ctx))
		defer cancel()
		stream, err := call(inner, m)
		if err != nil {
			yield(none, wire.FromStatus(ctx, op, err))
			return
		}
		for {
			n, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(none, wire.FromStatus(ctx, op, err))
				return
			}
			for b, err := range decode(n) {
				if !yield(b, err) || err != nil {
					return
				}
			}
		}
	}
}

func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	return unary(ctx, p, "prepare job", r, wire.EncodePrepareJobRequest, pb.NewJobRunnerServiceClient(p.conn).PrepareJob, wire.DecodePrepareJobResponse)
}

func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	return unary(ctx, p, "job status", r, wire.EncodeJobStatusRequest, pb.NewJobRunnerServiceClient(p.conn).JobStatus, wire.DecodeJobStatusResponse)
}

func (p *provider) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	return unary(ctx, p, "find jobs", r, wire.EncodeFindJobsRequest, pb.NewJobFinderServiceClient(p.conn).FindJobs, wire.DecodeFindJobsResponse)
}

func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	return unary(ctx, p, "cancel job", r, wire.EncodeCancelJobRequest, pb.NewJobCancelerServiceClient(p.conn).CancelJob, wire.DecodeCancelJobResponse)
}

func (p *provider) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	return unary(ctx, p, "clean up job", r, wire.EncodeCleanupJobRequest, pb.NewJobCleanerServiceClient(p.conn).CleanupJob, wire.DecodeCleanupJobResponse)
}

func (p *provider) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	return unary(ctx, p, "job statuses", r, wire.EncodeJobStatusesRequest, pb.NewJobBatcherServiceClient(p.conn).JobStatuses,
		func(m *pb.JobStatusesResponse) (sdk.JobStatusesResult, error) {
			return wire.DecodeJobStatusesResponse(m, len(r.Handles))
		})
}

// JobLogs gives an error where the plugin's stream ends without saying how much of the
// log it was.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		items := batches(ctx, p, "job logs", r, wire.EncodeJobLogsRequest, pb.NewJobLoggerServiceClient(p.conn).JobLogs, wire.DecodeJobLogsResponse)
		for i, err := range items {
			if !yield(i, err) || err != nil || i.End != nil {
				return
			}
		}
		yield(sdk.LogItem{}, sdk.Errorf(sdk.Internal, "job logs", "the plugin's stream has no end"))
	}
}

func (p *provider) WatchJobs(ctx context.Context, r sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error] {
	return replies(ctx, p, "watch jobs", r, wire.EncodeWatchJobsRequest, pb.NewJobWatcherServiceClient(p.conn).WatchJobs, wire.DecodeWatchJobsResponse)
}

func (p *provider) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return replies(ctx, p, "list owned", r, wire.EncodeListOwnedRequest, pb.NewOwnedListerServiceClient(p.conn).ListOwned, wire.DecodeListOwnedResponse)
}

func (p *provider) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	return unary(ctx, p, "remove owned", r, wire.EncodeRemoveOwnedRequest, pb.NewOwnedListerServiceClient(p.conn).RemoveOwned,
		func(*pb.RemoveOwnedResponse) (sdk.RemoveOwnedResult, error) { return sdk.RemoveOwnedResult{}, nil })
}

func (p *provider) RenewExpiry(ctx context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
	return unary(ctx, p, "renew expiry", r, wire.EncodeRenewExpiryRequest, pb.NewExpiryRenewerServiceClient(p.conn).RenewExpiry,
		func(*pb.RenewExpiryResponse) (sdk.RenewExpiryResult, error) { return sdk.RenewExpiryResult{}, nil })
}

// RunJob returns with the result; input goes on to the plugin in the background, for
// as long as the provider is open.
func (p *provider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	m, err := wire.EncodeRunJobRequest(r)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	if err := ctx.Err(); err != nil {
		// The stream has a context of its own, which may end too late to keep this from
		// being sent.
		return sdk.RunJobResult{}, wire.FromStatus(ctx, "run job", status.FromContextError(err).Err())
	}
	lasting, cancel := p.lasting(ctx)
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	stream, err := pb.NewJobRunnerServiceClient(p.conn).RunJob(lasting)
	if err != nil {
		cancel()
		return sdk.RunJobResult{}, wire.FromStatus(ctx, "run job", err)
	}
	// io.EOF says that the stream has ended, and Recv has the reason.
	if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		cancel()
		return sdk.RunJobResult{}, wire.FromStatus(ctx, "run job", err)
	}
	if r.Stdin == nil {
		_ = stream.CloseSend()
	} else {
		go feed(stream, r.Stdin) // ends when its reader does, or with the stream
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			cancel()
			if errors.Is(err, io.EOF) {
				return sdk.RunJobResult{}, sdk.Errorf(sdk.Internal, "run job", "the plugin's stream has no result")
			}
			return sdk.RunJobResult{}, wire.FromStatus(ctx, "run job", err)
		}
		if line, ok := m.GetPart().(*pb.RunJobResponse_Progress); ok {
			if r.Progress != nil {
				r.Progress(line.Progress)
			}
			continue
		}
		res, err := wire.DecodeRunJobResult(m)
		if err != nil || r.Stdin == nil {
			cancel()
			return res, err
		}
		p.tasks.Go(func() {
			defer cancel()
			for {
				if _, err := stream.Recv(); err != nil {
					return
				}
			}
		})
		return res, nil
	}
}

// feed sends what it reads; the end of it, however it came, is the end of input.
func feed(stream grpc.BidiStreamingClient[pb.RunJobRequest, pb.RunJobResponse], in io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 && stream.Send(&pb.RunJobRequest{Part: &pb.RunJobRequest_Stdin{Stdin: buf[:n]}}) != nil {
			return
		}
		if err != nil {
			_ = stream.CloseSend()
			return
		}
	}
}
