package docker

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

// The names under which a user's variables come in as credentials.
const (
	VarHost      = "DOCKER_HOST"
	VarContext   = "DOCKER_CONTEXT"
	VarConfig    = "DOCKER_CONFIG"
	VarCertPath  = "DOCKER_CERT_PATH"
	VarTLSVerify = "DOCKER_TLS_VERIFY"
)

const (
	plainPort = "2375"
	tlsPort   = "2376"
)

// Endpoint is where an engine answers.
type Endpoint struct {
	// Host is the address in one normal form, such as
	// unix:///var/run/docker.sock or tcp://build.example:2376.
	Host string
	// TLS is set for an engine behind TLS.
	TLS *tls.Config
	// Socket reports that the address is a socket or a pipe of this machine.
	// The engine behind it may run elsewhere all the same.
	Socket bool

	flags []string
}

// Flags returns the arguments by which the vendor's own programs reach the same
// engine, whatever their environment says. A context needs the folder of
// ConfigDir besides, as DOCKER_CONFIG.
func (e Endpoint) Flags() []string { return slices.Clone(e.flags) }

// Settings say which engine is meant.
type Settings struct {
	// Host and Context come from the provider's configuration and win.
	Host, Context string
	// CA, Cert and Key are files for TLS; each may be empty.
	CA, Cert, Key string
	// Credentials hold the user's variables (DOCKER_HOST, ...) by name.
	Credentials map[string]string
	// Ambient allows the vendor's files in the user's home.
	Ambient bool
}

// Resolve finds the engine in the vendor's own order: a configured host, a
// configured context, DOCKER_HOST, DOCKER_CONTEXT, the context that the
// vendor's configuration file names, the platform's default. Contexts are read
// only where the user allowed ambient credentials or named DOCKER_CONFIG.
func Resolve(s Settings) (Endpoint, error) {
	const op = "open engine"
	dir := ConfigDir(s.Credentials, s.Ambient)
	env := s.Credentials
	host, name := s.Host, s.Context
	if host == "" && name == "" {
		if host = env[VarHost]; host == "" {
			name = env[VarContext]
		}
	}
	if host == "" && name == "" && dir != "" {
		file, err := readConfigFile(dir)
		if err != nil {
			return Endpoint{}, err
		}
		name = file.CurrentContext
	}
	if host == "" && name != "" && name != "default" {
		if dir == "" {
			return Endpoint{}, &sdk.Error{Code: sdk.FailedPrecondition, Op: op, Field: "context",
				Remedy: "set credentials: ambient, or DOCKER_CONFIG, or give the host itself",
				Err:    fmt.Errorf("context %q can't be read: the vendor's files are not allowed here", name)}
		}
		return contextEndpoint(dir, name)
	}
	if host == "" {
		host = client.DefaultDockerHost
	}
	files := tlsFiles{ca: s.CA, cert: s.Cert, key: s.Key}
	if files == (tlsFiles{}) && s.Host == "" {
		if p := env[VarCertPath]; p != "" {
			files = tlsFiles{ca: filepath.Join(p, "ca.pem"), cert: filepath.Join(p, "cert.pem"), key: filepath.Join(p, "key.pem")}
			files.skipVerify = env[VarTLSVerify] == ""
		} else if env[VarTLSVerify] != "" {
			files.verify = true
		}
	}
	return newEndpoint(host, files)
}

type tlsFiles struct {
	ca, cert, key string
	// verify wants TLS even where no file is given.
	verify, skipVerify bool
}

func newEndpoint(host string, files tlsFiles) (Endpoint, error) {
	wrong := func(remedy, format string, args ...any) (Endpoint, error) {
		return Endpoint{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "open engine", Field: "host", Remedy: remedy, Err: fmt.Errorf(format, args...)}
	}
	scheme, addr, ok := strings.Cut(host, "://")
	if !ok || addr == "" {
		return wrong("write unix:///PATH or tcp://HOST:PORT", "%q is no address of an engine", host)
	}
	switch scheme {
	case "unix":
		if !path.IsAbs(addr) {
			return wrong("write unix:///PATH", "%q has no absolute path", host)
		}
		host := "unix://" + path.Clean(addr)
		return Endpoint{Host: host, Socket: true, flags: []string{"--host", host}}, nil
	case "npipe":
		host := "npipe://" + addr
		return Endpoint{Host: host, Socket: true, flags: []string{"--host", host}}, nil
	case "tcp", "http", "https":
	case "ssh":
		return wrong("forward its socket (ssh -L /tmp/engine.sock:/var/run/docker.sock HOST) and use unix:///tmp/engine.sock with remote: true",
			"%q: an engine can't be reached over ssh here", host)
	default:
		return wrong("write unix:///PATH or tcp://HOST:PORT", "%q: scheme %q is not known", host, scheme)
	}
	e := Endpoint{}
	if scheme == "https" || files != (tlsFiles{}) {
		cfg, err := files.load()
		if err != nil {
			return Endpoint{}, err
		}
		e.TLS = cfg
	}
	u, err := url.Parse("tcp://" + addr)
	if err != nil || u.Hostname() == "" {
		return wrong("write tcp://HOST:PORT", "%q has no host", host)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return wrong("write tcp://HOST:PORT", "%q: an address has no user, query or fragment", u.Redacted())
	}
	port := u.Port()
	if port == "" {
		port = plainPort
		if e.TLS != nil {
			port = tlsPort
		}
	}
	e.Host = "tcp://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port) + strings.TrimSuffix(path.Clean("/"+u.Path), "/")
	e.flags = []string{"--host", e.Host}
	if e.TLS != nil {
		e.flags = append(e.flags, files.flags()...)
	}
	return e, nil
}

// flags are those of the vendor's programs for the same files.
func (f tlsFiles) flags() []string {
	out := []string{"--tlsverify"}
	if f.skipVerify {
		out = []string{"--tls"}
	}
	for _, x := range []struct{ flag, file string }{{"--tlscacert", f.ca}, {"--tlscert", f.cert}, {"--tlskey", f.key}} {
		if x.file != "" {
			out = append(out, x.flag, x.file)
		}
	}
	return out
}

func (f tlsFiles) load() (*tls.Config, error) {
	fail := func(field, file string, err error) (*tls.Config, error) {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: "open engine", Field: field,
			Err: fmt.Errorf("read %s: %w", file, err)}
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: f.skipVerify} // the vendor means that by an unset DOCKER_TLS_VERIFY
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return fail("tls_ca", f.ca, err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return fail("tls_ca", f.ca, errors.New("has no certificate in PEM form"))
		}
	}
	if f.cert != "" || f.key != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return fail("tls_cert", f.cert, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// contextMeta is the part that matters of a context's meta.json, whose form
// docker/cli's package context/store gives.
type contextMeta struct {
	Name      string
	Endpoints map[string]struct {
		Host          string
		SkipTLSVerify bool
	}
}

func contextEndpoint(dir, name string) (Endpoint, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	file := filepath.Join(dir, "contexts", "meta", id, "meta.json")
	fail := func(code sdk.Code, err error) (Endpoint, error) {
		return Endpoint{}, &sdk.Error{Code: code, Op: "open engine", Field: "context", Err: fmt.Errorf("context %q: %w", name, err)}
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fail(sdk.FailedPrecondition, fmt.Errorf("there is none in %s", dir))
	}
	if err != nil {
		return fail(sdk.FailedPrecondition, err)
	}
	var meta contextMeta
	if err := json.Unmarshal(data, &meta); err != nil {
		return fail(sdk.FailedPrecondition, fmt.Errorf("read %s: %w", file, err))
	}
	engine, ok := meta.Endpoints["docker"]
	if !ok || engine.Host == "" {
		return fail(sdk.FailedPrecondition, errors.New("names no engine"))
	}
	files := tlsFiles{skipVerify: engine.SkipTLSVerify}
	certs := filepath.Join(dir, "contexts", "tls", id, "docker")
	for name, into := range map[string]*string{"ca.pem": &files.ca, "cert.pem": &files.cert, "key.pem": &files.key} {
		if _, err := os.Stat(filepath.Join(certs, name)); err == nil {
			*into = filepath.Join(certs, name)
		}
	}
	e, err := newEndpoint(engine.Host, files)
	e.flags = []string{"--context", name}
	return e, err
}
