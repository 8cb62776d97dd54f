package drivertest

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// Vanishing is a way to a cloud that takes no connection any more from some moment
// on. Each of its connections serves one request.
type Vanishing struct {
	URL    string
	server *httptest.Server
	after  atomic.Pointer[func(r *http.Request) bool]
}

// Vanish serves a cloud at one address more.
func Vanish(t testing.TB, cloud http.Handler) *Vanishing {
	v := &Vanishing{}
	v.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if last := v.after.Load(); last != nil && (*last)(r) {
			v.Now()
		}
		cloud.ServeHTTP(w, r)
	}))
	v.URL = v.server.URL
	t.Cleanup(v.server.Close)
	return v
}

// Now takes no connection from now on.
func (v *Vanishing) Now() { _ = v.server.Listener.Close() } // it may be closed already

// After answers the request that last is true for, and takes no connection after it.
func (v *Vanishing) After(last func(r *http.Request) bool) { v.after.Store(&last) }
