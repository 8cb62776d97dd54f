package gcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// errNoAnswer is the cause of a call's own time-out.
var errNoAnswer = errors.New("no answer in time")

// Call makes one call with the session's time-out, and gives its error the
// class that the contract knows.
func (x *Session) Call(ctx context.Context, op string, f func(ctx context.Context) error) error {
	if ctx.Err() != nil {
		return x.mapError(ctx, ctx, op, ctx.Err())
	}
	inner, cancel := context.WithTimeout(reach.Watch(ctx), x.timeout)
	defer cancel()
	return x.mapError(ctx, inner, op, f(inner))
}

// mapError gives an error its class. outer is the caller's context, inner the
// one that the call's own bound may have ended.
func (x *Session) mapError(outer, inner context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	var known *sdk.Error
	if errors.As(err, &known) {
		return err
	}
	e := &sdk.Error{Op: op, Provider: x.provider, Err: err}
	var cred *noCredentials
	switch {
	case ended(outer) != nil:
		// The caller gave up; whether the request arrived isn't known.
		e.Code = sdk.CodeOf(ended(outer))
		if !errors.Is(err, ended(outer)) {
			e.Err = fmt.Errorf("%w: %w", ended(outer), err)
		}
	case errors.As(err, &cred):
		e.Code, e.Reason, e.Remedy = sdk.Unauthenticated, sdk.ReasonCredentials, "check the credentials that the provider uses"
		if cred.unheard {
			e.Code, e.Reason, e.Remedy, e.Retryable, e.Unreached = sdk.Unavailable, "", "", true, true
		}
	case ended(inner) != nil:
		reach.Late(inner, e, errNoAnswer, x.timeout, x.Endpoint)
		e.Err = fmt.Errorf("%w: %w", e.Err, plainly(err)) // gRPC says why there was no connection
	default:
		x.classify(e, err)
		reach.Mark(inner, e, x.Endpoint)
	}
	return e
}

// ended is ctx.Err(), and that of a deadline that has passed though its timer
// hasn't fired: the server counts the same deadline, and may be the first to
// end the call.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return context.DeadlineExceeded
	}
	return nil
}

// classify takes the code as Google gives it: the contract's codes are gRPC's.
// https://cloud.google.com/apis/design/errors
func (x *Session) classify(e *sdk.Error, err error) {
	st, ok := status.FromError(err)
	if !ok {
		e.Code, e.Retryable = sdk.Unavailable, true
		return
	}
	e.Code, e.Err = codeOf(st.Code()), plainly(err)
	switch e.Code {
	case sdk.Unavailable, sdk.Internal, sdk.Unknown, sdk.DeadlineExceeded:
		e.Retryable = true
		if x.Endpoint != "" && e.Code == sdk.Unavailable {
			e.Remedy = reach.Remedy(x.Endpoint)
		}
	case sdk.ResourceExhausted:
		e.Retryable = true
	case sdk.PermissionDenied:
		e.Remedy = "let the credentials do it: `windlass provider check` lists what is missing"
	case sdk.Unauthenticated:
		e.Remedy = "renew the credentials"
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			e.RetryAfter = min(max(info.GetRetryDelay().AsDuration(), 0), 5*time.Minute)
		}
	}
}

// codeOf is the contract's code of a status. A call that the server says was
// cancelled, though nobody here did, proves nothing.
func codeOf(c codes.Code) sdk.Code {
	if c == codes.OK || c == codes.Canceled || c > codes.Unauthenticated {
		return sdk.Unavailable
	}
	return sdk.Code(c)
}

// connecting finds gRPC's words around a connection that failed.
var connecting = form(`connection error: desc = "(?:transport: (?:Error while dialing: )?)?(.*)"$`)

// plainly returns the message of a status without the words of the client's
// layers.
func plainly(err error) error {
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	text := strings.Join(strings.Fields(st.Message()), " ")
	return &told{text: connecting().ReplaceAllString(text, "$1"), err: err}
}

// sent tells reach of gRPC's requests.
type sent struct{}

// TagRPC implements stats.Handler.
func (sent) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler. The header comes before all else that is
// sent, and only once there is a connection for it.
// https://pkg.go.dev/google.golang.org/grpc/stats#OutHeader
func (sent) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.Begin:
		reach.Tried(ctx)
	case *stats.OutHeader:
		reach.Left(ctx)
	}
}

// TagConn implements stats.Handler.
func (sent) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (sent) HandleConn(context.Context, stats.ConnStats) {}

// told is Google's own message without the client's words around it.
type told struct {
	text string
	err  error
}

func (t *told) Error() string { return t.text }

func (t *told) Unwrap() error { return t.err }

// Text returns Google's own message of an error, or nothing.
func Text(err error) string {
	var t *told
	if errors.As(err, &t) {
		return t.text
	}
	return ""
}
