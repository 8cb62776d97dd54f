package plugin

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// execer is the service of commands inside instances.
type execer struct {
	pb.UnimplementedExecerServiceServer
	s *Server
}

// ExecWorkload runs the command that comes first, passes on what the host sends
// besides, and sends the output and the end. A host that leaves, or the closing of its
// session, leaves the command.
func (x *execer) ExecWorkload(stream grpc.BidiStreamingServer[pb.ExecWorkloadRequest, pb.ExecWorkloadResponse]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	c, ses, err := of(ctx, x.s, sdk.WorkloadExecs())
	if err != nil {
		return wire.Status(ctx, err)
	}
	first, err := stream.Recv()
	if err != nil {
		return wire.Status(ctx, &sdk.Error{Code: sdk.InvalidArgument, Op: "exec in workload", Err: errors.New("the stream has no command")})
	}
	r, hasStdin, err := wire.DecodeExecWorkloadRequest(first)
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
	resize, signals := make(chan sdk.TerminalSize), make(chan string)
	r.Resize, r.Signals = resize, signals
	in, out := io.Pipe()
	// Whoever still reads or writes then is freed: nothing of the session outlives it.
	defer func() { _, _ = in.Close(), out.Close() }()
	if hasStdin {
		r.Stdin = in
	}
	go passOn(ctx, stream, out, resize, signals)
	send := &execOutput{stream: stream}
	defer send.stop()
	r.Stdout = outputTo(send, func(b []byte) *pb.ExecWorkloadResponse {
		return &pb.ExecWorkloadResponse{Part: &pb.ExecWorkloadResponse_Stdout{Stdout: b}}
	})
	r.Stderr = outputTo(send, func(b []byte) *pb.ExecWorkloadResponse {
		return &pb.ExecWorkloadResponse{Part: &pb.ExecWorkloadResponse_Stderr{Stderr: b}}
	})
	res, err := c.ExecWorkload(ctx, r)
	send.stop()
	if err != nil {
		return wire.Status(stream.Context(), err)
	}
	m, err := wire.EncodeExecWorkloadResult(res)
	if err != nil {
		return wire.Status(stream.Context(), err)
	}
	return stream.Send(m)
}

// passOn hands what the host sends to the driver, until the session ends. The end of
// the host's half is the end of input.
func passOn(ctx context.Context, stream grpc.BidiStreamingServer[pb.ExecWorkloadRequest, pb.ExecWorkloadResponse], stdin *io.PipeWriter,
	resize chan<- sdk.TerminalSize, signals chan<- string,
) {
	defer func() { _ = stdin.Close() }()
	var over bool // nobody reads input any more
	for {
		m, err := stream.Recv()
		if err != nil {
			return
		}
		switch part := m.GetPart().(type) {
		case *pb.ExecWorkloadRequest_Stdin:
			if len(part.Stdin) > 0 && !over {
				_, err := stdin.Write(part.Stdin)
				over = err != nil
			}
		case *pb.ExecWorkloadRequest_StdinEnd:
			_ = stdin.Close()
		case *pb.ExecWorkloadRequest_Resize:
			if z, err := wire.DecodeResize(part.Resize); err == nil {
				select {
				case resize <- z:
				case <-ctx.Done():
					return
				}
			}
		case *pb.ExecWorkloadRequest_Signal:
			select {
			case signals <- part.Signal:
			case <-ctx.Done():
				return
			}
		}
	}
}

// execOutput sends output until the end is due.
type execOutput struct {
	mu     sync.Mutex
	over   bool
	stream grpc.BidiStreamingServer[pb.ExecWorkloadRequest, pb.ExecWorkloadResponse]
}

func (o *execOutput) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
}

// execWriter is one of a command's outputs.
type execWriter struct {
	to      *execOutput
	message func(b []byte) *pb.ExecWorkloadResponse
}

func outputTo(o *execOutput, message func(b []byte) *pb.ExecWorkloadResponse) io.Writer {
	return execWriter{o, message}
}

// Write sends b in messages that the wire takes.
func (w execWriter) Write(b []byte) (n int, err error) {
	w.to.mu.Lock()
	defer w.to.mu.Unlock()
	for len(b) > 0 {
		if w.to.over {
			return n, io.ErrClosedPipe
		}
		part := b[:min(len(b), wire.MaxLogData)]
		if err := w.to.stream.Send(w.message(part)); err != nil {
			return n, err
		}
		n += len(part)
		b = b[len(part):]
	}
	return n, nil
}
