package main

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"regexp"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/pocket/argo"
	"github.com/windlass-run/windlass/internal/pocket/kube"
)

// pocketKubernetes is the cluster of the kind kubernetes.
func pocketKubernetes(r cli.PocketRequest) (pocketCloud, error) {
	access, err := pocketAccess(r, "kubernetes")
	if err != nil {
		return pocketCloud{}, err
	}
	executor, err := pocketExecutor(r)
	if err != nil {
		return pocketCloud{}, err
	}
	server := kube.New(kube.Options{Executor: executor, Access: access})
	return pocketCluster("kubernetes", access, server, server.Close)
}

// pocketArgo is the cluster of the kind argo, with Argo Server at the same address.
func pocketArgo(r cli.PocketRequest) (pocketCloud, error) {
	access, err := pocketAccess(r, "argo")
	if err != nil {
		return pocketCloud{}, err
	}
	executor, err := pocketExecutor(r)
	if err != nil {
		return pocketCloud{}, err
	}
	server := argo.New(argo.Options{Executor: executor, Access: access})
	return pocketCluster("argo", access, server, server.Close)
}

// pocketCluster is a cluster that is a handler. It speaks HTTPS, since clients send no
// token otherwise.
func pocketCluster(kind string, access kube.Access, h http.Handler, closeCluster func() error) (pocketCloud, error) {
	certificate, authority, err := access.Certificate()
	if err != nil {
		return pocketCloud{}, errors.Join(err, closeCluster())
	}
	cloud := overHTTP(h, closeCluster, func(address string) []cli.PocketProvider {
		return []cli.PocketProvider{{Kind: kind, Address: "https://" + address, Credentials: config.CredentialsEnv,
			Config: []cli.PocketSetting{{Name: "kubeconfig", Value: kubeconfigTo(kind, address, access, authority)}, {Name: "context", Value: kind}}}}
	})
	plain := cloud.serve
	cloud.serve = func(l net.Listener) error {
		return plain(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}))
	}
	return cloud, nil
}

// kubeconfigTo leads to a kind's cluster, as its owner or as one who may only look.
func kubeconfigTo(kind, address string, access kube.Access, authority []byte) cli.PocketFile {
	file := kubeconfigOf(kind)
	file.Data = fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: %[1]s
clusters:
- name: %[1]s
  cluster:
    server: https://%[2]s
    certificate-authority-data: %[7]s
users:
- name: owner
  user:
    token: %[4]s
- name: %[6]s
  user:
    token: %[5]s
contexts:
- name: %[1]s
  context: {cluster: %[1]s, user: owner, namespace: %[3]s}
- name: %[6]s
  context: {cluster: %[1]s, user: %[6]s, namespace: %[3]s}
`, kind, address, kube.Namespace, access.Token, access.Read, kube.Reader, base64.StdEncoding.EncodeToString(authority))
	return file
}

// kubeconfigOf is the file that leads to a kind's cluster, without its content.
func kubeconfigOf(kind string) cli.PocketFile {
	return cli.PocketFile{Suffix: "-" + kind + "-kubeconfig.yaml"}
}

// pocketTokens finds the two tokens in a file of [kubeconfigTo].
var pocketTokens = regexp.MustCompile(`(?m)^    token: ([A-Z2-7]{26})$`)

// pocketAccess is who may call the cluster of a kind: those who can read its
// kubeconfig. The tokens of an earlier start are kept, so that providers that are
// open since then go on.
func pocketAccess(r cli.PocketRequest, kind string) (kube.Access, error) {
	if r.Write != "" {
		text, err := os.ReadFile(kubeconfigOf(kind).Beside(r.Write))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return kube.Access{}, err
		}
		if found := pocketTokens.FindAllSubmatch(text, -1); len(found) == 2 && string(found[0][1]) != string(found[1][1]) {
			return kube.Access{Token: string(found[0][1]), Read: string(found[1][1])}, nil
		}
	}
	return kube.Access{Token: rand.Text(), Read: rand.Text()}, nil
}
