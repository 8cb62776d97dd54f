package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// Service says where a server of the cluster's is that isn't its API server, such as
// Argo's.
type Service struct {
	Provider string
	// Address is such as "https://argo.example:2746", without a path or with one.
	Address string
	// Token stands in each request, with or without the word Bearer.
	Token string
	// CAFile has the certificates that the server's is checked against; empty is the
	// machine's.
	CAFile string
	// Namespace is what calls are about.
	Namespace   string
	CallTimeout time.Duration
	// Words gives an error its class by the service's own words. It returns false for
	// an answer that isn't in the service's form.
	Words func(e *sdk.Error, status int, body []byte) bool
}

// OpenService returns a session with a service. It makes no call.
func OpenService(s Service) (*Session, error) {
	bad := func(field string, err error) (*Session, error) {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: s.Provider, Field: "config." + field, Err: err}
	}
	base, err := url.Parse(s.Address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return bad("endpoint", fmt.Errorf("%q is no address like https://argo.example:2746", s.Address))
	}
	if s.Token == "" {
		return nil, &sdk.Error{Code: sdk.Unauthenticated, Op: "open provider", Provider: s.Provider, Reason: sdk.ReasonCredentials, Err: errors.New("there is no token for " + base.Host)}
	}
	tr := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is documented as one
	tr.HTTP2 = reach.Pings()
	authority, err := authorityOf(rest.TLSClientConfig{CAFile: s.CAFile})
	if err != nil {
		return bad("ca_file", err)
	}
	if s.CAFile != "" {
		pem, err := os.ReadFile(s.CAFile)
		if err != nil {
			return bad("ca_file", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return bad("ca_file", fmt.Errorf("%s has no certificate in PEM", s.CAFile))
		}
		tr.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	if s.CallTimeout <= 0 {
		s.CallTimeout = defaultTimeout
	}
	client := &http.Client{Transport: bearer{tr, "Bearer " + strings.TrimPrefix(s.Token, "Bearer ")},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Session{Server: strings.TrimRight(base.String(), "/"), Namespace: s.Namespace, Authority: authority, provider: s.Provider, timeout: s.CallTimeout,
		client: client, base: base, words: s.Words}, nil
}

// bearer puts a token into each request.
type bearer struct {
	*http.Transport
	header string
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", b.header)
	return b.Transport.RoundTrip(r)
}

// Send makes one call with a body in JSON, nil for none.
func (x *Session) Send(ctx context.Context, op, verb string, at Place, query url.Values, body, out any) error {
	media := ""
	if body != nil {
		media = "application/json"
	}
	return x.call(ctx, op, verb, at, query, media, body, out)
}
