// Package docker reaches Docker engines for the drivers that use them: which
// engine is meant, how a call to it is bounded, and what its errors mean.
//
// Nothing here reads the process's environment. What a user's variables say
// comes in as credentials, and the vendor's own files are read only where the
// user allowed or named them.
package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"

	"github.com/windlass-run/windlass/sdk"
)

const (
	// MinAPIVersion is the oldest engine API that is spoken: Docker 20.10.
	MinAPIVersion = "1.41"
	// DefaultCallTimeout bounds one call where nothing else is configured.
	DefaultCallTimeout = 30 * time.Second

	maxIdleConns = 64
	idleTimeout  = 30 * time.Second
	dialTimeout  = 10 * time.Second
	keepAlive    = 30 * time.Second
)

// errNoAnswer is the cause of a context that a call's own bound has ended.
var errNoAnswer = errors.New("the engine didn't answer in time")

// Client is a connection to one engine. It is safe for concurrent use. No call
// is ever repeated: what to do after an unclear answer is the caller's matter.
type Client struct {
	api      *client.Client
	endpoint Endpoint
	provider string
	timeout  time.Duration

	// negotiating holds one token; whoever has it asks for the API version.
	negotiating chan struct{}
	negotiated  atomic.Bool

	outages outages
}

// New returns a client. It reaches no network. The provider's name goes into
// errors; a timeout of zero is DefaultCallTimeout.
func New(e Endpoint, provider string, timeout time.Duration) (*Client, error) {
	if timeout <= 0 {
		timeout = DefaultCallTimeout
	}
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext,
		MaxIdleConns:        maxIdleConns,
		MaxIdleConnsPerHost: maxIdleConns,
		IdleConnTimeout:     idleTimeout,
		TLSClientConfig:     e.TLS,
		TLSHandshakeTimeout: dialTimeout,
	}
	api, err := client.New(
		client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}),
		client.WithHost(e.Host),
	)
	if err != nil {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "open engine", Provider: provider, Field: "host",
			Remedy: "write unix:///PATH or tcp://HOST:PORT", Err: err}
	}
	c := &Client{api: api, endpoint: e, provider: provider, timeout: timeout, negotiating: make(chan struct{}, 1)}
	c.negotiating <- struct{}{}
	return c, nil
}

// Endpoint returns the engine's address.
func (c *Client) Endpoint() Endpoint { return c.endpoint }

// Timeout returns the bound of one call.
func (c *Client) Timeout() time.Duration { return c.timeout }

// APIVersion returns the version that was agreed on, or nothing before the
// first call.
func (c *Client) APIVersion() string {
	if !c.negotiated.Load() {
		return ""
	}
	return c.api.ClientVersion()
}

// AtLeast reports whether the agreed API version is v or newer; before the
// first call it is false.
func (c *Client) AtLeast(v string) bool {
	have := c.APIVersion()
	return have != "" && versions.GreaterThanOrEqualTo(have, v)
}

// Close gives up idle connections.
func (c *Client) Close() error { return c.api.Close() }

// Call does one request. It ends when ctx does, and after the call timeout at
// the latest. The error is an *sdk.Error with the vendor's own within.
func (c *Client) Call(ctx context.Context, op string, f func(ctx context.Context, api *client.Client) error) error {
	return c.bounded(ctx, op, c.timeout, f)
}

// Long is Call without a bound on the request itself, for those that may
// rightly take long, such as a pull. Finding the engine is bounded all the same.
func (c *Client) Long(ctx context.Context, op string, f func(ctx context.Context, api *client.Client) error) error {
	return c.bounded(ctx, op, 0, f)
}

func (c *Client) bounded(ctx context.Context, op string, timeout time.Duration, f func(ctx context.Context, api *client.Client) error) error {
	if err := c.ready(ctx, op); err != nil {
		return err
	}
	inner := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		inner, cancel = context.WithTimeoutCause(ctx, timeout, errNoAnswer)
		defer cancel()
	}
	if err := f(inner, c.api); err != nil {
		return c.mapError(ctx, inner, op, err)
	}
	c.outages.heard(time.Now())
	return nil
}

// Stream opens a stream: f returns once the engine has answered, which the call
// timeout bounds, and what it opened then lives as long as the context that f
// was given. That context ends with ctx, or when release is called, which the
// caller must do.
func (c *Client) Stream(ctx context.Context, op string, f func(ctx context.Context, api *client.Client) error) (release context.CancelFunc, err error) {
	if err := c.ready(ctx, op); err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(c.timeout, func() { cancel(errNoAnswer) })
	if err := f(inner, c.api); err != nil {
		timer.Stop()
		err = c.mapError(ctx, inner, op, err)
		cancel(nil)
		return nil, err
	}
	if !timer.Stop() {
		cancel(nil)
		return nil, c.mapError(ctx, inner, op, errNoAnswer)
	}
	return func() { cancel(nil) }, nil
}

// ready agrees on the API version, once. The vendor's client would do so inside
// the first request, but it hides the failure and waits under a lock.
func (c *Client) ready(ctx context.Context, op string) error {
	if c.negotiated.Load() {
		return nil
	}
	select {
	case <-ctx.Done():
		return c.mapError(ctx, ctx, op, ctx.Err())
	case <-c.negotiating:
	}
	defer func() { c.negotiating <- struct{}{} }()
	if c.negotiated.Load() {
		return nil
	}
	inner, cancel := context.WithTimeoutCause(ctx, c.timeout, errNoAnswer)
	defer cancel()
	ping, err := c.api.Ping(inner, client.PingOptions{NegotiateAPIVersion: true})
	if ping.APIVersion != "" && versions.LessThan(ping.APIVersion, MinAPIVersion) {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: op, Provider: c.provider, Remedy: "upgrade it to Docker 20.10 or later",
			Err: fmt.Errorf("the engine at %s speaks API %s, the oldest that is known here is %s", c.endpoint.Host, ping.APIVersion, MinAPIVersion)}
	}
	if err != nil {
		return c.mapError(ctx, inner, op, err)
	}
	c.negotiated.Store(true)
	return nil
}
