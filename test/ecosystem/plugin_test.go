//go:build linux

package ecosystem

import (
	"context"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/GoCodeAlone/workflow/iac/providerclient"
	"github.com/GoCodeAlone/workflow/interfaces"
	"github.com/GoCodeAlone/workflow/plugin/external"
	theirs "github.com/GoCodeAlone/workflow/plugin/external/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestTheirHost lets their host load the example plugin as it is, and run jobs on it.
func TestTheirHost(t *testing.T) {
	dir := t.TempDir()
	manifest, err := os.ReadFile("../../examples/plugin/plugin.json")
	if err != nil {
		t.Fatal(err)
	}
	place(t, dir, "folder", "folder", string(manifest))
	m := external.NewExternalPluginManager(dir, log.New(io.Discard, "", 0))
	defer m.Shutdown()
	if names, err := m.DiscoverPlugins(); err != nil || !slices.Equal(names, []string{"folder"}) {
		t.Fatalf("found %v, %v", names, err)
	}
	a, err := m.LoadPlugin("folder")
	if err != nil {
		t.Fatal(err)
	}
	if a.Name() != "folder" || a.Version() != "0.1.0" || a.ContractRegistryError() != nil {
		t.Errorf("it is %s %s, %v", a.Name(), a.Version(), a.ContractRegistryError())
	}
	var names []string
	advertised := map[string]bool{}
	for _, c := range a.ContractRegistry().GetContracts() {
		if c.GetKind() != theirs.ContractKind_CONTRACT_KIND_SERVICE || c.GetMode() != theirs.ContractMode_CONTRACT_MODE_STRICT_PROTO {
			t.Errorf("%s is %v, %v", c.GetServiceName(), c.GetKind(), c.GetMode())
		}
		names = append(names, c.GetServiceName())
		advertised[c.GetServiceName()] = true
	}
	if !slices.IsSorted(names) || !advertised["workflow.plugin.external.iac.IaCProviderRequired"] || advertised["workflow.plugin.external.iac.ResourceDriver"] {
		t.Errorf("the registry has %v", names)
	}
	caps, err := theirs.NewIaCProviderRequiredClient(a.Conn()).Capabilities(t.Context(), &theirs.CapabilitiesRequest{})
	if err != nil || caps.GetComputePlanVersion() != "v2" {
		t.Errorf("capabilities %v, %v", caps, err)
	}
	p := providerclient.New(a.Conn(), advertised)
	if p.Name() != "folder" || p.Version() != "0.1.0" {
		t.Errorf("the provider is %s %s", p.Name(), p.Version())
	}
	if err := p.Initialize(t.Context(), map[string]any{"dir": filepath.Join(dir, "jobs")}); err != nil {
		t.Fatal(err)
	}
	jobs := p.Runner()
	if jobs == nil {
		t.Fatal("it runs no jobs")
	}
	theirJobs(t, jobs)
}

// sink takes a log.
type sink struct {
	text strings.Builder
	eof  bool
}

func (s *sink) WriteLogChunk(c interfaces.LogChunk) error {
	s.eof = c.EOF
	_, err := s.text.Write(c.Data)
	return err
}

func theirJobs(t *testing.T, jobs interfaces.IaCProviderRunner) {
	t.Helper()
	for _, c := range []struct {
		command, output string
		state           interfaces.JobState
		code            int
	}{
		{`echo "a  $A" | tr a-z A-Z`, "A  VALUE OF A\n", interfaces.JobStateSucceeded, 0},
		{"echo out; echo bad >&2; exit 7", "out\nbad\n", interfaces.JobStateFailed, 7},
		{"head -c 6000000 /dev/zero | tr '\\0' x", strings.Repeat("x", 6000000), interfaces.JobStateSucceeded, 0},
	} {
		h, err := jobs.RunJob(t.Context(), interfaces.JobSpec{Name: "one", Kind: interfaces.JobKindEphemeral, RunCommand: c.command, EnvVars: map[string]string{"A": "value of a"}})
		if err != nil {
			t.Errorf("%s: %v", c.command, err)
			continue
		}
		var out sink
		if err := jobs.JobLogs(t.Context(), *h, &out); err != nil || !out.eof || out.text.String() != c.output {
			t.Errorf("%s: %d bytes of output, eof %v, %v", c.command, out.text.Len(), out.eof, err)
		}
		var st *interfaces.JobStatusReply
		until(t, "end", func() bool {
			st, err = jobs.JobStatus(t.Context(), *h)
			return err != nil || st.State != interfaces.JobStateRunning && st.State != interfaces.JobStatePending
		})
		if err != nil || st.State != c.state || st.ExitCode != c.code || st.Handle.ID != h.ID {
			t.Errorf("%s: ended as %+v, %v", c.command, st, err)
		}
	}
	// What can't be done is refused, as theirs: nothing is dropped.
	for field, spec := range map[string]interfaces.JobSpec{
		"cron":            {Cron: "* * * * *"},
		"kind":            {Kind: "SCHEDULED"},
		"image":           {Image: "app:1"},
		"env_vars_secret": {EnvVarsSecret: map[string]string{"A": "plain text"}},
	} {
		if spec.RunCommand = "true"; spec.Kind == "" {
			spec.Kind = interfaces.JobKindEphemeral
		}
		if _, err := jobs.RunJob(t.Context(), spec); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), "plain text") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := jobs.JobStatus(t.Context(), interfaces.JobHandle{ID: "x"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a handle that isn't ours: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := jobs.RunJob(ctx, interfaces.JobSpec{Kind: interfaces.JobKindEphemeral, RunCommand: "true"}); status.Code(err) != codes.Canceled {
		t.Errorf("a caller who has left: %v", err)
	}
}
