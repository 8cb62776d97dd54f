//go:build linux

package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
)

// TestDockerContextTLS runs on a Docker engine behind TLS that wants a client's
// certificate, found by a context, as Docker's own client keeps them. The TLS stands in
// front of the engine's socket; what is behind it is the engine.
func TestDockerContextTLS(t *testing.T) {
	host := testneed.Docker(t)
	p := newProgram(t, "off")
	certificates(t, p.dir)
	address := tlsFront(t, p.dir, strings.TrimPrefix(host, "unix://"))
	docker := filepath.Join(p.dir, ".docker")
	p.env = append(p.env, "DOCKER_CONFIG="+docker)
	for name, cert := range map[string]string{"far": "ci", "stranger": ""} {
		p.dockerContext(docker, name, address, cert)
	}
	p.env = append(p.env, "DOCKER_CONTEXT=far")
	if out, code := p.do("run", "--on", "docker", "--image", testneed.Image, "--", "sh", "-c", "echo by TLS; exit 3"); code != 3 || out != "by TLS\n" {
		t.Errorf("exit %d, %q", code, out)
	}
	// Input goes through an upgraded connection.
	cmd := p.command("run", "-i", "--on", "docker", "--image", testneed.Image, "--", "cat")
	cmd.Stdin = strings.NewReader("one\ntwo\n")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "one\ntwo\n" {
		t.Errorf("%v: %q", err, out)
	}
	p.env = append(p.env, "DOCKER_CONTEXT=stranger")
	if out, err := p.command("run", "--on", "docker", "--image", testneed.Image, "--", "true").CombinedOutput(); err == nil || !strings.Contains(string(out), "certificate") {
		t.Errorf("without a certificate: %v, %s", err, out)
	}
}

// dockerContext writes a context of Docker's client, with the files of a certificate of
// certificates unless cert is empty.
func (p *program) dockerContext(dir, name, address, cert string) {
	p.t.Helper()
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	meta, keys := filepath.Join(dir, "contexts", "meta", hash), filepath.Join(dir, "contexts", "tls", hash, "docker")
	for _, d := range []string{meta, keys} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			p.t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Name": name, "Metadata": map[string]any{}, "Endpoints": map[string]any{"docker": map[string]any{"Host": "tcp://" + address, "SkipTLSVerify": false}}})
	if err != nil {
		p.t.Fatal(err)
	}
	files := map[string]string{"ca.pem": "ca.pem"}
	if cert != "" {
		files["cert.pem"], files["key.pem"] = cert+".pem", cert+"-key.pem"
	}
	for to, from := range files {
		b, err := os.ReadFile(filepath.Join(p.dir, from))
		if err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(keys, to), b, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(meta, "meta.json"), text, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// tlsFront serves TLS that wants certificates of the authority in dir, and passes what
// is said on to a socket.
func tlsFront(t *testing.T, dir, socket string) (address string) {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { passOn(c, socket) })
		}
	})
	return l.Addr().String()
}

// passOn copies both ways until both are over. An end of input is passed on as one.
func passOn(c net.Conn, socket string) {
	defer c.Close()
	s, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer s.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(s, c)
		if u, ok := s.(*net.UnixConn); ok {
			_ = u.CloseWrite()
		}
	})
	_, _ = io.Copy(c, s)
	if u, ok := c.(*tls.Conn); ok {
		_ = u.CloseWrite()
	}
	wg.Wait()
}
