package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/windlass-run/windlass/internal/cloud/hosted"
	"github.com/windlass-run/windlass/internal/cloud/reach"
	"github.com/windlass-run/windlass/sdk"
)

// Settings say which cluster, and as whom.
type Settings struct {
	Provider string
	// Context is one of the kubeconfig's; empty is its current one.
	Context string
	// File is the kubeconfig; empty leaves it to Credentials. It stands in a file that
	// others may have written, and so it may have no program run, nor a token read
	// from elsewhere.
	File string
	// Namespace is empty for the context's own, or the pod's within a cluster.
	Namespace string
	// Credentials has KUBECONFIG and, where Ambient allows them, HOME and
	// what a pod finds in its environment.
	Credentials map[string]string
	Ambient     bool
	// CallTimeout bounds one call; zero is 30 s. It doesn't bound streams.
	CallTimeout time.Duration
	// Account is the folder with a pod's own token; empty is Kubernetes' own.
	Account string
}

// Session is a way to one namespace of a cluster. It is safe for concurrent use.
type Session struct {
	// Server is the API's address, Namespace where jobs run.
	Server, Namespace string
	// Authority tells clusters of one address apart: a hash of the certificates
	// that the server's is checked against; empty where the machine's own are used.
	Authority string

	provider string
	timeout  time.Duration
	client   *http.Client
	base     *url.URL
	// config is what connections of another protocol are made from; nil for a service.
	config *rest.Config
	// source is the cloud that told of cluster; nil where a kubeconfig did.
	source  hosted.Source
	cluster hosted.Cluster
	// words reads a refusal; see [Service].
	words func(e *sdk.Error, status int, body []byte) bool
	// ahead is by how much the server's clock is ahead of ours, in nanoseconds.
	ahead atomic.Int64
}

// Now is the time of the API server's clock, as its last answer told, to the second;
// ours where none did. Times that stand in objects are held against it.
func (x *Session) Now() time.Time { return time.Now().Add(time.Duration(x.ahead.Load())) }

// accountFolder is where a pod finds the token of its service account.
// https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

const defaultTimeout = 30 * time.Second

// Open finds the cluster by the file that is named, else as kubectl does: by
// KUBECONFIG, else by the file in the
// home folder, else as a pod. It makes no call.
func Open(s Settings) (*Session, error) {
	cfg, namespace, err := load(s)
	if err != nil {
		var known *sdk.Error
		if errors.As(err, &known) {
			return nil, err
		}
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: s.Provider, Err: err,
			Remedy: "`kubectl config view` shows what the kubeconfig has"}
	}
	if cfg.ExecProvider != nil {
		// Nobody may be at the keyboard, and standard input is the job's.
		cfg.ExecProvider.StdinUnavailable = true
		cfg.ExecProvider.StdinUnavailableMessage = "windlass gives it none"
		for _, name := range []string{"HOME", "USERPROFILE"} {
			if v := s.Credentials[name]; v != "" {
				cfg.ExecProvider.Env = append(cfg.ExecProvider.Env, api.ExecEnvVar{Name: name, Value: v})
			}
		}
	}
	return open(s, cfg, cmp.Or(s.Namespace, namespace))
}

// open makes the session of a config.
func open(s Settings, cfg *rest.Config, namespace string) (*Session, error) {
	cfg.UserAgent = "windlass"
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: s.Provider, Err: err}
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: s.Provider, Err: err}
	}
	// A redirect would be followed with the credentials.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	authority, err := authorityOf(cfg.TLSClientConfig)
	if err != nil {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: s.Provider, Err: err}
	}
	if s.CallTimeout <= 0 {
		s.CallTimeout = defaultTimeout
	}
	return &Session{Server: strings.TrimRight(base.String(), "/"), Namespace: namespace, Authority: authority, provider: s.Provider, timeout: s.CallTimeout, client: client, base: base, config: cfg, words: statusWords}, nil
}

// load returns the config and the namespace that it names.
func load(s Settings) (*rest.Config, string, error) {
	var files []string
	named := s.Credentials["KUBECONFIG"]
	switch {
	case s.File != "":
		named, files = s.File, []string{s.File}
	case named != "":
		files = filepath.SplitList(named)
	case s.Ambient:
		for _, name := range []string{"HOME", "USERPROFILE"} {
			if home := s.Credentials[name]; home != "" {
				files = append(files, filepath.Join(home, ".kube", "config"))
				break
			}
		}
	}
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: files}
	raw, err := rules.Load()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	host := s.Credentials["KUBERNETES_SERVICE_HOST"]
	if len(raw.Contexts) == 0 && named == "" && s.Ambient && host != "" {
		return inCluster(s, host)
	}
	if len(raw.Contexts) == 0 {
		return nil, "", &sdk.Error{Code: sdk.Unauthenticated, Op: "open provider", Provider: s.Provider, Reason: sdk.ReasonCredentials,
			Err: noContext(files), Remedy: "set kubeconfig in the provider's config, or KUBECONFIG, to a file that has one"}
	}
	if name := s.Context; name != "" && raw.Contexts[name] == nil {
		return nil, "", fmt.Errorf("config.context: the kubeconfig has no context %q", name)
	}
	cc := clientcmd.NewNonInteractiveClientConfig(*raw, s.Context, &clientcmd.ConfigOverrides{}, rules)
	cfg, err := cc.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	if s.File != "" && (cfg.ExecProvider != nil || cfg.AuthProvider != nil || cfg.BearerTokenFile != "") {
		return nil, "", &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: s.Provider, Field: "config.kubeconfig",
			Err: fmt.Errorf("%s: its user has exec, auth-provider or tokenFile, which only a file named by KUBECONFIG may have", s.File), Remedy: "set KUBECONFIG to it instead"}
	}
	namespace, _, err := cc.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	return cfg, namespace, nil
}

// noContext says why files name no cluster: that there are none, or nothing is in them.
func noContext(files []string) error {
	list := strings.Join(files, ", ")
	for _, file := range files {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("no context is in the kubeconfig %s", list)
		}
	}
	if list == "" {
		return errors.New("no kubeconfig is named")
	}
	return fmt.Errorf("there is no kubeconfig %s", list)
}

// inCluster is the config of a pod, from its own service account. client-go's own
// would read the environment of whichever process this is.
func inCluster(s Settings, host string) (*rest.Config, string, error) {
	folder := s.Account
	if folder == "" {
		folder = accountFolder
	}
	namespace, err := os.ReadFile(filepath.Join(folder, "namespace"))
	if err != nil {
		return nil, "", fmt.Errorf("read the pod's service account: %w", err)
	}
	token := filepath.Join(folder, "token")
	if _, err := os.Stat(token); err != nil {
		return nil, "", fmt.Errorf("read the pod's service account: %w", err)
	}
	port := s.Credentials["KUBERNETES_SERVICE_PORT"]
	if port == "" {
		port = "443"
	}
	// The token is renewed; the transport reads the file again.
	return &rest.Config{Host: "https://" + net.JoinHostPort(host, port), BearerTokenFile: token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(folder, "ca.crt")}}, strings.TrimSpace(string(namespace)), nil
}

// authorityOf hashes the certificates of the authority.
func authorityOf(t rest.TLSClientConfig) (string, error) {
	data := t.CAData
	if len(data) == 0 && t.CAFile != "" {
		var err error
		if data, err = os.ReadFile(t.CAFile); err != nil {
			return "", fmt.Errorf("read the certificate authority: %w", err)
		}
	}
	if len(data) == 0 {
		return "", nil
	}
	sum := sha256.Sum256(data)
	return "ca-" + hex.EncodeToString(sum[:8]), nil
}

// Close drops idle connections, and those to the cloud.
func (x *Session) Close() error {
	utilnet.CloseIdleConnectionsFor(x.client.Transport)
	if x.source == nil {
		return nil
	}
	return x.source.Close()
}

// bound is a context with the call's own time-out, which tells whether anything was
// sent.
func (x *Session) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(reach.Watch(ctx), x.timeout, errNoAnswer)
}
