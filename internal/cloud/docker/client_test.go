package docker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engineAt serves a scripted engine and returns a client of it.
func engineAt(t *testing.T, timeout time.Duration, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	e, err := Resolve(Settings{Host: "tcp://" + s.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(e, "p", timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func ping(w http.ResponseWriter, r *http.Request, version string) bool {
	w.Header().Set("Api-Version", version)
	return r.URL.Path == "/_ping"
}

func inspect(ctx context.Context, api *client.Client) error {
	_, err := api.ContainerInspect(ctx, "x", client.ContainerInspectOptions{})
	return err
}

func TestErrorsHaveTheirCodes(t *testing.T) {
	for status, want := range map[int]struct {
		code  sdk.Code
		retry bool
	}{
		400: {sdk.InvalidArgument, false}, 401: {sdk.Unauthenticated, false}, 403: {sdk.PermissionDenied, false}, 404: {sdk.NotFound, false},
		409: {sdk.Aborted, false}, 412: {sdk.Aborted, false}, 429: {sdk.ResourceExhausted, true}, 500: {sdk.Internal, true},
		501: {sdk.Unimplemented, false}, 502: {sdk.Unavailable, true}, 503: {sdk.Unavailable, true}, 504: {sdk.Unavailable, true},
	} {
		c := engineAt(t, 0, func(w http.ResponseWriter, r *http.Request) {
			if ping(w, r, "1.41") {
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, `{"message":"the engine's words"}`)
		})
		err := c.Call(t.Context(), "try it", inspect)
		if !errors.Is(err, want.code) || sdk.IsRetryable(err) != want.retry || !strings.Contains(err.Error(), "the engine's words") || !strings.HasPrefix(err.Error(), "try it: provider p: ") {
			t.Errorf("%d: got %v (%v, retryable %t)", status, err, sdk.CodeOf(err), sdk.IsRetryable(err))
		}
		if status == 404 && !cerrdefs.IsNotFound(err) {
			t.Error("the vendor's own error is lost")
		}
	}
}

func TestVersionIsAgreedOnOnce(t *testing.T) {
	var pings atomic.Int64
	c := engineAt(t, 0, func(w http.ResponseWriter, r *http.Request) {
		if ping(w, r, "1.43") {
			pings.Add(1)
			return
		}
		if !strings.HasPrefix(r.URL.Path, "/v1.43/") {
			t.Errorf("asked for %s", r.URL.Path)
		}
		_, _ = w.Write([]byte("{}"))
	})
	if c.APIVersion() != "" || c.AtLeast("1.41") {
		t.Error("a version before the first call")
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := c.Call(t.Context(), "x", inspect); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := pings.Load(); n != 1 {
		t.Errorf("%d pings", n)
	}
	if !c.AtLeast("1.42") || c.AtLeast("1.44") {
		t.Errorf("version %s", c.APIVersion())
	}
}

func TestOldEngine(t *testing.T) {
	c := engineAt(t, 0, func(w http.ResponseWriter, r *http.Request) { ping(w, r, "1.40") })
	if err := c.Call(t.Context(), "x", inspect); !errors.Is(err, sdk.FailedPrecondition) || !strings.Contains(err.Error(), "1.40") {
		t.Errorf("got %v", err)
	}
}

func TestBoundsOfACall(t *testing.T) {
	release := make(chan struct{})
	c := engineAt(t, 30*time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
		if !ping(w, r, "1.41") {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	})
	defer close(release)
	if err := c.Call(t.Context(), "x", inspect); !errors.Is(err, sdk.DeadlineExceeded) || !sdk.IsRetryable(err) || sdk.IsClear(err) {
		t.Errorf("our own bound: %v", err)
	}
	if _, err := c.Stream(t.Context(), "x", inspect); !errors.Is(err, sdk.DeadlineExceeded) || !sdk.IsRetryable(err) {
		t.Errorf("a stream that doesn't open: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"call":   func() error { return c.Call(ctx, "x", inspect) },
		"long":   func() error { return c.Long(ctx, "x", inspect) },
		"stream": func() error { _, err := c.Stream(ctx, "x", inspect); return err },
	} {
		if err := call(); !errors.Is(err, sdk.Canceled) || sdk.IsRetryable(err) || sdk.IsClear(err) {
			t.Errorf("%s with a cancelled context: %v", name, err)
		}
	}
}

func TestHangingPingBlocksNobodyElse(t *testing.T) {
	release := make(chan struct{})
	c := engineAt(t, time.Minute, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	first, cancelFirst := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- c.Call(first, "x", inspect) }()
	second, cancel := context.WithCancel(t.Context())
	go func() { done <- c.Call(second, "x", inspect) }()
	cancel()
	cancelFirst()
	for range 2 {
		if err := <-done; !errors.Is(err, sdk.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	dir := t.TempDir()
	e, err := Resolve(Settings{Host: "unix://" + filepath.Join(dir, "none")})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(e, "p", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call(t.Context(), "x", inspect); !errors.Is(err, sdk.Unavailable) || !sdk.IsRetryable(err) || !strings.Contains(err.Error(), e.Host) {
		t.Errorf("got %v", err)
	}
}

func TestOutages(t *testing.T) {
	var o outages
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	o.missed()
	o.heard(at(10))
	if len(o.list) > 0 {
		t.Error("an outage without an answer before it")
	}
	o.heard(at(20))
	o.missed()
	o.missed()
	o.heard(at(30))
	c := Client{outages: outages{list: o.list}}
	for s, want := range map[int64]bool{19: false, 21: true, 29: true, 31: false} {
		if _, ok := c.OutageAt(at(s)); ok != want {
			t.Errorf("at %d: %t", s, ok)
		}
	}
	for i := range int64(100) {
		o.missed()
		o.heard(at(100 + i))
	}
	if len(o.list) != keptOutages {
		t.Errorf("%d outages are kept", len(o.list))
	}
}

func TestResolve(t *testing.T) {
	config := t.TempDir()
	meta := filepath.Join(config, "contexts", "meta", "b71199ebd070b36beab7317920c2c2f1d777df8d05e5527d8458fda57cb17a7a") // SHA-256 of "remote"
	write(t, filepath.Join(meta, "meta.json"), `{"Name":"remote","Endpoints":{"docker":{"Host":"tcp://ctx.example:1234"}}}`)
	write(t, filepath.Join(config, "config.json"), `{"currentContext":"remote"}`)
	for name, c := range map[string]struct {
		s    Settings
		want string // a host, or a part of an error
	}{
		"default":             {Settings{}, client.DefaultDockerHost},
		"DOCKER_HOST":         {Settings{Credentials: map[string]string{VarHost: "tcp://env.example:99"}}, "tcp://env.example:99"},
		"host wins":           {Settings{Host: "unix:///a/../run/x.sock", Credentials: map[string]string{VarHost: "tcp://env.example:99"}}, "unix:///run/x.sock"},
		"default port":        {Settings{Host: "tcp://Build.Example"}, "tcp://build.example:2375"},
		"IPv6":                {Settings{Host: "tcp://[::1]:2375"}, "tcp://[::1]:2375"},
		"path":                {Settings{Host: "http://h:1/base/"}, "tcp://h:1/base"},
		"context":             {Settings{Context: "remote", Credentials: map[string]string{VarConfig: config}}, "tcp://ctx.example:1234"},
		"DOCKER_CONTEXT":      {Settings{Credentials: map[string]string{VarConfig: config, VarContext: "remote"}}, "tcp://ctx.example:1234"},
		"current context":     {Settings{Credentials: map[string]string{VarConfig: config}}, "tcp://ctx.example:1234"},
		"ambient":             {Settings{Ambient: true, Credentials: map[string]string{"HOME": "/nowhere"}}, client.DefaultDockerHost},
		"host beats context":  {Settings{Credentials: map[string]string{VarConfig: config, VarContext: "remote", VarHost: "tcp://h:1"}}, "tcp://h:1"},
		"the default context": {Settings{Credentials: map[string]string{VarConfig: config, VarContext: "default"}}, client.DefaultDockerHost},
		"context not allowed": {Settings{Context: "remote"}, "not allowed"},
		"context missing":     {Settings{Context: "other", Credentials: map[string]string{VarConfig: config}}, "there is none"},
		"ssh":                 {Settings{Host: "ssh://me@h"}, "over ssh"},
		"scheme":              {Settings{Host: "ftp://h"}, "scheme"},
		"no scheme":           {Settings{Host: "h:1"}, "no address"},
		"relative socket":     {Settings{Host: "unix://x"}, "absolute"},
		"user":                {Settings{Host: "tcp://me:secret@h:1"}, "no user"},
		"TLS file missing":    {Settings{Host: "tcp://h:1", CA: "/nowhere/ca.pem"}, "/nowhere/ca.pem"},
	} {
		e, err := Resolve(c.s)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") || !sdk.IsClear(err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if e.Host != c.want {
			t.Errorf("%s: %s instead of %s", name, e.Host, c.want)
		}
		if e.Socket != strings.HasPrefix(e.Host, "unix:") && e.Socket != strings.HasPrefix(e.Host, "npipe:") {
			t.Errorf("%s: socket is %t", name, e.Socket)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ping(w, r, "1.41") {
			_, _ = w.Write([]byte("{}"))
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what is tested
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write(t, ca, pemOf(s.Certificate().Raw))
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	try := func(set Settings) error {
		e, err := Resolve(set)
		if err != nil {
			return err
		}
		c, err := New(e, "p", 0)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Call(t.Context(), "x", inspect)
	}
	host := "tcp://127.0.0.1:" + port
	if err := try(Settings{Host: host, CA: ca}); err != nil {
		t.Error(err)
	}
	if err := try(Settings{Host: host}); err == nil {
		t.Error("plain text to an engine behind TLS")
	}
	other := filepath.Join(t.TempDir(), "ca.pem")
	write(t, other, "no certificate")
	if err := try(Settings{Host: host, CA: other}); err == nil {
		t.Error("a file without a certificate is taken")
	}
	if err := try(Settings{Credentials: map[string]string{VarHost: host, VarTLSVerify: "1"}}); !errors.Is(err, sdk.Unavailable) {
		t.Errorf("an unknown authority: %v", err)
	}
	if e, err := Resolve(Settings{Host: "https://h"}); err != nil || e.TLS == nil || e.TLS.MinVersion < tls.VersionTLS12 || e.Host != "tcp://h:2376" {
		t.Errorf("got %+v, %v", e, err)
	}
}
