package azure

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
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// defaultCall bounds a call where nothing else does.
const defaultCall = 30 * time.Second

// The clouds that there are, each with its own logins.
// https://learn.microsoft.com/en-us/entra/identity-platform/authentication-national-cloud
const (
	CloudPublic     = "public"
	CloudChina      = "china"
	CloudGovernment = "government"
)

// Settings are what a session is opened with.
type Settings struct {
	// Provider is the configured name, for errors.
	Provider string
	// Subscription, Cloud and Endpoint stand in the provider's config; each may
	// be empty. An endpoint takes every service's calls and is on this machine;
	// CAFile names the certificate, as PEM, that signs its own.
	Subscription, Cloud, Endpoint, CAFile string
	// Credentials are variables by name (AZURE_CLIENT_ID, ...).
	Credentials map[string]string
	// Ambient allows the vendor's chain: managed identities and the logins of
	// developers' tools.
	Ambient bool
	// CallTimeout bounds a call; zero is 30 s.
	CallTimeout time.Duration
}

// Session is a configured way to one subscription. It is safe for concurrent use.
type Session struct {
	// Subscription and Endpoint say where the session leads; an empty endpoint is
	// Azure itself.
	Subscription, Endpoint string

	provider  string
	timeout   time.Duration
	place     place
	token     azcore.TokenCredential
	transport *http.Transport

	mu     sync.Mutex
	vaults map[string]*vault
	stores map[string]*ConfigStore
}

// place is where a cloud's services are.
type place struct {
	config cloud.Configuration
	// vault and appConfig are what the name of a vault, or of a store of App
	// Configuration, becomes a host by.
	vault, appConfig string
}

// Open makes a session. It makes no call.
func Open(s Settings) (*Session, error) {
	if s.CallTimeout <= 0 {
		s.CallTimeout = defaultCall
	}
	x := &Session{Subscription: strings.ToLower(cmp.Or(s.Subscription, s.Credentials["AZURE_SUBSCRIPTION_ID"])), Endpoint: strings.TrimRight(s.Endpoint, "/"),
		provider: s.Provider, timeout: s.CallTimeout, vaults: map[string]*vault{}, stores: map[string]*ConfigStore{}}
	switch {
	case x.Subscription == "":
		return nil, s.problem("config.subscription", errors.New("no subscription is set"), "set subscription under config:, or AZURE_SUBSCRIPTION_ID")
	case !subscriptionID().MatchString(x.Subscription):
		return nil, s.problem("config.subscription", fmt.Errorf("%q is no subscription's ID", x.Subscription), "write the ID, 32 hexadecimal digits in five groups, not the name")
	}
	var err error
	if x.place, err = s.place(); err != nil {
		return nil, err
	}
	if x.transport, err = s.transport(); err != nil {
		return nil, err
	}
	if x.token, err = s.credential(x.options()); err != nil {
		return nil, err
	}
	return x, nil
}

// https://learn.microsoft.com/en-us/azure/azure-portal/get-subscription-tenant-id
var subscriptionID = form(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// form compiles a pattern when it is first needed: most starts of the program
// need none.
func form(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

func (s Settings) problem(field string, err error, remedy string) error {
	return &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: s.Provider, Field: field, Err: err, Remedy: remedy}
}

// place returns where the services are. Vaults' domains:
// https://learn.microsoft.com/en-us/azure/key-vault/general/about-keys-secrets-certificates#dns-suffixes-for-object-identifiers
// Those of stores of App Configuration:
// https://learn.microsoft.com/en-us/azure/azure-app-configuration/howto-move-resource-between-regions
func (s Settings) place() (place, error) {
	if s.Endpoint != "" {
		if !loopback(s.Endpoint) {
			return place{}, s.problem("config.endpoint", fmt.Errorf("%q is not on this machine, or not HTTPS", s.Endpoint),
				"leave it out for Azure itself; an endpoint is for a pocket cloud, such as https://127.0.0.1:8443")
		}
		u, err := url.Parse(s.Endpoint)
		if err != nil {
			return place{}, s.problem("config.endpoint", err, "")
		}
		base := "https://" + u.Host
		return place{vault: ".vault.localhost:" + u.Port(), appConfig: ".azconfig.localhost:" + u.Port(), config: cloud.Configuration{ActiveDirectoryAuthorityHost: base,
			Services: map[cloud.ServiceName]cloud.ServiceConfiguration{cloud.ResourceManager: {Endpoint: base, Audience: cloud.AzurePublic.Services[cloud.ResourceManager].Audience}}}}, nil
	}
	if s.CAFile != "" {
		return place{}, s.problem("config.ca_file", errors.New("is for an endpoint on this machine alone"), "leave it out")
	}
	var p place
	switch cmp.Or(s.Cloud, CloudPublic) {
	case CloudPublic:
		p = place{config: cloud.AzurePublic, vault: ".vault.azure.net", appConfig: ".azconfig.io"}
	case CloudChina:
		p = place{config: cloud.AzureChina, vault: ".vault.azure.cn", appConfig: ".azconfig.azure.cn"}
	case CloudGovernment:
		p = place{config: cloud.AzureGovernment, vault: ".vault.usgovcloudapi.net", appConfig: ".azconfig.azure.us"}
	default:
		return place{}, s.problem("config.cloud", fmt.Errorf("no cloud is called %q", s.Cloud), "write public, china or government")
	}
	if host := s.Credentials["AZURE_AUTHORITY_HOST"]; host != "" {
		p.config.ActiveDirectoryAuthorityHost = host
	}
	return p, nil
}

// transport returns the connections. A pocket cloud's own certificate is trusted
// for its endpoint alone, and all hosts are that endpoint; there no proxy of the
// environment is asked.
func (s Settings) transport() (*http.Transport, error) {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, HTTP2: reach.Pings(), MaxIdleConnsPerHost: 32, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if s.Endpoint == "" {
		return t, nil
	}
	u, err := url.Parse(s.Endpoint)
	if err != nil {
		return nil, s.problem("config.endpoint", err, "")
	}
	t.Proxy = nil
	t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, u.Host)
	}
	if s.CAFile == "" {
		return t, nil
	}
	if _, err := s.roots(); err != nil {
		return nil, err
	}
	// For each connection anew: a pocket cloud that is started again has another
	// authority, which it writes in the place of the one before.
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		roots, err := s.roots()
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: t.TLSHandshakeTimeout},
			Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: host, NextProtos: []string{"h2", "http/1.1"}}}
		return d.DialContext(ctx, network, u.Host)
	}
	return t, nil
}

// roots reads the authority of the endpoint.
func (s Settings) roots() (*x509.CertPool, error) {
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, s.problem("config.ca_file", err, "name the certificate that the pocket cloud wrote")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, s.problem("config.ca_file", fmt.Errorf("%s holds no certificate as PEM", s.CAFile), "name the certificate that the pocket cloud wrote")
	}
	return roots, nil
}

// options are those of every client of the vendor's: no call is repeated.
func (x *Session) options() policy.ClientOptions {
	return policy.ClientOptions{Cloud: x.place.config, Retry: policy.RetryOptions{MaxRetries: -1}, Telemetry: policy.TelemetryOptions{ApplicationID: "windlass"},
		Transport: &http.Client{Transport: x.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Client returns what a client of Resource Manager is made with. A subscription
// whose resource provider isn't registered isn't changed for it.
func (x *Session) Client() (azcore.TokenCredential, *arm.ClientOptions) {
	return x.token, &arm.ClientOptions{ClientOptions: x.options(), DisableRPRegistration: true}
}

// Where returns Resource Manager's address.
func (x *Session) Where() string { return x.place.config.Services[cloud.ResourceManager].Endpoint }

// Close closes the connections.
func (x *Session) Close() error {
	x.transport.CloseIdleConnections()
	return nil
}

// loopback reports whether a URL surely leads to this machine, by HTTPS: a token
// goes nowhere else.
func loopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil || u.User != nil || u.Scheme != "https" || u.Port() == "" || strings.Trim(u.Path, "/") != "" {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}
