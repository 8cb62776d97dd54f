package do

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// errNoAnswer is the cause of a call's own time-out.
var errNoAnswer = errors.New("no answer in time")

// Call makes one call of the API when the budget allows, with the session's
// time-out, and gives its error the class that the contract knows.
func (x *Session) Call(ctx context.Context, op string, f func(ctx context.Context) error) error {
	if err := x.budget.wait(ctx); err != nil {
		return x.mapError(ctx, ctx, op, err)
	}
	return x.Bounded(ctx, op, f)
}

// Bounded is Call for what is no call of the API, and doesn't count as one.
func (x *Session) Bounded(ctx context.Context, op string, f func(ctx context.Context) error) error {
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
	e := &sdk.Error{Op: op, Provider: x.provider, Err: plainly(err)}
	var answer *godo.ErrorResponse
	switch {
	case outer.Err() != nil:
		// The caller gave up; whether the request arrived isn't known.
		e.Code = sdk.CodeOf(outer.Err())
		if !errors.Is(err, outer.Err()) {
			e.Err = fmt.Errorf("%w: %w", outer.Err(), e.Err)
		}
	case errors.As(err, &answer) && answer.Response != nil:
		x.classify(e, answer)
	case errors.Is(context.Cause(inner), errNoAnswer):
		reach.Late(inner, e, errNoAnswer, x.timeout, x.pocket())
	default:
		// A cut connection, or a reply that can't be read, proves nothing.
		e.Code, e.Retryable = sdk.Unavailable, true
		if x.local {
			e.Remedy = reach.Remedy(x.Endpoint)
		}
		reach.Mark(inner, e, x.pocket())
	}
	return e
}

// pocket is the address of a pocket cloud, empty for DigitalOcean itself.
func (x *Session) pocket() string {
	if x.local {
		return x.Endpoint
	}
	return ""
}

func (x *Session) classify(e *sdk.Error, a *godo.ErrorResponse) {
	e.Code, e.Retryable = classOf(a.Response.StatusCode, Text(a))
	e.Err = &told{text: says(a), err: a}
	if after, err := time.ParseDuration(a.Response.Header.Get("Retry-After") + "s"); err == nil && after > 0 {
		e.RetryAfter = min(after, 5*time.Minute)
	}
	switch e.Code {
	case sdk.PermissionDenied:
		e.Remedy = "give the token the scope: `windlass provider check` lists what is missing"
	case sdk.Unauthenticated:
		e.Reason, e.Remedy = sdk.ReasonCredentials, "renew the token: DIGITALOCEAN_TOKEN, or DIGITALOCEAN_ACCESS_TOKEN"
	}
}

// classOf returns the class of an answer, and whether the same call may succeed
// later. An answer of the 500s proves nothing.
// https://docs.digitalocean.com/reference/api/intro/
func classOf(status int, text string) (sdk.Code, bool) {
	switch status {
	case http.StatusUnauthorized:
		return sdk.Unauthenticated, false
	case http.StatusForbidden:
		return sdk.PermissionDenied, false
	case http.StatusNotFound, http.StatusGone:
		return sdk.NotFound, false
	case http.StatusRequestTimeout:
		return sdk.DeadlineExceeded, true
	case http.StatusConflict:
		if Taken(text) {
			return sdk.AlreadyExists, false
		}
		return sdk.Aborted, false
	case http.StatusPreconditionFailed:
		return sdk.Aborted, false
	case http.StatusTooManyRequests:
		return sdk.ResourceExhausted, true
	}
	if status >= 400 && status < 500 {
		return sdk.InvalidArgument, false
	}
	return sdk.Unavailable, true
}

// Taken reports whether a refusal says that a name is taken. No page words it.
func Taken(text string) bool {
	text = strings.ToLower(text)
	for _, word := range []string{"already exist", "already in use", "already taken", "already been taken", "is taken", "must be unique", "not unique", "duplicate"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// told is an error of the vendor's in fewer words.
type told struct {
	text string
	err  error
}

func (t *told) Error() string { return t.text }

func (t *told) Unwrap() error { return t.err }

// maxText bounds what is shown of an answer: it may be a proxy's page.
const maxText = 500

// says is an answer in one line, without the address.
func says(a *godo.ErrorResponse) string {
	text := Text(a)
	if text == "" {
		text = "DigitalOcean answered with " + strings.TrimSpace(fmt.Sprint(a.Response.StatusCode, " ", http.StatusText(a.Response.StatusCode)))
	}
	if a.RequestID != "" {
		text += " (request " + a.RequestID + ")"
	}
	return text
}

// Text returns DigitalOcean's own message of an error, or nothing.
func Text(err error) string {
	var a *godo.ErrorResponse
	if !errors.As(err, &a) {
		return ""
	}
	text := a.Message
	if text == "" && a.NestedError != nil {
		text = a.NestedError.Message
	}
	if text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " "); len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return text
}

// Status returns the HTTP status of DigitalOcean's answer, 0 for none.
func Status(err error) int {
	var a *godo.ErrorResponse
	if errors.As(err, &a) && a.Response != nil {
		return a.Response.StatusCode
	}
	return 0
}

// plainly leaves addresses out of errors: those of logs hold a token. The cause
// stays.
func plainly(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) {
		return &told{"DigitalOcean's reply can't be read", err}
	}
	return err
}
