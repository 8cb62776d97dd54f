package kube

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windlass-run/windlass/internal/cloud/hosted"
	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// OpenHosted returns a session with a cluster of a cloud. Of the settings it takes
// Provider, Namespace and CallTimeout. It makes no call; closing the session closes
// the source.
func OpenHosted(s Settings, source hosted.Source, c hosted.Cluster) (*Session, error) {
	if !strings.HasPrefix(c.Server, "https://") {
		return nil, &sdk.Error{Code: sdk.Internal, Op: hosted.Op, Provider: s.Provider, Err: errors.New("the cloud gave the API server's address as " + c.Server)}
	}
	cfg := &rest.Config{Host: c.Server, TLSClientConfig: rest.TLSClientConfig{CAData: c.Authority, CertData: c.Certificate, KeyData: c.Key}}
	if len(c.Certificate) == 0 {
		keep := &tokens{source: source, lock: make(chan struct{}, 1)}
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &tokenTransport{next, keep} })
	}
	x, err := open(s, cfg, cmp.Or(s.Namespace, defaultNamespace))
	if err != nil {
		return nil, err
	}
	x.source, x.cluster = source, c
	return x, nil
}

// defaultNamespace is that of a cluster for whoever names none.
const defaultNamespace = "default"

// refreshBefore is by how much a token is taken to end sooner than it does: a call
// has its way to go, and clocks differ.
const refreshBefore = time.Minute

// tokens keeps a source's latest token. It is safe for concurrent use.
type tokens struct {
	source hosted.Source
	// lock is held by whoever asks; the rest wait for what it learns.
	lock    chan struct{}
	current hosted.Token
}

// get returns a token that is good for a while yet, other than the refused one.
func (t *tokens) get(ctx context.Context, refused string) (string, error) {
	select {
	case t.lock <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-t.lock }()
	now := t.current
	if now.Value != "" && now.Value != refused && (now.Expires.IsZero() || time.Until(now.Expires) > refreshBefore) {
		return now.Value, nil
	}
	// What is sent for the token isn't sent for the call.
	got, err := t.source.Token(reach.Apart(ctx))
	if err != nil {
		return "", &noTokenError{err}
	}
	t.current = got
	return got.Value, nil
}

// noTokenError is a call that wasn't sent, since there is no token for it.
type noTokenError struct{ err error }

func (e *noTokenError) Error() string { return e.err.Error() }

func (e *noTokenError) Unwrap() error { return e.err }

// tokenless is the error of a call that wasn't sent, since the cloud gave no token.
func (x *Session) tokenless(e *sdk.Error, none *noTokenError) {
	e.Code, e.Err = sdk.CodeOf(none.err), fmt.Errorf("no token for the API server could be had: %w", none.err)
	var known *sdk.Error
	if errors.As(none.err, &known) {
		e.Reason, e.Remedy, e.Retryable, e.RetryAfter = known.Reason, known.Remedy, known.Retryable, known.RetryAfter
		e.Err = fmt.Errorf("no token for the API server could be had: %w", known.Err)
	}
	// Of the call itself nothing was sent.
	e.Unreached = e.Retryable
}

// tokenTransport calls an API server with a cloud's token.
type tokenTransport struct {
	next   http.RoundTripper
	tokens *tokens
}

// RoundTrip implements http.RoundTripper. A call that the API server refuses for its
// token wasn't carried out: it is sent once more where there is another token.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/
func (t *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	first, err := t.tokens.get(r.Context(), "")
	if err != nil {
		return nil, err
	}
	resp, err := t.next.RoundTrip(with(r, first, body))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	second, err := t.tokens.get(r.Context(), first)
	if err != nil || second == first {
		return resp, nil //nolint:nilerr // the API server's refusal says it
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // so that the connection is used again
	_ = resp.Body.Close()                                        // nothing more is wanted of it
	return t.next.RoundTrip(with(r, second, body))
}

// WrappedRoundTripper lets client-go reach what is beneath.
func (t *tokenTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// bodyOf reads a request's body, which may be sent twice; it was made of bytes.
func bodyOf(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	data, err := io.ReadAll(r.Body)
	return data, errors.Join(err, r.Body.Close())
}

// with is the request with a token. net/http can't send its body again by itself,
// which the caller may not want.
func with(r *http.Request, token string, body []byte) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return r
}
