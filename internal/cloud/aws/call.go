package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// errNoAnswer is the cause of a call's own time-out.
var errNoAnswer = errors.New("no answer in time")

// Call makes one call with the session's time-out, and gives its error the
// class that the contract knows. A request that was refused because this
// machine's clock is wrong is sent once more: the vendor's client has learnt the
// difference from the refusal, which changed nothing.
func (x *Session) Call(ctx context.Context, op string, f func(ctx context.Context) error) error {
	if ctx.Err() != nil {
		return x.mapError(ctx, ctx, op, ctx.Err())
	}
	inner, cancel := context.WithTimeoutCause(reach.Watch(ctx), x.timeout, errNoAnswer)
	defer cancel()
	err := f(inner)
	if skewed(err) {
		err = f(inner)
	}
	return x.mapError(ctx, inner, op, err)
}

// Paced makes a call when its budget allows.
func (x *Session) Paced(ctx context.Context, b *Budget, op string, f func(ctx context.Context) error) error {
	if err := b.Wait(ctx); err != nil {
		return x.Fail(ctx, op, err)
	}
	return x.Spend(ctx, b, op, f)
}

// Spend makes a call for which its budget has been waited for.
func (x *Session) Spend(ctx context.Context, b *Budget, op string, f func(ctx context.Context) error) error {
	err := x.Call(ctx, op, f)
	if sdk.CodeOf(err) == sdk.ResourceExhausted {
		b.Throttled()
	}
	return err
}

// Fail gives the error of a wait between calls its class. A call's own error has
// one, and stays.
func (x *Session) Fail(ctx context.Context, op string, err error) error {
	return x.mapError(ctx, ctx, op, err)
}

// ErrorCode returns the vendor's own name of an error, such as
// "ClientException", or nothing.
func ErrorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// ErrorText returns the vendor's own message, or nothing.
func ErrorText(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorMessage()
	}
	return ""
}

// skewed reports whether a request was refused for its time.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/signature-v4-troubleshooting.html
func skewed(err error) bool {
	switch ErrorCode(err) {
	case "RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture", "InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure":
		return true
	}
	return false
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
	switch {
	case outer.Err() != nil:
		// The caller gave up; whether the request arrived isn't known.
		e.Code = sdk.CodeOf(outer.Err())
		if !errors.Is(err, outer.Err()) {
			e.Err = fmt.Errorf("%w: %w", outer.Err(), err)
		}
	case errors.Is(context.Cause(inner), errNoAnswer):
		reach.Late(inner, e, errNoAnswer, x.timeout, x.Endpoint)
	default:
		x.classify(e, err)
		e.Err = plainly(err)
		if e.Code == sdk.Unavailable && x.Endpoint != "" && ErrorCode(err) == "" {
			e.Remedy = reach.Remedy(x.Endpoint)
		}
		reach.Mark(inner, e, x.Endpoint)
	}
	return e
}

// told is an error of the vendor's in fewer words.
type told struct {
	text string
	err  error
}

func (t *told) Error() string { return t.text }

func (t *told) Unwrap() error { return t.err }

// plainly says what was called and what came of it: the vendor's own text names
// layers of its client. The vendor's errors stay beneath.
func plainly(err error) error {
	var op *smithy.OperationError
	if !errors.As(err, &op) {
		return err
	}
	call := op.Service() + " " + op.Operation() + ": "
	var api smithy.APIError
	var send *smithyhttp.RequestSendError
	switch {
	case errors.As(err, &api):
		text := call + api.ErrorCode() + ": " + api.ErrorMessage()
		var response *awshttp.ResponseError
		if errors.As(err, &response) && response.ServiceRequestID() != "" {
			text += " (request " + response.ServiceRequestID() + ")"
		}
		return &told{text, err}
	case errors.As(err, &send):
		return &told{call + send.Err.Error(), err}
	}
	return err
}

func (x *Session) classify(e *sdk.Error, err error) {
	var cred *noCredentials
	if errors.As(err, &cred) {
		e.Code, e.Reason, e.Remedy = sdk.Unauthenticated, sdk.ReasonCredentials, "check the credentials that the provider uses"
		return
	}
	status := 0
	var response *awshttp.ResponseError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
		if after, aerr := time.ParseDuration(response.Response.Header.Get("Retry-After") + "s"); aerr == nil && after > 0 {
			e.RetryAfter = min(after, 5*time.Minute)
		}
	}
	code := ErrorCode(err)
	e.Code, e.Retryable = classOf(code, status)
	switch e.Code {
	case sdk.PermissionDenied:
		e.Remedy = "let the credentials do it: `windlass provider check` lists what is missing"
	case sdk.Unauthenticated:
		e.Remedy = "renew the credentials"
	}
}

// classOf returns the class of an answer, and whether the same call may succeed
// later. An answer of the 500s, and no answer at all, prove nothing.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/CommonErrors.html
func classOf(code string, status int) (sdk.Code, bool) {
	switch code {
	case "AccessDeniedException", "AccessDenied", "UnauthorizedOperation", "NotAuthorized", "OptInRequired", "BlockedException":
		return sdk.PermissionDenied, false
	case "UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure",
		"ExpiredToken", "ExpiredTokenException", "MissingAuthenticationToken", "MissingAuthenticationTokenException",
		"IncompleteSignature", "IncompleteSignatureException", "RequestExpired", "RequestTimeTooSkewed", "RequestInTheFuture":
		return sdk.Unauthenticated, false
	case "ThrottlingException", "Throttling", "ThrottledException", "TooManyRequestsException", "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException", "SlowDown":
		return sdk.ResourceExhausted, true
	case "ServerException", "InternalFailure", "InternalServerError", "InternalServiceError", "ServiceUnavailable", "ServiceUnavailableException":
		return sdk.Unavailable, true
	case "ClusterNotFoundException", "ResourceNotFoundException", "ParameterNotFound", "ServiceNotFoundException":
		return sdk.NotFound, false
	case "ConflictException":
		return sdk.Aborted, false
	case "LimitExceededException":
		return sdk.ResourceExhausted, false
	}
	switch {
	case status == 0 && code == "":
		return sdk.Unavailable, true
	case status >= 500:
		return sdk.Unavailable, true
	case status == http.StatusTooManyRequests:
		return sdk.ResourceExhausted, true
	case status == http.StatusUnauthorized:
		return sdk.Unauthenticated, false
	case status == http.StatusForbidden:
		return sdk.PermissionDenied, false
	case status == http.StatusNotFound:
		return sdk.NotFound, false
	case status == http.StatusConflict:
		return sdk.Aborted, false
	case status >= 400 && code != "":
		return sdk.InvalidArgument, false
	}
	// An answer that can't be read.
	return sdk.Unavailable, true
}
