package clouds

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/aci"
	"github.com/windlass-run/windlass/internal/driver/appplatform"
	"github.com/windlass-run/windlass/internal/driver/argo"
	"github.com/windlass-run/windlass/internal/driver/batch"
	"github.com/windlass-run/windlass/internal/driver/cloudrun"
	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/driver/ecs"
	"github.com/windlass-run/windlass/internal/driver/kubernetes"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	pocketargo "github.com/windlass-run/windlass/internal/pocket/argo"
	pocketaws "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketazure "github.com/windlass-run/windlass/internal/pocket/azure"
	pocketbatch "github.com/windlass-run/windlass/internal/pocket/batch"
	pocketdo "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocketgcp "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	pocketkube "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/sdk"
)

// yard is a kind's pocket cloud, for what holds of every kind alike.
type yard struct {
	driver      sdk.Driver
	config      map[string]any
	credentials map[string]string
	faults      *fault.Plan
	// deletes is the pattern of the calls that a clean-up makes, refusal what the
	// cloud answers when it has had enough of them.
	deletes string
	refusal *fault.Refusal
	// live is the type of what runs.
	live string
	// stored is a secret of the cloud's own, by its scheme.
	stored map[string]sdk.SecretRef
	// unpriced: what it costs depends on whose it is.
	unpriced bool
	// entrypoint is told of images where the driver would ask their registry.
	entrypoint bool
}

// spec fits a job to the kind.
func (y yard) spec(s sdk.JobSpec) sdk.JobSpec {
	if y.entrypoint {
		s.ImageEntrypoint = sdk.Argv{}
	}
	return s
}

func awsYard(t *testing.T, executor run.Executor) yard {
	t.Helper()
	cloud, err := pocketaws.New(pocketaws.Options{Executor: executor})
	if err != nil {
		t.Fatal(err)
	}
	cloud.Secrets().Put("db", canary)
	cloud.Parameters().Put("db", canary)
	return yard{credentials: map[string]string{"AWS_ACCESS_KEY_ID": "pocket", "AWS_SECRET_ACCESS_KEY": "pocket"},
		faults: cloud.Faults(), refusal: pocketaws.Throttle(), stored: map[string]sdk.SecretRef{"aws-sm": "secret://aws-sm/db", "aws-ssm": "secret://aws-ssm/db"},
		config: map[string]any{"region": pocketaws.Region, "endpoint": drivertest.Serve(t, cloud), "execution_role": "arn:aws:iam::" + pocketaws.Account + ":role/execution",
			"log_quiet": "200ms", "log_max": "5s", "missing_grace": "3s", "describe_rate": 10000, "log_rate": 10000}}
}

// canary is the value of every secret.
const canary = "canary-of-all-yards-5b1f0c7e9a"

// yards are the kinds that leave something in a cloud.
var yards = map[string]func(t *testing.T, executor run.Executor) yard{
	ecs.Kind: func(t *testing.T, executor run.Executor) yard {
		y := awsYard(t, executor)
		y.driver, y.deletes, y.live = ecs.Driver(), "ecs:Deregister*", "task"
		y.config["subnets"] = []string{"subnet-0123456789abcdef0"}
		return y
	},
	batch.Kind: func(t *testing.T, executor run.Executor) yard {
		y := awsYard(t, executor)
		y.driver, y.deletes, y.live = batch.Driver(), "batch:Deregister*", "job"
		y.config["queue"] = pocketbatch.DefaultQueue
		return y
	},
	cloudrun.Kind: func(t *testing.T, executor run.Executor) yard {
		cloud, err := pocketgcp.New(pocketgcp.Options{Executor: executor})
		if err != nil {
			t.Fatal(err)
		}
		cloud.Logging().TuneKnobs(func(k *cloudlogging.Knobs) { k.ReadsPerMinute = 0 })
		if _, err := cloud.Secrets().Put("db", []byte(canary)); err != nil {
			t.Fatal(err)
		}
		return yard{driver: cloudrun.Driver(), faults: cloud.Faults(), deletes: "run:DeleteJob", refusal: pocketgcp.Unavailable(), live: "job",
			credentials: map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "pocket"}, stored: map[string]sdk.SecretRef{"gcp-sm": "secret://gcp-sm/db"},
			config: map[string]any{"project": pocketgcp.Project, "region": pocketgcp.Location, "endpoint": "http://" + drivertest.Listen(t, cloud),
				"log_late": "50ms", "log_quiet": "200ms", "log_max": "3s", "visible_within": "2s", "read_rate": 1000000, "write_rate": 1000000, "log_rate": 1000000}}
	},
	aci.Kind: func(t *testing.T, executor run.Executor) yard {
		cloud, err := pocketazure.New(pocketazure.Options{Executor: executor})
		if err != nil {
			t.Fatal(err)
		}
		ca := filepath.Join(t.TempDir(), pocketazure.CAFile)
		if err := os.WriteFile(ca, cloud.CA(), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := cloud.PutSecret(pocketazure.Vault, "db", canary); err != nil {
			t.Fatal(err)
		}
		return yard{driver: aci.Driver(), faults: cloud.Faults(), deletes: "ContainerGroups_Delete", refusal: pocketazure.Throttled(), live: "container-group", entrypoint: true,
			credentials: map[string]string{"AZURE_TENANT_ID": pocketazure.TenantID, "AZURE_CLIENT_ID": "22222222-3333-4444-5555-666666666666", "AZURE_CLIENT_SECRET": "pocket"},
			stored:      map[string]sdk.SecretRef{"azure-kv": "secret://azure-kv/" + pocketazure.Vault + "/db"},
			config: map[string]any{"subscription": pocketazure.SubscriptionID, "resource_group": pocketazure.ResourceGroup, "location": pocketazure.Location,
				"endpoint": "https://" + drivertest.Listen(t, cloud), "ca_file": ca, "log_poll": "5ms", "log_quiet": "200ms", "log_max": "3s", "visible_within": "2s",
				"read_rate": 1000000, "write_rate": 1000000}}
	},
	appplatform.Kind: func(t *testing.T, executor run.Executor) yard {
		cloud, err := pocketdo.New(pocketdo.Options{Executor: executor})
		if err != nil {
			t.Fatal(err)
		}
		return yard{driver: appplatform.Driver(), faults: cloud.Faults(), deletes: "apps_delete", refusal: pocketdo.Throttle(), live: "app", entrypoint: true,
			credentials: map[string]string{"DIGITALOCEAN_TOKEN": "pocket"},
			config: map[string]any{"endpoint": drivertest.Serve(t, cloud), "visible_within": "1200ms", "log_max": "3s", "max_apps": 1000,
				"minute_rate": 1000000, "hour_rate": 60000000}}
	},
	argo.Kind: func(t *testing.T, executor run.Executor) yard {
		cloud := pocketargo.New(pocketargo.Options{Executor: executor})
		return yard{driver: argo.Driver(), faults: cloud.Cluster().Faults(), deletes: "workflows.delete", refusal: pocketkube.Throttle(), live: "workflow", entrypoint: true, unpriced: true,
			credentials: kubeconfig(t, drivertest.Serve(t, cloud), "pocket"), stored: map[string]sdk.SecretRef{"k8s": "secret://k8s/db/key"},
			config: map[string]any{"rate": 100000, "log_stall": "500ms"}}
	},
	kubernetes.Kind: func(t *testing.T, executor run.Executor) yard {
		cluster := pocketkube.New(pocketkube.Options{Executor: executor})
		return yard{driver: kubernetes.Driver(), faults: cluster.Faults(), deletes: "jobs.delete", refusal: pocketkube.Throttle(), live: "job", unpriced: true,
			credentials: kubeconfig(t, drivertest.Serve(t, cluster), "pocket"), stored: map[string]sdk.SecretRef{"k8s": "secret://k8s/db/key"},
			config: map[string]any{"rate": 100000, "log_stall": "500ms"}}
	},
}

// kubeconfig are the credentials for a cluster without certificates.
func kubeconfig(t *testing.T, server, token string) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: c, user: {token: %s}}]\ncontexts: [{name: c, context: {cluster: c, user: c, namespace: %s}}]\n",
		server, token, pocketkube.Namespace)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"KUBECONFIG": file}
}

// site is a state folder whose engines work in a yard.
type site struct {
	t     *testing.T
	yard  yard
	dir   string
	store *sqlite.Store
	logs  *joblog.Store
	// secrets are what the submitter has.
	secrets sdk.SecretResolver
	// clock is the engines' own, nil for this machine's.
	clock sdk.Clock
}

func newSite(t *testing.T, y yard) *site {
	t.Helper()
	s := &site{t: t, yard: y, dir: t.TempDir()}
	var err error
	if s.store, err = sqlite.Open(t.Context(), s.dir, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.store.Close(); err != nil {
			t.Error(err)
		}
	})
	if s.logs, err = joblog.Open(filepath.Join(s.dir, "logs"), joblog.Options{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// open opens a provider and an engine over it, as a process does, and returns
// what closes both.
func (s *site) open() (*control.Engine, sdk.Provider, func()) {
	s.t.Helper()
	raw, err := json.Marshal(s.yard.config)
	if err != nil {
		s.t.Fatal(err)
	}
	d := s.yard.driver
	p, err := d.Open(s.t.Context(), sdk.OpenRequest{Name: d.Kind, Config: raw, Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()), Secrets: s.secrets,
		Credentials: s.yard.credentials, Log: slog.New(slog.DiscardHandler), Owner: "rig", LedgerID: s.store.ID(), StateDir: s.t.TempDir()})
	if err != nil {
		s.t.Fatal(err)
	}
	back := control.Backend{Name: d.Kind, Provider: p, Driver: &d, PollInterval: 100 * time.Millisecond}
	e, err := control.New(s.t.Context(), control.Options{Store: s.store, Logs: s.logs, Providers: one{back}, StateDir: s.dir, Owner: "rig", Actor: "tester", Clock: s.clock})
	if err != nil {
		s.t.Fatal(err)
	}
	shut := sync.OnceFunc(func() {
		if err := e.Close(context.Background()); err != nil {
			s.t.Error(err)
		}
		if err := p.Close(); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(shut)
	return e, p, shut
}

func (s *site) submit(e *control.Engine, spec sdk.JobSpec) sdk.ID {
	s.t.Helper()
	got, err := e.Submit(s.t.Context(), control.SubmitRequest{Provider: s.yard.driver.Kind, Spec: spec, Actor: "tester"})
	if err != nil {
		s.t.Fatal(err)
	}
	return got.Run.ID
}

func (s *site) reap(e *control.Engine, dry bool) (items []control.ReapItem) {
	s.t.Helper()
	for it, err := range e.Reap(s.t.Context(), control.ReapRequest{DryRun: dry, Actor: "tester"}) {
		if err != nil || it.Err != nil {
			s.t.Fatalf("reap: %v, %v of %+v", err, it.Err, it.Object)
		}
		items = append(items, it)
	}
	return items
}

func (s *site) listed(p sdk.Provider) (out []sdk.OwnedObject) {
	s.t.Helper()
	l, ok := sdk.Of(p, sdk.Lister())
	if !ok {
		s.t.Fatal("it lists nothing")
	}
	for o, err := range l.ListOwned(s.t.Context(), sdk.ListOwnedRequest{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}
