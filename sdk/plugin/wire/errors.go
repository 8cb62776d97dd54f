package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

// An error travels in the trailers of a call, whose size a receiver bounds.
const (
	maxText  = 16 << 10
	maxWords = 1 << 10
)

// clip makes words for people UTF-8, and cuts them to n bytes. What is beyond isn't even
// looked at.
func clip(s string, n int) string {
	long := len(s) > n
	s = plain(s[:min(len(s), n)])
	if long || len(s) > n {
		s = plain(s[:min(len(s), n-len("...")-2)]) + "..."
	}
	return s
}

// code reads a number that is no code as Unknown.
func code(n int32) sdk.Code {
	if c := sdk.Code(n); c >= sdk.Canceled && c <= sdk.Unauthenticated {
		return c
	}
	return sdk.Unknown
}

// EncodeError returns err as a message, and nil for nil. Everything of the outermost
// sdk.Error travels but for the types of its causes, whose text does.
func EncodeError(err error) *pb.Error {
	if err == nil {
		return nil
	}
	var e *sdk.Error
	if !errors.As(err, &e) || e == nil {
		e = &sdk.Error{Err: err}
	}
	m := &pb.Error{
		Code: int32(code(int32(sdk.CodeOf(err)))), // what is no code becomes Unknown
		Op:   clip(e.Op, maxWords), Provider: clip(e.Provider, maxWords), Field: clip(e.Field, maxWords),
		Retryable: e.Retryable, RetryAfter: span(e.RetryAfter), Unreached: e.Unreached,
		Reason: clip(string(e.Reason), maxWords), Id: clip(e.ID, maxWords), Remedy: clip(e.Remedy, maxText),
	}
	if e.Err != nil {
		cause := clip(e.Err.Error(), maxText)
		m.Cause = &cause
		m.Problems = encodeProblems(e.Err)
	}
	if text := err.Error(); text != e.Error() {
		text = clip(text, maxText)
		m.Text = &text
	}
	return m
}

// encodeProblems returns the problems that stand in a cause, as many as have room in
// trailers. What is beyond is counted.
func encodeProblems(cause error) []*pb.Problem {
	var ps sdk.Problems
	if !errors.As(cause, &ps) {
		return nil
	}
	out, room := make([]*pb.Problem, 0, len(ps)), maxText
	for i, p := range ps {
		m := &pb.Problem{Field: clip(p.Field, maxWords), Value: clip(p.Value, maxWords), Message: clip(p.Message, maxWords)}
		if p.Code != 0 {
			m.Code = int32(code(int32(p.Code))) //nolint:gosec // what is no code becomes Unknown
		}
		if room -= len(m.GetField()) + len(m.GetValue()) + len(m.GetMessage()); room < 0 {
			return append(out, &pb.Problem{Field: m.GetField(), Message: fmt.Sprintf("is the first of %d more problems, which are too long to be told", len(ps)-i), Code: m.GetCode()})
		}
		out = append(out, m)
	}
	return out
}

// DecodeError returns the error that EncodeError had, with the causes as text; nil is
// nil. A number that is no code is Unknown, a reason that isn't one ReasonUnknown.
func DecodeError(m *pb.Error) error {
	if m == nil {
		return nil
	}
	e, _, text := decodeError(m, nil)
	return worded(e, text)
}

// decodeError returns the error, its cause where there is a status, and the text of what
// was wrapped around it.
func decodeError(m *pb.Error, st *status.Status) (*sdk.Error, *remote, *string) {
	c := reply("read error")
	e := &sdk.Error{
		Code: code(m.GetCode()), Op: m.GetOp(), Provider: m.GetProvider(), Field: m.GetField(),
		Retryable: m.GetRetryable(), Unreached: m.GetUnreached(),
		Reason: reason(m.GetReason()), ID: m.GetId(), Remedy: m.GetRemedy(),
	}
	// A wait that can't be read is none given; nothing else of the error is worse for it.
	e.RetryAfter = max(c.duration("retry_after", m.GetRetryAfter()), 0)
	text := e.Code.String()
	if m.Cause != nil {
		text = m.GetCause()
	}
	ps := decodeProblems(m.GetProblems())
	var r *remote
	switch {
	case st != nil:
		r = &remote{st: st, text: text}
		if len(ps) > 0 {
			r.causes = append(r.causes, ps)
		}
		e.Err = r
	case len(ps) > 0:
		e.Err = &refused{text: text, problems: ps}
	case m.Cause != nil:
		e.Err = errors.New(text)
	}
	return e, r, m.Text
}

func decodeProblems(ps []*pb.Problem) sdk.Problems {
	return each(ps, func(p *pb.Problem) sdk.Problem {
		return sdk.Problem{Field: p.GetField(), Value: p.GetValue(), Message: p.GetMessage(), Code: problemCode(p.GetCode())}
	})
}

// refused is a cause with problems in it.
type refused struct {
	text     string
	problems sdk.Problems
}

func (r *refused) Error() string { return r.text }
func (r *refused) Unwrap() error { return r.problems }

func worded(e *sdk.Error, text *string) error {
	if text == nil {
		return e
	}
	return &wrapped{text: *text, err: e}
}

// wrapped has the words of an error that was wrapped around another.
type wrapped struct {
	text string
	err  *sdk.Error
}

func (w *wrapped) Error() string { return w.text }
func (w *wrapped) Unwrap() error { return w.err }

// remote is a cause on the other side; status.FromError finds its status. Its own causes
// are the problems that were told, and the caller's own end.
type remote struct {
	st     *status.Status
	text   string
	causes []error
}

func (r *remote) Error() string              { return r.text }
func (r *remote) GRPCStatus() *status.Status { return r.st }
func (r *remote) Unwrap() []error            { return r.causes }

// ended returns the error of a context that has ended or whose time is over, or nil.
// A deadline is known on both sides, and the other may see it first.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return nil
}

// Status returns err as the error of a gRPC call whose context is ctx, with
// windlass.provider.v1.Error as its detail, and, for hosts that aren't ours, ErrorInfo,
// BadRequest and RetryInfo of google.rpc behind it. What failed because the caller left
// or its time is over is not retryable.
func Status(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	m := EncodeError(err)
	if ended(ctx) != nil {
		m.Retryable = false
	}
	st := &rpcstatus.Status{Code: m.GetCode(), Message: clip(err.Error(), maxWords)}
	for _, d := range append([]proto.Message{m}, standardDetails(m)...) {
		detail := &anypb.Any{}
		// The same error has the same bytes each time.
		if anypb.MarshalFrom(detail, d, proto.MarshalOptions{Deterministic: true}) == nil {
			st.Details = append(st.Details, detail)
		}
	}
	return status.ErrorProto(st)
}

// FromStatus returns the error of a gRPC call that ctx was given to as the contract's:
// what Status had, with gRPC's status to be found by status.FromError.
//
// The caller's own cancel or deadline is never retryable. Where the other side's code
// proves nothing, it becomes that of the caller's own end, which errors.Is finds.
//
// A status without the detail comes from a plugin that isn't made with our SDK, whose
// google.rpc details are read (StandardOf), or from gRPC itself: its code counts, but for
// ResourceExhausted without any detail, which is how gRPC refuses a message that is too
// long, at either end; it proves nothing, and becomes Internal.
func FromStatus(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	own := ended(ctx)
	st, ok := status.FromError(err)
	if !ok {
		if own != nil {
			return &sdk.Error{Code: sdk.CodeOf(own), Op: op, Err: fmt.Errorf("%w: %w", own, err)}
		}
		return &sdk.Error{Code: sdk.Internal, Op: op, Err: err}
	}
	for _, d := range st.Details() {
		if m, ok := d.(*pb.Error); ok {
			e, r, text := decodeError(m, st)
			if own != nil {
				e.Retryable = false
				if unclear(e.Code) {
					e.Code, r.causes = sdk.CodeOf(own), append(r.causes, own)
				}
			}
			return worded(e, text)
		}
	}
	details := StandardOf(st)
	e, r := &sdk.Error{Code: code(int32(st.Code())), Op: op}, &remote{st: st, text: plain(st.Message())}
	e.Err = r
	if r.text == "" {
		r.text = st.Code().String()
	}
	r.text = details.Text(r.text)
	if len(details.Problems) > 0 {
		r.causes = append(r.causes, details.Problems)
	}
	switch {
	case own != nil && unclear(e.Code):
		e.Code = sdk.CodeOf(own)
		r.text, r.causes = own.Error()+": "+r.text, append(r.causes, own)
	case e.Code == sdk.ResourceExhausted && details.Empty():
		e.Code = sdk.Internal
	default:
		e.Retryable = e.Code == sdk.Unavailable || e.Code == sdk.DeadlineExceeded
	}
	details.Apply(e)
	if own != nil {
		e.Retryable = false
	}
	return e
}

// unclear reports whether a code is one by which a call may fail because its caller has
// left.
func unclear(c sdk.Code) bool {
	switch c {
	case sdk.Canceled, sdk.DeadlineExceeded, sdk.Unavailable, sdk.Unknown, sdk.Internal:
		return true
	}
	return false
}
