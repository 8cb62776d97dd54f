//go:build linux

package ecosystem

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/GoCodeAlone/workflow/sandbox/remote"
)

// patience bounds every wait; none should need it.
const patience = 2 * time.Minute

const token = "0123456789abcdef-ecosystem"

// world is a folder with certificates and the programs of both sides.
type world struct {
	t   *testing.T
	dir string
	env []string
}

// programs are built once.
var programs = sync.OnceValues(func() (dir string, err error) {
	dir, err = os.MkdirTemp("", "windlass-ecosystem-")
	if err != nil {
		return "", err
	}
	for _, b := range []struct{ from, name, pkg string }{
		{"../..", "windlass", "./cmd/windlass"},
		{".", "theirs", "github.com/GoCodeAlone/workflow/cmd/workflow-sandbox-runner"},
		{".", "theirs-provider", "./cmd/theirs-provider"},
		{"../..", "folder", "./examples/plugin"},
		{"../..", "fake", "./bench/fakeplugin"},
	} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, b.name), b.pkg)
		cmd.Dir = b.from
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("%s: %w: %s", cmd, err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := programs(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	host := dockerHost(t)
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: t.TempDir()}
	w.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "WINDLASS_STATE="+filepath.Join(w.dir, "state"), "WINDLASS_KEEPER=off", "HOME="+w.dir, "DOCKER_HOST="+host,
		"BOT_TOKEN="+token, "ALLOWED=canary-of-the-runner")
	certificates(t, w.dir)
	return w
}

// dockerHost is the engine that jobs run on, by the variable that all tests have for it.
func dockerHost(t *testing.T) string {
	t.Helper()
	host := os.Getenv("WINDLASS_TEST_DOCKER")
	if host == "" {
		host = "unix:///var/run/docker.sock"
	}
	missing := t.Skipf
	if os.Getenv("CI") == "true" {
		missing = t.Fatalf
	}
	if host == "off" {
		missing("WINDLASS_TEST_DOCKER=off")
	}
	if path, ok := strings.CutPrefix(host, "unix://"); ok {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
		if err != nil {
			missing("no Docker engine: %v", err)
			return ""
		}
		_ = c.Close()
	}
	return host
}

func (w *world) command(name string, args ...string) *exec.Cmd {
	bin, _ := programs()
	cmd := exec.CommandContext(context.Background(), filepath.Join(bin, name), args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	return cmd
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// start starts a server, which is asked to end with the test.
func (w *world) start(cmd *exec.Cmd) *lockedBuffer {
	w.t.Helper()
	errs := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = errs, errs
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			w.t.Error(err)
		}
		_ = cmd.Wait() // theirs ends by the signal
	})
	return errs
}

// tls is what their client connects with, by the certificate ci.
func (w *world) tls() *tls.Config {
	w.t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(w.dir, "ci.pem"), filepath.Join(w.dir, "ci-key.pem"))
	if err != nil {
		w.t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(w.dir, "ca.pem"))
	if err != nil {
		w.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS13}
}

// TestTheirClient: their client, unchanged, on our server.
func TestTheirClient(t *testing.T) {
	w := newWorld(t)
	w.write("clients.yaml", "clients:\n  ci:\n    profile: standard\n    secrets: [secret://env/ALLOWED]\n  bot:\n    token_env: BOT_TOKEN\n")
	errs := w.start(w.command("windlass", "runner", "serve", "--listen", "127.0.0.1:0", "--tls-cert", "server.pem", "--tls-key", "server-key.pem", "--client-ca", "ca.pem", "--clients", "clients.yaml"))
	listens := regexp.MustCompile(`listens on (127\.0\.0\.1:\d+)`)
	until(t, "the runner", func() bool { return listens.MatchString(errs.String()) && strings.Contains(errs.String(), "ready\n") })
	address := listens.FindStringSubmatch(errs.String())[1]
	certified := remote.RemoteRunnerConfig{Address: address, TLS: w.tls(), Profile: "strict", Image: "busybox:local"}
	byToken := certified
	byToken.TLS, byToken.Token = &tls.Config{RootCAs: certified.TLS.RootCAs, MinVersion: tls.VersionTLS13}, token

	for name, c := range map[string]struct {
		config remote.RemoteRunnerConfig
		args   []string
		env    map[string]string
		code   int
		stdout string
		stderr string
		err    string
	}{
		"code and streams":  {config: certified, args: []string{"sh", "-c", "echo out; echo err >&2; exit 7"}, code: 7, stdout: "out\n", stderr: "err\n"},
		"by token":          {config: byToken, args: []string{"echo", "hello"}, stdout: "hello\n"},
		"argv as it is":     {config: certified, args: []string{"printf", `%s|`, "a b", "$HOME", "", `"q"`}, stdout: `a b|$HOME||"q"|`},
		"variables":         {config: certified, args: []string{"sh", "-c", `echo "$A"`}, env: map[string]string{"A": "b c"}, stdout: "b c\n"},
		"secret as a file":  {config: certified, args: []string{"sh", "-c", `cat "$ALLOWED_FILE"; echo "${ALLOWED-unset}"`}, env: map[string]string{"ALLOWED": "secret://env/ALLOWED"}, stdout: "canary-of-the-runnerunset\n"},
		"secret of another": {config: byToken, args: []string{"true"}, env: map[string]string{"ALLOWED": "secret://env/ALLOWED"}, err: "PermissionDenied"},
		"no such image":     {config: with(certified, func(c *remote.RemoteRunnerConfig) { c.Image = "nowhere.invalid/none:1" }), args: []string{"true"}, err: "FailedPrecondition"},
		"unknown profile":   {config: with(certified, func(c *remote.RemoteRunnerConfig) { c.Profile = "default" }), args: []string{"true"}, err: "InvalidArgument"},
		"wrong token":       {config: with(byToken, func(c *remote.RemoteRunnerConfig) { c.Token += "x" }), args: []string{"true"}, err: "Unauthenticated"},
		"over 4 MiB":        {config: certified, args: []string{"sh", "-c", "head -c 6000000 /dev/zero | tr '\\0' x; echo"}, stdout: strings.Repeat("x", 6000000) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Env = c.env
			r, err := remote.NewRemoteRunner(c.config)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			res, err := r.Exec(ctx, c.args)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || res.ExitCode != c.code || res.Stdout != c.stdout || res.Stderr != c.stderr {
				t.Errorf("%v, %d bytes, %+v", err, len(res.Stdout), shortened(res))
			}
		})
	}
	t.Run("a caller that leaves", func(t *testing.T) {
		r, err := remote.NewRemoteRunner(certified)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := r.Exec(ctx, []string{"sh", "-c", "trap 'exit 9' TERM; while :; do sleep 0.1; done"}); err == nil {
			t.Error("no error")
		}
		until(t, "proof", func() bool {
			out, err := w.command("windlass", "ps", "-a", "--json").Output()
			return err == nil && strings.Contains(string(out), `"cancelled"`)
		})
	})
	if strings.Contains(errs.String(), "canary-of-the-runner") || strings.Contains(errs.String(), token) {
		t.Error("a secret stands in the log")
	}
}

func with(c remote.RemoteRunnerConfig, change func(*remote.RemoteRunnerConfig)) remote.RemoteRunnerConfig {
	change(&c)
	return c
}

// TestTheirServer: our step on their server, unchanged. It sends the whole output in one
// message, so that more than 4 MiB takes the exit code with it: that is no success. It
// also takes the last line end off.
func TestTheirServer(t *testing.T) {
	w := newWorld(t)
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skipf("their server runs the docker command: %v", err)
	}
	port := w.theirServer()
	w.write("windlass.yaml", fmt.Sprintf("runners:\n  theirs:\n    address: 127.0.0.1:%s\n    ca: ca.pem\n    cert: ci.pem\n    key: ci-key.pem\n    token_env: BOT_TOKEN\n", port))
	for name, c := range map[string]struct {
		command string
		more    string
		code    int
		stdout  string
		stderr  string
	}{
		"code and streams": {command: `[sh, -c, "echo out; echo err >&2; exit 7"]`, code: 7, stdout: "out", stderr: "err"},
		"success":          {command: `[printf, "%s|", "a b", "$HOME"]`, stdout: "a b|$HOME|"},
		"variables":        {command: `[sh, -c, 'echo "$A"']`, more: "env: {A: b c}", stdout: "b c"},
		"over 4 MiB":       {command: `[sh, -c, "head -c 6000000 /dev/zero"]`, code: 125},
		"time-out":         {command: `[sleep, "60"]`, more: "timeout: 2s", code: 124},
	} {
		t.Run(name, func(t *testing.T) {
			file := strings.ReplaceAll(name, " ", "-") + ".yaml"
			w.write(file, "steps:\n  - name: one\n    type: step.sandbox_exec\n    config:\n      exec_env: theirs\n      image: busybox:local\n      command: "+c.command+"\n      "+c.more+"\n")
			cmd := w.command("windlass", "step", "run", file)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != c.code || out.String() != c.stdout || !strings.Contains(errs.String(), c.stderr) {
				t.Errorf("exit %d, stdout %q, stderr %q", got, out.String(), errs.String())
			}
		})
	}
}

// theirServer starts their server, which can't be asked which port it took.
func (w *world) theirServer() (port string) {
	w.t.Helper()
	for range 5 {
		lis, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			w.t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(lis.Addr().String())
		_ = lis.Close()
		log := w.start(w.command("theirs", "-addr", "127.0.0.1:"+port, "-tls-cert", "server.pem", "-tls-key", "server-key.pem", "-tls-ca", "ca.pem", "-token", token))
		until(w.t, "their server", func() bool {
			c, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", "127.0.0.1:"+port)
			if err == nil {
				_ = c.Close()
			}
			return err == nil || strings.Contains(log.String(), "listen failed")
		})
		if !strings.Contains(log.String(), "listen failed") {
			return port
		}
	}
	w.t.Fatal("no port for their server")
	return ""
}
