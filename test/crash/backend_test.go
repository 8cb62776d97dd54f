//go:build unix

package crash

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/windlass-run/windlass/internal/pocket/argo"
	"github.com/windlass-run/windlass/internal/pocket/aws"
	"github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/internal/pocket/batch"
	"github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	"github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testneed"
)

// backend is a kind of provider, and what is its own in these tests.
type backend struct {
	// rounds is how often each boundary is hit, unless the environment says.
	rounds int
	// start brings up what the kind needs, and returns the configuration of
	// providers; nil where it needs nothing.
	start func(h *host) string
	// flags are those of a run.
	flags func(h *host) []string
	// refused are the arguments of a run that the backend refuses at launch;
	// nil where it has no refusals.
	refused func(h *host) []string
	// merged: it keeps both streams as one.
	merged bool
	// talks: it writes lines of its own into the output, which are told apart.
	talks bool
	// noCode: it gives no exit codes.
	noCode bool
	// provesNothing: neither a name nor a token nor a list shows that a launch in
	// doubt made nothing, so that it stays in doubt.
	provesNothing bool
}

// backends are those under test, by the name of their provider.
func backends() map[string]backend {
	return map[string]backend{
		// A local process's failed start is an outcome, not a refusal.
		"local": {rounds: 3},
		"fake": {rounds: 3,
			flags:   func(*host) []string { return []string{"--image", "img"} },
			refused: func(*host) []string { return []string{"run", "--on", "refusing", "--image", "missing", "--", "true"} }},
		"docker": {rounds: 3, start: onDocker, flags: dockerFlags,
			refused: func(*host) []string {
				return []string{"run", "--on", "docker", "--image", "windlass.invalid/none:1", "--option", "pull=always", "--", "true"}
			}},
		"aws-ecs":      {rounds: 2, start: onECS, flags: cloudFlags, merged: true, refused: nowhere},
		"aws-batch":    {rounds: 2, start: onBatch, flags: cloudFlags, merged: true, refused: onInstances, provesNothing: true},
		"gcp-cloudrun": {rounds: 2, start: onCloudRun, flags: cloudFlags, refused: foreignSecret},
		"digitalocean": {rounds: 2, start: onDigitalOcean, flags: bareFlags, merged: true, noCode: true, refused: noRegion},
		"kubernetes":   {rounds: 2, start: onKubernetes, flags: cloudFlags, merged: true, refused: nowhere},
		"argo":         {rounds: 2, start: onArgo, flags: bareFlags, merged: true, talks: true, refused: nowhere},
		"azure-aci":    {rounds: 2, start: onACI, flags: bareFlags, merged: true, refused: onSpot},
	}
}

func onDocker(h *host) string {
	h.docker = testneed.Docker(h.t)
	return ""
}

func dockerFlags(h *host) []string {
	args := []string{"--image", "busybox:local", "-v", h.dir + ":" + h.dir, "-e", "EFFECT=" + h.effect}
	if h.network != "" {
		args = append(args, "--network", h.network)
	}
	return args
}

// cloudFlags are those of a pocket cloud, whose jobs are processes.
func cloudFlags(h *host) []string { return []string{"--image", "img", "-e", "EFFECT=" + h.effect} }

// nowhere is a run in a part of the cloud that isn't there.
func nowhere(*host) []string {
	return []string{"run", "--on", "nowhere", "--image", "img", "--", "true"}
}

// onInstances is a run for instances in a queue of Fargate's.
func onInstances(h *host) []string {
	return []string{"run", "--on", h.driver, "--image", "img", "--option", "platform=ec2", "--", "true"}
}

// bareFlags say besides that the image has no entrypoint: there is no registry
// that tells.
func bareFlags(h *host) []string { return append(cloudFlags(h), "--image-entrypoint", "") }

// foreignSecret is a run with a secret of another project, which nobody may look at
// before.
func foreignSecret(h *host) []string {
	return []string{"run", "--on", h.driver, "--image", "img", "--secret", "S=secret://gcp-sm/projects/somebody-elses/secrets/s", "--", "true"}
}

// onSpot is a run on machines that the pocket cloud hasn't.
func onSpot(h *host) []string {
	return []string{"run", "--on", h.driver, "--image", "img", "--image-entrypoint", "", "--option", "priority=spot", "--", "true"}
}

// noRegion is a run in a region that isn't there.
func noRegion(h *host) []string {
	return []string{"run", "--on", h.driver, "--image", "busybox", "--option", "region=nowhere", "--entrypoint", "true"}
}

// serve has a pocket cloud outlive this host's commands, and returns its address.
func (h *host) serve(cloud http.Handler, close func() error) string {
	h.t.Helper()
	web := httptest.NewServer(cloud)
	h.t.Cleanup(func() {
		web.Close()
		if err := close(); err != nil {
			h.t.Error(err)
		}
	})
	return web.URL
}

func (h *host) startAWS() string {
	h.t.Helper()
	cloud, err := aws.New(aws.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.serve(cloud, cloud.Close)
}

func onECS(h *host) string {
	h.t.Helper()
	url, out := h.startAWS(), ""
	for _, p := range []struct{ name, cluster string }{{"aws-ecs", "default"}, {"nowhere", "nowhere"}} {
		out += fmt.Sprintf(`  %s:
    kind: aws-ecs
    credentials: pocket
    poll_interval: 100ms
    config: {region: %s, endpoint: "%s", cluster: %s, subnets: [subnet-0123456789abcdef0], execution_role: "arn:aws:iam::%s:role/execution",
      log_quiet: 300ms, missing_grace: 5s, describe_rate: 1000, log_rate: 1000}
`, p.name, aws.Region, url, p.cluster, aws.Account)
	}
	return out
}

func onBatch(h *host) string {
	h.t.Helper()
	return fmt.Sprintf(`  aws-batch:
    kind: aws-batch
    credentials: pocket
    poll_interval: 100ms
    config: {region: %s, endpoint: "%s", queue: %s, execution_role: "arn:aws:iam::%s:role/execution",
      log_quiet: 300ms, missing_grace: 1s, describe_rate: 1000, log_rate: 1000}
`, aws.Region, h.startAWS(), batch.DefaultQueue, aws.Account)
}

func onCloudRun(h *host) string {
	h.t.Helper()
	cloud, err := gcp.New(gcp.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := cloud.Close(); err != nil {
			h.t.Error(err)
		}
	})
	cloud.Logging().TuneKnobs(func(k *cloudlogging.Knobs) { k.ReadsPerMinute = 0 })
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprintf(`  gcp-cloudrun:
    kind: gcp-cloudrun
    credentials: pocket
    poll_interval: 100ms
    config: {project: %s, region: %s, endpoint: "http://%s", log_late: 100ms, log_quiet: 300ms, visible_within: 1s,
      read_rate: 60000, write_rate: 60000, log_rate: 60000}
`, gcp.Project, gcp.Location, address)
}

func onACI(h *host) string {
	h.t.Helper()
	state := h.t.TempDir()
	cloud, err := azure.New(azure.Options{State: state})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := cloud.Close(); err != nil {
			h.t.Error(err)
		}
	})
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprintf(`  azure-aci:
    kind: azure-aci
    credentials: pocket
    poll_interval: 100ms
    config: {subscription: %s, resource_group: %s, location: %s, endpoint: "https://%s", ca_file: "%s", log_poll: 50ms, log_quiet: 300ms, visible_within: 1s,
      read_rate: 60000, write_rate: 60000}
`, azure.SubscriptionID, azure.ResourceGroup, azure.Location, address, filepath.Join(state, azure.CAFile))
}

func onDigitalOcean(h *host) string {
	h.t.Helper()
	cloud, err := digitalocean.New(digitalocean.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprintf(`  digitalocean:
    kind: digitalocean
    credentials: pocket
    poll_interval: 100ms
    config: {endpoint: "%s", visible_within: 1s, log_max: 5s, minute_rate: 1000000, hour_rate: 100000000}
`, h.serve(cloud, cloud.Close))
}

func onKubernetes(h *host) string {
	h.t.Helper()
	cluster := kube.New(kube.Options{Executor: run.NewProcesses(nil)})
	return h.onCluster("kubernetes", h.serve(cluster, cluster.Close))
}

func onArgo(h *host) string {
	h.t.Helper()
	cluster := argo.New(argo.Options{Executor: run.NewProcesses(nil)})
	return h.onCluster("argo", h.serve(cluster, cluster.Close))
}

// onCluster gives the program a cluster, with a provider that has its kind's name and
// one in a namespace that isn't there.
func (h *host) onCluster(kind, url string) string {
	h.t.Helper()
	h.kubeconfig = filepath.Join(h.dir, "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: c, user: {token: pocket}}]\ncontexts: [{name: c, context: {cluster: c, user: c, namespace: %s}}]\n", url, kube.Namespace)
	if err := os.WriteFile(h.kubeconfig, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprintf(`  %[1]s: {kind: %[1]s, poll_interval: 100ms, config: {rate: 100000, log_stall: 500ms}}
  nowhere: {kind: %[1]s, poll_interval: 100ms, config: {namespace: nowhere, rate: 100000, log_stall: 500ms}}
`, kind)
}
