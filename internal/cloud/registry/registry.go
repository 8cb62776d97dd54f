// Package registry reads from an image's registry what its own entrypoint is: a
// backend with one list for entrypoint and arguments has to be told.
//
// It speaks the part of the distribution protocol that this takes.
// https://github.com/opencontainers/distribution-spec/blob/main/spec.md
package registry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// Login is a user of a registry; an empty one is anonymous.
type Login struct {
	Username string
	Password sdk.SecretValue
}

// ErrLogin is what a registry's refusal of an anonymous reader wraps: a user may
// be told what it doesn't tell everybody. Docker Hub refuses so for an image that
// isn't there, too.
var ErrLogin = errors.New("it tells that to no anonymous user")

// askTime bounds all calls for one image together.
const askTime = 30 * time.Second

// The kinds of manifests: lists of manifests by platform, and one image's.
// https://github.com/opencontainers/image-spec/blob/main/media-types.md
const (
	ociIndex       = "application/vnd.oci.image.index.v1+json"
	ociManifest    = "application/vnd.oci.image.manifest.v1+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
)

// maxDocument bounds manifests, configurations and tokens; the protocol's own
// bound for manifests is 4 MiB.
const maxDocument = 4 << 20

// hub is Docker Hub, whose images' names leave its host out.
const hub = "docker.io"

// Host returns the registry of an image.
func Host(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("%q is no image's name: %w", image, err)
	}
	return reference.Domain(named), nil
}

// Same reports whether two names are of one registry: Docker Hub has several.
func Same(a, b string) bool {
	plain := func(s string) string {
		s = strings.ToLower(s)
		if s == "index.docker.io" || s == "registry-1.docker.io" || s == "registry.hub.docker.com" {
			return hub
		}
		return s
	}
	return plain(a) == plain(b)
}

// Entrypoint returns the entrypoint of an image for Linux on amd64; one that has
// none has an empty list. It takes at most 30 seconds. No error holds the password.
func Entrypoint(ctx context.Context, image string, login Login) (sdk.Argv, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, fmt.Errorf("%q is no image's name: %w", image, err)
	}
	named = reference.TagNameOnly(named)
	ref := ""
	if d, ok := named.(reference.Digested); ok {
		ref = d.Digest().String()
	} else if t, ok := named.(reference.Tagged); ok {
		ref = t.Tag()
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	// A connection for each image: a launch needs a few calls, then none.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, HTTP2: reach.Pings()}
	defer transport.CloseIdleConnections()
	c := &client{http: &http.Client{Transport: transport, CheckRedirect: safely}, base: baseOf(reference.Domain(named)), name: reference.Path(named), login: login}
	m, err := c.manifest(ctx, ref)
	if err != nil {
		return nil, err
	}
	if len(m.Manifests) > 0 {
		digest, err := m.platform()
		if err != nil {
			return nil, err
		}
		if m, err = c.manifest(ctx, digest); err != nil {
			return nil, err
		}
	}
	if m.Config.Digest == "" {
		return nil, errors.New("the image's manifest names no configuration")
	}
	data, err := c.get(ctx, "/blobs/"+m.Config.Digest, nil)
	if err != nil {
		return nil, err
	}
	if err := verify(data, m.Config.Digest); err != nil {
		return nil, err
	}
	var config struct {
		Config struct {
			Entrypoint []string `json:"Entrypoint"`
		} `json:"config"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, errors.New("the image's configuration is no JSON")
	}
	return append(sdk.Argv{}, config.Config.Entrypoint...), nil
}

// baseOf is where a registry's API is. One on this machine is spoken to without
// TLS, as the Docker engine does.
func baseOf(domain string) string {
	if domain == hub {
		domain = "registry-1.docker.io"
	}
	if onLoopback(domain) {
		return "http://" + domain
	}
	return "https://" + domain
}

func onLoopback(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && addr.IsLoopback()
}

// safely follows a registry to where it keeps its documents, as long as nobody on
// the way can read the header that authorizes.
func safely(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= 5:
		return errors.New("it sends on and on")
	case req.URL.Scheme != "https" && !onLoopback(req.URL.Host):
		return fmt.Errorf("it sends on to %s without TLS", req.URL.Host)
	}
	return nil
}

// manifest is the part that matters of either kind.
type manifest struct {
	Config    struct{ Digest string } `json:"config"`
	Manifests []struct {
		Digest   string
		Platform struct{ OS, Architecture string }
	} `json:"manifests"`
}

// platform chooses the image for the machines that the backends have.
func (m manifest) platform() (string, error) {
	for _, x := range m.Manifests {
		if x.Platform.OS == "linux" && x.Platform.Architecture == "amd64" {
			return x.Digest, nil
		}
	}
	return "", errors.New("the image has none for Linux on amd64")
}

type client struct {
	http       *http.Client
	base, name string
	login      Login
	authorize  string // the header that the registry asked for
}

func (c *client) manifest(ctx context.Context, ref string) (manifest, error) {
	var m manifest
	data, err := c.get(ctx, "/manifests/"+ref, []string{ociIndex, ociManifest, dockerList, dockerManifest})
	if err != nil {
		return m, err
	}
	if strings.Contains(ref, ":") {
		if err := verify(data, ref); err != nil {
			return m, err
		}
	}
	if json.Unmarshal(data, &m) != nil {
		return m, errors.New("the image's manifest is no JSON")
	}
	return m, nil
}

// verify compares a document with its digest.
func verify(data []byte, digest string) error {
	sum := sha256.Sum256(data)
	if want, ok := strings.CutPrefix(digest, "sha256:"); !ok || want != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("what the registry gives for %s isn't it", digest)
	}
	return nil
}

// get reads a document of the image. A registry that asks for authorization is
// asked again, once.
func (c *client) get(ctx context.Context, path string, accept []string) ([]byte, error) {
	for again := false; ; again = true {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/v2/"+c.name+path, nil)
		if err != nil {
			return nil, err
		}
		for _, a := range accept {
			req.Header.Add("Accept", a)
		}
		if c.authorize != "" {
			req.Header.Set("Authorization", c.authorize)
		}
		status, header, data, err := c.do(req)
		switch {
		case err != nil:
			return nil, err
		case status == http.StatusOK:
			return data, nil
		case again && status == http.StatusUnauthorized && c.login.Username == "":
			return nil, fmt.Errorf("%s answers %d %s: %w", req.URL.Host, status, errorText(data), ErrLogin)
		case status != http.StatusUnauthorized || again:
			return nil, fmt.Errorf("%s answers %d %s", req.URL.Host, status, errorText(data))
		}
		if c.authorize, err = c.answer(ctx, header.Get("Www-Authenticate")); err != nil {
			return nil, err
		}
	}
}

func (c *client) do(req *http.Request) (int, http.Header, []byte, error) {
	res, err := c.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // its URL may have a query
		}
		return 0, nil, nil, fmt.Errorf("ask %s: %w", req.URL.Host, err)
	}
	defer func() { _ = res.Body.Close() }() // it was read
	data, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("read the answer of %s: %w", req.URL.Host, err)
	}
	if len(data) > maxDocument {
		return 0, nil, nil, fmt.Errorf("the answer of %s is larger than %d bytes", req.URL.Host, maxDocument)
	}
	return res.StatusCode, res.Header, data, nil
}

// errorText is what a registry says of an error.
func errorText(data []byte) string {
	var body struct {
		Errors []struct{ Code, Message string } `json:"errors"`
	}
	if json.Unmarshal(bytes.TrimSpace(data), &body) != nil || len(body.Errors) == 0 {
		return ""
	}
	return strings.TrimSpace(body.Errors[0].Code + " " + body.Errors[0].Message)
}

// answer makes the header that a challenge asks for.
// https://distribution.github.io/distribution/spec/auth/token/
func (c *client) answer(ctx context.Context, challenge string) (string, error) {
	scheme, rest, _ := strings.Cut(challenge, " ")
	switch strings.ToLower(scheme) {
	case "basic":
		if c.login.Username == "" {
			return "", ErrLogin
		}
		req := &http.Request{Header: http.Header{}}
		req.SetBasicAuth(c.login.Username, string(c.login.Password.Reveal()))
		return req.Header.Get("Authorization"), nil
	case "bearer":
	default:
		return "", fmt.Errorf("the registry wants authorization of the unknown kind %q", scheme)
	}
	given := parameters(rest)
	realm, err := url.Parse(given["realm"])
	if err != nil || realm.Host == "" || realm.Scheme != "https" && !onLoopback(realm.Host) {
		return "", errors.New("the registry names no safe place for tokens")
	}
	q := realm.Query()
	for _, k := range []string{"service", "scope"} {
		if given[k] != "" {
			q.Set(k, given[k])
		}
	}
	realm.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, realm.String(), nil)
	if err != nil {
		return "", err
	}
	if c.login.Username != "" {
		req.SetBasicAuth(c.login.Username, string(c.login.Password.Reveal()))
	}
	status, _, data, err := c.do(req)
	if err != nil {
		return "", err
	}
	var body struct {
		Token  string `json:"token"`
		Access string `json:"access_token"`
	}
	if (status == http.StatusUnauthorized || status == http.StatusForbidden) && c.login.Username == "" {
		return "", fmt.Errorf("%s gives no token: %d %s: %w", req.URL.Host, status, errorText(data), ErrLogin)
	}
	if status != http.StatusOK || json.Unmarshal(data, &body) != nil || body.Token+body.Access == "" {
		return "", fmt.Errorf("%s gives no token: %d %s", req.URL.Host, status, errorText(data))
	}
	return "Bearer " + cmp.Or(body.Token, body.Access), nil
}

// parameters reads a challenge's: name="value", and so on.
// https://www.rfc-editor.org/rfc/rfc9110#name-challenge-and-response
func parameters(s string) map[string]string {
	out := map[string]string{}
	for s = strings.TrimLeft(s, ", "); s != ""; s = strings.TrimLeft(s, ", ") {
		name, rest, ok := strings.Cut(s, "=")
		if !ok {
			break
		}
		var value strings.Builder
		if quoted, is := strings.CutPrefix(rest, `"`); is {
			i := 0
			for ; i < len(quoted) && quoted[i] != '"'; i++ {
				if quoted[i] == '\\' && i+1 < len(quoted) {
					i++
				}
				value.WriteByte(quoted[i])
			}
			s = quoted[min(i+1, len(quoted)):]
		} else {
			v, after, _ := strings.Cut(rest, ",")
			value.WriteString(strings.TrimSpace(v))
			s = after
		}
		out[strings.ToLower(strings.TrimSpace(name))] = value.String()
	}
	return out
}
