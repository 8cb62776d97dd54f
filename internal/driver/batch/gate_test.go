package batch

import (
	"net/http"
	"strings"
	"sync"
)

// gate stands before the pocket cloud and can hold back the calls of an action.
type gate struct {
	next http.Handler

	mu      sync.Mutex
	action  string
	entered chan struct{}
	open    chan struct{}
}

// shut holds back calls, such as "batch:SubmitJob", until release.
func (g *gate) shut(action string) (entered <-chan struct{}, release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in, open := make(chan struct{}, 1000), make(chan struct{})
	_, g.action, _ = strings.Cut(action, ":")
	g.entered, g.open = in, open
	var once sync.Once
	return in, func() {
		once.Do(func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.action = ""
			close(open)
		})
	}
}

// ServeHTTP passes a call on, when it may pass.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	held, entered, open := g.action != "" && g.holds(r), g.entered, g.open
	g.mu.Unlock()
	if held {
		entered <- struct{}{}
		<-open
	}
	g.next.ServeHTTP(w, r)
}

// holds reports whether a call is of the action. The lock is held.
func (g *gate) holds(r *http.Request) bool {
	return strings.HasSuffix(r.Header.Get("X-Amz-Target"), "."+g.action) || r.URL.Path == "/v1/"+strings.ToLower(g.action) ||
		g.action == "TagResource" && strings.HasPrefix(r.URL.Path, "/v1/tags/")
}
