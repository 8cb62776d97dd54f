package pluginhost

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// slowTime is after how long a call without an answer the process is asked whether it
// answers anything, and again as often.
const slowTime = 2 * time.Second

// endTime is how long a call that was cut off waits to learn how the process ended.
const endTime = 100 * time.Millisecond

// watched is the connection to one process of a plugin, which is doubted where it doesn't
// answer.
type watched struct {
	l *Lease
	// name is the plugin's.
	name string
}

var _ grpc.ClientConnInterface = watched{}

// Invoke implements grpc.ClientConnInterface.
func (w watched) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	defer w.watch()()
	return w.judge(ctx, method, w.l.Conn.Invoke(ctx, method, args, reply, opts...))
}

// NewStream implements grpc.ClientConnInterface.
func (w watched) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	defer w.watch()() // it may have to connect first
	s, err := w.l.Conn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, w.judge(ctx, method, err)
	}
	return &stream{ClientStream: s, w: w, method: method, waits: path.Base(method) == "RunJob"}, nil
}

// watch doubts a process whose answer takes long, until the answer is there: a process
// that was stopped answers nothing, and a call may have minutes.
func (w watched) watch() (answered func()) {
	done := make(chan struct{})
	t := time.AfterFunc(slowTime, func() {
		for {
			w.l.Doubt()
			select {
			case <-done:
				return
			case <-time.After(slowTime):
			}
		}
	})
	return func() {
		t.Stop()
		close(done)
	}
}

// stream judges how a stream ends.
type stream struct {
	grpc.ClientStream
	w      watched
	method string
	// waits: an answer is due. Other streams may be silent for days.
	waits bool
}

func (s *stream) RecvMsg(m any) error {
	if s.waits {
		defer s.w.watch()()
	}
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*providerpb.RunJobResponse); !ok || r.GetResult() != nil {
		s.waits = false
	}
	if _, ok := status.FromError(err); err == nil || !ok {
		return err // also io.EOF, its end
	}
	return s.w.judge(s.Context(), s.method, err)
}

// judge looks at what became of a call: whether the process may have gone, and whether
// it was asked for what it hasn't.
func (w watched) judge(ctx context.Context, method string, err error) error {
	st, _ := status.FromError(err)
	if err == nil || len(st.Details()) > 0 {
		return err // the plugin itself has answered
	}
	code := st.Code()
	if code == codes.Canceled && ctx.Err() == nil {
		// Its host closes the connection to a process that has ended, and may be first.
		code = codes.Unavailable
	}
	switch code {
	case codes.Unavailable:
		w.l.Doubt()
		select {
		case <-w.l.Done:
			return wire.Status(ctx, ended(w.name, w.l))
		case <-time.After(endTime):
		case <-ctx.Done():
		}
	case codes.DeadlineExceeded:
		w.l.Doubt()
	case codes.Unimplemented:
		return wire.Status(ctx, absent(w.name, method))
	}
	return err
}

// ended is the error of a call whose process has ended: what became of the call isn't
// known.
func ended(name string, l *Lease) *sdk.Error {
	return &sdk.Error{Code: sdk.Unavailable, Op: "ask plugin " + name, ID: ErrEnded, Retryable: true, Err: fmt.Errorf("its process has ended: %w", l.Why())}
}

// absent is the error of a capability that a plugin named and hasn't.
func absent(plugin, method string) error {
	service, call, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	name := strings.TrimSuffix(service[strings.LastIndexByte(service, '.')+1:], "Service")
	return &sdk.Error{Code: sdk.Unimplemented, Op: "use " + name, ID: ErrContract,
		Err: fmt.Errorf("the plugin %s says that it has %s, and answers %s with Unimplemented", plugin, name, call)}
}
