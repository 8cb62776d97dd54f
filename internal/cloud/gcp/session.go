package gcp

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
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/windlass-run/windlass/sdk"
)

// defaultCall bounds a call where nothing else does.
const defaultCall = 30 * time.Second

// maxReply is the largest reply: a page of 1,000 log entries may have megabytes.
const maxReply = 64 << 20

// Settings are what a session is opened with.
type Settings struct {
	// Provider is the configured name, for errors.
	Provider string
	// Project, Region and Endpoint stand in the provider's config; each may be
	// empty. An endpoint takes every service's calls and is on this machine.
	Project, Region, Endpoint string
	// Regionless is a session that has no region: none is asked for.
	Regionless bool
	// Scopes are wanted of tokens besides that of all calls.
	Scopes []string
	// Credentials are variables by name (GOOGLE_APPLICATION_CREDENTIALS, ...).
	Credentials map[string]string
	// Ambient allows gcloud's own login and the metadata server.
	Ambient bool
	// CallTimeout bounds a call; zero is 30 s.
	CallTimeout time.Duration
}

// Session is a configured way to Google Cloud. It is safe for concurrent use.
type Session struct {
	// Project, Region and Endpoint say where the session leads; an empty
	// endpoint is Google itself.
	Project, Region, Endpoint string

	provider string
	timeout  time.Duration
	tokens   oauth2.TokenSource
	quota    string
	conns    []*grpc.ClientConn
}

// Open makes a session. It makes no call.
func Open(ctx context.Context, s Settings) (*Session, error) {
	if s.CallTimeout <= 0 {
		s.CallTimeout = defaultCall
	}
	if s.Endpoint != "" && !loopback(s.Endpoint) {
		return nil, s.problem("config.endpoint", fmt.Errorf("%q is not on this machine", s.Endpoint),
			"leave it out for Google Cloud itself; an endpoint is for a pocket cloud, http://127.0.0.1:PORT, as `windlass pocket up --write FILE` writes it")
	}
	tokens, project, err := withCredentials(ctx, s)
	if err != nil {
		return nil, err
	}
	x := &Session{Endpoint: s.Endpoint, provider: s.Provider, timeout: s.CallTimeout, tokens: tokens, quota: s.Credentials["GOOGLE_CLOUD_QUOTA_PROJECT"],
		Project: cmp.Or(s.Project, s.Credentials["GOOGLE_CLOUD_PROJECT"], project), Region: cmp.Or(s.Region, s.Credentials["GOOGLE_CLOUD_REGION"])}
	switch {
	case x.Project == "":
		return nil, s.problem("config.project", errors.New("no project is set"), "set project under config:, or GOOGLE_CLOUD_PROJECT")
	case !projectID().MatchString(x.Project):
		return nil, s.problem("config.project", fmt.Errorf("%q is no project's ID", x.Project), "an ID has 6 to 30 lowercase letters, digits and hyphens; it is neither the project's name nor its number")
	case s.Regionless:
	case x.Region == "":
		return nil, s.problem("config.region", errors.New("no region is set"), "set region under config:, or GOOGLE_CLOUD_REGION")
	case !regionName().MatchString(x.Region):
		return nil, s.problem("config.region", fmt.Errorf("%q is no region", x.Region), "write it as in europe-west1")
	}
	return x, nil
}

var (
	// https://cloud.google.com/resource-manager/docs/creating-managing-projects
	projectID  = form(`^([a-z][a-z0-9.-]*:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	regionName = form(`^[a-z]+-[a-z]+[0-9]{1,2}$`)
)

// form compiles a pattern when it is first needed: most starts of the program
// need none.
func form(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

func (s Settings) problem(field string, err error, remedy string) error {
	return &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: s.Provider, Field: field, Err: err, Remedy: remedy}
}

// Connect returns a connection to a service, such as run.googleapis.com. It
// connects with the first call, and again when it was cut; it repeats no call.
// Close closes it. routing is the parameters by which Google routes calls, such
// as "location=europe-west1"; empty for none.
// https://google.aip.dev/client-libraries/4222
func (x *Session) Connect(service, routing string) (*grpc.ClientConn, error) {
	target, creds := "dns:///"+service+":443", credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	if x.Endpoint != "" {
		u, err := url.Parse(x.Endpoint)
		if err != nil {
			return nil, fmt.Errorf("endpoint: %w", err)
		}
		// The address as it stands, without the proxies of the environment.
		target = "passthrough:///" + u.Host
		if u.Scheme == "http" {
			creds = insecure.NewCredentials()
		}
	}
	opts := append(reconnecting(), grpc.WithTransportCredentials(creds), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithUserAgent("windlass"), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)), grpc.WithUnaryInterceptor(x.signed(routing)),
		grpc.WithStatsHandler(sent{}))
	if x.Endpoint != "" {
		opts = append(opts, grpc.WithNoProxy(), grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}))
	}
	conn, err := grpc.NewClient(target, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", service, err)
	}
	x.conns = append(x.conns, conn)
	return conn, nil
}

// reconnecting makes a connection that was lost come back soon after the service
// does: until it has, every call fails at once, and gRPC's own waits grow to two
// minutes. A service that has fallen silent is found out within a call's own time;
// pings go only where a call has waited for long, so that no server takes them for
// too many.
// https://github.com/grpc/grpc/blob/master/doc/connection-backoff.md
// https://github.com/grpc/grpc/blob/master/doc/keepalive.md
func reconnecting() []grpc.DialOption {
	wait := backoff.DefaultConfig
	wait.MaxDelay = 5 * time.Second
	return []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: wait, MinConnectTimeout: 10 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 8 * time.Second}),
	}
}

// signed adds an access token and Google's headers to each call. A token that
// can't be had is an error of its own kind: nothing was sent.
func (x *Session) signed(routing string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		token, err := x.token(ctx)
		if err != nil {
			return err
		}
		headers := []string{"authorization", token.Type() + " " + token.AccessToken}
		if routing != "" {
			headers = append(headers, "x-goog-request-params", routing)
		}
		if x.quota != "" {
			headers = append(headers, "x-goog-user-project", x.quota)
		}
		return invoke(metadata.AppendToOutgoingContext(ctx, headers...), method, request, reply, conn, opts...)
	}
}

// token returns an access token. The vendor's source takes no context, so that
// an exchange that hangs outlives the call that asked for it.
func (x *Session) token(ctx context.Context) (*oauth2.Token, error) {
	type answer struct {
		token *oauth2.Token
		err   error
	}
	if s, ok := x.tokens.(fixed); ok {
		return s.Token()
	}
	got := make(chan answer, 1)
	go func() {
		t, err := x.tokens.Token()
		got <- answer{t, err}
	}()
	select {
	case a := <-got:
		switch {
		case a.err != nil:
			return nil, noToken(x.tokens, a.err)
		case a.token.AccessToken == "":
			return nil, &noCredentials{err: errors.New("the answer has none")}
		}
		return a.token, nil
	case <-ctx.Done():
		_, metadata := x.tokens.(metadataServer)
		return nil, &noCredentials{context.Cause(ctx), !metadata}
	}
}

// Authorize signs a request to a service that isn't called by Connect.
func (x *Session) Authorize(ctx context.Context, op string, r *http.Request) error {
	token, err := x.Token(ctx, op)
	if err != nil {
		return err
	}
	token.SetAuthHeader(r)
	if x.quota != "" {
		r.Header.Set("X-Goog-User-Project", x.quota)
	}
	return nil
}

// Token returns an access token for a service that isn't called by Connect.
func (x *Session) Token(ctx context.Context, op string) (*oauth2.Token, error) {
	var out *oauth2.Token
	err := x.Call(ctx, op, func(ctx context.Context) (err error) {
		out, err = x.token(ctx)
		return err
	})
	return out, err
}

// Close closes all connections.
func (x *Session) Close() error {
	var errs []error
	for _, c := range x.conns {
		errs = append(errs, c.Close())
	}
	x.conns = nil
	return errors.Join(errs...)
}

// Location returns the session's place in names: projects/P/locations/L.
func (x *Session) Location() string { return "projects/" + x.Project + "/locations/" + x.Region }

// loopback reports whether a URL surely leads to this machine.
func loopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil || u.User != nil || u.Scheme != "http" && u.Scheme != "https" || u.Port() == "" || strings.Trim(u.Path, "/") != "" {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}
