package azure

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const subscription = "00000000-1111-2222-3333-444444444444"

// certificate writes a client's certificate with its key.
func certificate(t *testing.T) string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotAfter: time.Now().Add(time.Hour)},
		&x509.Certificate{SerialNumber: big.NewInt(1)}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, block := range []*pem.Block{{Type: "PRIVATE KEY", Bytes: raw}, {Type: "CERTIFICATE", Bytes: der}} {
		if err := pem.Encode(&b, block); err != nil {
			t.Fatal(err)
		}
	}
	return write(t, b.Bytes())
}

// authority writes a certificate by which none signs.
func authority(t *testing.T) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}, &x509.Certificate{SerialNumber: big.NewInt(1)}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func write(t *testing.T, data []byte) string {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestOpen says what is missing, and takes nothing that leads elsewhere.
func TestOpen(t *testing.T) {
	with := func(more ...string) map[string]string {
		m := map[string]string{"AZURE_TENANT_ID": "11111111-2222-3333-4444-555555555555", "AZURE_CLIENT_ID": "c"}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	secret := with("AZURE_CLIENT_SECRET", "s")
	garbage := write(t, []byte("CANARY"))
	for name, c := range map[string]struct {
		s     Settings
		code  sdk.Code
		field string
	}{
		"secret":           {Settings{Subscription: subscription, Credentials: secret}, 0, ""},
		"certificate":      {Settings{Subscription: subscription, Credentials: with("AZURE_CLIENT_CERTIFICATE_PATH", certificate(t))}, 0, ""},
		"federated":        {Settings{Subscription: subscription, Credentials: with("AZURE_FEDERATED_TOKEN_FILE", garbage)}, 0, ""},
		"ambient":          {Settings{Subscription: subscription, Ambient: true}, 0, ""},
		"government":       {Settings{Subscription: subscription, Cloud: CloudGovernment, Credentials: secret}, 0, ""},
		"from variables":   {Settings{Credentials: with("AZURE_CLIENT_SECRET", "s", "AZURE_SUBSCRIPTION_ID", strings.ToUpper(subscription), "AZURE_AUTHORITY_HOST", "https://login.example.com")}, 0, ""},
		"pocket":           {Settings{Subscription: subscription, Endpoint: "https://127.0.0.1:1/", CAFile: authority(t), Credentials: secret}, 0, ""},
		"no credentials":   {Settings{Subscription: subscription}, sdk.Unauthenticated, ""},
		"half":             {Settings{Subscription: subscription, Credentials: with()}, sdk.Unauthenticated, ""},
		"broken file":      {Settings{Subscription: subscription, Credentials: with("AZURE_CLIENT_CERTIFICATE_PATH", garbage)}, sdk.Unauthenticated, "AZURE_CLIENT_CERTIFICATE_PATH"},
		"no file":          {Settings{Subscription: subscription, Credentials: with("AZURE_CLIENT_CERTIFICATE_PATH", garbage+"x")}, sdk.Unauthenticated, "AZURE_CLIENT_CERTIFICATE_PATH"},
		"no subscription":  {Settings{Credentials: secret}, sdk.InvalidArgument, "config.subscription"},
		"a name":           {Settings{Subscription: "Pay-As-You-Go", Credentials: secret}, sdk.InvalidArgument, "config.subscription"},
		"unknown cloud":    {Settings{Subscription: subscription, Cloud: "mars", Credentials: secret}, sdk.InvalidArgument, "config.cloud"},
		"far endpoint":     {Settings{Subscription: subscription, Endpoint: "https://example.com:443", Credentials: secret}, sdk.InvalidArgument, "config.endpoint"},
		"endpoint, no TLS": {Settings{Subscription: subscription, Endpoint: "http://127.0.0.1:80", Credentials: secret}, sdk.InvalidArgument, "config.endpoint"},
		"endpoint, a user": {Settings{Subscription: subscription, Endpoint: "https://127.0.0.1:80@example.com", Credentials: secret}, sdk.InvalidArgument, "config.endpoint"},
		"no certificate":   {Settings{Subscription: subscription, Endpoint: "https://127.0.0.1:1", CAFile: garbage, Credentials: secret}, sdk.InvalidArgument, "config.ca_file"},
		"no such file":     {Settings{Subscription: subscription, Endpoint: "https://127.0.0.1:1", CAFile: garbage + "x", Credentials: secret}, sdk.InvalidArgument, "config.ca_file"},
		"CA for the world": {Settings{Subscription: subscription, CAFile: garbage, Credentials: secret}, sdk.InvalidArgument, "config.ca_file"},
	} {
		x, err := Open(c.s)
		var e *sdk.Error
		if sdk.CodeOf(err) != c.code || errors.As(err, &e) && e.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: the error holds what the file holds", name)
		}
		if x != nil {
			if x.Subscription != subscription {
				t.Errorf("%s: subscription %s", name, x.Subscription)
			}
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func session(t *testing.T) *Session {
	x, err := Open(Settings{Provider: "p", Subscription: subscription, Credentials: map[string]string{"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func answer(status int, body string, header ...string) error {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://management.azure.com/x?api-version=1", nil)
	if err != nil {
		return err
	}
	return runtime.NewResponseError(&http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: req})
}

// TestCodes: only an answer that refuses is clear; Azure's own code and words stay.
func TestCodes(t *testing.T) {
	x := session(t)
	for status, want := range map[int]sdk.Code{400: sdk.InvalidArgument, 401: sdk.Unauthenticated, 403: sdk.PermissionDenied, 404: sdk.NotFound, 408: sdk.DeadlineExceeded,
		409: sdk.Aborted, 410: sdk.NotFound, 412: sdk.Aborted, 413: sdk.InvalidArgument, 429: sdk.ResourceExhausted, 500: sdk.Unavailable, 502: sdk.Unavailable, 503: sdk.Unavailable, 504: sdk.Unavailable} {
		err := x.Call(t.Context(), "op", func(context.Context) error {
			return answer(status, `{"error":{"code":"SomeCode","message":"one\r\n two","details":[{"code":"x","message":"three"}]}}`, "Retry-After", "7")
		})
		code, text := CodeText(err)
		if sdk.CodeOf(err) != want || code != "SomeCode" || text != "one two three" || sdk.RetryAfter(err) != 7*time.Second {
			t.Errorf("%d: %v, %s %q, after %s", status, sdk.CodeOf(err), code, text, sdk.RetryAfter(err))
		}
		if !strings.Contains(err.Error(), "SomeCode: one two three") || strings.Contains(err.Error(), "RESPONSE") {
			t.Errorf("%d: %v", status, err)
		}
	}
	for code, want := range map[string]sdk.Code{"MissingSubscriptionRegistration": sdk.FailedPrecondition, "ResourceGroupNotFound": sdk.NotFound} {
		err := x.Call(t.Context(), "op", func(context.Context) error {
			return answer(map[sdk.Code]int{sdk.FailedPrecondition: 409, sdk.NotFound: 404}[want], `{"error":{"code":"`+code+`","message":"m"}}`)
		})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != want || e.Remedy == "" {
			t.Errorf("%s: %v", code, err)
		}
	}
	for _, body := range []string{"", "<html>", "{}", "[1]"} {
		err := x.Call(t.Context(), "op", func(context.Context) error { return answer(502, body) })
		if sdk.IsClear(err) || !strings.Contains(err.Error(), "502") {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// TestNoAnswerProvesNothing: neither a cut connection, nor a call's own bound, nor
// its caller's end is clear.
func TestNoAnswerProvesNothing(t *testing.T) {
	x := session(t)
	cut := x.Call(t.Context(), "op", func(context.Context) error { return io.ErrUnexpectedEOF })
	if sdk.CodeOf(cut) != sdk.Unavailable || !sdk.IsRetryable(cut) {
		t.Errorf("cut: %v", cut)
	}
	x.timeout = time.Millisecond
	late := x.Call(t.Context(), "op", func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if sdk.CodeOf(late) != sdk.DeadlineExceeded || !sdk.IsRetryable(late) || !errors.Is(late, errNoAnswer) {
		t.Errorf("late: %v", late)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := x.Call(ctx, "op", func(context.Context) error {
		cancel()
		return answer(400, `{"error":{"code":"x","message":"m"}}`)
	})
	if sdk.CodeOf(ended) != sdk.Canceled || sdk.IsClear(ended) {
		t.Errorf("ended: %v", ended)
	}
	if err := x.Call(ctx, "op", func(context.Context) error { panic("called") }); sdk.CodeOf(err) != sdk.Canceled {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		h    http.Header
		want time.Duration
	}{
		"none":     {http.Header{}, 0},
		"seconds":  {http.Header{"Retry-After": {"3"}}, 3 * time.Second},
		"ms":       {http.Header{"X-Ms-Retry-After-Ms": {"250"}, "Retry-After": {"1"}}, 250 * time.Millisecond},
		"a date":   {http.Header{"Retry-After": {"Fri, 31 Dec 1999 23:59:59 GMT"}}, 0},
		"negative": {http.Header{"Retry-After": {"-5"}}, 0},
		"for ever": {http.Header{"Retry-After": {"999999999"}}, maxWait},
	} {
		if got := retryAfter(c.h); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestF53OneBudget: all that lead to one subscription and region spend from one
// budget.
func TestF53OneBudget(t *testing.T) {
	var b Budgets
	one, two := b.For(session(t), "westeurope", "read", 60, 3), b.For(session(t), "westeurope", "read", 60, 3)
	if one != two || one == b.For(session(t), "northeurope", "read", 60, 3) || one == b.For(session(t), "westeurope", "write", 60, 3) {
		t.Fatal("the budgets are the wrong ones")
	}
	ended, cancel := context.WithCancel(t.Context())
	for range 2 {
		if err := two.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := one.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestVaultRefs(t *testing.T) {
	for ref, want := range map[string]bool{
		"secret://azure-kv/my-vault/name": true, "secret://azure-kv/my-vault/name?version=0123456789abcdef0123456789abcdef": true,
		"secret://azure-kv/my-vault": false, "secret://azure-kv/my-vault/name/version": false, "secret://azure-kv/evil.example.com/name": false,
		"secret://azure-kv/v@x/name": false, "secret://azure-kv/my-vault/a_b": false, "secret://azure-kv/my-vault/name#key": false, "secret://azure-kv/my-vault/name?version=latest": false,
	} {
		parsed, err := sdk.ParseSecretRef(ref)
		if err != nil {
			t.Fatal(err)
		}
		if got := CheckVaultRef(parsed) == ""; got != want {
			t.Errorf("%s: %t", ref, got)
		}
	}
}

func TestCheckTag(t *testing.T) {
	for name, want := range map[string]bool{"team": true, "Cost Center": true, "é": true, "": false, "a/b": false, "a%b": false, " a": false, "azureThing": false, strings.Repeat("x", 513): false, "\xff": false} {
		if got := CheckTag(name, "v") == ""; got != want {
			t.Errorf("%.20q: %t", name, got)
		}
	}
	if CheckTag("a", strings.Repeat("é", 256)) != "" || CheckTag("a", strings.Repeat("x", 257)) == "" {
		t.Error("the bound of values is wrong")
	}
}

// FuzzF14TagValue: every text has a legal value, and two have two.
func FuzzF14TagValue(f *testing.F) {
	f.Add("a", "A")
	f.Add("owner@host", strings.Repeat("x", 300))
	f.Add("--0123456789abcdef", "x--0123456789abcdef")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := TagValue(a), TagValue(b)
		for _, v := range []string{x, y} {
			if msg := CheckTag("k", v); msg != "" {
				t.Errorf("%q: %s", v, msg)
			}
		}
		if (a == b) != (x == y) {
			t.Errorf("%q and %q become %q and %q", a, b, x, y)
		}
	})
}

// FuzzAnswer: whatever a server sends as an error, its status decides the class.
func FuzzAnswer(f *testing.F) {
	f.Add(409, `{"error":{"code":"ContainerGroupTransitioning","message":"m"}}`)
	f.Add(500, "")
	f.Add(501, "0")
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 400 || status > 599 {
			return
		}
		x := &Session{provider: "p", timeout: time.Minute}
		err := x.Call(t.Context(), "op", func(context.Context) error { return answer(status, body) })
		if err == nil || sdk.IsClear(err) != (status < 500 && status != 408 || status == 501) {
			t.Errorf("%d %q: %v", status, body, err)
		}
	})
}

// TestNewAuthority: a pocket cloud that is started again shows a certificate of
// another authority, which the file then names; a session that is open reads it.
func TestNewAuthority(t *testing.T) {
	serve := func() *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host+" "+r.Proto) }))
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		own := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"some.vault.localhost"}, NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	pemOf := func(s *httptest.Server) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.TLS.Certificates[0].Certificate[0]})
	}
	old, now := serve(), serve()
	file := write(t, pemOf(old))
	transport, err := Settings{Endpoint: now.URL, CAFile: file}.transport()
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	get := func() (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://some.vault.localhost/", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			return "", err
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		return string(body), err
	}
	if got, err := get(); !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Fatalf("by the old authority: %q, %v", got, err)
	}
	if err := os.WriteFile(file, pemOf(now), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := get(); err != nil || got != "some.vault.localhost HTTP/2.0" {
		t.Errorf("by the new one: %q, %v", got, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	transport.CloseIdleConnections()
	if got, err := get(); sdk.CodeOf(err) != sdk.InvalidArgument || !strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %q, %v", got, err)
	}
}
