package client

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// bounded is a connection whose messages are bounded, whoever dialed it, and which says
// of one that is too long which method's it was, and how long. A call whose context has
// ended sends nothing; gRPC may have sent it before it looks.
type bounded struct{ grpc.ClientConnInterface }

func (b bounded) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	if err := fits(ctx, method, args); err != nil {
		return err
	}
	return told(method, b.ClientConnInterface.Invoke(ctx, method, args, reply, append(wire.CallOptions(), opts...)...))
}

func (b bounded) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	s, err := b.ClientConnInterface.NewStream(ctx, d, method, append(wire.CallOptions(), opts...)...)
	if err != nil {
		return nil, told(method, err)
	}
	return &boundedStream{ClientStream: s, method: method}, nil
}

type boundedStream struct {
	grpc.ClientStream
	method string
}

func (s *boundedStream) SendMsg(m any) error {
	if err := fits(s.Context(), s.method, m); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(m)
}

func (s *boundedStream) RecvMsg(m any) error { return told(s.method, s.ClientStream.RecvMsg(m)) }

// fits refuses a request that is too long, before any of it is sent.
func fits(ctx context.Context, method string, m any) error {
	msg, ok := m.(proto.Message)
	if !ok {
		return nil
	}
	n := proto.Size(msg)
	if n <= wire.MaxMessage {
		return nil
	}
	return wire.Status(ctx, &sdk.Error{Code: sdk.InvalidArgument, Op: "call " + short(method), Remedy: "pass large input by a mount or a store",
		Err: fmt.Errorf("the request has %d bytes, a plugin's message at most %d", n, wire.MaxMessage)})
}

// told names the method of a message that gRPC itself has refused for its length. For a
// call that changes nothing that is ResourceExhausted, which another try doesn't help;
// any other may have done its work, so that the error must prove nothing: it is Internal.
// gRPC's own status is kept in both.
func told(method string, err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok || st.Code() != codes.ResourceExhausted || len(st.Details()) > 0 {
		return err
	}
	e := &sdk.Error{Code: sdk.Internal, Op: "call " + short(method), Err: errors.New(strings.TrimPrefix(st.Message(), "grpc: "))}
	if changesNothing(method) {
		e.Code = sdk.ResourceExhausted
	}
	with, failed := status.New(st.Code(), st.Message()).WithDetails(wire.EncodeError(e))
	if failed != nil {
		return err
	}
	return with.Err()
}

// short is a method's name without its package.
func short(method string) string {
	service, name := path.Split(strings.TrimPrefix(method, "/"))
	return service[strings.LastIndex(service, ".")+1:] + name
}

// changesNothing lists the methods that may be asked again however they went. One that
// isn't named here counts as one that changes something.
func changesNothing(method string) bool {
	switch path.Base(method) {
	case "Describe", "Info", "Check",
		"PrepareJob", "JobStatus", "JobStatuses", "FindJobs", "JobLogs", "WatchJobs", "ListOwned",
		"ReadResource", "DiffResource", "HealthCheckResource", "SensitiveKeys", "TroubleshootResource",
		"ListWorkloads", "WorkloadStatus", "TailLogs", "StreamMetrics":
		return true
	}
	return false
}
