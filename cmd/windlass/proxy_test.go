//go:build linux

package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed"
)

// connectProxy is a proxy that leads every tunnel to one server, and notes for where
// it was meant.
type connectProxy struct {
	mu    sync.Mutex
	hosts []string
	to    string
}

func (p *connectProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.hosts = append(p.hosts, r.Host)
	p.mu.Unlock()
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	far, err := net.Dial("tcp", p.to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	near, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		_ = far.Close()
		return
	}
	_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
	var wg sync.WaitGroup
	pass := func(to net.Conn, from io.Reader) {
		_, _ = io.Copy(to, from)
		_ = near.Close()
		_ = far.Close()
	}
	wg.Go(func() { pass(far, bufio.NewReader(buffered)) })
	wg.Go(func() { pass(near, far) })
	wg.Wait()
}

// privateCA makes an authority that nobody knows, and a certificate of it for names.
func privateCA(t *testing.T, names ...string) (authority []byte, cert tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "private"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: names, NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}), tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}
}

// serviceAccount is a key file of Google's.
func serviceAccount(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]string{"type": "service_account", "project_id": "my-project-1", "private_key_id": "1", "client_id": "1",
		"client_email": "a@my-project-1.iam.gserviceaccount.com", "token_uri": "https://oauth2.googleapis.com/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// proxied are providers of clouds and clusters behind a proxy, whose far ends are one
// server with a certificate of an authority that nobody knows.
type proxied struct {
	*program
	cert    tls.Certificate
	through *connectProxy
	// trusting has the authority and the proxy, unknown another authority.
	trusting, unknown []string

	mu    sync.Mutex
	asked []string
}

// proxiedHosts are the hosts that a check of each provider first asks.
func proxiedHosts() map[string]string {
	return map[string]string{"ecs": "sts.eu-west-1.amazonaws.com", "batch": "sts.eu-west-1.amazonaws.com", "run": "oauth2.googleapis.com",
		"aci": "login.microsoftonline.com", "do": "api.digitalocean.com", "kube": "cluster.example.com", "argo": "argo.example.com"}
}

// ServeHTTP refuses all, and notes who was asked.
func (p *proxied) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Host)
	p.mu.Unlock()
	http.Error(w, "{}", http.StatusForbidden)
}

// serve answers for all hosts at a listener.
func (p *proxied) serve(l net.Listener) *httptest.Server {
	cloud := httptest.NewUnstartedServer(p)
	if l != nil {
		_ = cloud.Listener.Close()
		cloud.Listener = l
	}
	cloud.TLS = &tls.Config{Certificates: []tls.Certificate{p.cert}, MinVersion: tls.VersionTLS12}
	cloud.Config.ErrorLog = log.New(io.Discard, "", 0) // what it says of refused handshakes
	cloud.StartTLS()
	p.t.Cleanup(cloud.Close)
	return cloud
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	p := &proxied{program: newProgram(t, "off")}
	authority, cert := privateCA(t, "*.eu-west-1.amazonaws.com", "*.googleapis.com", "login.microsoftonline.com", "api.digitalocean.com", "*.example.com")
	p.cert = cert
	p.through = &connectProxy{to: p.serve(nil).Listener.Addr().String()}
	proxy := httptest.NewServer(p.through)
	t.Cleanup(proxy.Close)
	file := func(name string, b []byte) string {
		p.write(name, string(b))
		return filepath.Join(p.dir, name)
	}
	kubeconfig := file("kubeconfig", []byte(`apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://cluster.example.com"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u, namespace: jobs}}]
`))
	p.write("windlass.yaml", fmt.Sprintf(`providers:
  ecs: {kind: aws-ecs, config: {region: eu-west-1, cluster: c, subnets: [subnet-1]}}
  batch: {kind: aws-batch, config: {region: eu-west-1, queue: q}}
  run: {kind: gcp-cloudrun, config: {project: my-project-1, region: europe-west1}}
  aci: {kind: azure-aci, config: {subscription: 11111111-1111-1111-1111-111111111111, resource_group: rg, location: westeurope}}
  do: {kind: digitalocean, config: {region: fra}}
  kube: {kind: kubernetes, config: {kubeconfig: %q}}
  argo: {kind: argo, config: {endpoint: "https://argo.example.com", namespace: jobs}}
  engine: {kind: docker, config: {host: "tcp://engine.example.com:2375"}}
`, kubeconfig))
	p.env = append(p.env, "HTTPS_PROXY="+proxy.URL, "HTTP_PROXY="+proxy.URL, "AWS_ACCESS_KEY_ID=AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY=x",
		"AZURE_TENANT_ID=22222222-2222-2222-2222-222222222222", "AZURE_CLIENT_ID=33333333-3333-3333-3333-333333333333", "AZURE_CLIENT_SECRET=s",
		"DIGITALOCEAN_ACCESS_TOKEN=dop_v1_x", "ARGO_TOKEN=t", "GOOGLE_APPLICATION_CREDENTIALS="+file("sa.json", serviceAccount(t)))
	p.unknown = append(slices.Clone(p.env), "SSL_CERT_FILE="+os.DevNull)
	p.trusting = append(slices.Clone(p.env), "SSL_CERT_FILE="+file("ca.pem", authority))
	return p
}

// check checks a provider, by a wrapper of the program where there is one, and returns
// the hosts for which the proxy was asked, and those that were asked themselves.
func (p *proxied) check(t *testing.T, env, wrapper []string, name string) (tunnels, requests []string) {
	t.Helper()
	p.through.mu.Lock()
	p.through.hosts = nil
	p.through.mu.Unlock()
	p.mu.Lock()
	p.asked = nil
	p.mu.Unlock()
	q := *p.program
	q.t, q.env = t, env
	cmd := q.command("provider", "check", name)
	if len(wrapper) > 0 {
		args := append(slices.Clone(wrapper), cmd.Args...)
		cmd = exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Env = q.dir, q.env
	}
	out, _ := cmd.CombinedOutput() // refused, as the server refuses all
	t.Logf("%s", out)
	p.through.mu.Lock()
	p.mu.Lock()
	defer p.through.mu.Unlock()
	defer p.mu.Unlock()
	return slices.Clone(p.through.hosts), slices.Clone(p.asked)
}

// TestProxyAndPrivateCA: every cloud is reached through the proxy that the environment
// names, and by the authorities that it names; without those no request is made.
func TestProxyAndPrivateCA(t *testing.T) {
	t.Parallel()
	p := newProxied(t)
	for name, host := range proxiedHosts() {
		t.Run(name, func(t *testing.T) {
			tunnels, requests := p.check(t, p.trusting, nil, name)
			if !slices.Contains(tunnels, host+":443") || !slices.Contains(requests, host) {
				t.Errorf("through the proxy to %v, asked of %v; want %s", tunnels, requests, host)
			}
			if tunnels, requests = p.check(t, p.unknown, nil, name); !slices.Contains(tunnels, host+":443") || len(requests) != 0 {
				t.Errorf("with an unknown authority: through the proxy to %v, asked of %v", tunnels, requests)
			}
		})
	}
}

// TestNoProxy: hosts of NO_PROXY, by name, by domain and by a star, are reached past the
// proxy by the client of each kind, and others through it; so is a Docker engine at an
// address. The names lead to this machine, by a file of hosts that these programs alone see.
func TestNoProxy(t *testing.T) {
	t.Parallel()
	testneed.Root(t)
	testneed.Program(t, "unshare")
	p := newProxied(t)
	const self = "127.81.0.43" // of this machine, and nobody else's
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", self+":443")
	if err != nil {
		testneed.Missing(t, "an address for servers", err, "run the tests as root, with port 443 of "+self+" free")
	}
	p.serve(l)
	hosts := "127.0.0.1 localhost\n" + self + " engine.example.com\n"
	for _, host := range proxiedHosts() {
		hosts += self + " " + host + "\n"
	}
	p.write("hosts", hosts)
	inside := []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, filepath.Join(p.dir, "hosts")}
	if out, err := exec.CommandContext(t.Context(), inside[0], append(inside[1:], "true")...).CombinedOutput(); err != nil {
		testneed.Missing(t, "the right to mount", fmt.Errorf("%w: %s", err, out), "run the tests in a container with CAP_SYS_ADMIN")
	}
	direct := func(t *testing.T, name, host, value string) {
		t.Helper()
		if tunnels, requests := p.check(t, append(slices.Clone(p.trusting), "NO_PROXY="+value), inside, name); slices.Contains(tunnels, host+":443") || !slices.Contains(requests, host) {
			t.Errorf("NO_PROXY=%s: through the proxy to %v, asked of %v; want %s directly", value, tunnels, requests, host)
		}
	}
	for name, host := range proxiedHosts() {
		t.Run(name, func(t *testing.T) {
			_, domain, _ := strings.Cut(host, ".")
			direct(t, name, host, "other.example.org,."+domain)
		})
	}
	direct(t, "do", "api.digitalocean.com", "api.digitalocean.com")
	direct(t, "do", "api.digitalocean.com", "*")
	if tunnels, _ := p.check(t, append(slices.Clone(p.trusting), "NO_PROXY=digitalocean.org"), inside, "do"); !slices.Contains(tunnels, "api.digitalocean.com:443") {
		t.Errorf("NO_PROXY of another: through the proxy to %v", tunnels)
	}
	const engine = "engine.example.com:2375"
	if tunnels, _ := p.check(t, p.trusting, inside, "engine"); !slices.Contains(tunnels, engine) {
		t.Errorf("a Docker engine: through the proxy to %v", tunnels)
	}
	if tunnels, _ := p.check(t, append(slices.Clone(p.trusting), "NO_PROXY=engine.example.com"), inside, "engine"); len(tunnels) > 0 {
		t.Errorf("a Docker engine of NO_PROXY: through the proxy to %v", tunnels)
	}
}
