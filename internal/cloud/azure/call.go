package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// errNoAnswer is the cause of a call's own time-out.
var errNoAnswer = errors.New("no answer in time")

// maxWait bounds what a server may ask to wait.
const maxWait = 15 * time.Minute

// Call makes one call with the session's time-out, and gives its error the
// class that the contract knows.
func (x *Session) Call(ctx context.Context, op string, f func(ctx context.Context) error) error {
	if ctx.Err() != nil {
		return x.mapError(ctx, ctx, op, ctx.Err())
	}
	inner, cancel := context.WithTimeoutCause(reach.Watch(ctx), x.timeout, errNoAnswer)
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
	var answer *azcore.ResponseError
	var none *noToken
	switch {
	case outer.Err() != nil:
		// The caller gave up; whether the request arrived isn't known.
		e.Code = sdk.CodeOf(outer.Err())
		if !errors.Is(err, outer.Err()) {
			e.Err = fmt.Errorf("%w: %w", outer.Err(), err)
		}
	case errors.As(err, &none):
		x.tokenError(e, none)
	case errors.Is(context.Cause(inner), errNoAnswer):
		reach.Late(inner, e, errNoAnswer, x.timeout, x.Endpoint)
	case errors.As(err, &answer):
		classify(e, answer)
	default:
		e.Code, e.Retryable = sdk.Unavailable, true
		if x.Endpoint != "" {
			e.Remedy = reach.Remedy(x.Endpoint)
		}
		reach.Mark(inner, e, x.Endpoint)
	}
	return e
}

// tokenError is for calls that were not made, for there was no token.
func (x *Session) tokenError(e *sdk.Error, none *noToken) {
	e.Code, e.Reason, e.Remedy = sdk.Unauthenticated, sdk.ReasonCredentials, "check the credentials that the provider uses"
	var failed *azidentity.AuthenticationFailedError
	if !errors.As(none.err, &failed) || failed.RawResponse == nil {
		e.Err = &noToken{err: errors.New(oneLine(none.err.Error()))}
		// Credentials that nobody has looked at may be right; and without a token the
		// call itself wasn't sent.
		switch {
		case none.unreached:
			e.Code, e.Reason, e.Remedy, e.Retryable, e.Unreached = sdk.Unavailable, "", "", true, true
			if x.Endpoint != "" {
				e.Remedy = reach.Remedy(x.Endpoint)
			}
		case none.silent: // it is there, so that it may answer soon
			e.Code, e.Reason, e.Remedy, e.Retryable = sdk.Aborted, "", "", true
		}
		return
	}
	res := failed.RawResponse
	e.Err = &noToken{err: errors.New(authorityText(res))}
	if res.StatusCode >= http.StatusInternalServerError || res.StatusCode == http.StatusTooManyRequests {
		// It is the authority that is at fault, or busy, and not what it was shown.
		e.Code, e.Reason, e.Remedy, e.Retryable, e.RetryAfter = sdk.Unavailable, "", "", true, retryAfter(res.Header)
	}
}

// authorityText is what the authority says, without the dump of its answer.
// https://learn.microsoft.com/en-us/entra/identity-platform/reference-error-codes
func authorityText(res *http.Response) string {
	var body struct {
		Description string `json:"error_description"`
	}
	if data, err := runtime.Payload(res); err == nil && json.Unmarshal(data, &body) == nil && body.Description != "" {
		text, _, _ := strings.Cut(strings.TrimSpace(body.Description), "\n")
		return oneLine(text)
	}
	return "the authority answers " + res.Status
}

// classify takes the code by the answer's status; where Resource Manager's own
// code tells more, the caller knows it by CodeText.
// https://learn.microsoft.com/en-us/azure/azure-resource-manager/troubleshooting/common-deployment-errors
func classify(e *sdk.Error, r *azcore.ResponseError) {
	e.Code, e.Err = codeOf(r.StatusCode), &told{code: r.ErrorCode, text: textOf(r), err: r}
	switch e.Code {
	case sdk.Unavailable, sdk.DeadlineExceeded, sdk.Internal:
		e.Retryable = true
	case sdk.ResourceExhausted:
		e.Retryable = true
	case sdk.PermissionDenied:
		e.Remedy = "let the credentials do it: `windlass provider check` lists what is missing"
	case sdk.Unauthenticated:
		e.Remedy = "renew the credentials"
	}
	switch r.ErrorCode {
	case "MissingSubscriptionRegistration", "SubscriptionNotRegistered":
		e.Code, e.Remedy = sdk.FailedPrecondition, "register it: `az provider register --namespace Microsoft.ContainerInstance`"
	case "ResourceGroupNotFound":
		e.Remedy = "make the resource group, or name one that there is"
	case "SubscriptionNotFound":
		e.Remedy = "check the subscription's ID, and that the credentials have a role in it"
	}
	if r.RawResponse != nil {
		e.RetryAfter = retryAfter(r.RawResponse.Header)
	}
}

// codeOf is the contract's code of an HTTP status.
func codeOf(status int) sdk.Code {
	switch status {
	case http.StatusUnauthorized:
		return sdk.Unauthenticated
	case http.StatusForbidden:
		return sdk.PermissionDenied
	case http.StatusNotFound, http.StatusGone:
		return sdk.NotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return sdk.Aborted
	case http.StatusTooManyRequests:
		return sdk.ResourceExhausted
	case http.StatusRequestTimeout:
		return sdk.DeadlineExceeded
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return sdk.Unimplemented
	}
	if status >= 400 && status < 500 {
		return sdk.InvalidArgument
	}
	return sdk.Unavailable
}

// told is Azure's own code and message without the client's words around them.
type told struct {
	code, text string
	err        error
}

func (t *told) Error() string {
	if t.code == "" || strings.Contains(t.text, t.code) {
		return t.text
	}
	return t.code + ": " + t.text
}

func (t *told) Unwrap() error { return t.err }

// CodeText returns Azure's own code and message of an error, or nothing.
func CodeText(err error) (code, text string) {
	var t *told
	if errors.As(err, &t) {
		return t.code, t.text
	}
	return "", ""
}

// textOf reads the message of an answer, and the most telling of its details.
// https://github.com/cloud-and-ai-microsoft/resource-provider-contract/blob/master/v1.0/common-api-details.md#error-response-content
func textOf(r *azcore.ResponseError) string {
	type part struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	var body struct {
		Error struct {
			part
			Details []part `json:"details"`
		} `json:"error"`
	}
	text := ""
	if json.Unmarshal(bodyOf(r), &body) == nil {
		text = oneLine(body.Error.Message)
		for _, d := range body.Error.Details {
			if m := oneLine(d.Message); m != "" && !strings.Contains(text, m) {
				text = strings.TrimSpace(text + " " + m)
			}
		}
	}
	return cmp.Or(text, fmt.Sprintf("HTTP status %d", r.StatusCode))
}

// bodyOf returns an answer's body, which the vendor's client has read and kept.
func bodyOf(r *azcore.ResponseError) []byte {
	if r.RawResponse == nil || r.RawResponse.Body == nil {
		return nil
	}
	data, err := runtime.Payload(r.RawResponse)
	if err != nil {
		return nil
	}
	return data
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// retryAfter reads how long the server asks to wait.
// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/request-limits-and-throttling#error-code
func retryAfter(h http.Header) time.Duration {
	d := time.Duration(0)
	if ms, err := strconv.ParseInt(cmp.Or(h.Get("Retry-After-Ms"), h.Get("X-Ms-Retry-After-Ms")), 10, 32); err == nil {
		d = time.Duration(ms) * time.Millisecond
	} else if s, err := strconv.ParseInt(h.Get("Retry-After"), 10, 32); err == nil {
		d = time.Duration(s) * time.Second
	}
	return min(max(d, 0), maxWait)
}
