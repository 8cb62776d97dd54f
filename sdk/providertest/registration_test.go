package providertest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func able(t *testing.T, capabilities ...string) sdk.Provider {
	t.Helper()
	p, err := fake.NewDriver(fake.NewCloud(fake.Options{}), fake.Settings{Capabilities: capabilities}).Open(t.Context(), sdk.OpenRequest{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// typed is a provider whose pointer may be nil.
type typed struct{ sdk.Provider }

// TestAssertRegistration gives it what is right, and each mistake.
func TestAssertRegistration(t *testing.T) {
	right := []string{"windlass.provider.v1.JobCancelerService", "windlass.provider.v1.JobRunnerService", "windlass.provider.v1.ProviderService",
		"workflow.plugin.external.iac.IaCProviderJobCanceler", "workflow.plugin.external.iac.IaCProviderRequired", "workflow.plugin.external.iac.IaCProviderRunner"}
	p := able(t, "JobRunner", "JobCanceler")
	AssertRegistration(t, p, append([]string{"grpc.health.v1.Health", "workflow.plugin.v1.PluginService"}, right...))
	without := func(i int) []string { return slices.Delete(slices.Clone(right), i, i+1) }
	for name, c := range map[string]struct {
		p        sdk.Provider
		services []string
		words    string
	}{
		"nil":            {nil, right, "is nil"},
		"typed nil":      {(*typed)(nil), right, "is nil"},
		"nothing":        {able(t, []string{""}...), right, "can do nothing"},
		"ours":           {p, without(0), "JobCancelerService of JobCanceler isn't"},
		"base":           {p, without(2), "ProviderService of every plugin isn't"},
		"published":      {p, without(3), "IaCProviderJobCanceler of JobCanceler isn't"},
		"published base": {p, without(4), "IaCProviderRequired of every plugin isn't"},
		"too many":       {able(t, "JobRunner"), right, "IaCProviderJobCanceler is registered, and"},
		"not ours yet":   {p, append(slices.Clone(right), "windlass.provider.v1.TeleportService"), "TeleportService is registered, and"},
		"twice":          {p, append(slices.Clone(right), right[1]), "twice"},
	} {
		r := newRecorder(context.WithoutCancel(t.Context()), name, t.TempDir)
		r.do(func(rt T) { assertRegistration(rt, c.p, c.services) })
		if !r.Failed() || !strings.Contains(r.text(), c.words) {
			t.Errorf("%s: failed %v: %s", name, r.Failed(), r.text())
		}
	}
}
