package iac

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// trace is what is known of a call besides its error.
type trace struct {
	// sent: there was a connection to send it on.
	sent bool
	// answered: a reply had begun. A refusal has no beginning of a reply, so that an
	// error behind one is of the reply: the plugin did what it was asked.
	answered bool
}

// call makes a call that has one reply. rpc names it, as "Service.Method".
func call[A, B any](ctx context.Context, op, rpc string, in A, f func(context.Context, A, ...grpc.CallOption) (B, error)) (B, error) {
	var head metadata.MD
	var to peer.Peer
	out, err := f(ctx, in, grpc.Header(&head), grpc.Peer(&to))
	if err != nil {
		var none B
		return none, fail(ctx, op, rpc, err, trace{sent: to.Addr != nil, answered: len(head) > 0})
	}
	return out, nil
}

// fail returns the error of a call as the contract's: the code is the status's own,
// which stands for one of the ecosystem's sentinels (ErrResourceNotFound is NotFound,
// ErrRateLimited ResourceExhausted, ErrTransient Unavailable or DeadlineExceeded, and so
// on), and status.FromError finds the status. Fields, a wait and a reason come from the
// details BadRequest, RetryInfo and ErrorInfo of google.rpc, where they are there. The
// caller's own cancel or deadline is never retryable.
//
// https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto
func fail(ctx context.Context, op, rpc string, err error, tr trace) error {
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	for _, d := range st.Details() {
		if _, ours := d.(*providerpb.Error); ours {
			return wire.FromStatus(ctx, op, err) // a plugin of ours says it all
		}
	}
	code := sdk.Code(st.Code())
	if code < sdk.Canceled || code > sdk.Unauthenticated {
		code = sdk.Unknown
	}
	text := st.Message()
	if text == "" {
		text = st.Code().String()
	}
	details := wire.StandardOf(st)
	cause := &remote{st: st, text: rpc + ": " + details.Text(strings.ToValidUTF8(text, "\ufffd"))}
	if len(details.Problems) > 0 {
		cause.causes = append(cause.causes, details.Problems)
	}
	e := &sdk.Error{Code: code, Op: op, Err: cause}
	details.Apply(e)
	if code == sdk.ResourceExhausted && tr.answered {
		e.Code = sdk.Internal // gRPC's own word for a reply that is too long
	}
	own := ended(ctx)
	switch {
	case own != nil && !sdk.IsClear(e.Code):
		e.Code, e.RetryAfter, e.Retryable = sdk.CodeOf(own), 0, false
		cause.causes, cause.text = append(cause.causes, own), own.Error()+": "+cause.text
	case own != nil:
		e.Retryable = false
	case e.Code == sdk.Unavailable:
		e.Retryable, e.Unreached = true, !tr.sent
	case e.Code == sdk.DeadlineExceeded, e.Code == sdk.ResourceExhausted:
		e.Retryable = true
	}
	return e
}

// ended returns the error of a context that has ended or whose time is over, or nil. The
// plugin knows the deadline too, and may see it first.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return nil
}

// remote is what a plugin said.
type remote struct {
	st   *status.Status
	text string
	// causes are the fields at fault, and the caller's own end.
	causes []error
}

func (r *remote) Error() string              { return r.text }
func (r *remote) GRPCStatus() *status.Status { return r.st }
func (r *remote) Unwrap() []error            { return r.causes }

// named puts a provider's name into an error.
func named(err error, provider string) error {
	var e *sdk.Error
	if err == nil || !errors.As(err, &e) || e.Provider != "" {
		return err
	}
	c := *e
	c.Provider = provider
	return &c
}

// tooLong reports whether gRPC refused a message that came for its length.
func tooLong(err error) bool {
	st, ok := status.FromError(err)
	return ok && st.Code() == codes.ResourceExhausted && len(st.Details()) == 0 && strings.Contains(st.Message(), "larger than max")
}

// nonsense is the error of a reply that can't be: it proves nothing.
func (p *provider) nonsense(op, format string, args ...any) error {
	return &sdk.Error{Code: sdk.Internal, Op: op, Provider: p.info.Name, Err: fmt.Errorf("the plugin "+format, args...)}
}
