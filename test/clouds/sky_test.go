package clouds

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/aci"
	"github.com/windlass-run/windlass/internal/driver/appplatform"
	"github.com/windlass-run/windlass/internal/driver/argo"
	"github.com/windlass-run/windlass/internal/driver/batch"
	"github.com/windlass-run/windlass/internal/driver/cloudrun"
	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/driver/ecs"
	"github.com/windlass-run/windlass/internal/driver/kubernetes"
	pocketargo "github.com/windlass-run/windlass/internal/pocket/argo"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketazure "github.com/windlass-run/windlass/internal/pocket/azure"
	pocketbatch "github.com/windlass-run/windlass/internal/pocket/batch"
	pocketdo "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	pocketecs "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocketgcp "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	pocketrun "github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	pocketkube "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// sky is a pocket cloud whose weather can be made.
type sky struct {
	yard
	calls *fault.Recorder
	// refusals are what a call is refused with for no fault of its own.
	refusals []*fault.Refusal
	// changes are the patterns of calls that change something.
	changes []string
	// lag is how long what was made can't be seen.
	lag func(d time.Duration)
	// carries are the calls that may carry a visible secret.
	carries []string
	// login is the call that carries the provider's own secret.
	login string
	// codeless: it tells no exit codes.
	codeless bool
	// again is how often a job may run where what was made stays hidden for longer
	// than the cloud promises: a request for it that is sent again then may start
	// it once more.
	again int
	// doubts: a submit that failed without an answer can't be settled, since the
	// cloud neither deduplicates nor lists for sure.
	doubts bool
}

type skyOptions struct {
	executor run.Executor
	seed     uint64
	now      func() time.Time
}

func awsSky(t *testing.T, o skyOptions) (*pocket.Server, sky) {
	t.Helper()
	cloud, err := pocket.New(pocket.Options{Executor: o.executor, Seed: o.seed, Now: o.now, Record: true})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	t.Cleanup(func() {
		web.Close()
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	return cloud, sky{calls: cloud.Calls(), refusals: []*fault.Refusal{pocket.Throttle(), {Status: 500, Code: "ServerException", Message: "internal"}},
		yard: yard{faults: cloud.Faults(), credentials: map[string]string{"AWS_ACCESS_KEY_ID": "pocket", "AWS_SECRET_ACCESS_KEY": canaryKey},
			config: map[string]any{"region": pocket.Region, "account": pocket.Account, "endpoint": web.URL, "execution_role": "arn:aws:iam::" + pocket.Account + ":role/execution",
				"log_quiet": "500ms", "log_max": "10s", "missing_grace": window.String(), "describe_rate": 1000, "log_rate": 1000}}}
}

// skies are the kinds of clouds.
var skies = map[string]func(t *testing.T, o skyOptions) sky{
	ecs.Kind: func(t *testing.T, o skyOptions) sky {
		cloud, s := awsSky(t, o)
		s.driver, s.live = ecs.Driver(), "task"
		s.config["subnets"] = []string{"subnet-0123456789abcdef0"}
		s.changes = []string{"ecs:RunTask", "ecs:*register*", "ecs:StopTask", "ecs:TagResource"}
		s.lag = func(d time.Duration) {
			cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.DescribeDelay, k.ListDelay, k.DefinitionDelay = d, d, min(d, window/2) })
		}
		s.carries = []string{"ecs:RunTask", "ecs:DescribeTasks", "ecs:StopTask"}
		return s
	},
	batch.Kind: func(t *testing.T, o skyOptions) sky {
		cloud, s := awsSky(t, o)
		s.driver, s.live, s.doubts = batch.Driver(), "job", true
		s.config["queue"] = pocketbatch.DefaultQueue
		s.changes = []string{"batch:SubmitJob", "batch:*register*", "batch:TerminateJob", "batch:TagResource"}
		s.lag = func(d time.Duration) {
			cloud.Batch().TuneKnobs(func(k *pocketbatch.Knobs) { k.DescribeDelay, k.ListDelay = d, d })
		}
		s.carries = []string{"batch:SubmitJob", "batch:DescribeJobs"}
		return s
	},
	cloudrun.Kind: func(t *testing.T, o skyOptions) sky {
		cloud, err := pocketgcp.New(pocketgcp.Options{Executor: o.executor, Seed: o.seed, Now: o.now, Record: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cloud.Close(); err != nil {
				t.Error(err)
			}
		})
		address, err := cloud.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cloud.Logging().TuneKnobs(func(k *cloudlogging.Knobs) { k.ReadsPerMinute = 0 })
		return sky{calls: cloud.Calls(), refusals: []*fault.Refusal{pocketgcp.Throttle(), pocketgcp.Unavailable()},
			changes: []string{"run:CreateJob", "run:RunJob", "run:DeleteJob", "run:CancelExecution", "run:UpdateJob"},
			lag: func(d time.Duration) {
				cloud.Run().TuneKnobs(func(k *pocketrun.Knobs) { k.GetDelay, k.ListDelay = d, d })
			},
			carries: []string{"run:CreateJob", "run:GetJob", "run:ListJobs", "run:ListTasks", "run:GetTask", "run:RunJob", "run:UpdateJob", "run:DeleteJob", "run:GetExecution", "run:ListExecutions"},
			yard: yard{driver: cloudrun.Driver(), faults: cloud.Faults(), live: "job", credentials: map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": canaryKey},
				config: map[string]any{"project": pocketgcp.Project, "region": pocketgcp.Location, "endpoint": "http://" + address, "visible_within": window.String(),
					"log_late": "100ms", "log_quiet": "500ms", "log_max": "10s", "read_rate": 1000000, "write_rate": 1000000, "log_rate": 1000000}}}
	},
	appplatform.Kind: func(t *testing.T, o skyOptions) sky {
		cloud, err := pocketdo.New(pocketdo.Options{Executor: o.executor, Seed: o.seed, Now: o.now, Record: true})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(cloud)
		t.Cleanup(func() {
			web.Close()
			if err := cloud.Close(); err != nil {
				t.Error(err)
			}
		})
		return sky{calls: cloud.Calls(), refusals: []*fault.Refusal{pocketdo.Throttle(), {Status: http.StatusInternalServerError, Message: "Server Error"}},
			changes: []string{"apps_create", "apps_delete", "apps_cancel_deployment", "apps_create_deployment"}, codeless: true,
			lag: func(d time.Duration) {
				cloud.TuneKnobs(func(k *pocketdo.Knobs) { k.ListDelay, k.GetDelay, k.DeploymentDelay = d, d, d })
			},
			carries: []string{"apps_create", "apps_validate_appSpec"},
			yard: yard{driver: appplatform.Driver(), faults: cloud.Faults(), live: "app", credentials: map[string]string{"DIGITALOCEAN_TOKEN": canaryKey},
				config: map[string]any{"endpoint": web.URL, "visible_within": window.String(), "log_max": "10s", "max_apps": 1000, "minute_rate": 1000000, "hour_rate": 60000000}}}
	},
	aci.Kind: func(t *testing.T, o skyOptions) sky {
		cloud, err := pocketazure.New(pocketazure.Options{Executor: o.executor, Seed: o.seed, Now: o.now, Record: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cloud.Close(); err != nil {
				t.Error(err)
			}
		})
		address, err := cloud.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ca := filepath.Join(t.TempDir(), pocketazure.CAFile)
		if err := os.WriteFile(ca, cloud.CA(), 0o600); err != nil {
			t.Fatal(err)
		}
		return sky{calls: cloud.Calls(), refusals: []*fault.Refusal{pocketazure.Throttled(), {Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable", Message: "The service is unavailable."}},
			changes: []string{"ContainerGroups_CreateOrUpdate", "ContainerGroups_Delete", "ContainerGroups_Stop", "ContainerGroups_Update"},
			lag: func(d time.Duration) {
				cloud.TuneKnobs(func(k *pocketazure.Knobs) { k.ListDelay, k.GetDelay = d, d })
			},
			carries: []string{"ContainerGroups_CreateOrUpdate"}, login: "Token", again: 1, // ADR 0015
			yard: yard{driver: aci.Driver(), faults: cloud.Faults(), live: "container-group",
				credentials: map[string]string{"AZURE_TENANT_ID": pocketazure.TenantID, "AZURE_CLIENT_ID": "22222222-3333-4444-5555-666666666666", "AZURE_CLIENT_SECRET": canaryKey},
				config: map[string]any{"subscription": pocketazure.SubscriptionID, "resource_group": pocketazure.ResourceGroup, "location": pocketazure.Location,
					"endpoint": "https://" + address, "ca_file": ca, "log_poll": "50ms", "log_quiet": "500ms", "log_max": "10s", "visible_within": window.String(),
					"read_rate": 1000000, "write_rate": 1000000}}}
	},
	argo.Kind: func(t *testing.T, o skyOptions) sky {
		cloud := pocketargo.New(pocketargo.Options{Executor: o.executor, Seed: o.seed, Record: true})
		return sky{calls: cloud.Cluster().Calls(), refusals: []*fault.Refusal{pocketkube.Throttle(), {Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable", Message: "the server is currently unable to handle the request"}},
			changes: []string{"*.create", "*.patch", "*.delete"},
			lag:     func(time.Duration) {}, // what is made shows at once: reads are of a quorum
			carries: []string{"secrets.create"},
			yard: yard{driver: argo.Driver(), faults: cloud.Cluster().Faults(), live: "workflow", entrypoint: true, credentials: kubeconfig(t, drivertest.Serve(t, cloud), canaryKey),
				config: map[string]any{"rate": 100000, "log_stall": "500ms"}}}
	},
	kubernetes.Kind: func(t *testing.T, o skyOptions) sky {
		cluster := pocketkube.New(pocketkube.Options{Executor: o.executor, Seed: o.seed, Record: true})
		return sky{calls: cluster.Calls(), refusals: []*fault.Refusal{pocketkube.Throttle(), {Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable", Message: "the server is currently unable to handle the request"}},
			changes: []string{"*.create", "*.patch", "*.delete"},
			lag:     func(time.Duration) {}, // what is made shows at once: reads are of a quorum
			carries: []string{"secrets.create"},
			yard: yard{driver: kubernetes.Driver(), faults: cluster.Faults(), live: "job", credentials: kubeconfig(t, drivertest.Serve(t, cluster), canaryKey),
				config: map[string]any{"rate": 100000, "log_stall": "500ms"}}}
	},
}
