//go:build linux

package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/credential"
	pocketaws "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketazure "github.com/windlass-run/windlass/internal/pocket/azure"
	pocketeks "github.com/windlass-run/windlass/internal/pocket/eks"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocketgcp "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/kube"
	pocketrun "github.com/windlass-run/windlass/internal/pocket/run"
)

// hostedCloud is a pocket cloud with the clusters prod, whose API server knows whoever
// has a token of the cloud's, and hidden, whose address nobody answers.
type hostedCloud struct {
	pocketServer
	// config is what the member of config: has but for the cluster's name, and endpoint
	// what leads to the pocket cloud.
	config, endpoint string
	// api is the API server of prod.
	api *kube.Server
	// deny refuses the call that finds clusters.
	deny func()
	// right is what the refusal is about, hidden what is said of the hidden cluster.
	right, hidden string
}

// hostedClouds are the clouds by the member of config: that names their clusters.
func hostedClouds() map[string]func(t *testing.T) hostedCloud {
	return map[string]func(t *testing.T) hostedCloud{"eks": onEKS, "aks": onAKS, "gke": onGKE}
}

// pocketValues are the made-up credentials of a kind.
func pocketValues(t *testing.T, kind string) map[string]string {
	t.Helper()
	table := credential.Table()
	i := slices.IndexFunc(table, func(r credential.Row) bool { return r.Kind == kind })
	if i < 0 {
		t.Fatalf("no row of %s", kind)
	}
	return table[i].Pocket
}

// apiServer is the API server of a cloud's cluster, with one Deployment; knows says
// whether a call may be made.
func apiServer(t *testing.T, knows func(r *http.Request) bool) (server *kube.Server, url string, authority []byte) {
	t.Helper()
	whose := func(r *http.Request) kube.Right {
		if knows(r) {
			return kube.All
		}
		return kube.None
	}
	server = kube.New(kube.Options{Executor: pocketrun.NewProcesses(nil), Record: true, Whose: whose})
	certificate, authority, err := kube.Access{Token: t.Name()}.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/apps/v1/deployments" && knows(r) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{},"items":[{"metadata":{"name":"api","namespace":"shop"},`+
				`"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"main","image":"api:1"}]}}},"status":{"readyReplicas":2}}]}`)
			return
		}
		server.ServeHTTP(w, r)
	}))
	web.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	web.StartTLS()
	t.Cleanup(func() {
		web.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server, web.URL, authority
}

// nobody is an address of this machine that nobody answers.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func onEKS(t *testing.T) hostedCloud {
	values := pocketValues(t, "aws-ecs")
	cloud, err := pocketaws.New(pocketaws.Options{Record: true, Secrets: map[string]string{values["AWS_ACCESS_KEY_ID"]: values["AWS_SECRET_ACCESS_KEY"]}})
	if err != nil {
		t.Fatal(err)
	}
	url := listening(t, cloud)
	webhook := pocketeks.Authenticator{Cluster: "prod", Endpoint: url, Client: http.DefaultClient, Now: time.Now}
	api, server, authority := apiServer(t, func(r *http.Request) bool {
		_, err := webhook.Whose(r.Context(), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		return err == nil
	})
	cloud.EKS().Put(pocketeks.Cluster{Name: "prod", Endpoint: server, Authority: authority})
	cloud.EKS().Put(pocketeks.Cluster{Name: "twin", Endpoint: server, Authority: authority})
	cloud.EKS().Put(pocketeks.Cluster{Name: "hidden", Endpoint: "https://" + nobody(t), Authority: authority, Private: true})
	return hostedCloud{pocketServer: cloud, api: api, config: "region: " + pocketaws.Region, endpoint: fmt.Sprintf("endpoint: %q", url), right: "eks:DescribeCluster", hidden: "endpointPublicAccess is false",
		deny: func() {
			cloud.Faults().Add(fault.Rule{Action: "eks:DescribeCluster", Effect: fault.Effect{Refuse: cloud.Deny("me", "eks:DescribeCluster", "*")}})
		}}
}

func onAKS(t *testing.T) hostedCloud {
	state := t.TempDir()
	cloud, err := pocketazure.New(pocketazure.Options{Record: true, State: state, ResourceGroup: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, cloud)
	api, server, authority := apiServer(t, func(r *http.Request) bool {
		_, ok := cloud.ClusterCaller(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		return ok
	})
	cloud.PutCluster(pocketazure.ManagedCluster{Name: "prod", Server: server, Authority: authority})
	_, port, err := net.SplitHostPort(nobody(t))
	if err != nil {
		t.Fatal(err)
	}
	cloud.PutCluster(pocketazure.ManagedCluster{Name: "hidden", Server: "https://hidden.privatelink.localhost:" + port, Authority: authority})
	return hostedCloud{pocketServer: cloud, api: api, config: "resource_group: shop, subscription: " + pocketazure.SubscriptionID,
		endpoint: fmt.Sprintf("endpoint: %q, ca_file: %s", "https://"+address, filepath.Join(state, pocketazure.CAFile)), right: "Azure Kubernetes Service Cluster User Role", hidden: "the cluster hidden is private",
		deny: func() { cloud.Deny("Microsoft.ContainerService/managedClusters/listClusterUserCredential/action") }}
}

func onGKE(t *testing.T) hostedCloud {
	cloud, err := pocketgcp.New(pocketgcp.Options{Record: true, Project: "shop-prod", Token: pocketValues(t, "gcp-cloudrun")["CLOUDSDK_AUTH_ACCESS_TOKEN"]})
	if err != nil {
		t.Fatal(err)
	}
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, cloud)
	api, server, authority := apiServer(t, cloud.KnowsToken)
	cloud.PutCluster(pocketgcp.GKECluster{Name: "prod", Endpoint: strings.TrimPrefix(server, "https://"), Authority: authority})
	cloud.PutCluster(pocketgcp.GKECluster{Name: "hidden", Endpoint: nobody(t), Authority: authority, Private: true})
	return hostedCloud{pocketServer: cloud, api: api, config: "location: " + pocketgcp.Location + ", project: shop-prod", endpoint: fmt.Sprintf("endpoint: %q", "http://"+address),
		right: "container.clusters.get", hidden: "enablePrivateEndpoint",
		deny: func() { cloud.Policy().Deny("container.clusters.get") }}
}

// onHosted is the program with the providers prod and others on a cloud's clusters, and
// one whose config is wrong.
func onHosted(t *testing.T, key, keeper string) (*program, hostedCloud) {
	t.Helper()
	p := newProgram(t, keeper)
	cloud := hostedClouds()[key](t)
	text := "providers:\n"
	for _, name := range []string{"prod", "twin", "hidden", "nosuch"} {
		text += fmt.Sprintf("  %s:\n    kind: kubernetes\n    credentials: pocket\n    poll_interval: 100ms\n    config:\n      namespace: %s\n      rate: 100000\n      %s: {cluster: %s, %s, %s}\n", name, kube.Namespace, key, name, cloud.config, cloud.endpoint)
	}
	text += fmt.Sprintf("  torn:\n    kind: kubernetes\n    credentials: pocket\n    config:\n      %s: {cluster: prod, %s, %s}\n      kubeconfig: /etc/kubeconfig\n", key, cloud.config, cloud.endpoint)
	if err := os.WriteFile(filepath.Join(p.dir, "windlass.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if keeper != "off" {
		t.Cleanup(p.dismiss)
	}
	return p, cloud
}

// TestHostedClusters runs a job on a cluster of each cloud, whose API server takes the
// cloud's tokens alone, lists its workloads and checks the provider; a detached run is
// the keeper's.
func TestHostedClusters(t *testing.T) {
	t.Parallel()
	for key := range hostedClouds() {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			p, cloud := onHosted(t, key, "on")
			if out, code := p.do("provider", "check", "prod"); code != 0 || !strings.Contains(out, "create jobs.batch") {
				t.Errorf("check: exit %d: %s", code, out)
			}
			if out, code := p.do("run", "--on", "prod", "--image", "busybox:local", "--", "sh", "-c", "echo hello; exit 7"); code != 7 || out != "hello\n" {
				t.Errorf("run: exit %d: %q", code, out)
			}
			out, code := p.do("run", "-d", "--on", "prod", "--image", "busybox:local", "--", "sh", "-c", "exit 4")
			if code != 0 {
				t.Errorf("run -d: exit %d", code)
			}
			if _, code := p.do("wait", strings.TrimSpace(out)); code != 4 {
				t.Errorf("wait: exit %d", code)
			}
			if out, code := p.do("svc", "ls", "--on", "prod"); code != 0 || !strings.Contains(out, "prod/shop/deployment/api") {
				t.Errorf("svc ls: exit %d: %s", code, out)
			}
			if n := cloud.api.Calls().Count("jobs.create"); n != 2 {
				t.Errorf("%d Jobs for two runs", n)
			}
		})
	}
}

// TestHostedClusterProblems: provider check names what keeps one from a cluster.
func TestHostedClusterProblems(t *testing.T) {
	t.Parallel()
	for key := range hostedClouds() {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			p, cloud := onHosted(t, key, "off")
			fails := func(name string, want ...string) {
				t.Helper()
				out, code := p.fails("provider", "check", name)
				for _, w := range want {
					if code == 0 || !strings.Contains(out, w) {
						t.Errorf("check of %s: exit %d, want %q: %s", name, code, w, out)
					}
				}
			}
			fails("nosuch", "config."+key+".cluster", "nosuch")
			fails("hidden", cloud.hidden)
			fails("torn", filepath.Join(p.dir, "windlass.yaml")+":", key+" and kubeconfig each name a cluster")
			if key == "eks" { // a token is for one cluster: the server of another doesn't know it
				fails("twin", "Unauthorized", "aws eks create-access-entry --cluster-name twin")
			}
			cloud.deny()
			fails("prod", cloud.right)
		})
	}
}

// TestHostedPage: the page's example works as it stands, but that it leads to pocket
// clouds.
func TestHostedPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/drivers/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Clusters of clouds\n")
	blocks := regexp.MustCompile("(?s)```(?:yaml)?\n(.*?)```").FindAllStringSubmatch(section, 2)
	if len(blocks) != 2 {
		t.Fatal("the section has no example")
	}
	p := newProgram(t, "off")
	config := strings.ReplaceAll(blocks[0][1], "kind: kubernetes\n", "kind: kubernetes\n    credentials: pocket\n    poll_interval: 100ms\n")
	for key, open := range hostedClouds() {
		cloud := open(t)
		whole := key + ": {cluster: prod, " + cloud.config + "}"
		if !strings.Contains(config, whole) {
			t.Fatalf("the example has no %q", whole)
		}
		config = strings.Replace(config, whole, strings.TrimSuffix(whole, "}")+", "+cloud.endpoint+"}", 1)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "windlass.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.TrimSpace(blocks[1][1])) {
		words := strings.Fields(strings.NewReplacer("$ windlass ", "", "./migrate up", "echo migrated").Replace(line))
		if out, code := p.do(words...); code != 0 || !regexp.MustCompile("create jobs|migrated|shop-gke/shop/deployment/api").MatchString(out) {
			t.Errorf("%s: exit %d: %s", strings.TrimSpace(line), code, out)
		}
	}
}

// fails runs the program and returns all of its words.
func (p *program) fails(args ...string) (string, int) {
	p.t.Helper()
	cmd := p.command(args...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return string(out), 0
	}
	return string(out), cmd.ProcessState.ExitCode()
}
