package cloudrun

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// gate stands before the pocket cloud and can hold back the calls of a method.
type gate struct {
	next  *httputil.ReverseProxy
	trans *http.Transport

	mu      sync.Mutex
	method  string
	entered chan struct{}
	open    chan struct{}
}

func newGate(address string) *gate {
	trans := &http.Transport{Protocols: &http.Protocols{}}
	trans.Protocols.SetUnencryptedHTTP2(true)
	target := &url.URL{Scheme: "http", Host: address}
	return &gate{trans: trans, next: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     trans,
		FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // what is cut behind the gate is cut before it
		},
	}}
}

// shut holds back calls, such as "run:CreateJob", until release.
func (g *gate) shut(action string) (entered <-chan struct{}, release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in, open := make(chan struct{}, 1000), make(chan struct{})
	_, g.method, _ = strings.Cut(action, ":")
	g.entered, g.open = in, open
	var once sync.Once
	return in, func() {
		once.Do(func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.method = ""
			close(open)
		})
	}
}

// ServeHTTP passes a call on, when it may pass.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	held, entered, open := g.method != "" && strings.HasSuffix(r.URL.Path, "/"+g.method), g.entered, g.open
	g.mu.Unlock()
	if held {
		entered <- struct{}{}
		<-open
	}
	g.next.ServeHTTP(w, r)
}
