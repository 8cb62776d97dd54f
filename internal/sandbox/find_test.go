package sandbox

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

func TestFind(t *testing.T) {
	docker, argo, b := Provider{Name: "docker", Kind: "docker"}, Provider{Name: "wf", Kind: "argo"}, Provider{Name: "wf-b", Kind: "argo"}
	for _, x := range []struct {
		have []Provider
		c    Choice
		// field is empty for a choice that is found on provider at.
		at, field, want string
	}{
		{[]Provider{docker}, Choice{}, "docker", "", ""},
		{[]Provider{docker}, Choice{ExecEnv: LocalDocker}, "docker", "", ""},
		{nil, Choice{}, "", "exec_env", "no provider is called docker"},
		{[]Provider{{Name: "docker", Kind: "fake"}}, Choice{}, "", "exec_env", "the provider called docker is of kind fake"},
		{[]Provider{docker}, Choice{Provider: "docker"}, "", "provider", "has no meaning with exec_env local-docker"},
		{[]Provider{docker, argo}, Choice{ArgoModule: "wf"}, "", "argo_module", "has no meaning with exec_env local-docker"},
		{[]Provider{docker, argo}, Choice{ExecEnv: Ephemeral, Provider: "wf"}, "", "provider", "has no meaning with exec_env ephemeral"},
		{[]Provider{docker, argo}, Choice{ExecEnv: "far", Provider: "wf"}, "", "provider", "has no meaning with exec_env far"},
		{[]Provider{docker, argo}, Choice{ExecEnv: Ephemeral}, "wf", "", ""},
		{[]Provider{docker, argo, b}, Choice{ExecEnv: Ephemeral, ArgoModule: "wf-b"}, "wf-b", "", ""},
		{[]Provider{docker}, Choice{ExecEnv: Ephemeral}, "", "exec_env", "none is configured"},
		{[]Provider{docker, argo, b}, Choice{ExecEnv: Ephemeral}, "", "argo_module", "2 providers are of kind argo; name one of wf, wf-b"},
		{[]Provider{docker, argo, b}, Choice{ExecEnv: Ephemeral, ArgoModule: "wf-c"}, "", "argo_module", `no provider is called "wf-c" (did you mean "wf-b"?); of kind argo are wf, wf-b`},
		{[]Provider{docker, argo}, Choice{ExecEnv: Ephemeral, ArgoModule: "docker"}, "", "argo_module", "provider docker is of kind docker, not argo; of kind argo are wf"},
		{[]Provider{docker, argo}, Choice{ExecEnv: ProviderEphemeral, Provider: "wf"}, "wf", "", ""},
		{[]Provider{docker, argo}, Choice{ExecEnv: ProviderEphemeral}, "", "provider", "name one of docker, wf"},
		{[]Provider{docker, argo}, Choice{ExecEnv: ProviderEphemeral, Provider: "dokcer"}, "", "provider", `did you mean "docker"`},
		{[]Provider{docker}, Choice{ExecEnv: "faraway"}, "", "exec_env", "there are local-docker, ephemeral, provider-ephemeral, far"},
		{[]Provider{docker}, Choice{ExecEnv: "ephemerel"}, "", "exec_env", `did you mean "ephemeral"`},
		{[]Provider{docker}, Choice{ExecEnv: "far"}, "far", "", ""},
	} {
		p := Places{Providers: x.have, Runners: []string{"far"}, Jobs: &Jobs{},
			Dial: func(_ context.Context, name string) (Environment, error) {
				return &jobs{name: name, provider: Provider{Name: name}}, nil
			}}
		env, err := p.Find(t.Context(), x.c)
		if x.field == "" {
			if err != nil || env.(*jobs).provider.Name != x.at {
				t.Errorf("%+v: %v", x.c, err)
			}
			continue
		}
		var e *sdk.Error
		if !errors.As(err, &e) || e.Field != x.field || e.ID == "" || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v", x.c, err)
		}
	}
}

func TestThroughEngine(t *testing.T) {
	for name, want := range map[string]bool{"": true, LocalDocker: true, Ephemeral: true, ProviderEphemeral: true, "far": false} {
		if got := (Choice{ExecEnv: name}).ThroughEngine(); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
