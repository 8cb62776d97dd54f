package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// valid is how long certificates are good for.
const valid = 30 * 24 * time.Hour

// identities writes certificates, tokens and kubeconfigs into a folder. The tokens
// are no secret: the API server is reached on this machine's loopback alone.
func identities(dir string, c *cluster) error {
	write := func(name, text string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	ca, err := newAuthority("windlass-test-cluster")
	if err != nil {
		return err
	}
	front, err := newAuthority("front-proxy")
	if err != nil {
		return err
	}
	api, apiKey, err := ca.leaf("kube-apiserver", []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1), net.IPv4(10, 88, 0, 1))
	if err != nil {
		return err
	}
	proxy, proxyKey, err := front.leaf("front-proxy-client", nil)
	if err != nil {
		return err
	}
	sa, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	c.Authority, c.Token, c.Kubeconfig = ca.pem(), "admin-token", filepath.Join(dir, "outside.kubeconfig")
	files := map[string]string{
		"ca.crt": ca.pem(), "front.crt": front.pem(), "api.crt": api, "api.key": apiKey, "proxy.crt": proxy, "proxy.key": proxyKey,
		"sa.key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(sa)})),
		"tokens.csv": "admin-token,admin,admin,system:masters\nkcm-token,kcm,kcm,system:masters\n" +
			"sched-token,system:kube-scheduler,sched\nnode-token,system:node:node1,node1,system:nodes\n",
		filepath.Base(c.Kubeconfig): kubeconfig(c.Server, ca.pem(), "admin-token"),
	}
	for _, user := range []string{"admin", "kcm", "sched", "node"} {
		files[user+".kubeconfig"] = kubeconfig("https://127.0.0.1:443", ca.pem(), user+"-token")
	}
	for name, text := range files {
		if err := write(name, text); err != nil {
			return err
		}
	}
	return nil
}

func kubeconfig(server, authority, token string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: test, user: {token: %s}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, server, base64.StdEncoding.EncodeToString([]byte(authority)), token)
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template(name)
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

func (a *authority) pem() string { return certificatePEM(a.cert.Raw) }

func (a *authority) leaf(name string, names []string, addresses ...net.IP) (cert, key string, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	t := template(name)
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.DNSNames, t.IPAddresses = names, addresses
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, k.Public(), a.key)
	if err != nil {
		return "", "", err
	}
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return "", "", err
	}
	return certificatePEM(der), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})), nil
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(valid)}
}

func certificatePEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
