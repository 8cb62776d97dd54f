package kube

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/hosted"
	"github.com/windlass-run/windlass/sdk"
)

// minted is a cloud that gives numbered tokens.
type minted struct {
	life   time.Duration
	made   atomic.Int64
	err    atomic.Pointer[sdk.Error]
	closed atomic.Bool
}

func (m *minted) Cluster(context.Context) (hosted.Cluster, error) { return hosted.Cluster{}, nil }

func (m *minted) Token(context.Context) (hosted.Token, error) {
	if err := m.err.Load(); err != nil {
		return hosted.Token{}, err
	}
	return hosted.Token{Value: strconv.FormatInt(m.made.Add(1), 10), Expires: time.Now().Add(m.life)}, nil
}

func (m *minted) Close() error {
	m.closed.Store(true)
	return nil
}

// hostedServer takes tokens that takes says yes to, and keeps what came with them.
func hostedServer(t *testing.T, source hosted.Source, takes func(token string) bool) (x *Session, seen func() []string) {
	t.Helper()
	var mu sync.Mutex
	var calls []string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller has gone
		}
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		mu.Lock()
		calls = append(calls, r.Method+" "+token+" "+string(body))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if !takes(token) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(s.Close)
	x, err := OpenHosted(Settings{Provider: "p"}, source, hosted.Cluster{Server: s.URL, Stranger: "make it known",
		Authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return calls
	}
}

func (x *Session) look(t *testing.T) error {
	t.Helper()
	return x.Get(t.Context(), "look", Jobs("default", "j"), nil, nil)
}

// TestHostedTokenIsKept: one token serves all calls, also those that come at once, as
// long as it is good for a minute.
func TestHostedTokenIsKept(t *testing.T) {
	source := &minted{life: time.Hour}
	x, seen := hostedServer(t, source, func(string) bool { return true })
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := x.look(t); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := source.made.Load(); n != 1 || len(seen()) != 20 {
		t.Errorf("%d tokens for %d calls", n, len(seen()))
	}
	if x.Namespace != "default" || x.Authority == "" {
		t.Errorf("namespace %q, authority %q", x.Namespace, x.Authority)
	}
}

// TestHostedTokenIsRefreshed: a token that is about to end is replaced before it does.
func TestHostedTokenIsRefreshed(t *testing.T) {
	source := &minted{life: refreshBefore - time.Second}
	x, seen := hostedServer(t, source, func(string) bool { return true })
	for range 2 {
		if err := x.look(t); err != nil {
			t.Error(err)
		}
	}
	if got := seen(); len(got) != 2 || got[0] != "GET 1 " || got[1] != "GET 2 " {
		t.Errorf("calls %q", got)
	}
}

// TestHostedTokenRefused: a call that was refused for its token is sent once more, whole,
// with another; then the refusal stands, and says what to do.
func TestHostedTokenRefused(t *testing.T) {
	source := &minted{life: time.Hour}
	x, seen := hostedServer(t, source, func(token string) bool { return token != "1" })
	object := metav1.ObjectMeta{Name: "a"}
	if err := x.Create(t.Context(), "make", Jobs("default", ""), object, nil); err != nil {
		t.Error(err)
	}
	got := seen()
	if len(got) != 2 || !strings.HasPrefix(got[0], `POST 1 {"name":"a"`) || strings.Replace(got[0], "1", "2", 1) != got[1] {
		t.Errorf("calls %q", got)
	}

	never, seen := hostedServer(t, &minted{life: time.Hour}, func(string) bool { return false })
	err := never.look(t)
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.Unauthenticated || e.Remedy != "make it known" || len(seen()) != 2 {
		t.Errorf("%v after %q", err, seen())
	}
	if strings.Contains(err.Error(), "Bearer") {
		t.Errorf("the error has the token: %v", err)
	}
}

// TestHostedWithoutToken: a call for which there is no token wasn't sent, and is no
// outage of the cluster's where the cloud refuses the credentials.
func TestHostedWithoutToken(t *testing.T) {
	source := &minted{life: time.Hour}
	x, seen := hostedServer(t, source, func(string) bool { return true })
	for _, k := range []struct {
		cause     *sdk.Error
		unreached bool
	}{
		{&sdk.Error{Code: sdk.Unauthenticated, Reason: sdk.ReasonCredentials, Err: errors.New("the key is gone"), Remedy: "renew it"}, false},
		{&sdk.Error{Code: sdk.Unavailable, Retryable: true, Err: errors.New("no answer")}, true},
	} {
		source.err.Store(k.cause)
		err := x.look(t)
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != k.cause.Code || e.Op != "look" || e.Reason != k.cause.Reason || e.Remedy != k.cause.Remedy || e.Retryable != k.cause.Retryable ||
			sdk.IsUnreached(err) != k.unreached || !strings.Contains(err.Error(), "no token for the API server could be had: "+k.cause.Err.Error()) {
			t.Errorf("got %v (%+v)", err, e)
		}
	}
	if got := seen(); len(got) > 0 {
		t.Errorf("sent %q", got)
	}
}

// TestHostedClosed: one that can't be reached says why that may be.
func TestHostedClosed(t *testing.T) {
	gone := httptest.NewTLSServer(http.NotFoundHandler())
	gone.Close()
	source := &minted{life: time.Hour}
	x, err := OpenHosted(Settings{Provider: "p"}, source, hosted.Cluster{Server: gone.URL, Closed: "it is private"})
	if err != nil {
		t.Fatal(err)
	}
	err = x.look(t)
	var e *sdk.Error
	if !errors.As(err, &e) || !sdk.IsUnreached(err) || e.Remedy != "it is private" {
		t.Errorf("got %v", err)
	}
	if err := x.Close(); err != nil || !source.closed.Load() {
		t.Errorf("%v; the source is closed: %t", err, source.closed.Load())
	}
	if _, err := OpenHosted(Settings{Provider: "p"}, source, hosted.Cluster{Server: "http://10.0.0.1"}); err == nil {
		t.Error("a token would go over a connection that anybody can read")
	}
}

// TestHostedCertificate: where the cloud gives out a certificate, calls are made with it
// and without a token.
func TestHostedCertificate(t *testing.T) {
	certificate, key := clientCertificate(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a token was sent")
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	source := &minted{life: time.Hour}
	x, err := OpenHosted(Settings{Provider: "p"}, source, hosted.Cluster{Server: s.URL, Certificate: certificate, Key: key,
		Authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.look(t); err != nil || source.made.Load() != 0 {
		t.Errorf("%v; %d tokens", err, source.made.Load())
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

// clientCertificate is one that signs itself, with its key, as PEM.
func clientCertificate(t *testing.T) (certificate, key []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "user"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true, IsCA: true}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}
