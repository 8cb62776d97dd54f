// Package reach tells whether any request of a call found a connection. One that
// found none was not sent: what the call would have changed is as it was, however
// little else is known.
package reach

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

type key struct{}

// calls is what is known of the requests made under one context.
type calls struct{ tried, left atomic.Bool }

// Watch returns a context whose HTTP requests are watched. A transport that isn't
// net/http's tells of its own by Tried and Left.
func Watch(ctx context.Context) context.Context {
	c := &calls{}
	ctx = context.WithValue(ctx, key{}, c)
	// GotConn comes once a connection is there to write to: dialled, through the
	// proxy and the TLS handshake.
	// https://pkg.go.dev/net/http/httptrace#ClientTrace
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { c.tried.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { c.left.Store(true) },
	})
}

// Tried notes that a request is about to be made under a context of Watch.
func Tried(ctx context.Context) {
	if c, ok := ctx.Value(key{}).(*calls); ok {
		c.tried.Store(true)
	}
}

// Left notes that a request may have been sent.
func Left(ctx context.Context) {
	if c, ok := ctx.Value(key{}).(*calls); ok {
		c.left.Store(true)
	}
}

// Nothing reports whether requests were made under a context of Watch, and none
// of them was sent.
func Nothing(ctx context.Context) bool {
	c, ok := ctx.Value(key{}).(*calls)
	return ok && c.tried.Load() && !c.left.Load()
}

// Apart returns a context of the same end without values: its requests don't
// count among those of the call that they are made for, such as one for a token.
func Apart(ctx context.Context) context.Context { return apart{ctx} }

// apart is a context itself.
type apart struct{ context.Context } //nolint:containedctx // it wraps one, as the context package does

// Value implements context.Context.
func (apart) Value(any) any { return nil }

// Mark marks the error of a call that was made under ctx where nothing of it was
// sent. endpoint is the configured address of a pocket cloud, empty for the cloud
// itself.
func Mark(ctx context.Context, e *sdk.Error, endpoint string) {
	if !Nothing(ctx) {
		return
	}
	e.Unreached, e.Retryable = true, true
	switch {
	case e.Remedy != "":
	case endpoint != "":
		e.Remedy = Remedy(endpoint)
	default:
		e.Remedy = "check the network, the name's resolution and the proxy that the environment names"
	}
}

// Late makes e the error of a call that had no answer within its own bound, the
// provider's call_timeout; cause says so. endpoint is as in Mark.
func Late(ctx context.Context, e *sdk.Error, cause error, bound time.Duration, endpoint string) {
	e.Code, e.Retryable = sdk.DeadlineExceeded, true
	e.Err = fmt.Errorf("%w (call_timeout %s)", cause, bound)
	if endpoint != "" {
		e.Err = fmt.Errorf("%w from %s", e.Err, endpoint)
		e.Remedy = Remedy(endpoint)
	}
	Mark(ctx, e, endpoint)
}

// Remedy is what to do when a pocket cloud doesn't answer.
func Remedy(endpoint string) string {
	return "is the pocket cloud at " + endpoint + " running? `windlass pocket up` starts one"
}
