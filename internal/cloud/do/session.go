package do

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// API is the address of DigitalOcean itself.
// https://docs.digitalocean.com/reference/api/digitalocean/
const API = "https://api.digitalocean.com"

// defaultCall bounds a call where nothing else does.
const defaultCall = 30 * time.Second

const opOpen = "open provider"

// Settings are what a session is opened with.
type Settings struct {
	// Provider is the configured name, for errors.
	Provider string
	// Endpoint stands in the provider's config and is on this machine; empty is
	// DigitalOcean itself.
	Endpoint string
	// Credentials are variables by name (DIGITALOCEAN_TOKEN, ...).
	Credentials map[string]string
	// Ambient allows the token that doctl has stored.
	Ambient bool
	// CallTimeout bounds a call; zero is 30 s.
	CallTimeout time.Duration
	// StateDir, when not empty, is a private folder where the team of a token is
	// kept, so that it is asked for once.
	StateDir string
	// Budgets are the calls that the session shares with others of its token.
	Budgets *Budgets
	// PerMinute and PerHour are the most calls of the token; zero is the default.
	PerMinute, PerHour int
}

// Session is a configured way to DigitalOcean. It is safe for concurrent use.
type Session struct {
	// Client makes the calls, each once, and only inside of Call.
	Client *godo.Client
	// Endpoint is where it leads. Team is the UUID of the token's team, whose
	// the apps are.
	Endpoint, Team string

	provider  string
	timeout   time.Duration
	local     bool
	transport *http.Transport
	budget    *allowance
}

// Open makes a session. Where the token's team isn't known from an earlier
// session it is asked for: the identity of a provider never changes while it is
// open.
func Open(ctx context.Context, s Settings) (*Session, error) {
	if s.CallTimeout <= 0 {
		s.CallTimeout = defaultCall
	}
	if s.Endpoint != "" && !loopback(s.Endpoint) {
		return nil, s.problem("config.endpoint", fmt.Errorf("%q is not on this machine", s.Endpoint),
			"leave it out for DigitalOcean itself; an endpoint is for a pocket cloud, such as http://127.0.0.1:8086")
	}
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	x := &Session{Endpoint: strings.TrimRight(cmp.Or(s.Endpoint, API), "/"), provider: s.Provider, timeout: s.CallTimeout, local: s.Endpoint != "",
		transport: newTransport(s.Endpoint != ""), budget: s.Budgets.of(token, s.Endpoint, s.PerMinute, s.PerHour)}
	base, err := url.Parse(x.Endpoint + "/")
	if err != nil {
		return nil, s.problem("config.endpoint", err, "")
	}
	// Without godo's RetryConfig nothing is sent twice.
	x.Client, err = godo.New(&http.Client{Transport: &signed{base: x.transport, to: base, token: token}, CheckRedirect: noRedirects},
		godo.SetBaseURL(base.String()), godo.SetUserAgent("windlass"))
	if err != nil {
		return nil, s.problem("", err, "")
	}
	x.Client.OnRequestCompleted(func(_ *http.Request, r *http.Response) { x.budget.heard(r) })
	if x.Team, err = x.team(ctx, s, token); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

func (s Settings) problem(field string, err error, remedy string) error {
	return &sdk.Error{Code: sdk.InvalidArgument, Op: opOpen, Provider: s.Provider, Field: field, Err: err, Remedy: remedy}
}

// Close frees idle connections.
func (x *Session) Close() { x.transport.CloseIdleConnections() }

// noRedirects: the API sends none, and a call with a token goes nowhere else.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func newTransport(local bool) *http.Transport {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		HTTP2:                 reach.Pings(),
		MaxIdleConns:          64,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       50 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if local {
		t.Proxy = nil // the address as it stands
	}
	return t
}

// signed adds the token to calls that go where it belongs.
type signed struct {
	base  http.RoundTripper
	to    *url.URL
	token string
}

// RoundTrip implements http.RoundTripper.
func (s *signed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != s.to.Scheme || r.URL.Host != s.to.Host {
		if r.Body != nil {
			_ = r.Body.Close() // nothing of it was read
		}
		return nil, fmt.Errorf("the token is not for %s", r.URL.Host)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+s.token)
	return s.base.RoundTrip(r)
}

// token returns the token that was handed over, else doctl's where the ambient
// one is allowed.
func (s Settings) token() (string, error) {
	text := cmp.Or(s.Credentials["DIGITALOCEAN_TOKEN"], s.Credentials["DIGITALOCEAN_ACCESS_TOKEN"])
	if text == "" && s.Ambient {
		var err error
		if text, err = doctlToken(s.Credentials); err != nil {
			return "", &sdk.Error{Code: sdk.Unauthenticated, Op: opOpen, Provider: s.Provider, Err: err, Reason: sdk.ReasonCredentials,
				Remedy: "log in with `doctl auth init`, or set DIGITALOCEAN_TOKEN"}
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", &sdk.Error{Code: sdk.Unauthenticated, Op: opOpen, Provider: s.Provider, Err: errors.New("there is no token"), Reason: sdk.ReasonCredentials,
			Remedy: "set DIGITALOCEAN_TOKEN or DIGITALOCEAN_ACCESS_TOKEN; or write credentials: ambient in the provider's entry"}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", &sdk.Error{Code: sdk.Unauthenticated, Op: opOpen, Provider: s.Provider, Err: errors.New("the token has characters that no token has"),
			Reason: sdk.ReasonCredentials, Remedy: "set DIGITALOCEAN_TOKEN to a personal access token, dop_v1_..."}
	}
	return text, nil
}

// loopback reports whether a URL surely leads to this machine.
func loopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil || u.User != nil || u.Scheme != "http" && u.Scheme != "https" || u.Port() == "" || strings.Trim(u.Path, "/") != "" {
		return false
	}
	return local(u)
}

func local(u *url.URL) bool {
	if u.Hostname() == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}
