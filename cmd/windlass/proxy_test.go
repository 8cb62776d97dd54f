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
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
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

// TestProxyAndPrivateCA: every cloud is reached through the proxy that the environment
// names, and by the authorities that it names; without those no request is made.
func TestProxyAndPrivateCA(t *testing.T) {
	t.Parallel()
	hosts := map[string]string{"ecs": "sts.eu-west-1.amazonaws.com", "batch": "sts.eu-west-1.amazonaws.com", "run": "oauth2.googleapis.com",
		"aci": "login.microsoftonline.com", "do": "api.digitalocean.com"}
	authority, cert := privateCA(t, "*.eu-west-1.amazonaws.com", "*.googleapis.com", "login.microsoftonline.com", "api.digitalocean.com")
	var mu sync.Mutex
	var asked []string
	cloud := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Host)
		mu.Unlock()
		http.Error(w, "{}", http.StatusForbidden)
	}))
	cloud.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	cloud.Config.ErrorLog = log.New(io.Discard, "", 0) // what it says of refused handshakes
	cloud.StartTLS()
	t.Cleanup(cloud.Close)
	through := &connectProxy{to: cloud.Listener.Addr().String()}
	proxy := httptest.NewServer(through)
	t.Cleanup(proxy.Close)

	p := newProgram(t, "off")
	write := func(name string, b []byte) string {
		t.Helper()
		path := filepath.Join(p.dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("windlass.yaml", []byte(`providers:
  ecs: {kind: aws-ecs, config: {region: eu-west-1, cluster: c, subnets: [subnet-1]}}
  batch: {kind: aws-batch, config: {region: eu-west-1, queue: q}}
  run: {kind: gcp-cloudrun, config: {project: my-project-1, region: europe-west1}}
  aci: {kind: azure-aci, config: {subscription: 11111111-1111-1111-1111-111111111111, resource_group: rg, location: westeurope}}
  do: {kind: digitalocean, config: {region: fra}}
`))
	p.env = append(p.env, "HTTPS_PROXY="+proxy.URL, "AWS_ACCESS_KEY_ID=AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY=x",
		"AZURE_TENANT_ID=22222222-2222-2222-2222-222222222222", "AZURE_CLIENT_ID=33333333-3333-3333-3333-333333333333", "AZURE_CLIENT_SECRET=s",
		"DIGITALOCEAN_ACCESS_TOKEN=dop_v1_x", "GOOGLE_APPLICATION_CREDENTIALS="+write("sa.json", serviceAccount(t)))
	unknown := append(p.env[:len(p.env):len(p.env)], "SSL_CERT_FILE="+os.DevNull)
	p.env = append(p.env, "SSL_CERT_FILE="+write("ca.pem", authority))
	for name, host := range hosts {
		t.Run(name, func(t *testing.T) {
			check := func(env []string) (tunnels, requests []string) {
				through.mu.Lock()
				through.hosts = nil
				through.mu.Unlock()
				mu.Lock()
				asked = nil
				mu.Unlock()
				q := *p
				q.t, q.env = t, env
				_, _ = q.do("provider", "check", name) // refused, as the server refuses all
				through.mu.Lock()
				mu.Lock()
				defer through.mu.Unlock()
				defer mu.Unlock()
				return slices.Clone(through.hosts), slices.Clone(asked)
			}
			tunnels, requests := check(p.env)
			if !slices.Contains(tunnels, host+":443") || !slices.Contains(requests, host) {
				t.Errorf("through the proxy to %v, asked of %v; want %s", tunnels, requests, host)
			}
			if tunnels, requests = check(unknown); !slices.Contains(tunnels, host+":443") || len(requests) != 0 {
				t.Errorf("with an unknown authority: through the proxy to %v, asked of %v", tunnels, requests)
			}
		})
	}
}
