package reach_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get makes one request under a watched context, and returns that.
func get(ctx context.Context, t *testing.T, client *http.Client, url string) context.Context {
	t.Helper()
	ctx = reach.Watch(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err == nil {
		err = res.Body.Close()
	}
	t.Logf("%s: %v", url, err)
	return ctx
}

// TestNothing: only what found no connection proves that nothing was sent.
func TestNothing(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer web.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer secure.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cut.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for url, nothing := range map[string]bool{
		web.URL:                         false,
		cut.URL:                         false,
		"http://" + dead:                true,
		"http://name.invalid/":          true,
		secure.URL:                      true, // a certificate of nobody
		"https" + web.URL[len("http"):]: true, // no TLS there
	} {
		ctx := get(t.Context(), t, client, url)
		if got := reach.Nothing(ctx); got != nothing {
			t.Errorf("%s: nothing was sent is %t", url, got)
		}
		e := &sdk.Error{Code: sdk.Unavailable, Err: errors.New("x")}
		reach.Mark(ctx, e, "http://here")
		if e.Unreached != nothing || sdk.IsClear(e) != nothing || (e.Remedy != "") != nothing {
			t.Errorf("%s: marked %+v", url, e)
		}
	}
	if reach.Nothing(reach.Watch(t.Context())) || reach.Nothing(t.Context()) {
		t.Error("a call that made no request proves something")
	}
}

// TestApart: a request for a token that was answered doesn't make the call one
// that was sent.
func TestApart(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer web.Close()
	ctx := reach.Watch(t.Context())
	req, err := http.NewRequestWithContext(reach.Apart(ctx), http.MethodGet, web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	reach.Tried(ctx)
	if !reach.Nothing(ctx) {
		t.Error("it counts")
	}
	reach.Left(ctx)
	if reach.Nothing(ctx) {
		t.Error("what was sent is overlooked")
	}
}

// TestLate: what gave no answer is named with its bound, and what to do where it is a
// pocket cloud; whether anything was sent is another question.
func TestLate(t *testing.T) {
	cause := errors.New("no answer in time")
	for endpoint, want := range map[string]string{"": "no answer in time (call_timeout 3s)", "http://127.0.0.1:1": "no answer in time (call_timeout 3s) from http://127.0.0.1:1"} {
		e := &sdk.Error{}
		reach.Late(t.Context(), e, cause, 3*time.Second, endpoint)
		if e.Err.Error() != want || !errors.Is(e, cause) || e.Code != sdk.DeadlineExceeded || !e.Retryable || e.Unreached || (e.Remedy != "") != (endpoint != "") {
			t.Errorf("%q: %+v", endpoint, e)
		}
	}
}
