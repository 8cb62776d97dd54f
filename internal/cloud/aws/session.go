package aws

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// defaultCall bounds a call where nothing else does.
const defaultCall = 30 * time.Second

// Settings are what a session is opened with.
type Settings struct {
	// Provider is the configured name, for errors.
	Provider string
	// Region, Endpoint and Account stand in the provider's config; each may be
	// empty. An endpoint takes every service's calls and is on this machine.
	Region, Endpoint, Account string
	// AnyAccount leaves the account unknown where it isn't configured: nobody is asked
	// for it.
	AnyAccount bool
	// Credentials are variables by name (AWS_ACCESS_KEY_ID, AWS_REGION, ...).
	Credentials map[string]string
	// Ambient allows the vendor's own chain.
	Ambient bool
	// CallTimeout bounds a call; zero is 30 s.
	CallTimeout time.Duration
	// StateDir, when not empty, is a private folder where the account of a key
	// is kept, so that it is asked for once.
	StateDir string
	Clock    sdk.Clock
}

// Session is a configured way to AWS. It is safe for concurrent use.
type Session struct {
	// Config is what the services' clients are made from. It never retries.
	Config awssdk.Config
	// Region, Endpoint and Account say where the session leads. Partition is
	// the first part of its ARNs, such as "aws".
	Region, Endpoint, Account, Partition string

	provider  string
	timeout   time.Duration
	transport *http.Transport
	sts       *sts.Client

	// settings are kept to find out whose the credentials are; mine is closed
	// over what was found.
	settings Settings
	mine     account
}

// Open makes a session. Where the account is neither configured nor known from
// an earlier session with the same key, it asks STS for it: the identity of a
// provider never changes while it is open.
func Open(ctx context.Context, s Settings) (*Session, error) {
	if s.CallTimeout <= 0 {
		s.CallTimeout = defaultCall
	}
	if s.Clock == nil {
		s.Clock = sdk.SystemClock()
	}
	if s.Endpoint != "" && !loopback(s.Endpoint) {
		return nil, s.problem("config.endpoint", fmt.Errorf("%q is not on this machine", s.Endpoint),
			"leave it out for AWS itself; an endpoint is for a pocket cloud, http://127.0.0.1:PORT, as `windlass pocket up --write FILE` writes it")
	}
	if s.Account != "" && !accountID.MatchString(s.Account) {
		return nil, s.problem("config.account", fmt.Errorf("%q is no account", s.Account), "an account is 12 digits")
	}
	transport, err := newTransport(s.Credentials["AWS_CA_BUNDLE"])
	if err != nil {
		return nil, s.problem("AWS_CA_BUNDLE", err, "name a file of certificates in PEM form")
	}
	out := &Session{Endpoint: s.Endpoint, provider: s.Provider, timeout: s.CallTimeout, transport: transport, settings: s,
		mine: account{lock: make(chan struct{}, 1)}}
	if err := out.open(ctx, s); err != nil {
		transport.CloseIdleConnections()
		return nil, err
	}
	return out, nil
}

func (x *Session) open(ctx context.Context, s Settings) error {
	base := awssdk.Config{
		HTTPClient: &http.Client{Transport: plainBodies{x.transport}, CheckRedirect: noRedirects},
		Retryer:    func() awssdk.Retryer { return awssdk.NopRetryer{} },
		// The vendor's client would write its warnings to stderr.
		Logger: logging.Nop{},
		AppID:  "windlass",
	}
	if s.Endpoint != "" {
		base.BaseEndpoint = &s.Endpoint
	}
	region, err := x.withCredentials(ctx, s, &base)
	if err != nil {
		return err
	}
	x.Region = cmp.Or(s.Region, s.Credentials["AWS_REGION"], s.Credentials["AWS_DEFAULT_REGION"], region)
	if x.Region == "" {
		return s.problem("config.region", errors.New("no region is set"), "set region under config:, or AWS_REGION")
	}
	if !regionName.MatchString(x.Region) {
		return s.problem("config.region", fmt.Errorf("%q is no region", x.Region), "write it as in eu-west-1")
	}
	base.Region = x.Region
	x.Config, x.Partition, x.sts = base, partition(x.Region), sts.NewFromConfig(base)
	x.Account = s.Account
	if x.Account == "" && !s.AnyAccount {
		x.Account, err = x.knownAccount(ctx, s)
		x.mine.known = err == nil
	}
	return err
}

var (
	regionName = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]{1,2}$`)
	accountID  = regexp.MustCompile(`^[0-9]{12}$`)
)

func (s Settings) problem(field string, err error, remedy string) error {
	return &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: s.Provider, Field: field, Err: err, Remedy: remedy}
}

// Close frees idle connections.
func (x *Session) Close() { x.transport.CloseIdleConnections() }

// noRedirects: AWS sends none, and a signed request goes nowhere else.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func newTransport(bundle string) (*http.Transport, error) {
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
	if bundle == "" {
		return t, nil
	}
	pem, err := os.ReadFile(bundle)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", bundle)
	}
	t.TLSClientConfig.RootCAs = pool
	return t, nil
}

// loopback reports whether a URL surely leads to this machine.
func loopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}
