package runner

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/sandboxpb"
)

const (
	tokenA = "aaaaaaaaaaaaaaaaaaaa"
	tokenB = "bbbbbbbbbbbbbbbbbbbb"
)

func secretOf(s string) sdk.SecretValue { return sdk.NewSecretValue([]byte(s)) }

// TestWhoMayCall: who comes in, as whom, by certificate and by token, and that nobody
// else makes a row.
func TestWhoMayCall(t *testing.T) {
	w := newWorld(t)
	stranger := newAuthority(t, filepath.Join(w.dir, "stranger"))
	both := w.serve(w.options(Client{Name: "alice", Token: secretOf(tokenA)}, Client{Name: "bob", Token: secretOf(tokenB)}, Client{Name: "carol"}))
	for _, c := range []struct {
		name   string
		ca     *authority
		cert   string // common name; empty brings none
		header []string
		want   sdk.Code // 0: comes in
	}{
		{name: "token", header: []string{"Bearer " + tokenA}},
		{name: "token, the scheme in small letters", header: []string{"bearer " + tokenA}},
		{name: "token and certificate", cert: "alice", header: []string{"Bearer " + tokenA}},
		{name: "certificate", cert: "carol"},
		{name: "nothing", want: sdk.Unauthenticated},
		{name: "wrong token", header: []string{"Bearer " + tokenA + "x"}, want: sdk.Unauthenticated},
		{name: "part of a token", header: []string{"Bearer " + tokenA[1:]}, want: sdk.Unauthenticated},
		{name: "empty token", header: []string{"Bearer "}, want: sdk.Unauthenticated},
		{name: "no scheme", header: []string{tokenA}, want: sdk.Unauthenticated},
		{name: "other scheme", header: []string{"Basic " + tokenA}, want: sdk.Unauthenticated},
		{name: "two tokens", header: []string{"Bearer " + tokenA, "Bearer " + tokenB}, want: sdk.Unauthenticated},
		{name: "another's token", cert: "carol", header: []string{"Bearer " + tokenA}, want: sdk.Unauthenticated},
		{name: "wrong token with a certificate", cert: "carol", header: []string{"Bearer x"}, want: sdk.Unauthenticated},
		{name: "certificate alone where a token is a must", cert: "alice", want: sdk.Unauthenticated},
		{name: "certificate of nobody", cert: "mallory", want: sdk.PermissionDenied},
		{name: "certificate that looks like a person", cert: "root@here", want: sdk.Unauthenticated},
		{name: "certificate of a stranger", ca: stranger, cert: "carol", want: sdk.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool, err := readPool(w.ca.file)
			if err != nil {
				t.Fatal(err)
			}
			tc := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}
			if c.cert != "" {
				ca := w.ca
				if c.ca != nil {
					ca = c.ca
				}
				pair, err := readPair(ca.issue(c.cert))
				if err != nil {
					t.Fatal(err)
				}
				// Also one that the server doesn't ask for is sent.
				tc.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			}
			conn, err := grpc.NewClient(both.addr, grpc.WithTransportCredentials(credentials.NewTLS(tc)), grpc.WithDisableServiceConfig())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { w.must(conn.Close()) }()
			ctx := w.ctx()
			for _, h := range c.header {
				ctx = metadata.AppendToOutgoingContext(ctx, authHeader, h)
			}
			before := len(w.runs())
			stream, err := sandboxpb.NewSandboxExecServiceClient(conn).Exec(ctx, &sandboxpb.SandboxExecRequest{Image: "img", Command: words("true")})
			if err == nil {
				_, _, _, err = everything(stream)
			}
			if c.want == 0 {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if codeFrom(err) != c.want || len(w.runs()) != before {
				t.Errorf("got %v, %d rows more", err, len(w.runs())-before)
			}
			if err != nil && (strings.Contains(err.Error(), tokenA) || strings.Contains(err.Error(), tokenB)) {
				t.Errorf("the error tells the token: %v", err)
			}
		})
	}
	if strings.Contains(w.log.String(), tokenA) || strings.Contains(w.log.String(), tokenB) {
		t.Error("a token stands in the log")
	}
}

// TestTLS13: an older TLS isn't spoken, and without a client's certificate no word is
// exchanged where certificates are the only way in.
func TestTLS13(t *testing.T) {
	w := newWorld(t)
	s := w.serve(w.options())
	pool, err := readPool(w.ca.file)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := readPair(w.ca.issue("ci"))
	if err != nil {
		t.Fatal(err)
	}
	old := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if c, err := (&tls.Dialer{Config: old}).DialContext(w.ctx(), "tcp", s.addr); err == nil {
		t.Error("speaks TLS 1.2")
		w.must(c.Close())
	}
	bare := w.environment(ClientOptions{Name: "far", Address: s.addr, CAFile: w.ca.file})
	if _, err := bare.Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput()}); sdk.CodeOf(err) != sdk.Unavailable {
		t.Errorf("got %v", err)
	}
	// The client trusts nobody but its CA, and no other name.
	cert, key := w.ca.issue("ci")
	stranger := newAuthority(t, filepath.Join(w.dir, "stranger"))
	for _, o := range []ClientOptions{{CAFile: stranger.file}, {CAFile: w.ca.file, ServerName: "elsewhere.example.com"}} {
		o.Name, o.Address, o.CertFile, o.KeyFile = "far", s.addr, cert, key
		if _, err := w.environment(o).Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput()}); sdk.CodeOf(err) != sdk.Unavailable || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("got %v", err)
		}
	}
	if n := len(w.runs()); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// TestRenewedCertificate: a certificate that is replaced on disk is used for the next
// connection; one that doesn't fit its key at the moment is not.
func TestRenewedCertificate(t *testing.T) {
	w := newWorld(t)
	s, err := unlocked(w.options())
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		t.Helper()
		pair, err := s.tls.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.SerialNumber.Int64()
	}
	first := serial()
	cert, key := w.ca.issue("server", "127.0.0.1")
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(cert, s.o.CertFile)
	if got := serial(); got != first {
		t.Errorf("serves %d with the key of %d", got, first)
	}
	move(key, s.o.KeyFile)
	if got := serial(); got == first {
		t.Error("serves the old one")
	}
}

// TestNoDoor: a server that couldn't tell who calls doesn't start.
func TestNoDoor(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*Options){
		"neither CA nor token": func(o *Options) { o.ClientCAFile = "" },
		"a client without either": func(o *Options) {
			o.ClientCAFile, o.Clients = "", []Client{{Name: "a", Token: secretOf(tokenA)}, {Name: "b"}}
		},
		"a short token": func(o *Options) { o.Clients = []Client{{Name: "a", Token: secretOf("short")}} },
		"the same token twice": func(o *Options) {
			o.Clients = []Client{{Name: "a", Token: secretOf(tokenA)}, {Name: "b", Token: secretOf(tokenA)}}
		},
		"the same client twice":     func(o *Options) { o.Clients = []Client{{Name: "a"}, {Name: "a"}} },
		"a name like a person's":    func(o *Options) { o.Clients = []Client{{Name: "a@b"}} },
		"an unknown profile":        func(o *Options) { o.Clients = []Client{{Name: "a", Profile: "default"}} },
		"a grant of everything":     func(o *Options) { o.Clients = []Client{{Name: "a", Secrets: []string{"secret://env/*"}}} },
		"a limit below 0":           func(o *Options) { o.Clients = []Client{{Name: "a", MaxJobs: -1}} },
		"no certificate":            func(o *Options) { o.CertFile = filepath.Join(w.dir, "none.pem") },
		"a key of another":          func(o *Options) { _, o.KeyFile = w.ca.issue("other") },
		"a CA file without any":     func(o *Options) { o.ClientCAFile = o.KeyFile },
		"a CA file that isn't here": func(o *Options) { o.ClientCAFile = filepath.Join(w.dir, "none.pem") },
	} {
		o := w.options()
		change(&o)
		s, err := New(o)
		var e *sdk.Error
		if !errors.As(err, &e) || e.ID == "" || s != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), tokenA) {
			t.Errorf("%s: tells the token: %v", name, err)
		}
	}
}

// TestNameOf: the common name, else the only DNS name; nothing is guessed.
func TestNameOf(t *testing.T) {
	for _, c := range []struct {
		cert x509.Certificate
		want string
	}{
		{x509.Certificate{Subject: pkix.Name{CommonName: "ci"}, DNSNames: []string{"other"}}, "ci"},
		{x509.Certificate{DNSNames: []string{"ci.example.com"}}, "ci.example.com"},
		{x509.Certificate{DNSNames: []string{"a", "b"}}, ""},
		{x509.Certificate{}, ""},
		{x509.Certificate{Subject: pkix.Name{CommonName: "a b"}}, ""},
		{x509.Certificate{Subject: pkix.Name{CommonName: "-a"}}, ""},
		{x509.Certificate{Subject: pkix.Name{CommonName: "a\nb"}}, ""},
		{x509.Certificate{Subject: pkix.Name{CommonName: "root@here"}, DNSNames: []string{"ci"}}, ""},
		{x509.Certificate{Subject: pkix.Name{CommonName: strings.Repeat("a", 129)}}, ""},
	} {
		got, err := nameOf(&c.cert)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q %v: %q, %v", c.cert.Subject.CommonName, c.cert.DNSNames, got, err)
		}
	}
}

// TestClientOptions: what doesn't fit is said before anything is called.
func TestClientOptions(t *testing.T) {
	w := newWorld(t)
	cert, key := w.ca.issue("ci")
	_, other := w.ca.issue("other")
	for _, o := range []ClientOptions{{Address: "nohost"}, {Address: ""}, {Address: "h:1", CertFile: cert}, {Address: "h:1", KeyFile: key},
		{Address: "h:1", CertFile: cert, KeyFile: other}, {Address: "h:1", CAFile: key}, {Address: "h:1", CAFile: cert + "x"}} {
		o.Name = "far"
		_, err := NewEnvironment(o)
		var e *sdk.Error
		if !errors.As(err, &e) || e.ID != ErrTLS || !strings.Contains(err.Error(), "far") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
