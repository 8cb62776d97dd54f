package runner

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/sandboxpb"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; none of them should need it.
const patience = 2 * time.Minute

// world is a state folder with a fake cloud, an engine over both, and the files
// of a CA.
type world struct {
	t      *testing.T
	dir    string
	cloud  *fake.Cloud
	store  *sqlite.Store
	logs   *joblog.Store
	engine *control.Engine
	ca     *authority
	log    lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

const canary = "s3cr3t-canary"

type secrets struct{}

func (secrets) ResolveSecret(context.Context, sdk.SecretRef) (sdk.SecretValue, error) {
	return sdk.NewSecretValue([]byte(canary)), nil
}

type providers struct{ b control.Backend }

func (p providers) Backend(_ context.Context, name string) (control.Backend, error) {
	if name != p.b.Name {
		return control.Backend{}, sdk.Errorf(sdk.NotFound, "open provider", "no provider %q", name)
	}
	return p.b, nil
}

func (p providers) BackendFor(ctx context.Context, run ledger.Run) (control.Backend, error) {
	return p.Backend(ctx, run.Provider)
}

func (p providers) Names() []string { return []string{p.b.Name} }

func newWorld(t *testing.T, options ...joblog.Options) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), cloud: fake.NewCloud(fake.Options{Record: true})}
	w.ca = newAuthority(t, filepath.Join(w.dir, "ca"))
	var err error
	if w.store, err = sqlite.Open(t.Context(), w.dir, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.must(w.store.Close()) })
	if w.logs, err = joblog.Open(filepath.Join(w.dir, "logs"), append(options, joblog.Options{})[0]); err != nil {
		t.Fatal(err)
	}
	w.engine = w.newEngine()
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

// newEngine opens an engine with a provider of its own, as a process would.
func (w *world) newEngine() *control.Engine {
	w.t.Helper()
	d := fake.NewDriver(w.cloud, fake.Settings{})
	state := filepath.Join(w.dir, "driver")
	w.must(os.MkdirAll(state, 0o700))
	p, err := d.Open(w.t.Context(), sdk.OpenRequest{Name: "fake", Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()),
		Log: slog.New(slog.DiscardHandler), Owner: w.store.ID(), LedgerID: w.store.ID(), StateDir: state, Secrets: secrets{}})
	if err != nil {
		w.t.Fatal(err)
	}
	b := control.Backend{Provider: p, Driver: &d, Name: "fake", PollInterval: 20 * time.Millisecond, CallTimeout: patience}
	e, err := control.New(w.t.Context(), control.Options{Store: w.store, Logs: w.logs, Providers: providers{b}, StateDir: w.dir, Actor: "engine@test"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		w.must(e.Close(ctx))
		w.must(p.Close())
	})
	return e
}

// options are a server's that knows clients by certificate.
func (w *world) options(clients ...Client) Options {
	cert, key := w.ca.issue("server", "127.0.0.1")
	return Options{Engine: w.engine, Runs: w.store, Provider: "fake", StateDir: w.dir, Actor: "operator@test", CertFile: cert, KeyFile: key,
		ClientCAFile: w.ca.file, Clients: clients, Log: slog.New(slog.NewTextHandler(&w.log, nil))}
}

// served is a server that serves.
type served struct {
	*Server
	addr string
	stop func()
	// over is closed when Serve has returned err.
	over chan struct{}
	err  error
}

func (w *world) serve(o Options) *served {
	w.t.Helper()
	s, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.serveOn(s)
}

func (w *world) serveOn(s *Server) *served {
	w.t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	out := &served{Server: s, addr: lis.Addr().String(), stop: stop, over: make(chan struct{})}
	go func() {
		defer close(out.over)
		out.err = s.Serve(ctx, lis)
	}()
	w.t.Cleanup(func() {
		out.end(w.t)
		w.must(s.Close())
	})
	return out
}

// end stops the server and waits until it has ended.
func (s *served) end(t *testing.T) {
	t.Helper()
	s.stop()
	select {
	case <-s.over:
	case <-time.After(patience):
		t.Fatal("the server doesn't end")
	}
	if s.err != nil {
		t.Error(s.err)
	}
}

// client is an environment with a certificate of that name.
func (w *world) client(s *served, name string) *Environment {
	w.t.Helper()
	cert, key := w.ca.issue(name)
	return w.environment(ClientOptions{Name: "far", Address: s.addr, CAFile: w.ca.file, CertFile: cert, KeyFile: key})
}

func (w *world) environment(o ClientOptions) *Environment {
	w.t.Helper()
	e, err := NewEnvironment(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.must(e.Close()) })
	return e
}

// raw is the bare wire, with a certificate of that name.
func (w *world) raw(addr, name string) sandboxpb.SandboxExecServiceClient {
	return sandboxpb.NewSandboxExecServiceClient(w.conn(addr, name))
}

func (w *world) conn(addr, name string) *grpc.ClientConn {
	w.t.Helper()
	pool, err := readPool(w.ca.file)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}
	if name != "" {
		pair, err := readPair(w.ca.issue(name))
		if err != nil {
			w.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	// Windows that don't grow: a caller that reads nothing holds the server up soon.
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(c)), grpc.WithDisableServiceConfig(),
		grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.must(conn.Close()) })
	return conn
}

// runs lists the ledger's runs, oldest first.
func (w *world) runs() []ledger.Run {
	w.t.Helper()
	var out []ledger.Run
	for r, err := range w.store.Runs(w.t.Context(), ledger.RunFilter{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b ledger.Run) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return out
}

// run is the only run, once it is finished.
func (w *world) run() ledger.Run {
	w.t.Helper()
	all := w.runs()
	if len(all) != 1 {
		w.t.Fatalf("%d runs, want 1", len(all))
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	r, err := w.engine.Wait(ctx, all[0].ID, control.MilestoneFinished)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) spec(r ledger.Run) sdk.JobSpec {
	w.t.Helper()
	s, err := sdk.DecodeSpec(r.Spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// output collects what an execution writes.
type output struct {
	mu       sync.Mutex
	out, err bytes.Buffer
	first    chan struct{}
	once     sync.Once
	fail     error
	notes    []string
}

func newOutput() *output { return &output{first: make(chan struct{}, 1)} }

func (o *output) Write(s sdk.Stream, data []byte) error {
	o.once.Do(func() { o.first <- struct{}{} })
	o.mu.Lock()
	defer o.mu.Unlock()
	if s == sdk.StreamStderr {
		o.err.Write(data)
	} else {
		o.out.Write(data)
	}
	return o.fail
}

func (o *output) Note(text string) { o.notes = append(o.notes, text) }
func (o *output) Started(sdk.ID)   {}

func (o *output) texts() (string, string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.out.String(), o.err.String()
}

// exec is an execution of a script of the fake cloud, "echo up; hang".
func exec(script string) sandbox.Exec { return sandbox.Exec{Image: "img", Command: words(script)} }

func words(script string) []string { return strings.Fields(strings.ReplaceAll(script, ";", " ; ")) }

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

// closed waits until c is closed.
func closed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	testwait.Until(t, patience, what, func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	})
}

// authority is a CA.
type authority struct {
	t    *testing.T
	dir  string
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	mu   sync.Mutex
	n    int64
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir, file: filepath.Join(dir, "ca.pem")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write(a.file, "CERTIFICATE", der)
	return a
}

// issue makes a certificate with that common name, for these IP addresses.
func (a *authority) issue(name string, ips ...string) (cert, key string) {
	a.t.Helper()
	return a.issueFrom(&x509.Certificate{Subject: pkix.Name{CommonName: name}}, ips...)
}

func (a *authority) issueFrom(tmpl *x509.Certificate, ips ...string) (cert, key string) {
	a.t.Helper()
	a.mu.Lock()
	a.n++
	n := a.n
	a.mu.Unlock()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl.SerialNumber = big.NewInt(n + 1)
	tmpl.NotBefore, tmpl.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	for _, ip := range ips {
		tmpl.IPAddresses = append(tmpl.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	base := filepath.Join(a.dir, big.NewInt(n).String())
	a.write(base+".pem", "CERTIFICATE", der)
	a.write(base+"-key.pem", "PRIVATE KEY", raw)
	return base + ".pem", base + "-key.pem"
}

func (a *authority) write(path, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func cancelBy(run sdk.ID, actor string) control.CancelRequest {
	return control.CancelRequest{Run: run, Actor: actor, Why: "test"}
}
