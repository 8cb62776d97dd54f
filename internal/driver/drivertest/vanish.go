package drivertest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// Vanishes launches a job on a cloud that is reached through another
// address, which takes no connection any more: from before the launch on, or after
// it has answered the POST whose path ends in last. What was sent nothing has an error
// that proves it; what made a part of the launch leaves that in doubt. credentials
// changes the request to open a provider for the address.
func Vanishes[P Provider](t *testing.T, w *World[P], cloud http.Handler, credentials func(r *sdk.OpenRequest, url string), spec sdk.JobSpec, last string) {
	var armed atomic.Bool
	var way *httptest.Server
	gone := func() { _ = way.Listener.Close() } // it may be closed already
	// Each connection serves one request, one after the other.
	way = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Connection", "close")
		if armed.Load() && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, last) {
			gone()
		}
		cloud.ServeHTTP(rw, r)
	}))
	t.Cleanup(way.Close)
	p := w.Open(func(r *sdk.OpenRequest) { credentials(r, way.URL) })
	l := w.Plan(p, spec)
	if armed.Store(last != ""); last == "" {
		gone()
	}
	_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
	if proven := last == ""; err == nil || sdk.IsUnreached(err) != proven || sdk.IsClear(err) != proven || !sdk.IsRetryable(err) {
		t.Errorf("%v: unreached %t, clear %t", err, sdk.IsUnreached(err), sdk.IsClear(err))
	}
}
