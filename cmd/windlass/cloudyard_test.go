//go:build linux

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pocketaws "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketazure "github.com/windlass-run/windlass/internal/pocket/azure"
	pocketbatch "github.com/windlass-run/windlass/internal/pocket/batch"
	pocketdo "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocketgcp "github.com/windlass-run/windlass/internal/pocket/gcp"
)

// pocketServer is what all pocket clouds have.
type pocketServer interface {
	Calls() *fault.Recorder
	Faults() *fault.Plan
	Close() error
}

// cloudKind is one kind of provider and what a run on it comes to.
type cloudKind struct {
	name string
	// open starts a cloud that goes with the test, and returns the provider's
	// config: as YAML.
	open func(t *testing.T) (pocketServer, string)
	// flags begin each run.
	flags []string
	// oneStream: stderr comes with stdout.
	oneStream bool
	// calls are how often one run makes these, cancels which call a cancel makes,
	// cleans which one ends a clean-up.
	calls           map[string]int
	cancels, cleans string
	// signs: the call that cancels says whose it is.
	signs bool
	// left is a part of the names of what a run could leave.
	left string
	// right is one that provider check names.
	right string
	// keep puts a secret into the cloud, or into the variables of
	// the program, and returns its reference; carries may have it in a request, and
	// reads in a reply.
	keep           func(t *testing.T, p *program, cloud pocketServer, value string) (ref string)
	carries, reads string
}

func cloudKinds() []cloudKind {
	none := []string{"--image-entrypoint", ""}
	return []cloudKind{
		{name: "aws-ecs", open: openAWS("subnets: [subnet-0123456789abcdef0]"), oneStream: true,
			calls:   map[string]int{"ecs:RunTask": 1, "ecs:RegisterTaskDefinition": 1, "ecs:DeregisterTaskDefinition": 1},
			cancels: "ecs:StopTask", cleans: "ecs:DeregisterTaskDefinition", signs: true, left: "task", right: "ecs:RunTask"},
		{name: "aws-batch", open: openAWS("queue: " + pocketbatch.DefaultQueue), oneStream: true,
			calls:   map[string]int{"batch:SubmitJob": 1, "batch:RegisterJobDefinition": 1, "batch:DeregisterJobDefinition": 1},
			cancels: "batch:TerminateJob", cleans: "batch:DeregisterJobDefinition", signs: true, left: "job-definition", right: "batch:SubmitJob"},
		{name: "gcp-cloudrun", open: openGCP, calls: map[string]int{"run:CreateJob": 1, "run:RunJob": 0, "run:DeleteJob": 1},
			cancels: "run:CancelExecution", cleans: "run:DeleteJob", left: "windlass-0", right: "run.jobs.create"},
		{name: "azure-aci", open: openAzure, flags: none, oneStream: true,
			calls:   map[string]int{"ContainerGroups_CreateOrUpdate": 1, "ContainerGroups_Stop": 0, "ContainerGroups_Delete": 1},
			cancels: "ContainerGroups_Stop", cleans: "ContainerGroups_Delete", left: "windlass-0", right: "Microsoft.ContainerInstance/containerGroups/write",
			keep: keepInVault, carries: "ContainerGroups_CreateOrUpdate", reads: "GetSecret"},
		{name: "digitalocean", open: openDigitalOcean, flags: none, oneStream: true,
			calls:   map[string]int{"apps_create": 1, "apps_update": 0, "apps_create_deployment": 0, "apps_delete": 1},
			cancels: "apps_cancel_deployment", cleans: "apps_delete", left: "wl-0",
			keep: keepInEnvironment, carries: "apps_create"},
	}
}

// kindOf is one of them.
func kindOf(t *testing.T, name string) cloudKind {
	t.Helper()
	for _, k := range cloudKinds() {
		if k.name == name {
			return k
		}
	}
	t.Fatalf("no kind is called %s", name)
	return cloudKind{}
}

// onCloud is the program with one provider, called by its kind, on a pocket cloud.
func onCloud(t *testing.T, k cloudKind, keeper string) (*program, pocketServer) {
	t.Helper()
	p := newProgram(t, keeper)
	cloud, config := k.open(t)
	text := fmt.Sprintf("providers:\n  %[1]s:\n    kind: %[1]s\n    credentials: pocket\n    poll_interval: 100ms\n    config:\n", k.name)
	for line := range strings.Lines(strings.TrimSpace(config)) {
		text += "      " + strings.TrimSpace(line) + "\n"
	}
	if err := os.WriteFile(filepath.Join(p.dir, "windlass.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if keeper != "off" {
		t.Cleanup(p.dismiss)
	}
	return p, cloud
}

// run are the words of a run on the cloud.
func (k cloudKind) run(more ...string) []string {
	words := append([]string{"run", "--on", k.name, "--image", "busybox:local"}, k.flags...)
	return append(words, more...)
}

// closeAtEnd ends a cloud with its test.
func closeAtEnd(t *testing.T, cloud pocketServer) {
	t.Cleanup(func() {
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
}

// listening serves a cloud by HTTP.
func listening(t *testing.T, cloud interface {
	pocketServer
	http.Handler
}) (address string) {
	closeAtEnd(t, cloud)
	web := httptest.NewServer(cloud)
	t.Cleanup(web.Close)
	return web.URL
}

func openAWS(own string) func(t *testing.T) (pocketServer, string) {
	return func(t *testing.T) (pocketServer, string) {
		cloud, err := pocketaws.New(pocketaws.Options{Record: true})
		if err != nil {
			t.Fatal(err)
		}
		return cloud, fmt.Sprintf(`%s
			region: %s
			endpoint: %s
			execution_role: arn:aws:iam::%s:role/execution
			log_quiet: 500ms
			describe_rate: 1000
			log_rate: 1000`, own, pocketaws.Region, listening(t, cloud), pocketaws.Account)
	}
}

func openGCP(t *testing.T) (pocketServer, string) {
	cloud, err := pocketgcp.New(pocketgcp.Options{Record: true})
	if err != nil {
		t.Fatal(err)
	}
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, cloud)
	return cloud, fmt.Sprintf(`project: %s
		region: %s
		endpoint: http://%s
		log_late: 100ms
		log_quiet: 500ms
		log_rate: 59`, pocketgcp.Project, pocketgcp.Location, address)
}

func openAzure(t *testing.T) (pocketServer, string) {
	state := t.TempDir()
	cloud, err := pocketazure.New(pocketazure.Options{Record: true, State: state})
	if err != nil {
		t.Fatal(err)
	}
	cloud.TuneKnobs(func(k *pocketazure.Knobs) { k.Pace = pocketazure.DefaultPace(); k.Pace.Grace = 3 * time.Second })
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, cloud)
	return cloud, fmt.Sprintf(`subscription: %s
		resource_group: %s
		location: %s
		endpoint: https://%s
		ca_file: %s
		log_poll: 100ms
		log_quiet: 500ms`, pocketazure.SubscriptionID, pocketazure.ResourceGroup, pocketazure.Location, address, filepath.Join(state, pocketazure.CAFile))
}

// openDigitalOcean has exit codes come from the log.
func openDigitalOcean(t *testing.T) (pocketServer, string) {
	cloud, err := pocketdo.New(pocketdo.Options{Record: true})
	if err != nil {
		t.Fatal(err)
	}
	return cloud, fmt.Sprintf(`endpoint: %s
		exit_code_in_log: true
		command_read_by: shell`, listening(t, cloud))
}

func keepInVault(t *testing.T, _ *program, cloud pocketServer, value string) string {
	if _, err := cloud.(*pocketazure.Server).PutSecret(pocketazure.Vault, "token", value); err != nil {
		t.Fatal(err)
	}
	return "secret://azure-kv/" + pocketazure.Vault + "/token"
}

func keepInEnvironment(_ *testing.T, p *program, _ pocketServer, value string) string {
	p.env = append(p.env, "THE_TOKEN="+value)
	return "secret://env/THE_TOKEN"
}
