//go:build linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/runner"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// runnerServer is the program as a remote runner on Docker.
type runnerServer struct {
	*program
	cmd  *exec.Cmd
	errs *lockedBuffer
	addr string
}

const runnerToken = "0123456789abcdef-canary"

// onRunner writes a CA's files and a file of clients, and starts the runner: "ci" by
// its certificate, "bot" by its token.
func onRunner(t *testing.T) *runnerServer {
	t.Helper()
	host := testneed.Docker(t)
	p := newProgram(t, "off")
	p.env = append(p.env, "DOCKER_HOST="+host, "BOT_TOKEN="+runnerToken, "ALLOWED=canary-of-the-runner", "FORBIDDEN=canary-of-another")
	certificates(t, p.dir)
	clients := `clients:
  ci:
    profile: standard
    secrets: [secret://env/ALLOWED]
  bot:
    token_env: BOT_TOKEN
    max_jobs: 1
`
	if err := os.WriteFile(filepath.Join(p.dir, "clients.yaml"), []byte(clients), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &runnerServer{program: p}
	s.start()
	return s
}

var listensOn = regexp.MustCompile(`listens on (127\.0\.0\.1:\d+)`)

func (s *runnerServer) start() {
	s.t.Helper()
	s.errs = &lockedBuffer{}
	cmd := s.command("runner", "serve", "--listen", "127.0.0.1:0", "--tls-cert", "server.pem", "--tls-key", "server-key.pem", "--client-ca", "ca.pem", "--clients", "clients.yaml")
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, s.errs
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = cmd
	s.t.Cleanup(func() {
		if s.cmd != cmd || cmd.ProcessState != nil {
			return
		}
		s.stop(syscall.SIGTERM)
	})
	s.addr = awaitRunner(s.t, &out, s.errs)
}

// awaitRunner is the address of a runner, once it has said that it is ready. Its two
// streams come by two pipes, and either may be read first.
func awaitRunner(t *testing.T, out, errs *lockedBuffer) (address string) {
	t.Helper()
	testwait.Until(t, soon, "the runner", func() bool {
		m := listensOn.FindStringSubmatch(errs.String())
		if m != nil {
			address = m[1]
		}
		return m != nil && strings.Contains(out.String(), "ready\n")
	})
	return address
}

// stop signals the runner and waits for its end.
func (s *runnerServer) stop(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Error(err)
	}
	err := s.cmd.Wait()
	if sig == syscall.SIGTERM && err != nil {
		s.t.Errorf("the runner ended with %v:\n%s", err, s.errs.String())
	}
}

// client is an environment: by certificate, or by token alone where name is "bot".
func (s *runnerServer) client(name string) *runner.Environment {
	s.t.Helper()
	o := runner.ClientOptions{Name: "far", Address: s.addr, CAFile: filepath.Join(s.dir, "ca.pem")}
	if name == "bot" {
		o.Token = sdk.NewSecretValue([]byte(runnerToken))
	} else {
		o.CertFile, o.KeyFile = filepath.Join(s.dir, name+".pem"), filepath.Join(s.dir, name+"-key.pem")
	}
	e, err := runner.NewEnvironment(o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := e.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return e
}

// taken collects output.
type taken struct{ out, err lockedBuffer }

func (o *taken) Write(s sdk.Stream, data []byte) error {
	b := &o.out
	if s == sdk.StreamStderr {
		b = &o.err
	}
	_, err := b.Write(data)
	return err
}

func (o *taken) Note(string)    {}
func (o *taken) Started(sdk.ID) {}

func shell(script string) sandbox.Exec {
	return sandbox.Exec{Image: "busybox:local", Command: sdk.Argv{"sh", "-c", script}}
}

// nothingLeft looks for objects of this folder's ledger at the backend.
func (s *runnerServer) nothingLeft() {
	s.t.Helper()
	out, code := s.do("reap", "--dry-run", "--on", "docker", "--json")
	var v struct {
		Data []struct{ Type, Name, Why string }
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		s.t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	for _, o := range v.Data {
		if !strings.HasPrefix(o.Why, "belongs to another ledger") {
			s.t.Errorf("left: %+v", o)
		}
	}
}

// TestRunnerServe runs a job through a real runner: output apart, the code, the secret
// as a file, the clamped profile, the actor; and no canary in what it keeps and says.
func TestRunnerServe(t *testing.T) {
	t.Parallel()
	s := onRunner(t)
	x := shell(`cat /run/secrets/ALLOWED | wc -c; echo "$PLAIN" >&2; printf '\377\303'; exit 7`)
	x.Env = sdk.Env{"PLAIN": "plain"}
	x.Secrets = map[string]sdk.SecretRef{"ALLOWED": "secret://env/ALLOWED"}
	x.Profile = sdk.ProfilePermissive
	var out taken
	res, err := s.client("ci").Exec(t.Context(), sandbox.Request{Exec: x, Output: &out})
	if err != nil || res.ExitCode == nil || *res.ExitCode != 7 {
		t.Fatalf("%+v, %v\n%s", res, err, s.errs.String())
	}
	if o, e := out.out.String(), out.err.String(); o != "20\n\xff\xc3" || e != "plain\n" {
		t.Errorf("stdout %q, stderr %q", o, e)
	}
	x.Secrets = map[string]sdk.SecretRef{"FORBIDDEN": "secret://env/FORBIDDEN"}
	if _, err := s.client("ci").Exec(t.Context(), sandbox.Request{Exec: x, Output: &taken{}}); sdk.CodeOf(err) != sdk.PermissionDenied {
		t.Errorf("got %v", err)
	}
	if _, err := s.client("bot").Exec(t.Context(), sandbox.Request{Exec: shell("exit 3"), Output: &taken{}}); err != nil {
		t.Error(err)
	}
	log, code := s.do("ledger", "log", "--json")
	for _, part := range []string{`"actor": "ci"`, `"actor": "bot"`} {
		if code != 0 || !strings.Contains(log, part) {
			t.Errorf("%s isn't in the ledger (exit %d): %s", part, code, log)
		}
	}
	if _, code := s.do("ledger", "verify"); code != 0 {
		t.Errorf("verify: exit %d", code)
	}
	s.stop(syscall.SIGTERM)
	if !strings.Contains(s.errs.String(), "stopping: no more jobs are taken, and there is none to wait for") {
		t.Errorf("no word of the stop: %s", s.errs.String())
	}
	for _, canary := range []string{"canary-of-the-runner", "canary-of-another", runnerToken} {
		if strings.Contains(s.errs.String()+log, canary) {
			t.Errorf("%s is in the log or the ledger", canary)
		}
		if err := filepath.WalkDir(s.stateDir(), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if err == nil && strings.Contains(string(b), canary) {
				t.Errorf("%s is in %s", canary, path)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	s.nothingLeft()
}

// TestF77RemoteRunnerEndsTheTree: a caller that leaves ends its job through the remote
// runner with all that it has started, though it ignores TERM and a grandchild has left
// its process group; the end is proven, and on record.
func TestF77RemoteRunnerEndsTheTree(t *testing.T) {
	t.Parallel()
	s := onRunner(t)
	mark := fmt.Sprintf("7%09d", time.Now().UnixNano()%1e9)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var out taken
	ended := make(chan error, 1)
	e := s.client("ci")
	go func() {
		_, err := e.Exec(ctx, sandbox.Request{Exec: shell(`trap '' TERM; (setsid sh -c 'trap "" TERM; sleep ` + mark + `; :' &); echo up; while :; do sleep 1; done`), Output: &out})
		ended <- err
	}()
	testwait.Until(t, soon, "output", func() bool { return out.out.String() == "up\n" })
	testwait.Until(t, soon, "the grandchild", func() bool { return runs(t, mark) })
	leave()
	if err := testwait.Receive(t, soon, "the call's end", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	testwait.Until(t, soon, "proof", func() bool { return strings.Contains(s.errs.String(), "nothing of the job is left to do") })
	if runs(t, mark) {
		t.Error("the grandchild lives on")
	}
	if o, _ := s.do("ps", "-a", "--json"); !strings.Contains(o, `"cancelled"`) {
		t.Errorf("not on record: %s", o)
	}
	if o, _ := s.do("ledger", "log", "--json"); !strings.Contains(o, "its caller has left") {
		t.Errorf("no word of why: %s", o)
	}
	s.nothingLeft()
}

// runs reports whether a process has the mark in its command line.
func runs(t *testing.T, mark string) bool {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		b, err := os.ReadFile(d)
		if err == nil && strings.HasPrefix(string(b), "sleep\x00"+mark) {
			return true
		}
	}
	return false
}

// TestF11RunnerKilled: a runner that is killed leaves its job to the next start, which
// cancels it: its caller has had an error.
func TestF11RunnerKilled(t *testing.T) {
	t.Parallel()
	s := onRunner(t)
	var out taken
	ended := make(chan error, 1)
	e := s.client("ci")
	go func() {
		_, err := e.Exec(t.Context(), sandbox.Request{Exec: shell("trap 'exit 9' TERM; echo up; while :; do sleep 0.1; done"), Output: &out})
		ended <- err
	}()
	testwait.Until(t, soon, "output", func() bool { return out.out.String() == "up\n" })
	s.stop(syscall.SIGKILL)
	if err := testwait.Receive(t, soon, "the call's end", ended); sdk.CodeOf(err) != sdk.Unknown || !strings.Contains(err.Error(), "may have run") {
		t.Errorf("got %v", err)
	}
	s.start()
	testwait.Until(t, soon, "proof", func() bool { return strings.Contains(s.errs.String(), "nothing of the job is left to do") })
	if o, _ := s.do("ps", "-a", "--json"); !strings.Contains(o, `"cancelled"`) {
		t.Errorf("not cancelled: %s", o)
	}
	s.nothingLeft()
}

// TestRunnerRefusesToStart: without a way to tell who calls, on a provider without a
// sandbox, and without TLS, nothing listens.
func TestRunnerRefusesToStart(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	certificates(t, p.dir)
	files := []string{"runner", "serve", "--listen", "127.0.0.1:0", "--tls-cert", "server.pem", "--tls-key", "server-key.pem"}
	for _, c := range []struct {
		args []string
		code int
		id   string
	}{
		{files, 125, runner.ErrNoDoor},
		{append(files, "--client-ca", "ca.pem", "--on", "local"), 125, runner.ErrUnfit},
		{append(files, "--client-ca", "server-key.pem"), 125, runner.ErrTLS},
		{append(files, "--clients", "nowhere.yaml"), 125, runner.ErrClients},
		{[]string{"runner", "serve", "--client-ca", "ca.pem"}, 2, "--tls-cert"},
		{append(files, "--client-ca", "ca.pem", "--max-jobs", "0"), 2, "--max-jobs"},
	} {
		out, err := p.command(c.args...).CombinedOutput()
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != c.code || !strings.Contains(string(out), c.id) || strings.Contains(string(out), "ready") {
			t.Errorf("%v: %v, %s", c.args, err, out)
		}
	}
}

// certificates writes ca.pem, and a certificate and key each for the server and ci.
func certificates(t *testing.T, dir string) {
	t.Helper()
	write := func(name, kind string, der []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issue := func(serial int64, name string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		if ca == nil {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage, c.IPAddresses = true, true, x509.KeyUsageCertSign, nil, nil
			ca, caKey = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, ca, &key.PublicKey, caKey)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		write(name+".pem", "CERTIFICATE", der)
		write(name+"-key.pem", "PRIVATE KEY", raw)
		if c, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	ca, key := issue(1, "ca", nil, nil)
	issue(2, "server", ca, key)
	issue(3, "ci", ca, key)
}
