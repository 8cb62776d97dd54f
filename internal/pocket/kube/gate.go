package kube

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// Gate stands before a real API server and makes what the pocket one's faults make:
// actions have the same names. It carries the caller's calls out as they are.
type Gate struct {
	serve     fault.Server
	target    *url.URL
	transport http.RoundTripper
}

var _ http.Handler = (*Gate)(nil)

// NewGate returns a gate to a server, which transport reaches and is known to. It
// keeps calls whole.
func NewGate(target *url.URL, transport http.RoundTripper) *Gate {
	return &Gate{serve: fault.Server{Plan: fault.NewPlan(0), Recorder: fault.NewRecorder(true), Now: time.Now}, target: target, transport: transport}
}

// Faults is the plan of faults.
func (g *Gate) Faults() *fault.Plan { return g.serve.Plan }

// Calls records the calls.
func (g *Gate) Calls() *fault.Recorder { return g.serve.Recorder }

// Close implements io.Closer. There is nothing to end.
func (*Gate) Close() error { return nil }

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has gone
	}
	action := actionOf(r)
	if strings.HasSuffix(action, ".watch") || strings.HasSuffix(action, ".log") || strings.HasSuffix(action, ".exec") {
		if disturbed(w, r, g.serve, action) {
			return
		}
		g.stream(w, r)
		return
	}
	g.serve.Serve(w, r, action, body, func() fault.Reply { return g.pass(r, body) }, refusalOf)
}

// actionOf names what a request asks for, as the pocket server does. Whether it is a
// good one the real server says.
func actionOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if i := slices.Index(parts, "namespaces"); i >= 0 && len(parts) > i+2 {
		parts = parts[i+2:]
	} else {
		parts = parts[len(parts)-1:]
	}
	verb := strings.ToLower(r.Method)
	switch {
	case len(parts) > 2 && (parts[2] == "log" || parts[2] == "exec"):
		verb = parts[2]
	case r.Method == http.MethodPost:
		verb = "create"
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") == "true":
		verb = "watch"
	case r.Method == http.MethodGet && len(parts) == 1:
		verb = "list"
	}
	return parts[0] + "." + verb
}

// pass carries a call out.
func (g *Gate) pass(r *http.Request, body []byte) fault.Reply {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = g.target.Scheme, g.target.Host, g.target.Host, ""
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.Header.Del("Authorization") // the transport has one of its own
	resp, err := g.transport.RoundTrip(out)
	if err != nil {
		return failed(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return failed(err)
	}
	h := resp.Header.Clone()
	h.Del("Content-Length")
	return fault.Reply{Status: resp.StatusCode, Header: h, Body: data}
}

// stream passes on what comes as it comes.
func (g *Gate) stream(w http.ResponseWriter, r *http.Request) {
	p := &httputil.ReverseProxy{Transport: g.transport, FlushInterval: -1,
		Rewrite:      func(pr *httputil.ProxyRequest) { pr.SetURL(g.target); pr.Out.Header.Del("Authorization") },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { write(w, failed(err)) }}
	p.ServeHTTP(w, r)
}
