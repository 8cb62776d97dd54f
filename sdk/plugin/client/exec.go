package client

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

// ExecWorkload returns with the end. A plugin that dies, or a connection that breaks,
// before the end was told but behind output is an end without a code: something ran.
func (p *provider) ExecWorkload(ctx context.Context, r sdk.ExecWorkloadRequest) (sdk.ExecWorkloadResult, error) {
	const op = "exec in workload"
	m, err := wire.EncodeExecWorkloadRequest(r)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	inner, cancel := context.WithCancel(p.in(ctx))
	defer cancel()
	stream, err := pb.NewExecerServiceClient(p.conn).ExecWorkload(inner)
	if err != nil {
		return sdk.ExecWorkloadResult{}, wire.FromStatus(ctx, op, err)
	}
	// io.EOF says that the stream has ended, and Recv has the reason.
	if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		return sdk.ExecWorkloadResult{}, wire.FromStatus(ctx, op, err)
	}
	s := &session{stream: stream}
	s.begin(inner, r)
	res, wrote, err := s.receive(r)
	switch {
	case err == nil:
		return res, nil
	case wrote:
		return sdk.ExecWorkloadResult{Instance: r.Instance, Why: "the session ended before the command's end was told: " + wire.FromStatus(ctx, op, err).Error()}, nil
	case errors.Is(err, io.EOF):
		return sdk.ExecWorkloadResult{}, sdk.Errorf(sdk.Internal, op, "the plugin's stream has no end of the command")
	}
	return sdk.ExecWorkloadResult{}, wire.FromStatus(ctx, op, err)
}

// session is the host's half of a command that runs.
type session struct {
	// mu: a stream takes one message at a time.
	mu     sync.Mutex
	stream grpc.BidiStreamingClient[pb.ExecWorkloadRequest, pb.ExecWorkloadResponse]
	closed bool
}

func (s *session) send(m *pb.ExecWorkloadRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return io.ErrClosedPipe
	}
	return s.stream.Send(m)
}

// closeSend ends the host's half: nothing more will come.
func (s *session) closeSend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		_ = s.stream.CloseSend()
	}
}

// begin sends what goes on beside the command, until ctx ends. The host's half stays
// open as long as anything may come.
func (s *session) begin(ctx context.Context, r sdk.ExecWorkloadRequest) {
	live := r.Resize != nil || r.Signals != nil
	if r.Stdin == nil && !live {
		s.closeSend()
		return
	}
	if r.Stdin != nil {
		go s.feed(r.Stdin, live)
	}
	if live {
		go s.events(ctx, r)
	}
}

// feed sends what it reads; the end of it, however it came, is the end of input.
func (s *session) feed(in io.Reader, live bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 && s.send(&pb.ExecWorkloadRequest{Part: &pb.ExecWorkloadRequest_Stdin{Stdin: buf[:n]}}) != nil {
			return
		}
		if err == nil {
			continue
		}
		if live {
			_ = s.send(&pb.ExecWorkloadRequest{Part: &pb.ExecWorkloadRequest_StdinEnd{StdinEnd: true}})
		} else {
			s.closeSend()
		}
		return
	}
}

func (s *session) events(ctx context.Context, r sdk.ExecWorkloadRequest) {
	for {
		var m *pb.ExecWorkloadRequest
		select {
		case z := <-r.Resize:
			var err error
			if m, err = wire.EncodeResize(z); err != nil {
				continue
			}
		case sig := <-r.Signals:
			m = &pb.ExecWorkloadRequest{Part: &pb.ExecWorkloadRequest_Signal{Signal: sig}}
		case <-ctx.Done():
			return
		}
		if s.send(m) != nil {
			return
		}
	}
}

// receive writes the output, and returns with the end. wrote reports whether any
// output came.
func (s *session) receive(r sdk.ExecWorkloadRequest) (res sdk.ExecWorkloadResult, wrote bool, err error) {
	write := func(w io.Writer, b []byte) error {
		wrote = true
		if w == nil {
			return nil
		}
		_, err := w.Write(b)
		return err
	}
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return res, wrote, err
		}
		switch part := m.GetPart().(type) {
		case *pb.ExecWorkloadResponse_Stdout:
			err = write(r.Stdout, part.Stdout)
		case *pb.ExecWorkloadResponse_Stderr:
			err = write(r.Stderr, part.Stderr)
		default:
			res, err := wire.DecodeExecWorkloadResult(m)
			return res, wrote, err
		}
		if err != nil {
			return res, wrote, err
		}
	}
}
